//! [`Program`]: an expression that was checked and planned, ready to be evaluated.

mod attribute;
mod eval;
mod fold;
mod plan;

use std::fmt;
use std::sync::OnceLock;

use goregex::Regex;
use object::Str;

use crate::constant::Constant;
use crate::error::Internal;
use crate::library::{Cost, Overload};
use crate::message::Message;
use crate::types::Type;
use crate::val::Val;
use crate::val::gotype::{go_type, missing_list_method};

pub use eval::{Evaluated, Limits, Variables};
pub(crate) use plan::plan;

/// A planned expression: small, immutable and shared between all who use the same text and types.
#[derive(Debug)]
pub struct Program {
    ops: Box<[Op]>,
    root: Ref,
    /// How many variables of comprehensions there are at once.
    locals: u16,
    /// The names of the environment's variables, by place.
    variables: Box<[Str]>,
    ty: Type,
}

/// An operation of the same program.
type Ref = u32;

#[derive(Debug)]
enum Op {
    Const(Constant),
    Attribute(Box<Attribute>),
    And(Ref, Ref),
    Or(Ref, Ref),
    Equal(Ref, Ref),
    NotEqual(Ref, Ref),
    NotStrictlyFalse(Ref),
    Call(Box<Call>),
    List(Box<[(Ref, bool)]>),
    Map(Box<[MapEntry]>),
    Struct(Box<Struct>),
    Fold(Box<Fold>),
    /// `a.or(b)` and `a.orValue(b)`.
    Or2(Ref, Ref, bool),
    /// `x in [constants]`.
    InSet(Ref, Box<[Constant]>),
}

/// A variable or value, and what is selected from it.
#[derive(Debug)]
struct Attribute {
    base: Base,
    qualifiers: Vec<Qualifier>,
    /// `has(…)`: the last qualifier is only looked for.
    test: bool,
}

#[derive(Debug)]
enum Base {
    Variable(u16),
    Local(u16),
    Operand(Ref),
    Conditional(Ref, Ref, Ref),
}

#[derive(Debug)]
struct Qualifier {
    by: By,
    optional: bool,
}

#[derive(Debug)]
enum By {
    Field(Box<str>),
    /// A field of a message that was made in the expression.
    MessageField(Box<str>),
    Key(Constant),
    Value(Ref),
}

#[derive(Debug)]
struct MapEntry {
    key: Ref,
    value: Ref,
    optional: bool,
}

#[derive(Debug)]
struct Struct {
    name: Box<str>,
    /// What makes a value of it; none for messages that stay messages.
    message: Option<Message>,
    fields: Box<[(Box<str>, Ref, bool)]>,
}

#[derive(Debug)]
struct Call {
    function: &'static str,
    target: CallTarget,
    args: Box<[Ref]>,
    /// All arguments are evaluated before an error in one of them counts.
    eager: bool,
    cost: Cost,
    counted: Option<Counted>,
}

/// Calls whose cost the arguments alone determine and which can take long. For some cel-go counts the cost by an argument
/// without looking at its type first: with another value it fails.
#[derive(Clone, Copy, Debug)]
enum Counted {
    List(usize),
    Int(usize),
    Sets,
}

impl Counted {
    fn of(function: &str, args: usize) -> Option<Counted> {
        match (function, args) {
            ("distinct" | "sort", _) => Some(Counted::List(0)),
            ("@sortByAssociatedKeys", _) => Some(Counted::List(1)),
            ("flatten", 2) => Some(Counted::Int(1)),
            ("sets.contains" | "sets.equivalent" | "sets.intersects", _) => Some(Counted::Sets),
            _ => None,
        }
    }

    /// `failed` says which arguments are errors.
    fn check(self, args: &[Val<'_>], failed: [bool; 4]) -> Result<(), Internal> {
        let (Counted::List(at) | Counted::Int(at)) = self else { return Ok(()) };
        let (Some(arg), Some(failed)) = (args.get(at), failed.get(at)) else { return Ok(()) };
        match (self, arg) {
            (Counted::List(_), _) if *failed => Err(Internal::List("*types.Err", "Add")),
            (Counted::Int(_), _) if *failed => Err(Internal::Int("*types.Err")),
            (Counted::List(_), Val::List(_)) | (Counted::Int(_), Val::Int(_)) => Ok(()),
            (Counted::List(_), other) => Err(Internal::List(go_type(*other), missing_list_method(*other))),
            (Counted::Int(_), other) => Err(Internal::Int(go_type(*other))),
            (Counted::Sets, _) => Ok(()),
        }
    }
}

/// Which implementation is called.
enum CallTarget {
    One(&'static Overload),
    /// The first whose argument types fit.
    Dispatch(Box<[&'static Overload]>),
    /// With the regular expression that the second argument is.
    Regex(&'static Overload, Box<LazyRegex>),
}

/// A constant regular expression that Go accepts, compiled when it is first used.
struct LazyRegex {
    pattern: Str,
    compiled: OnceLock<Option<Regex>>,
}

impl LazyRegex {
    fn new(pattern: &str) -> Result<LazyRegex, goregex::Error> {
        goregex::check(pattern)?;
        Ok(LazyRegex { pattern: pattern.into(), compiled: OnceLock::new() })
    }

    fn get(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(&self.pattern).ok()).as_ref()
    }
}

impl fmt::Debug for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallTarget::One(overload) | CallTarget::Regex(overload, _) => f.write_str(overload.id),
            CallTarget::Dispatch(overloads) => write!(f, "{} overloads", overloads.len()),
        }
    }
}

/// A comprehension.
#[derive(Debug)]
struct Fold {
    range: Ref,
    accumulator: u16,
    var: u16,
    var2: Option<u16>,
    init: Ref,
    condition: Ref,
    step: Ref,
    result: Ref,
}

impl Program {
    /// The type of the result as far as it is known.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
}
