//! Tolerations in an annotation, from before they were a field.

use object::{Cursor, Errors, Map, Value};

use super::{PodValidationOptions, tolerations};

const KEY: &str = "scheduler.alpha.kubernetes.io/tolerations";
const FIELDS: [(&str, &str); 5] = [
    ("key", "string"),
    ("operator", "core.TolerationOperator"),
    ("value", "string"),
    ("effect", "core.TaintEffect"),
    ("tolerationSeconds", "int64"),
];

/// Checks the annotation, if there is one. Upstream reports text that is no list of tolerations at the annotations.
pub fn validate(annotations: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let text = annotations.field(KEY).str();
    if text.is_empty() {
        return;
    }
    match parse(text) {
        Err(message) => annotations.invalid_as(errors, KEY, message),
        Ok(list) => tolerations::validate(&Cursor::new(&list, annotations.path().field(KEY)), options, errors),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    let value = codec::json::decode(text.as_bytes(), None, &mut codec::Notes::ignore()).map_err(|e| e.to_string())?;
    match value {
        Value::Null => Ok(Value::Null),
        Value::List(items) => {
            items.into_iter().map(toleration).collect::<Result<Vec<Value>, String>>().map(Value::List)
        }
        other => Err(format!("json: cannot unmarshal {} into Go value of type []core.Toleration", other.type_name())),
    }
}

/// An item of the list, with its fields as the API spells them: Go does not mind upper case here.
fn toleration(item: Value) -> Result<Value, String> {
    let fields = match item {
        Value::Null => return Ok(Value::map()),
        Value::Map(fields) => fields,
        other => {
            return Err(format!("json: cannot unmarshal {} into Go value of type core.Toleration", other.type_name()));
        }
    };
    let mut toleration = Map::new();
    for (key, value) in fields {
        let Some((name, of)) = FIELDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) else { continue };
        let fits = match *name {
            "tolerationSeconds" => matches!(value, Value::Null | Value::Int(_)),
            _ => matches!(value, Value::Null | Value::String(_)),
        };
        if !fits {
            let (first, rest) = name.split_at(1);
            let field = format!("{}{rest}", first.to_uppercase());
            // A number that is none of Go's integers is shown.
            let what = match &value {
                Value::Float(number) => format!("number {number}"),
                other => other.type_name().to_string(),
            };
            return Err(format!("json: cannot unmarshal {what} into Go struct field Toleration.{field} of type {of}"));
        }
        toleration.insert(*name, value);
    }
    Ok(Value::Map(toleration))
}
