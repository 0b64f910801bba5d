//! The evaluator.

use std::rc::Rc;

use super::{Call, CallTarget, MapEntry, Op, Program, Ref, Struct};
use crate::arena::Arena;
use crate::constant::Constant;
use crate::cost::{EQUALITY, LIST_CREATE, MAP_CREATE, STRUCT_CREATE};
use crate::error::{Cancelled, Error, Outcome};
use crate::library::{Call as Callable, Overload};
use crate::runtime::accepts;
use crate::val::key::Key;
use crate::val::{Map, Struct as StructVal, Val};

/// What an evaluation may spend, and how it is stopped.
#[derive(Clone, Copy)]
pub struct Limits<'l> {
    pub cost: u64,
    /// Asked now and then in comprehensions; true stops the evaluation.
    pub interrupted: Option<&'l dyn Fn() -> bool>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { cost: Limits::PER_CALL, interrupted: None }
    }
}

impl Limits<'_> {
    /// What one evaluation of one expression may cost.
    pub const PER_CALL: u64 = 1_000_000;
}

/// A result and what it cost.
#[derive(Debug)]
pub struct Evaluated<'a> {
    pub outcome: Outcome<'a>,
    pub cost: u64,
}

/// Where an evaluation finds its variables, by their place among the declarations.
pub trait Variables<'a> {
    /// The value; none if the variable has none.
    fn get(&self, at: usize) -> Option<Outcome<'a>>;

    /// Whether there are variables whose fields are computed when they are asked for.
    fn computes_fields(&self) -> bool {
        false
    }

    /// A field of such a variable; the outer none for other variables.
    fn field(&self, _at: usize, _name: &str) -> Option<Option<Outcome<'a>>> {
        None
    }
}

impl<'a, F: Fn(usize) -> Option<Outcome<'a>>> Variables<'a> for F {
    fn get(&self, at: usize) -> Option<Outcome<'a>> {
        self(at)
    }
}

impl<'a> Variables<'a> for [Option<Val<'a>>] {
    fn get(&self, at: usize) -> Option<Outcome<'a>> {
        <[Option<Val<'a>>]>::get(self, at).copied().flatten().map(Ok)
    }
}

impl Program {
    /// Evaluates the expression.
    pub fn evaluate<'a>(
        &'a self,
        variables: &dyn Variables<'a>,
        arena: &'a Arena,
        limits: Limits<'_>,
    ) -> Evaluated<'a> {
        let mut evaluation = Evaluation {
            ops: &self.ops,
            names: &self.variables,
            arena,
            variables,
            limits,
            cost: 0,
            ticks: 0,
            computes_fields: variables.computes_fields(),
            locals: (0..self.locals).map(|_| Slot::Empty).collect(),
        };
        let outcome = evaluation.eval(self.root);
        Evaluated { outcome, cost: evaluation.cost }
    }
}

/// The value of an operation without variables.
pub(super) fn constant<'a>(ops: &'a [Op], at: Ref, arena: &'a Arena) -> Outcome<'a> {
    let mut evaluation = Evaluation {
        ops,
        names: &[],
        arena,
        variables: &|_: usize| None,
        limits: Limits::default(),
        cost: 0,
        ticks: 0,
        computes_fields: false,
        locals: Locals::new(),
    };
    evaluation.eval(at)
}

pub(super) struct Evaluation<'v, 'a> {
    pub(super) ops: &'a [Op],
    pub(super) names: &'a [object::Str],
    pub(super) arena: &'a Arena,
    pub(super) variables: &'v dyn Variables<'a>,
    pub(super) limits: Limits<'v>,
    pub(super) cost: u64,
    pub(super) ticks: u32,
    pub(super) computes_fields: bool,
    pub(super) locals: Locals<'a>,
}

/// The variables of comprehensions; those of one with two variables need no memory of their own.
type Locals<'a> = smallvec::SmallVec<[Slot<'a>; 3]>;

/// A variable of a comprehension.
pub(super) enum Slot<'a> {
    Empty,
    /// An accumulator whose first value was not needed yet.
    Pending(Ref),
    Value(Outcome<'a>),
    /// An accumulator that is a growing list.
    List(Rc<Vec<Val<'a>>>),
    /// An accumulator that is a growing map.
    Map(Rc<super::fold::Growing<'a>>),
}

const NO_SUCH_OVERLOAD: Error<'static> = Error::NO_SUCH_OVERLOAD;

impl<'a> Evaluation<'_, 'a> {
    pub(super) fn charge(&mut self, cost: u64) -> Outcome<'a, ()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limits.cost { Err(Error::Cancelled(Cancelled::CostLimit)) } else { Ok(()) }
    }

    pub(super) fn eval(&mut self, at: Ref) -> Outcome<'a> {
        let ops = self.ops;
        match &ops[at as usize] {
            Op::Const(constant) => Ok(constant.val()),
            Op::Attribute(attribute) => self.attribute(attribute),
            Op::And(a, b) => self.logic(*a, *b, false),
            Op::Or(a, b) => self.logic(*a, *b, true),
            Op::Equal(a, b) => self.equality(*a, *b, true),
            Op::NotEqual(a, b) => self.equality(*a, *b, false),
            Op::NotStrictlyFalse(arg) => self.not_strictly_false(*arg),
            Op::Call(call) => self.call(call),
            Op::List(elements) => {
                let list = self.list(elements);
                self.created(LIST_CREATE, list)
            }
            Op::Map(entries) => {
                let map = self.map(entries);
                self.created(MAP_CREATE, map)
            }
            Op::Struct(literal) => {
                let value = self.message(literal);
                self.created(STRUCT_CREATE, value)
            }
            Op::Fold(fold) => self.fold(fold),
            Op::Or2(a, b, unwrap) => self.optional_or(*a, *b, *unwrap),
            Op::InSet(arg, set) => {
                let val = self.eval(*arg)?;
                Ok(Val::Bool(in_set(val, set)))
            }
        }
    }

    /// What is made costs the same whether it was made or not.
    pub(super) fn created(&mut self, cost: u64, outcome: Outcome<'a>) -> Outcome<'a> {
        if !matches!(outcome, Err(Error::Cancelled(_))) {
            self.charge(cost)?;
        }
        outcome
    }

    /// `a && b` (stops at false) and `a || b` (stops at true). Errors count only if the other operand does not decide.
    fn logic(&mut self, a: Ref, b: Ref, stop: bool) -> Outcome<'a> {
        let mut failure = None;
        for term in [a, b] {
            match self.eval(term) {
                Ok(Val::Bool(value)) if value == stop => return Ok(Val::Bool(stop)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failure = failure.or(Some(NO_SUCH_OVERLOAD)),
                Err(error @ Error::Cancelled(_)) => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(Val::Bool(!stop)),
        }
    }

    fn not_strictly_false(&mut self, arg: Ref) -> Outcome<'a> {
        let value = match self.eval(arg) {
            Err(error @ Error::Cancelled(_)) => return Err(error),
            Ok(Val::Bool(value)) => value,
            _ => true,
        };
        self.charge(1)?;
        Ok(Val::Bool(value))
    }

    fn equality(&mut self, a: Ref, b: Ref, wanted: bool) -> Outcome<'a> {
        let left = self.operand(a)?;
        let right = self.operand(b)?;
        let outcome = match (left, right) {
            (Ok(left), Ok(right)) => match left.equal(right, self.arena) {
                Ok(equal) => Ok(Val::Bool(equal == wanted)),
                Err(error) if wanted => Err(error),
                // What cannot be compared is not equal.
                Err(_) => Ok(Val::Bool(true)),
            },
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let args = [left.unwrap_or(Val::Null), right.unwrap_or(Val::Null)];
        self.charge(EQUALITY(&args, Val::Null, self.arena))?;
        outcome
    }

    /// An operand whose error is looked at later.
    fn operand(&mut self, at: Ref) -> Outcome<'a, Outcome<'a>> {
        match self.eval(at) {
            Err(error @ Error::Cancelled(_)) => Err(error),
            outcome => Ok(outcome),
        }
    }

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        let mut args: smallvec::SmallVec<[Val<'a>; 4]> = smallvec::SmallVec::new();
        let mut failure = None;
        let mut failed = [false; 4];
        for (i, arg) in call.args.iter().enumerate() {
            match self.operand(*arg)? {
                Ok(val) => args.push(val),
                Err(error) => {
                    if let Some(failed) = failed.get_mut(i) {
                        *failed = true;
                    }
                    let is_last = i + 1 == call.args.len();
                    // The cost is counted only if every argument was evaluated.
                    if !call.eager && !is_last {
                        return Err(error);
                    }
                    args.push(Val::Null);
                    failure = failure.or(Some(error));
                }
            }
        }
        if let Some(counted) = call.counted {
            counted.check(&args, failed)?;
            // What is too expensive is not begun.
            self.charge((call.cost)(&args, Val::Null, self.arena))?;
        }
        let outcome = match failure {
            Some(error) => Err(error),
            None => self.invoke(call, &args),
        };
        if call.counted.is_none() {
            self.charge((call.cost)(&args, outcome.unwrap_or(Val::Null), self.arena))?;
        }
        outcome
    }

    fn invoke(&mut self, call: &'a Call, args: &[Val<'a>]) -> Outcome<'a> {
        match &call.target {
            CallTarget::One(overload) => match self.run(overload, args) {
                Some(outcome) => outcome,
                None => Err(no_such_overload(call.function, args, self.arena)),
            },
            CallTarget::Dispatch(overloads) => {
                let found = overloads.iter().find_map(|overload| self.run(overload, args));
                found.unwrap_or_else(|| Err(no_such_overload(call.function, args, self.arena)))
            }
            CallTarget::Regex(overload, regex) => {
                let mut args: smallvec::SmallVec<[Val<'a>; 4]> = args.into();
                if let Some(text) = args.first().copied().and_then(go_text) {
                    args[0] = Val::String(text);
                }
                match (overload.call, regex.get(), args.as_slice()) {
                    (Callable::Regex(function), Some(regex), args) => function(regex, args, self.arena),
                    (Callable::Any(_), Some(regex), [Val::String(text), _]) => Ok(Val::Bool(regex.is_match(text))),
                    (Callable::Any(function), _, args) => function(args, self.arena),
                    _ => Err(NO_SUCH_OVERLOAD),
                }
            }
        }
    }

    /// Calls an overload if the arguments have its types.
    fn run(&self, overload: &'static Overload, args: &[Val<'a>]) -> Option<Outcome<'a>> {
        if let Callable::Any(function) = overload.call {
            return Some(function(args, self.arena));
        }
        let fits = overload.args.len() == args.len()
            && overload.args.iter().zip(args).all(|(ty, arg)| accepts(ty, *arg, self.arena));
        if !fits {
            return None;
        }
        match overload.call {
            Callable::Plain(function) | Callable::Any(function) => Some(function(args, self.arena)),
            Callable::Regex(function) => Some(match args.get(1) {
                Some(Val::String(pattern)) => {
                    let regex = self.arena.regex(pattern);
                    let regex = regex.map_err(|error| self.arena.error(format_args!("Illegal regex: {error}")));
                    regex.and_then(|regex| function(&regex, args, self.arena))
                }
                _ => Err(NO_SUCH_OVERLOAD),
            }),
            Callable::Builtin => None,
        }
    }

    fn list(&mut self, elements: &'a [(Ref, bool)]) -> Outcome<'a> {
        let mut items = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let val = self.eval(*element)?;
            match (optional, val) {
                (false, val) => items.push(val),
                (true, Val::Optional(inner)) => items.extend(inner.copied()),
                (true, other) => {
                    return Err(self.arena.error(format_args!(
                        "cannot initialize optional list element from non-optional value {other}"
                    )));
                }
            }
        }
        Ok(self.arena.list_val(&items))
    }

    fn map(&mut self, entries: &'a [MapEntry]) -> Outcome<'a> {
        let mut made: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.eval(entry.key)?;
            let mut value = self.eval(entry.value)?;
            let known = made.iter().position(|(known, _)| same_key(known, &key));
            if let Some(at) = known {
                made.remove(at);
            }
            if entry.optional {
                match value {
                    Val::Optional(Some(inner)) => value = *inner,
                    Val::Optional(None) => {
                        Key::checked(&key)?;
                        continue;
                    }
                    other => {
                        return Err(self.arena.error(format_args!(
                            "cannot initialize optional entry '{key}' from non-optional value {other}"
                        )));
                    }
                }
            }
            Key::checked(&key)?;
            made.push((key, value));
        }
        Ok(Val::Map(Map::new(made, self.arena)))
    }

    fn message(&mut self, literal: &'a Struct) -> Outcome<'a> {
        let mut fields: Vec<(&'a str, Val<'a>)> = Vec::with_capacity(literal.fields.len());
        for (name, value, optional) in &literal.fields {
            let mut val = self.eval(*value)?;
            fields.retain(|(known, _)| *known != name.as_ref());
            if *optional {
                match val {
                    Val::Optional(Some(inner)) => val = *inner,
                    Val::Optional(None) => continue,
                    other => {
                        return Err(self.arena.error(format_args!(
                            "cannot initialize optional entry '{name}' from non-optional value {other}"
                        )));
                    }
                }
            }
            fields.push((name, val));
        }
        if let Some(message) = literal.message {
            return message.make(&fields, self.arena);
        }
        fields.sort_by_key(|(name, _)| *name);
        let made = StructVal { type_name: &literal.name, fields: self.arena.slice(&fields) };
        Ok(Val::Struct(self.arena.copy(made)))
    }

    fn optional_or(&mut self, a: Ref, b: Ref, unwrap: bool) -> Outcome<'a> {
        match self.eval(a)? {
            Val::Optional(Some(inner)) if unwrap => Ok(*inner),
            first @ Val::Optional(Some(_)) => Ok(first),
            Val::Optional(None) => self.eval(b),
            _ => Err(NO_SUCH_OVERLOAD),
        }
    }
}

fn same_key<'k>(a: &Val<'k>, b: &Val<'k>) -> bool {
    let key = Key::of(a);
    std::mem::discriminant(a) == std::mem::discriminant(b) && !matches!(key, Key::Other) && key == Key::of(b)
}

/// The text that a value is in Go: with a constant pattern nothing looks at the type in CEL.
fn go_text(val: Val<'_>) -> Option<&str> {
    match val {
        Val::String(text) | Val::Type(text) => Some(text),
        Val::Optional(Some(inner)) => go_text(*inner),
        _ => None,
    }
}

fn in_set(val: Val<'_>, set: &[Constant]) -> bool {
    let key = Key::of(&val);
    !matches!(key, Key::Other) && set.iter().any(|item| Key::of(&item.val()) == key)
        || matches!(val, Val::Double(d) if set.iter().any(|item| matches!(item, Constant::Double(x) if *x == d)))
}

pub(super) fn no_such_overload<'a>(function: &str, args: &[Val<'a>], arena: &'a Arena) -> Error<'a> {
    let types: Vec<&str> = args.iter().map(|arg| arg.type_name()).collect();
    arena.error(format_args!("no such overload: {function}({})", types.join(", ")))
}
