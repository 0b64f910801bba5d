//! Where validation is: the schema of a value, and the path to it.

use std::fmt;

use crate::types::{Node, Schema};

/// A value's place.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub schema: Schema<'a>,
    pub path: Steps<'a>,
    pub depth: usize,
}

impl<'a> Place<'a> {
    pub fn root(schema: Schema<'a>) -> Place<'a> {
        Place { schema, path: Steps(None), depth: 0 }
    }

    /// Another schema for the same value.
    pub fn branch(self, node: &'a Node) -> Place<'a> {
        Place { schema: self.schema.with(node), depth: self.depth + 1, ..self }
    }

    /// A declared field.
    pub fn field(&'a self, name: &'a str, node: &'a Node) -> Place<'a> {
        self.inside(PlaceStep::Field(name), node)
    }

    /// A value of a map.
    pub fn key(&'a self, key: &'a str, node: &'a Node) -> Place<'a> {
        self.inside(PlaceStep::Key(key), node)
    }

    /// An item of a list.
    pub fn item(&'a self, at: usize, node: &'a Node) -> Place<'a> {
        self.inside(PlaceStep::Item(at), node)
    }

    fn inside(&'a self, step: PlaceStep<'a>, node: &'a Node) -> Place<'a> {
        Place { schema: self.schema.with(node), path: Steps(Some((&self.path, step))), depth: self.depth + 1 }
    }
}

/// The steps to a value, of which text is made when an error needs it: `spec.list[0].name`, "" for the root.
#[derive(Clone, Copy)]
pub struct Steps<'a>(Option<(&'a Steps<'a>, PlaceStep<'a>)>);

#[derive(Clone, Copy)]
enum PlaceStep<'a> {
    Field(&'a str),
    Key(&'a str),
    Item(usize),
}

impl Steps<'_> {
    /// Whether they have no text, as those to the root.
    pub fn is_empty(&self) -> bool {
        self.0.is_none_or(|(parent, step)| matches!(step, PlaceStep::Field("")) && parent.is_empty())
    }
}

impl fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((parent, step)) = self.0 else { return Ok(()) };
        parent.fmt(f)?;
        match step {
            PlaceStep::Field(name) if parent.is_empty() => f.write_str(name),
            PlaceStep::Field(name) | PlaceStep::Key(name) => write!(f, ".{name}"),
            PlaceStep::Item(at) => write!(f, "[{at}]"),
        }
    }
}
