//! Values seen through a schema, as the merge rules see them.
//!
//! The rules know only three kinds of things: scalars, lists (atomic, or items told apart by key or value) and maps
//! (atomic, or field by field). [`Type`] turns a place in a schema into an [`Atom`] of those; where the schema says
//! nothing the value itself decides. The operations, each in its file, walk values along their types.

mod changed;
mod compare;
mod created;
mod field_set;
mod items;
mod merge;
mod problems;
mod reconcile;
mod remove;
mod structured;
mod unstructured;
mod validate;
mod walk;

use object::{Str, Value};
use schema::{ListType, MapType, Schema, Shape, Struct};

pub(crate) use changed::changed;
pub(crate) use compare::{Comparison, compare};
pub(crate) use created::created;
pub(crate) use field_set::{ensure_named_fields, field_set};
pub(crate) use merge::merge;
pub(crate) use problems::Problems;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::remove_items;
pub(crate) use structured::{as_written, structured, tracked};
pub(crate) use unstructured::{changed_unstructured, created_unstructured};
pub(crate) use validate::{Duplicates, validate};

/// What a value is supposed to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type<'a> {
    /// What the schema says. `keeps_unknown` once an ancestor keeps unknown fields: then so do its descendants.
    Known { schema: Schema<'a>, keeps_unknown: bool },
    /// Whatever the value is; maps are merged field by field, lists are atomic.
    Deduced,
    /// Whatever the value is, and atomic.
    Opaque,
}

/// The forms a value of a type may take. A typed place has one; an untyped one has all three.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Atom<'a> {
    pub scalar: Option<Scalar>,
    pub list: Option<List<'a>>,
    pub map: Option<Fields<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    String,
    Boolean,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    pub relation: ListRelation<'a>,
    pub items: Type<'a>,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListRelation<'a> {
    /// They are not: the list is one value.
    Atomic,
    /// By their values.
    Set,
    /// By these fields.
    Keyed(&'a [Str]),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    pub atomic: bool,
    declared: Option<(&'a Struct, Schema<'a>)>,
    keeps_unknown: bool,
    /// The type of keys that are not declared; None if there must be none.
    pub others: Option<Type<'a>>,
}

/// The one form that a value takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    Scalar(Scalar),
    List(List<'a>),
    Map(Fields<'a>),
}

impl<'a> Type<'a> {
    pub fn of(schema: Schema<'a>) -> Type<'a> {
        Type::Known { schema, keeps_unknown: false }
    }

    pub fn atom(self) -> Atom<'a> {
        match self {
            Type::Known { schema, keeps_unknown } => known(schema, keeps_unknown),
            Type::Deduced => Atom::anything(ListRelation::Atomic, false, Type::Deduced),
            Type::Opaque => Atom::anything(ListRelation::Atomic, true, Type::Opaque),
        }
    }

    /// The form of `value` in this type; a missing or null value takes the form that comes first.
    pub fn form(self, value: Option<&Value>) -> Form<'a> {
        self.atom().form(value)
    }
}

impl<'a> Atom<'a> {
    fn scalar(scalar: Scalar) -> Atom<'a> {
        Atom { scalar: Some(scalar), ..Atom::default() }
    }

    fn anything(relation: ListRelation<'a>, atomic: bool, others: Type<'a>) -> Atom<'a> {
        Atom {
            scalar: Some(Scalar::Any),
            list: Some(List { relation, items: Type::Opaque }),
            map: Some(Fields { atomic, declared: None, keeps_unknown: false, others: Some(others) }),
        }
    }

    fn form(self, value: Option<&Value>) -> Form<'a> {
        match (value, self) {
            (
                Some(Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_)),
                Atom { scalar: Some(s), .. },
            ) => Form::Scalar(s),
            (Some(Value::List(_)), Atom { list: Some(list), .. }) => Form::List(list),
            (Some(Value::Map(_)), Atom { map: Some(map), .. }) => Form::Map(map),
            (_, Atom { map: Some(map), .. }) => Form::Map(map),
            (_, Atom { scalar: Some(scalar), .. }) => Form::Scalar(scalar),
            (_, Atom { list: Some(list), .. }) => Form::List(list),
            _ => Form::Scalar(Scalar::Any),
        }
    }
}

fn known<'a>(schema: Schema<'a>, keeps_unknown: bool) -> Atom<'a> {
    match &schema.node.shape {
        Shape::Bool => Atom::scalar(Scalar::Boolean),
        Shape::Int32 | Shape::Int64 | Shape::Float => Atom::scalar(Scalar::Number),
        Shape::String if has_format(schema) => Atom::scalar(Scalar::Any),
        Shape::String | Shape::Bytes | Shape::Duration => Atom::scalar(Scalar::String),
        Shape::Quantity | Shape::Time | Shape::MicroTime => Atom::scalar(Scalar::Any),
        Shape::RawExtension => Type::Opaque.atom(),
        // OpenAPI gives none of these a type, so they may be anything.
        Shape::Any
        | Shape::Fields
        | Shape::IntOrString
        | Shape::StructOrList(_)
        | Shape::StructOrBool(_)
        | Shape::StructOrStrings(_) => Atom::anything(relation(schema), is_atomic(schema), Type::Deduced),
        Shape::List(items) => {
            let items = Type::Known { schema: schema.with(items), keeps_unknown };
            Atom { list: Some(List { relation: relation(schema), items }), ..Atom::default() }
        }
        Shape::Map(values) => {
            // `additionalProperties: true`: values are what they look like.
            let others =
                if values.untyped { Type::Deduced } else { Type::Known { schema: schema.with(values), keeps_unknown } };
            let others = Some(others);
            let map = Fields { atomic: is_atomic(schema), declared: None, keeps_unknown, others };
            Atom { map: Some(map), ..Atom::default() }
        }
        Shape::Struct(id) => {
            let of = schema.types.get(*id);
            let keeps_unknown = keeps_unknown || of.preserve_unknown;
            // An object without declared fields is free to have any.
            let others = (keeps_unknown || of.fields.is_empty()).then_some(Type::Deduced);
            let map = Fields { atomic: is_atomic(schema), declared: Some((of, schema)), keeps_unknown, others };
            Atom { map: Some(map), ..Atom::default() }
        }
    }
}

/// Strings with a format are not checked to be strings.
fn has_format(schema: Schema<'_>) -> bool {
    let format = schema.node.rules.as_ref().and_then(|rules| rules.format.as_deref());
    format.is_some_and(|format| !format.is_empty() && format != "byte")
}

fn relation<'a>(schema: Schema<'a>) -> ListRelation<'a> {
    match &schema.node.list_type {
        ListType::Atomic => ListRelation::Atomic,
        ListType::Set => ListRelation::Set,
        ListType::Map(keys) => ListRelation::Keyed(keys),
    }
}

fn is_atomic(schema: Schema<'_>) -> bool {
    schema.node.map_type == MapType::Atomic
}

impl<'a> Fields<'a> {
    /// The type of a declared field.
    pub fn declared(&self, name: &str) -> Option<Type<'a>> {
        let (of, schema) = self.declared?;
        // Whatever a definition says about metadata, it is an ObjectMeta.
        if schema.node.embedded && name == "metadata" {
            return schema::object_meta().map(|schema| Type::Known { schema, keeps_unknown: false });
        }
        let field = of.field(name)?;
        Some(Type::Known { schema: schema.with(&field.node), keeps_unknown: self.keeps_unknown })
    }

    pub fn is_declared(&self, name: &str) -> bool {
        let own = |schema: Schema| schema.node.embedded && matches!(name, "apiVersion" | "kind" | "metadata");
        self.declared.is_some_and(|(of, schema)| of.field(name).is_some() || own(schema))
    }

    /// The default of a declared field, as the OpenAPI document states it.
    pub fn stated_default(&self, name: &str) -> Option<Value> {
        self.declared?.0.field(name)?.stated_default()
    }

    /// The type of any key; None if there must be no such key.
    pub fn field(&self, name: &str) -> Option<Type<'a>> {
        self.declared(name).or(self.others).or_else(|| {
            // Embedded objects have these without declaring them.
            let embedded = self.declared.is_some_and(|(_, schema)| schema.node.embedded);
            (embedded && matches!(name, "apiVersion" | "kind")).then_some(Type::Deduced)
        })
    }

    /// Whether nothing is known about the keys.
    pub fn is_deduced(&self) -> bool {
        self.declared.is_none_or(|(of, _)| of.fields.is_empty()) && matches!(self.others, Some(Type::Deduced))
    }
}

#[cfg(test)]
mod tests;
