//! Values of expressions as JSON: what they decide, and the objects, parts of objects and patches that they make.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Map, Str, Value, quote};

use crate::arena::Arena;
use crate::val::{Struct, Val};

/// The largest value, as it is in memory: a value of an expression can name the same list many times.
const MAX_NATIVE_BYTES: usize = 16 * 1024 * 1024;

/// A value as JSON.
pub fn native<'a>(value: Val<'a>, arena: &'a Arena) -> Result<Value, String> {
    Copying { arena, left: MAX_NATIVE_BYTES }.value(value)
}

struct Copying<'a> {
    arena: &'a Arena,
    /// How many bytes may still be made.
    left: usize,
}

impl<'a> Copying<'a> {
    fn count(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| format!("the value takes more than {MAX_NATIVE_BYTES} bytes"))?;
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<Value, String> {
        self.count(text.len())?;
        Ok(Value::from(text))
    }

    fn value(&mut self, value: Val<'a>) -> Result<Value, String> {
        self.count(size_of::<Value>())?;
        Ok(match value {
            Val::Null => Value::Null,
            Val::Bool(b) => Value::Bool(b),
            Val::Int(i) => Value::Int(i),
            Val::Uint(u) => i64::try_from(u).map(Value::Int).unwrap_or(Value::Float(u as f64)),
            Val::Double(d) => Value::Float(d),
            Val::String(text) => self.text(text)?,
            Val::Bytes(bytes) => self.text(&STANDARD.encode(bytes))?,
            Val::Duration(_) | Val::Timestamp(_) => Value::from(value.to_string()),
            Val::Preserved(value) => value.clone(),
            Val::List(list) => {
                let items = list.iter(self.arena).map(|item| self.value(item.map_err(|error| error.to_string())?));
                Value::List(items.collect::<Result<Vec<_>, String>>()?)
            }
            Val::Map(map) => {
                let mut entries = Vec::with_capacity(map.len());
                for key in map.keys(self.arena) {
                    let Val::String(name) = key else {
                        return Err("unsupported key type in a map that becomes JSON".into());
                    };
                    self.count(name.len())?;
                    let value = map.find(key, self.arena).map_err(|error| error.to_string())?.unwrap_or(Val::Null);
                    entries.push((Str::from(name), self.value(value)?));
                }
                Value::Map(Map::from_entries(entries, |_| {}))
            }
            Val::Struct(message) => {
                check_names(message, message.type_name)?;
                let fields = message.fields.iter().filter(|(_, value)| !matches!(value, Val::Optional(None)));
                let entries = fields.map(|(name, value)| Ok((Str::from(*name), self.value(*value)?)));
                Value::Map(Map::from_entries(entries.collect::<Result<Vec<_>, String>>()?, |_| {}))
            }
            Val::Optional(Some(inner)) => self.value(*inner)?,
            Val::Optional(None) => Value::Null,
            Val::Type(_) | Val::Opaque(_) => return Err(format!("unsupported type {}", value.type_name())),
        })
    }
}

/// The name of an object's type is the path to it: `Object.spec` in a field `spec` of `Object`.
fn check_names(message: &Struct<'_>, expected: &str) -> Result<(), String> {
    if message.type_name != expected {
        let (got, expected) = (quote(message.type_name), quote(expected));
        return Err(format!(
            "type mismatch: unexpected type name {got}, expected {expected}, which matches field name path from root Object type"
        ));
    }
    if message.type_name == "JSONPatch" {
        return Ok(());
    }
    for (name, value) in message.fields {
        let inner = match value {
            Val::Optional(Some(Val::Struct(inner))) => *inner,
            Val::Struct(inner) => *inner,
            _ => continue,
        };
        check_names(inner, &format!("{expected}.{name}"))?;
    }
    Ok(())
}
