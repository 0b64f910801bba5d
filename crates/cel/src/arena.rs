//! [`Arena`]: where an evaluation keeps what it makes.
//!
//! Values made while an expression is evaluated live until the arena is dropped, so a [`Val`](crate::Val) is a few words
//! that are copied freely and nothing is counted. What an evaluation can put here is bounded by its cost limit.

use std::any::Any;
use std::fmt;

use bumpalo::Bump;

use crate::error::Error;
use crate::val::{List, Val};

/// The memory of one or more evaluations.
#[derive(Default)]
pub struct Arena {
    bump: Bump,
    kept: typed_arena::Arena<Box<dyn Any>>,
}

impl Arena {
    pub fn new() -> Arena {
        Arena::default()
    }

    /// A copy of `text` that lives as long as the arena.
    pub fn str<'a>(&'a self, text: &str) -> &'a str {
        self.bump.alloc_str(text)
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
        let kept: &Box<dyn Any> = self.kept.alloc(Box::new(value));
        match kept.downcast_ref() {
            Some(value) => value,
            None => unreachable!("it was made of this type just above"),
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
