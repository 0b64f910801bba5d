//! [`Type`]: what the checker knows about an expression.
//!
//! Types of library functions are constants; types from schemas are shared. Both are cheap to copy.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::decl::Decl;

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// Not known before evaluation; every operation is allowed.
    Dyn,
    /// The result of an expression that has an error.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// `google.protobuf.Any`.
    Any,
    /// A value of the scalar type, or null: `google.protobuf.Int64Value` and the like.
    Wrapper(&'static Type),
    List(Link),
    Map(Link, Link),
    Optional(Link),
    /// The type of a type, `type(int)`; without a parameter, of types in general.
    Type(Option<Link>),
    /// A type with a name and no fields that expressions can see: `net.IP`.
    Opaque(&'static str),
    /// A message type without fields that expressions can see: `kubernetes.Quantity`. It differs from an opaque type in
    /// what it can be compared with and in its estimated cost.
    Abstract(&'static str),
    /// A type with fields.
    Object(Arc<Decl>),
    /// A type parameter of a declaration: `T` in `list(T)`.
    Param(&'static str),
    /// A type parameter of one use of a declaration.
    Fresh(u32),
}

/// A type inside of another: a constant, or shared.
#[derive(Clone, Debug)]
pub enum Link {
    Static(&'static Type),
    Shared(Arc<Type>),
}

impl Deref for Link {
    type Target = Type;

    fn deref(&self) -> &Type {
        match self {
            Link::Static(inner) => inner,
            Link::Shared(inner) => inner,
        }
    }
}

impl From<Type> for Link {
    fn from(inner: Type) -> Link {
        Link::Shared(Arc::new(inner))
    }
}

impl Type {
    /// `list(inner)` as a constant.
    pub const fn list_of(inner: &'static Type) -> Type {
        Type::List(Link::Static(inner))
    }

    /// `optional_type(inner)` as a constant.
    pub const fn optional_of(inner: &'static Type) -> Type {
        Type::Optional(Link::Static(inner))
    }

    /// `type(inner)` as a constant.
    pub const fn type_of(inner: &'static Type) -> Type {
        Type::Type(Some(Link::Static(inner)))
    }

    pub fn list(inner: Type) -> Type {
        Type::List(inner.into())
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(key.into(), value.into())
    }

    pub fn optional(inner: Type) -> Type {
        Type::Optional(inner.into())
    }
}

impl Type {
    /// The full name: `google.protobuf.Duration`, `null_type`, `list(int)`.
    pub fn declared_name(&self) -> String {
        match self {
            Type::Null => "null_type".into(),
            Type::Error => "error".into(),
            Type::Duration => "google.protobuf.Duration".into(),
            Type::Timestamp => "google.protobuf.Timestamp".into(),
            Type::Any => "google.protobuf.Any".into(),
            Type::Wrapper(inner) => format!("wrapper({})", inner.declared_name()),
            Type::List(inner) => format!("list({})", inner.declared_name()),
            Type::Map(key, value) => format!("map({}, {})", key.declared_name(), value.declared_name()),
            Type::Optional(inner) => format!("optional_type({})", inner.declared_name()),
            Type::Type(Some(inner)) => format!("type({})", inner.declared_name()),
            other => other.to_string(),
        }
    }
}

/// As errors write types: `duration` instead of `google.protobuf.Duration`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Any => f.write_str("any"),
            Type::Wrapper(inner) => write!(f, "wrapper({inner})"),
            Type::List(inner) => write!(f, "list({})", **inner),
            Type::Map(key, value) => write!(f, "map({}, {})", **key, **value),
            Type::Optional(inner) => write!(f, "optional_type({})", **inner),
            Type::Type(None) => f.write_str("type"),
            Type::Type(Some(inner)) => write!(f, "type({})", **inner),
            Type::Opaque(name) | Type::Abstract(name) | Type::Param(name) => f.write_str(name),
            Type::Object(decl) => f.write_str(&decl.name),
            Type::Fresh(number) => write!(f, "_var{number}"),
        }
    }
}
