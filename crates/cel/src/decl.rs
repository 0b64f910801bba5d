//! [`Decl`]: what a schema says about a value: its type in expressions, how JSON becomes a value, how large it can get.

pub mod admission;
mod openapi;
mod structural;

use std::fmt::{self, Write};
use std::sync::Arc;

use object::Str;
use sha2::{Digest, Sha256};

use crate::escape::unescape;
use crate::types::Type;

/// The largest request that estimates assume, which bounds sizes that a schema leaves open.
pub(crate) const MAX_REQUEST_BYTES: i64 = 3 * 1024 * 1024;

/// The declaration of a value.
#[derive(Debug)]
pub struct Decl {
    /// The name of an object type: the name of the root and the path from there.
    pub name: Str,
    pub shape: Shape,
    pub nullable: bool,
    /// How many items, entries, characters or bytes the value can have; 0 where that says nothing.
    pub max_elements: i64,
    /// The least number of bytes of the value in JSON.
    pub min_serialized_size: i64,
}

/// What kind of value it is.
#[derive(Debug)]
pub enum Shape {
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    IntOrString,
    List {
        items: Option<Arc<Decl>>,
        kind: ListKind,
    },
    Map(Arc<Decl>),
    /// Fields sorted by name. An object can have no properties at all.
    Object(Box<[Field]>),
    /// A message that expressions make: `Object`, `JSONPatch`.
    Message,
    /// JSON without a schema, of a type that is given by other means than a schema.
    Json(Type),
    /// `x-kubernetes-preserve-unknown-fields` without a type: expressions cannot see it, but it is compared.
    Preserved,
    /// A schema without a type that CEL knows: expressions cannot see it, and a value of it is an error.
    Unknown(Str),
}

#[derive(Debug)]
pub enum ListKind {
    Atomic,
    Set,
    /// The escaped names of the keys.
    Map(Box<[Str]>),
    /// A list type that does not exist.
    Unknown(Str),
}

/// A field of an object.
#[derive(Debug)]
pub struct Field {
    pub name: Str,
    /// The name in expressions; none where it cannot be escaped.
    pub escaped: Option<Str>,
    pub decl: Arc<Decl>,
}

impl Decl {
    /// The declaration of a value without a schema.
    pub fn json(ty: Type) -> Decl {
        Decl { name: Str::default(), shape: Shape::Json(ty), nullable: true, max_elements: 0, min_serialized_size: 1 }
    }

    /// An object type made of fields whose names need no escaping, in any order.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (&'static str, Arc<Decl>)>) -> Arc<Decl> {
        let field = |(name, decl): (&str, Arc<Decl>)| Field { name: name.into(), escaped: Some(name.into()), decl };
        let mut fields: Vec<Field> = fields.into_iter().map(field).collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Arc::new(Decl {
            name: name.into(),
            shape: Shape::Object(fields.into()),
            nullable: false,
            max_elements: 0,
            min_serialized_size: 2,
        })
    }

    /// A message type that takes any field.
    pub(crate) fn unnamed_fields(name: &str) -> Decl {
        Decl { name: name.into(), shape: Shape::Message, nullable: false, max_elements: 0, min_serialized_size: 2 }
    }

    /// Tells declarations apart: equal ones have the same.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Hashed(Sha256::new());
        // Writing to a hash cannot fail.
        let _ = write!(hash, "{self:?}");
        format!("{:x}", hash.0.finalize())
    }

    pub(crate) fn is_dynamic(&self) -> bool {
        matches!(self.shape, Shape::Message)
    }

    /// The type in expressions; none for what they cannot see.
    pub fn ty(self: &Arc<Decl>) -> Option<Type> {
        Some(match &self.shape {
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Duration => Type::Duration,
            Shape::Date | Shape::DateTime => Type::Timestamp,
            Shape::IntOrString => Type::Dyn,
            Shape::List { items, .. } => Type::list(items.as_ref()?.ty()?),
            Shape::Map(values) => Type::map(Type::String, values.ty()?),
            Shape::Object(_) | Shape::Message => Type::Object(self.clone()),
            Shape::Json(ty) => ty.clone(),
            Shape::Preserved | Shape::Unknown(_) => return None,
        })
    }

    /// Whether the value is an object with named properties, as opposed to a map.
    pub fn has_properties(&self) -> bool {
        matches!(&self.shape, Shape::Object(fields) if !fields.is_empty())
    }

    /// The declaration of a list's items.
    pub fn items(&self) -> Option<&Arc<Decl>> {
        match &self.shape {
            Shape::List { items, .. } => items.as_ref(),
            _ => None,
        }
    }

    /// The declaration of the child with a name as JSON writes it.
    pub fn child(&self, name: &str) -> Option<&Arc<Decl>> {
        match &self.shape {
            Shape::Map(values) => Some(values),
            Shape::Object(fields) => {
                fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok().map(|at| &fields[at].decl)
            }
            _ => None,
        }
    }

    /// The declaration of a field with a name as expressions write it.
    pub(crate) fn visible_field(&self, identifier: &str) -> Option<&Arc<Decl>> {
        let Shape::Object(fields) = &self.shape else { return None };
        let name = unescape(identifier)?;
        let at = fields.binary_search_by(|field| field.name.as_str().cmp(&name)).ok()?;
        Some(&fields[at]).filter(|field| field.escaped.as_deref() == Some(identifier)).map(|field| &field.decl)
    }

    /// The type of a field with a name as expressions write it.
    pub fn field(&self, identifier: &str) -> Option<Type> {
        self.visible_field(identifier)?.ty()
    }
}

/// A hash of text that is written to it.
struct Hashed(Sha256);

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}
