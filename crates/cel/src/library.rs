//! The functions that expressions can call: one row for each overload, one file for each library.
//!
//! A row says what the checker, the estimate and the evaluator need to know. Functions whose cost Kubernetes counts by
//! name have it in [`crate::cost`]; a row states only costs that cel-go ties to the overload.

pub mod standard;

pub mod optional;
pub mod twovar;

pub mod ext_lists;
pub mod sets;
pub mod strings;

pub mod authorizer;
pub mod cidr;
pub mod format;
pub mod ip;
pub mod json;
pub mod jsonpatch;
pub mod lists;
pub mod quantity;
pub mod regex;
pub mod semver;
pub mod urls;

#[cfg(test)]
mod tests;

use crate::arena::Arena;
use crate::cost::{CallEstimate, CallNode};
use crate::error::Outcome;
use crate::types::Type;
use crate::val::Val;

/// All libraries, in the order in which cel-go has them.
pub(crate) fn libraries() -> &'static [&'static Library] {
    static LIBRARIES: &[&Library] = &[
        &standard::LIBRARY,
        &optional::LIBRARY,
        &urls::LIBRARY,
        &regex::LIBRARY,
        &lists::LIBRARY,
        &authorizer::LIBRARY,
        &quantity::LIBRARY,
        &strings::LIBRARY,
        &sets::LIBRARY,
        &ip::LIBRARY,
        &cidr::LIBRARY,
        &format::LIBRARY,
        &authorizer::SELECTORS,
        &twovar::LIBRARY,
        &semver::LIBRARY,
        &ext_lists::LIBRARY,
        &lists::INCLUDES,
    ];
    LIBRARIES
}

/// A set of functions that came with one version.
#[derive(Debug)]
pub struct Library {
    /// As cel-go names it.
    pub name: &'static str,
    /// The compatibility version from which new expressions may use it.
    pub since: Version,
    /// The compatibility version from which another library takes its place.
    pub until: Option<Version>,
    pub overloads: &'static [Overload],
}

/// A compatibility version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

/// One signature of a function, and how it is carried out.
#[derive(Debug)]
pub struct Overload {
    pub function: &'static str,
    pub id: &'static str,
    /// Called as `a.f(b)` instead of `f(a, b)`; the receiver is the first argument either way.
    pub member: bool,
    pub args: &'static [Type],
    pub result: Type,
    pub call: Call,
    /// The actual cost where cel-go has a function for it; none costs what [`crate::cost`] says.
    pub cost: Option<Cost>,
    pub estimate: Option<Estimate>,
}

/// How a function is carried out.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// The arguments have the types that the row states: the evaluator has looked.
    Plain(for<'a> fn(&[Val<'a>], &'a Arena) -> Outcome<'a>),
    /// The same for all overloads of the function, and the implementation looks at the types itself.
    Any(for<'a> fn(&[Val<'a>], &'a Arena) -> Outcome<'a>),
    /// The second argument is a regular expression, which is compiled with the program if it is a constant.
    Regex(for<'a> fn(&goregex::Regex, &[Val<'a>], &'a Arena) -> Outcome<'a>),
    /// The evaluator has its own code for it: operators, `has`, selection.
    Builtin,
}

/// What a call did cost.
pub type Cost = for<'a> fn(args: &[Val<'a>], result: Val<'a>, arena: &'a Arena) -> u64;

/// What a call will cost at least and at most; none leaves it to the general rules. The receiver is the first argument.
pub type Estimate = fn(receiver: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate>;

/// Writes a row: `overload!("isURL", "is_url_string", (Type::String) -> Type::Bool, is_url)`.
/// A member function has `member` in front: `overload!(member "getHost", …)`; before that may come `any` for a function
/// that looks at the types of its arguments itself, and `builtin` for one that the evaluator carries out.
#[macro_export]
macro_rules! overload {
    (regex $($row:tt)*) => { $crate::overload!(@member Regex, $($row)*) };
    (any $($row:tt)*) => { $crate::overload!(@member Any, $($row)*) };
    (builtin member $function:literal, $id:literal, ($($arg:expr),*) -> $result:expr) => {
        $crate::overload!(@row true, $function, $id, ($($arg),*), $result, $crate::library::Call::Builtin, None, None)
    };
    (builtin $function:literal, $id:literal, ($($arg:expr),*) -> $result:expr) => {
        $crate::overload!(@row false, $function, $id, ($($arg),*), $result, $crate::library::Call::Builtin, None, None)
    };
    (@member $kind:ident, member $($row:tt)*) => { $crate::overload!(@function $kind, true, $($row)*) };
    (@member $kind:ident, $($row:tt)*) => { $crate::overload!(@function $kind, false, $($row)*) };
    (@function $kind:ident, $member:literal, $function:literal, $id:literal, ($($arg:expr),*) -> $result:expr, $call:expr
        $(, cost: $cost:expr)? $(, estimate: $estimate:expr)?) => {
        $crate::overload!(@row $member, $function, $id, ($($arg),*), $result, $crate::library::Call::$kind($call),
            $crate::overload!(@option $($cost)?), $crate::overload!(@option $($estimate)?))
    };
    (@row $member:literal, $function:literal, $id:literal, ($($arg:expr),*), $result:expr, $call:expr,
        $cost:expr, $estimate:expr) => {
        $crate::library::Overload {
            function: $function,
            id: $id,
            member: $member,
            args: &[$($arg),*],
            result: $result,
            call: $call,
            cost: $cost,
            estimate: $estimate,
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
    ($($row:tt)*) => { $crate::overload!(@member Plain, $($row)*) };
}
