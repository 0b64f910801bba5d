//! [`Arena`]: where an evaluation keeps what it makes.
//!
//! Values made while an expression is evaluated live until the arena is dropped, so a [`Val`](crate::Val) is a few words
//! that are copied freely and nothing is counted. What an evaluation can put here is bounded by its cost limit.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;

use bumpalo::Bump;
use goregex::Regex;
use object::{Raw, Value};

use crate::error::{Error, Outcome};
use crate::val::{List, Val};

/// Compiled regular expressions that are kept for another call.
const MAX_REGEXES: usize = 16;

/// The memory of one or more evaluations.
#[derive(Default)]
pub struct Arena {
    bump: Bump,
    /// Made when it is first needed: an empty one takes memory.
    kept: OnceCell<typed_arena::Arena<Box<dyn Any>>>,
    regexes: RefCell<Vec<(Box<str>, Rc<Regex>)>>,
    opened: OnceCell<Box<[Chain; CHAINS]>>,
}

/// JSON that objects keep as text, by where the text is: it is read once, however often an expression looks at it.
type Chain = OnceCell<Box<OpenedRaw>>;

struct OpenedRaw {
    text: *const u8,
    value: Value,
    next: Chain,
}

const CHAINS: usize = 64;

impl Arena {
    pub fn new() -> Arena {
        Arena::default()
    }

    /// A copy of `text` that lives as long as the arena.
    pub fn str<'a>(&'a self, text: &str) -> &'a str {
        self.bump.alloc_str(text)
    }

    /// Two texts as one.
    pub fn concat_str<'a>(&'a self, first: &str, second: &str) -> &'a str {
        let mut text = bumpalo::collections::String::with_capacity_in(first.len() + second.len(), &self.bump);
        text.push_str(first);
        text.push_str(second);
        text.into_bump_str()
    }

    pub fn concat_bytes<'a>(&'a self, first: &[u8], second: &[u8]) -> &'a [u8] {
        let mut bytes = bumpalo::collections::Vec::with_capacity_in(first.len() + second.len(), &self.bump);
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        bytes.into_bump_slice()
    }

    pub fn bytes<'a>(&'a self, bytes: &[u8]) -> &'a [u8] {
        self.bump.alloc_slice_copy(bytes)
    }

    /// The items as a slice that lives as long as the arena.
    pub fn slice<'a, T: Copy>(&'a self, items: &[T]) -> &'a [T] {
        self.bump.alloc_slice_copy(items)
    }

    /// Keeps a value that owns no memory of its own: it is never dropped.
    pub fn copy<T: Copy>(&self, value: T) -> &T {
        self.bump.alloc(value)
    }

    /// Keeps a value that owns memory and drops it with the arena.
    pub fn keep<T: Any>(&self, value: T) -> &T {
        let kept: &Box<dyn Any> = self.kept.get_or_init(Default::default).alloc(Box::new(value));
        match kept.downcast_ref() {
            Some(value) => value,
            None => unreachable!("it was made of this type just above"),
        }
    }

    /// A regular expression that is only known now, compiled once for the arena.
    pub fn regex<'a>(&'a self, pattern: &str) -> Outcome<'a, Rc<Regex>> {
        let known = self.regexes.borrow().iter().find(|(known, _)| known.as_ref() == pattern).map(|(_, r)| r.clone());
        if let Some(regex) = known {
            return Ok(regex);
        }
        let regex = Rc::new(Regex::new(pattern).map_err(|error| self.error(format_args!("{error}")))?);
        let mut regexes = self.regexes.borrow_mut();
        if regexes.len() == MAX_REGEXES {
            regexes.remove(0);
        }
        regexes.push((pattern.into(), regex.clone()));
        Ok(regex)
    }

    /// What stands in JSON that is kept as text. The text lives as long as the arena is used.
    pub(crate) fn open<'a>(&'a self, raw: &'a Raw) -> &'a Value {
        let text = raw.text().as_ptr();
        let chains = self.opened.get_or_init(|| Box::new(std::array::from_fn(|_| Chain::new())));
        // Texts are at least 8 bytes apart.
        let mut chain = &chains[(text as usize >> 3) % CHAINS];
        loop {
            let make = || Box::new(OpenedRaw { text, value: codec::json::open(raw), next: Chain::new() });
            let opened = chain.get_or_init(make);
            if opened.text == text {
                return &opened.value;
            }
            chain = &opened.next;
        }
    }

    pub fn string_val<'a>(&'a self, text: &str) -> Val<'a> {
        Val::String(self.str(text))
    }

    pub fn list_val<'a>(&'a self, items: &[Val<'a>]) -> Val<'a> {
        Val::List(List::Slice(self.slice(items)))
    }

    /// An evaluation error with a message made for the occasion.
    pub fn error(&self, message: fmt::Arguments<'_>) -> Error<'_> {
        Error::new(match message.as_str() {
            Some(text) => text,
            None => self.str(&message.to_string()),
        })
    }

    /// The bytes taken by copies; what was kept is not counted.
    pub fn used(&self) -> usize {
        self.bump.allocated_bytes()
    }
}
