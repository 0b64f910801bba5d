//! The functions that expressions can call: one row for each overload, one file for each library.
//!
//! A row says what the checker, the estimate and the evaluator need to know. Functions whose cost Kubernetes counts by
//! name have it in [`crate::cost`]; a row states only costs that cel-go ties to the overload.

pub mod jsonpatch;

use crate::arena::Arena;
use crate::cost::{CallEstimate, CallNode};
use crate::error::Outcome;
use crate::types::Type;
use crate::val::Val;

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
    /// The evaluator has its own code for it: operators, `has`, selection.
    Builtin,
}

/// What a call did cost.
pub type Cost = for<'a> fn(args: &[Val<'a>], result: Val<'a>) -> u64;

/// What a call will cost at least and at most; none leaves it to the general rules. The receiver is the first argument.
pub type Estimate = fn(receiver: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate>;

/// Writes a row: `overload!("isURL", "is_url_string", (Type::String) -> Type::Bool, is_url)`.
/// A member function has `member` in front: `overload!(member "getHost", …)`.
#[macro_export]
macro_rules! overload {
    (member $($row:tt)*) => { $crate::overload!(@ true, $($row)*) };
    (@ $member:literal, $function:literal, $id:literal, ($($arg:expr),*) -> $result:expr, $call:expr
        $(, cost: $cost:expr)? $(, estimate: $estimate:expr)?) => {
        $crate::library::Overload {
            function: $function,
            id: $id,
            member: $member,
            args: &[$($arg),*],
            result: $result,
            call: $crate::library::Call::Plain($call),
            cost: $crate::overload!(@option $($cost)?),
            estimate: $crate::overload!(@option $($estimate)?),
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
    ($($row:tt)*) => { $crate::overload!(@ false, $($row)*) };
}
