//! What the unit tests share: schemas of built-in kinds by name, and a way to make custom ones.

use object::{GroupVersion, Value};

use crate::{Field, Node, Rules, Schema, Shape, Struct, Types, builtin};

/// The schema of a built-in kind: `("apps/v1", "Deployment")`.
pub fn kind(group_version: &str, kind: &str) -> Schema<'static> {
    builtin().schema(&GroupVersion::parse(group_version).unwrap().with_kind(kind)).unwrap()
}

/// A custom schema under construction.
#[derive(Default)]
pub struct Custom {
    pub types: Types,
}

impl Custom {
    /// A node with these fields.
    pub fn object<'a>(&mut self, fields: impl IntoIterator<Item = (&'a str, Node)>) -> Node {
        self.define(fields, false)
    }

    /// The same, keeping what it does not know.
    pub fn open_object<'a>(&mut self, fields: impl IntoIterator<Item = (&'a str, Node)>) -> Node {
        self.define(fields, true)
    }

    fn define<'a>(&mut self, fields: impl IntoIterator<Item = (&'a str, Node)>, preserve_unknown: bool) -> Node {
        let id = self.types.declare("".into());
        let fields =
            fields.into_iter().map(|(name, node)| Field { name: name.into(), node, pointer: true, ..Field::default() });
        let definition = Struct { fields: fields.collect(), preserve_unknown, ..Struct::default() };
        self.types.define(id, definition);
        shape(Shape::Struct(id))
    }
}

pub fn shape(shape: Shape) -> Node {
    Node { shape, ..Node::default() }
}

pub fn list(items: Node) -> Node {
    shape(Shape::List(Box::new(items)))
}

pub fn map(values: Node) -> Node {
    shape(Shape::Map(Box::new(values)))
}

pub fn with_default(node: Node, default: impl Into<Value>) -> Node {
    Node { default: Some(default.into()), ..node }
}

pub fn nullable(node: Node) -> Node {
    Node { nullable: true, ..node }
}

pub fn ruled(node: Node, rules: Rules) -> Node {
    Node { rules: Some(Box::new(rules)), ..node }
}
