//! Comprehensions.

use std::rc::Rc;

use hashbrown::HashSet;

use super::eval::{Evaluation, Slot, no_such_overload};
use super::{Base, Fold, Op, Ref};
use crate::arena::Arena;
use crate::cost::LIST_CREATE;
use crate::error::{Cancelled, Error, Outcome};
use crate::library::twovar::{entries, exists};
use crate::val::key::Key;
use crate::val::{List, Map, Val};

/// How many steps go by between two looks at whether the evaluation was interrupted.
const STEPS_PER_CHECK: u32 = 100;

impl<'a> Slot<'a> {
    /// An accumulator with its first value; empty lists and maps grow in place.
    pub(super) fn starting(value: Outcome<'a>) -> Slot<'a> {
        match value {
            Ok(Val::List(list)) if list.is_empty() => Slot::List(Rc::default()),
            Ok(Val::Map(map)) if map.is_empty() => Slot::Map(Rc::default()),
            other => Slot::Value(other),
        }
    }
}

/// A map that entries are added to.
#[derive(Default)]
pub(super) struct Growing<'a> {
    entries: Vec<(Val<'a>, Val<'a>)>,
    keys: HashSet<Key<'a>>,
}

impl<'a> Growing<'a> {
    pub(super) fn val(&self, arena: &'a Arena) -> Val<'a> {
        Val::Map(Map::new(self.entries.clone(), arena))
    }

    fn insert(&mut self, key: Val<'a>, value: Val<'a>, arena: &'a Arena) -> Outcome<'a, ()> {
        let hashed = Key::checked(&key)?;
        if !matches!(hashed, Key::Other) && !self.keys.insert(hashed) {
            return Err(exists(key, arena));
        }
        self.entries.push((key, value));
        Ok(())
    }
}

/// What a step did to the accumulator.
enum FoldStep<'a> {
    /// It is what it was, or has grown in place.
    Done,
    Value(Outcome<'a>),
}

/// What is added to a growing list.
enum Added<'a> {
    One(Val<'a>),
    All(Val<'a>),
}

impl<'a> Evaluation<'_, 'a> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(fold.range)?;
        self.locals[usize::from(fold.accumulator)] = Slot::Pending(fold.init);
        match range {
            Val::List(list) => self.fold_list(fold, list)?,
            Val::Map(map) => self.fold_map(fold, map)?,
            other => {
                let name = crate::val::gotype::go_type(other);
                return Err(match fold.var2 {
                    Some(_) => self.arena.error(format_args!("unsupported comprehension range type: {name}")),
                    None => self.arena.error(format_args!("got '{name}', expected iterable type")),
                });
            }
        }
        self.eval(fold.result)
    }

    fn fold_list(&mut self, fold: &'a Fold, list: List<'a>) -> Outcome<'a, ()> {
        let arena = self.arena;
        for (i, item) in list.iter(arena).enumerate() {
            let going = match fold.var2 {
                Some(_) => self.iteration(fold, Ok(Val::Int(i as i64)), Some(item))?,
                None => self.iteration(fold, item, None)?,
            };
            if !going {
                break;
            }
        }
        Ok(())
    }

    fn fold_map(&mut self, fold: &'a Fold, map: Map<'a>) -> Outcome<'a, ()> {
        for (i, key) in map.keys(self.arena).into_iter().enumerate() {
            let value = match (fold.var2, map) {
                (None, _) => None,
                (Some(_), Map::Entries(entries)) => Some(Ok(entries[i].1)),
                (Some(_), map) => Some(match map.find(key, self.arena) {
                    Ok(Some(value)) => Ok(value),
                    Ok(None) => Err(self.arena.error(format_args!("no such key: {key}"))),
                    Err(error) => Err(error),
                }),
            };
            if !self.iteration(fold, Ok(key), value)? {
                break;
            }
        }
        Ok(())
    }

    /// One round; false if the condition ends the loop.
    fn iteration(&mut self, fold: &'a Fold, first: Outcome<'a>, second: Option<Outcome<'a>>) -> Outcome<'a, bool> {
        self.locals[usize::from(fold.var)] = Slot::Value(first);
        if let (Some(slot), Some(second)) = (fold.var2, second) {
            self.locals[usize::from(slot)] = Slot::Value(second);
        }
        match self.eval(fold.condition) {
            Ok(Val::Bool(false)) => return Ok(false),
            Err(error @ Error::Cancelled(_)) => return Err(error),
            _ => {}
        }
        match self.step(fold.step, fold.accumulator, true) {
            FoldStep::Done => {}
            FoldStep::Value(Err(error @ Error::Cancelled(_))) => return Err(error),
            FoldStep::Value(value) => self.locals[usize::from(fold.accumulator)] = Slot::Value(value),
        }
        self.ticks += 1;
        if self.ticks.is_multiple_of(STEPS_PER_CHECK) && self.limits.interrupted.is_some_and(|ask| ask()) {
            return Err(Error::Cancelled(Cancelled::Interrupted));
        }
        Ok(true)
    }

    /// The next value of the accumulator. The steps that macros make add to it in place.
    fn step(&mut self, at: Ref, accumulator: u16, charged: bool) -> FoldStep<'a> {
        let ops = self.ops;
        match &ops[at as usize] {
            Op::Attribute(attribute) if attribute.qualifiers.is_empty() => match attribute.base {
                Base::Conditional(condition, yes, no) => {
                    let branch = match self.eval(condition) {
                        Ok(Val::Bool(true)) => yes,
                        Ok(Val::Bool(false)) => no,
                        Ok(_) => return FoldStep::Value(Err(Error::NO_SUCH_OVERLOAD)),
                        Err(error) => return FoldStep::Value(Err(error)),
                    };
                    self.step(branch, accumulator, false)
                }
                Base::Local(slot) if slot == accumulator => {
                    if let Slot::Pending(_) = self.locals[usize::from(slot)]
                        && let Err(error @ Error::Cancelled(_)) = self.local(slot)
                    {
                        return FoldStep::Value(Err(error));
                    }
                    match self.charge(u64::from(charged)) {
                        Ok(()) => FoldStep::Done,
                        Err(error) => FoldStep::Value(Err(error)),
                    }
                }
                _ if charged => FoldStep::Value(self.eval(at)),
                _ => FoldStep::Value(self.raw(at)),
            },
            Op::Call(call) => match (call.function, &*call.args) {
                ("_+_", &[first, items]) if self.is_accumulator(first, accumulator) => {
                    self.append(at, accumulator, items)
                }
                ("cel.@mapInsert", args @ [first, ..]) if self.is_accumulator(*first, accumulator) => {
                    self.insert(at, accumulator, args)
                }
                _ => FoldStep::Value(self.eval(at)),
            },
            _ => FoldStep::Value(self.eval(at)),
        }
    }

    /// Whether the operation is the accumulator and nothing else.
    fn is_accumulator(&mut self, at: Ref, accumulator: u16) -> bool {
        let Op::Attribute(attribute) = &self.ops[at as usize] else { return false };
        matches!(attribute.base, Base::Local(slot) if slot == accumulator) && attribute.qualifiers.is_empty()
    }

    /// Takes the growing accumulator out of its slot, if that is what it is.
    fn start(&mut self, accumulator: u16) -> Option<Slot<'a>> {
        let slot = usize::from(accumulator);
        if let Slot::Pending(init) = self.locals[slot] {
            let value = self.eval(init);
            self.locals[slot] = Slot::starting(value);
        }
        match &self.locals[slot] {
            Slot::List(items) => Some(Slot::List(items.clone())),
            Slot::Map(map) => Some(Slot::Map(map.clone())),
            _ => None,
        }
    }

    /// `accumulator + items`, which costs 1, and 1 for the accumulator.
    fn append(&mut self, at: Ref, accumulator: u16, items: Ref) -> FoldStep<'a> {
        let slot = usize::from(accumulator);
        let Some(Slot::List(growing)) = self.start(accumulator) else { return FoldStep::Value(self.eval(at)) };
        drop(growing);
        if let Err(error) = self.charge(1) {
            return FoldStep::Value(Err(error));
        }
        let added = self.added(items);
        if let Err(error @ Error::Cancelled(_)) = added {
            return FoldStep::Value(Err(error));
        }
        if let Err(error) = self.charge(1) {
            return FoldStep::Value(Err(error));
        }
        let arena = self.arena;
        let Slot::List(growing) = &mut self.locals[slot] else { return FoldStep::Done };
        let growing = Rc::make_mut(growing);
        match added {
            Ok(Added::One(item)) => growing.push(item),
            Ok(Added::All(Val::List(list))) => {
                for item in list.iter(arena) {
                    match item {
                        Ok(item) => growing.push(item),
                        Err(error) => return FoldStep::Value(Err(error)),
                    }
                }
            }
            Ok(Added::All(_)) => return FoldStep::Value(Err(Error::NO_SUCH_OVERLOAD)),
            Err(error) => return FoldStep::Value(Err(error)),
        }
        FoldStep::Done
    }

    /// What is added to a growing list. A list of one item, which macros make, costs what a list costs and is not made.
    fn added(&mut self, items: Ref) -> Outcome<'a, Added<'a>> {
        let ops = self.ops;
        if let Op::List(elements) = &ops[items as usize]
            && let &[(element, false)] = &**elements
        {
            let item = self.eval(element);
            return self.created(LIST_CREATE, item).map(Added::One);
        }
        self.eval(items).map(Added::All)
    }

    /// `cel.@mapInsert(accumulator, key, value)` or `cel.@mapInsert(accumulator, map)`.
    fn insert(&mut self, at: Ref, accumulator: u16, args: &'a [Ref]) -> FoldStep<'a> {
        let slot = usize::from(accumulator);
        let Some(Slot::Map(growing)) = self.start(accumulator) else { return FoldStep::Value(self.eval(at)) };
        drop(growing);
        if let Err(error) = self.charge(1) {
            return FoldStep::Value(Err(error));
        }
        let mut vals = Vec::with_capacity(2);
        for (i, arg) in args.iter().enumerate().skip(1) {
            match self.eval(*arg) {
                Ok(val) => vals.push(val),
                Err(error @ Error::Cancelled(_)) => return FoldStep::Value(Err(error)),
                Err(error) => {
                    // The cost of the call is counted if all arguments were evaluated.
                    let all = args.len() == 2 || i + 1 == args.len();
                    if let Err(cancelled) = self.charge(u64::from(all)) {
                        return FoldStep::Value(Err(cancelled));
                    }
                    return FoldStep::Value(Err(error));
                }
            }
        }
        if let Err(error) = self.charge(1) {
            return FoldStep::Value(Err(error));
        }
        let added = match vals[..] {
            [key, value] => vec![(key, value)],
            [Val::Map(map)] => match entries(map, self.arena) {
                Ok(entries) => entries,
                Err(error) => return FoldStep::Value(Err(error)),
            },
            _ => {
                let args: Vec<Val<'a>> = [Val::Map(Map::EMPTY)].into_iter().chain(vals).collect();
                return FoldStep::Value(Err(no_such_overload("cel.@mapInsert", &args, self.arena)));
            }
        };
        let arena = self.arena;
        if let Slot::Map(growing) = &mut self.locals[slot]
            && let Some(growing) = Rc::get_mut(growing)
        {
            for (key, value) in added {
                if let Err(error) = growing.insert(key, value, arena) {
                    return FoldStep::Value(Err(error));
                }
            }
        }
        FoldStep::Done
    }
}
