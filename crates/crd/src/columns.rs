//! What tables of custom resources show: the name and the definition's printer columns.

use object::timestamp::Time;
use object::{Meta, Str, Value};
use registry::{Column, Context, JsonPath};

use crate::definition::PrinterColumn;

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may \
    allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation \
    idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
    guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
    represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The printer columns of a version, parsed.
pub struct Printer {
    columns: Vec<(Column, JsonPath)>,
}

impl Printer {
    /// Columns after one whose path cannot be parsed are left out, as upstream does. Without any there is the age.
    pub fn new(stated: &[PrinterColumn]) -> Printer {
        let age = [PrinterColumn {
            name: Str::const_new("Age"),
            kind: Str::const_new("date"),
            description: Str::const_new(CREATED),
            path: Str::const_new(".metadata.creationTimestamp"),
            ..PrinterColumn::default()
        }];
        let stated = if stated.is_empty() { &age[..] } else { stated };
        let parsed = stated.iter().map_while(|column| Some((header(column), JsonPath::parse(&column.path).ok()?)));
        Printer { columns: parsed.collect() }
    }

    /// The headers of all columns, the name first.
    pub fn headers(&self) -> Vec<Column> {
        let name = Column {
            name: Str::const_new("Name"),
            kind: Str::const_new("string"),
            format: Str::const_new("name"),
            description: Str::const_new(NAME),
            priority: 0,
        };
        std::iter::once(name).chain(self.columns.iter().map(|(header, _)| header.clone())).collect()
    }

    /// The cells of an object's row.
    pub fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let cell = |(header, path): &(Column, JsonPath)| {
            let found = path.find(object).unwrap_or_default();
            found.first().map_or(Value::Null, |value| cell(cx, &header.kind, value))
        };
        std::iter::once(Value::from(object.name())).chain(self.columns.iter().map(cell)).collect()
    }
}

fn header(column: &PrinterColumn) -> Column {
    let description = if column.description.is_empty() {
        format!("Custom resource definition column (in JSONPath format): {}", column.path).into()
    } else {
        column.description.clone()
    };
    Column {
        name: column.name.clone(),
        kind: column.kind.clone(),
        format: column.format.clone(),
        description,
        priority: column.priority,
    }
}

/// A value as a column of this type shows it; null where it cannot.
fn cell(cx: &Context, kind: &str, value: &Value) -> Value {
    match (kind, value) {
        ("string", value) => text(value).into(),
        ("integer", Value::Int(_)) | ("number", Value::Float(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("integer", Value::Float(number)) => (*number as i64).into(),
        ("number", Value::Int(number)) => Value::Float(*number as f64),
        ("date", Value::String(text)) => match Time::parse(text) {
            _ if text.is_empty() => "<unknown>".into(),
            Ok(_) => registry::columns::since(cx, text).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// A value as Go's `fmt.Print` shows it; lists and maps are JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => schema::go_number(*number),
        Value::String(text) => text.to_string(),
        other => {
            let mut json = Vec::new();
            codec::json::encode(other, None, &mut json);
            String::from_utf8_lossy(&json).into_owned()
        }
    }
}
