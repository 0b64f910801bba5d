//! Lists as they occur while an expression is evaluated.

use object::Value;

use crate::arena::Arena;
use crate::constant::Constant;
use crate::convert;
use crate::decl::Decl;
use crate::error::Outcome;
use crate::val::Val;

/// A list: where its items are.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// Made in the evaluation.
    Slice(&'a [Val<'a>]),
    /// A part of the program.
    Constant(&'a [Constant]),
    /// JSON without a schema.
    Json(&'a [Value]),
    /// The same, where fields have escaped names too.
    Escaped(&'a [Value]),
    /// JSON with the schema of the list.
    Typed(&'a [Value], &'a Decl),
    /// The sum of a set or map list with the schema of the list.
    Merged(&'a [Val<'a>], &'a Decl),
    Concat(&'a Concat<'a>),
}

/// Two lists one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Concat<'a> {
    first: List<'a>,
    second: List<'a>,
    len: usize,
}

impl<'a> List<'a> {
    pub const EMPTY: List<'static> = List::Slice(&[]);

    pub fn len(self) -> usize {
        match self {
            List::Slice(items) | List::Merged(items, _) => items.len(),
            List::Constant(items) => items.len(),
            List::Json(items) | List::Escaped(items) | List::Typed(items, _) => items.len(),
            List::Concat(concat) => concat.len,
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The item at `index`, if there is one. An item that contradicts the schema is an error.
    pub fn get(mut self, mut index: usize, arena: &'a Arena) -> Option<Outcome<'a>> {
        loop {
            return match self {
                List::Slice(items) | List::Merged(items, _) => items.get(index).map(|item| Ok(*item)),
                List::Constant(items) => items.get(index).map(|item| Ok(item.val())),
                List::Json(items) => items.get(index).map(|item| Ok(convert::json_part(item, arena))),
                List::Escaped(items) => items.get(index).map(|item| Ok(convert::escaped_json(item))),
                List::Typed(items, list) => items.get(index).map(|item| match list.items() {
                    Some(decl) => convert::typed(item, decl, arena),
                    None => Ok(convert::json_part(item, arena)),
                }),
                List::Concat(concat) => {
                    let first = concat.first.len();
                    if index < first {
                        self = concat.first;
                    } else {
                        self = concat.second;
                        index -= first;
                    }
                    continue;
                }
            };
        }
    }

    /// All items in order.
    pub fn iter(self, arena: &'a Arena) -> Items<'a> {
        Items { list: self, later: Vec::new(), next: 0, arena }
    }

    /// All items as a slice; the first item that contradicts the schema is the error.
    pub fn to_slice(self, arena: &'a Arena) -> Outcome<'a, &'a [Val<'a>]> {
        match self {
            List::Slice(items) | List::Merged(items, _) => Ok(items),
            list => {
                let items: Vec<Val<'a>> = list.iter(arena).collect::<Result<_, _>>()?;
                Ok(arena.slice(&items))
            }
        }
    }

    /// This list and then `other`, without copying either.
    pub fn concat(self, other: List<'a>, arena: &'a Arena) -> List<'a> {
        match (self.len(), other.len()) {
            (0, _) => other,
            (_, 0) => self,
            (first, second) => {
                List::Concat(arena.copy(Concat { first: self, second: other, len: first.saturating_add(second) }))
            }
        }
    }
}

/// An iterator over the items of a list.
pub struct Items<'a> {
    list: List<'a>,
    /// What comes after the current list, last first.
    later: Vec<List<'a>>,
    next: usize,
    arena: &'a Arena,
}

impl<'a> Iterator for Items<'a> {
    type Item = Outcome<'a>;

    fn next(&mut self) -> Option<Outcome<'a>> {
        loop {
            while let List::Concat(concat) = self.list {
                self.later.push(concat.second);
                self.list = concat.first;
            }
            if let Some(item) = self.list.get(self.next, self.arena) {
                self.next += 1;
                return Some(item);
            }
            self.list = self.later.pop()?;
            self.next = 0;
        }
    }
}
