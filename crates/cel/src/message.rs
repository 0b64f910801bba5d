//! The message types that every environment has: `google.protobuf.Value{…}` and its like become plain values.

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::types::{Link, Type};
use crate::val::{List, Map, Val};

/// A message type of protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Bool,
    Bytes,
    Double,
    Float,
    Int32,
    Int64,
    String,
    Uint32,
    Uint64,
    Any,
    Duration,
    Timestamp,
    ListValue,
    Struct,
    Value,
}

const ALL: [(&str, Message); 15] = [
    ("google.protobuf.BoolValue", Message::Bool),
    ("google.protobuf.BytesValue", Message::Bytes),
    ("google.protobuf.DoubleValue", Message::Double),
    ("google.protobuf.FloatValue", Message::Float),
    ("google.protobuf.Int32Value", Message::Int32),
    ("google.protobuf.Int64Value", Message::Int64),
    ("google.protobuf.StringValue", Message::String),
    ("google.protobuf.UInt32Value", Message::Uint32),
    ("google.protobuf.UInt64Value", Message::Uint64),
    ("google.protobuf.Any", Message::Any),
    ("google.protobuf.Duration", Message::Duration),
    ("google.protobuf.Timestamp", Message::Timestamp),
    ("google.protobuf.ListValue", Message::ListValue),
    ("google.protobuf.Struct", Message::Struct),
    ("google.protobuf.Value", Message::Value),
];

const LIST_DYN: Type = Type::List(Link::Static(&Type::Dyn));
const MAP_DYN: Type = Type::Map(Link::Static(&Type::String), Link::Static(&Type::Dyn));

impl Message {
    pub fn named(name: &str) -> Option<Message> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, message)| *message)
    }

    /// The message for a type that was named in an expression; several messages have the same type, and their fields are
    /// those of the first.
    pub fn of(ty: &Type) -> Option<Message> {
        Some(match ty {
            Type::Wrapper(Type::Bool) => Message::Bool,
            Type::Wrapper(Type::Bytes) => Message::Bytes,
            Type::Wrapper(Type::Double) => Message::Double,
            Type::Wrapper(Type::Int) => Message::Int64,
            Type::Wrapper(Type::String) => Message::String,
            Type::Wrapper(Type::Uint) => Message::Uint64,
            Type::Any => Message::Any,
            Type::Duration => Message::Duration,
            Type::Timestamp => Message::Timestamp,
            Type::List(inner) if matches!(**inner, Type::Dyn) => Message::ListValue,
            Type::Map(key, value) if matches!((&**key, &**value), (Type::String, Type::Dyn)) => Message::Struct,
            Type::Dyn => Message::Value,
            _ => return None,
        })
    }

    pub fn ty(self) -> Type {
        match self {
            Message::Bool => Type::Wrapper(&Type::Bool),
            Message::Bytes => Type::Wrapper(&Type::Bytes),
            Message::Double | Message::Float => Type::Wrapper(&Type::Double),
            Message::Int32 | Message::Int64 => Type::Wrapper(&Type::Int),
            Message::String => Type::Wrapper(&Type::String),
            Message::Uint32 | Message::Uint64 => Type::Wrapper(&Type::Uint),
            Message::Any => Type::Any,
            Message::Duration => Type::Duration,
            Message::Timestamp => Type::Timestamp,
            Message::ListValue => LIST_DYN,
            Message::Struct => MAP_DYN,
            Message::Value => Type::Dyn,
        }
    }

    /// The type of a field.
    pub fn field(self, name: &str) -> Option<Type> {
        Some(match (self, name) {
            (Message::Bool, "value") => Type::Bool,
            (Message::Bytes, "value") => Type::Bytes,
            (Message::Double | Message::Float, "value") => Type::Double,
            (Message::Int32 | Message::Int64, "value") => Type::Int,
            (Message::String, "value") => Type::String,
            (Message::Uint32 | Message::Uint64, "value") => Type::Uint,
            (Message::Any, "type_url") => Type::String,
            (Message::Any, "value") => Type::Bytes,
            (Message::Duration | Message::Timestamp, "seconds" | "nanos") => Type::Int,
            (Message::ListValue, "values") => LIST_DYN,
            (Message::Struct, "fields") => MAP_DYN,
            (Message::Value, "null_value") => Type::Int,
            (Message::Value, "number_value") => Type::Double,
            (Message::Value, "string_value") => Type::String,
            (Message::Value, "bool_value") => Type::Bool,
            (Message::Value, "struct_value") => MAP_DYN,
            (Message::Value, "list_value") => LIST_DYN,
            _ => return None,
        })
    }

    /// The value of a message with the fields.
    pub fn make<'a>(self, fields: &[(&'a str, Val<'a>)], arena: &'a Arena) -> Outcome<'a> {
        let int = |name: &str| match field(fields, name) {
            Some(Val::Int(i)) => i,
            _ => 0,
        };
        let value = field(fields, "value");
        Ok(match self {
            Message::Bool => value.unwrap_or(Val::Bool(false)),
            Message::Bytes => value.unwrap_or(Val::Bytes(&[])),
            Message::Double => value.unwrap_or(Val::Double(0.0)),
            Message::Float => match value {
                Some(Val::Double(d)) => Val::Double(f64::from(d as f32)),
                other => other.unwrap_or(Val::Double(0.0)),
            },
            Message::Int32 => match value {
                Some(Val::Int(i)) if i32::try_from(i).is_err() => return Err(overflow("int", arena)),
                other => other.unwrap_or(Val::Int(0)),
            },
            Message::Int64 => value.unwrap_or(Val::Int(0)),
            Message::String => value.unwrap_or(Val::String("")),
            Message::Uint32 => match value {
                Some(Val::Uint(u)) if u32::try_from(u).is_err() => return Err(overflow("uint", arena)),
                other => other.unwrap_or(Val::Uint(0)),
            },
            Message::Uint64 => value.unwrap_or(Val::Uint(0)),
            Message::Any => {
                return Err(Error::new("unsupported conversion to ref.Val: (*dynamicpb.Message)"));
            }
            Message::Duration => {
                Val::Duration(int("seconds").saturating_mul(1_000_000_000).saturating_add(int("nanos")))
            }
            Message::Timestamp => {
                let instant = object::Timestamp::new(int("seconds"), u32::try_from(int("nanos")).unwrap_or(0));
                Val::Timestamp(crate::time::Time::utc(instant))
            }
            Message::ListValue => field(fields, "values").unwrap_or(Val::List(List::EMPTY)),
            Message::Struct => field(fields, "fields").unwrap_or(Val::Map(Map::EMPTY)),
            Message::Value => match fields {
                [("null_value", _)] | [] => Val::Null,
                [(_, value), ..] => *value,
            },
        })
    }
}

fn field<'a>(fields: &[(&'a str, Val<'a>)], name: &str) -> Option<Val<'a>> {
    fields.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

fn overflow<'a>(kind: &str, arena: &'a Arena) -> Error<'a> {
    arena.error(format_args!("{}", if kind == "int" { "integer overflow" } else { "unsigned integer overflow" }))
}
