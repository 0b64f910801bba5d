//! The query of a connection as an object.

use object::timestamp::Time;
use object::{Status, Value, quote};
use schema::{Schema, Shape};

use crate::Call;
use crate::options::{flag, integer};

/// Every parameter that is a field of the kind.
pub fn read(call: &Call, schema: Schema<'_>) -> Result<Value, Status> {
    let mut options = Value::map();
    let Shape::Struct(id) = schema.node.shape else { return Ok(options) };
    for field in &schema.types.get(id).fields {
        let name = field.name.as_str();
        let value = match (name, &field.node.shape) {
            ("apiVersion" | "kind", _) => None,
            ("path", _) => {
                Some(Value::from(super::proxy::path_below(&call.info))).filter(|path| path.as_str() != Some(""))
            }
            ("ports", _) => ports(call)?,
            ("sinceTime", _) => since_time(call)?,
            (_, Shape::Bool) => flag(call, name).map(Value::from),
            (_, Shape::Int32 | Shape::Int64) => integer(call, name)?.map(Value::from),
            (_, Shape::List(_)) => {
                let all: Vec<&str> = call.query_all(name).collect();
                Some(Value::from(all)).filter(|all| !all.list_at(&[]).is_empty())
            }
            _ => call.query(name).map(Value::from),
        };
        if let Some(value) = value {
            options.set(&[name], value);
        }
    }
    Ok(options)
}

/// Ports, several in one parameter or each in its own.
fn ports(call: &Call) -> Result<Option<Value>, Status> {
    let mut ports = Vec::new();
    for text in call.query_all("ports").flat_map(|text| text.split(',')) {
        let port = object::parse_uint(text).and_then(|port| {
            u16::try_from(port).map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)))
        });
        let port = port.map_err(|why| Status::bad_request(format!("cannot convert to []int32: {why}")))?;
        ports.push(Value::from(i64::from(port)));
    }
    Ok((!ports.is_empty()).then_some(Value::List(ports)))
}

/// A point in time, in UTC as kubelets are asked with it.
fn since_time(call: &Call) -> Result<Option<Value>, Status> {
    let Some(text) = call.query("sinceTime").filter(|text| !matches!(*text, "" | "null")) else { return Ok(None) };
    let time = Time::parse(text).map_err(|why| Status::bad_request(why.to_string()))?;
    Ok(Some(Value::from(time.to_string())))
}
