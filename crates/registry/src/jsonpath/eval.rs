//! Following a parsed path through a value.

use std::cmp::Ordering;

use object::Value;

use super::{Filter, Node, Param};

/// Bounds what a recursive path can collect.
const RESULTS_MAX: usize = 100_000;
const MAX_DEPTH: usize = 512;

pub fn list<'v>(nodes: &'v [Node], mut values: Vec<&'v Value>) -> Result<Vec<&'v Value>, String> {
    for node in nodes {
        values = step(node, values)?;
        if values.len() > RESULTS_MAX {
            return Err("the path leads to too many values".to_string());
        }
    }
    Ok(values)
}

fn step<'v>(node: &'v Node, values: Vec<&'v Value>) -> Result<Vec<&'v Value>, String> {
    match node {
        Node::Field(name) => Ok(values.into_iter().filter_map(|value| value.get(name)).collect()),
        Node::Constant(constant) => Ok(values.iter().map(|_| constant).collect()),
        Node::Wildcard => Ok(values.into_iter().flat_map(children).collect()),
        Node::Recursive => {
            let mut found = Vec::new();
            values.into_iter().for_each(|value| descend(value, &mut found, 0));
            Ok(found)
        }
        Node::Union(parts) => {
            let mut found = Vec::new();
            for part in parts {
                found.extend(list(part, values.clone())?);
            }
            Ok(found)
        }
        Node::Array(params) => slice(params, values),
        Node::Filter(filter) => filtered(filter, values),
        Node::Identifier(name) => Err(format!("unrecognized identifier {name}")),
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Map(map) => map.iter().map(|(_, value)| value).collect(),
        Value::List(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// The value and everything below it that has parts.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>, depth: usize) {
    let inside = children(value);
    if inside.is_empty() || depth > MAX_DEPTH || found.len() > RESULTS_MAX {
        return;
    }
    found.push(value);
    inside.into_iter().for_each(|child| descend(child, found, depth + 1));
}

fn slice<'v>(params: &[Param; 3], values: Vec<&'v Value>) -> Result<Vec<&'v Value>, String> {
    let mut found = Vec::new();
    for value in values.into_iter().filter(|value| !value.is_null()) {
        let Value::List(items) = value else { return Err(format!("{} is not array or slice", go_type(value))) };
        let length = items.len() as i64;
        let from_end = |value: i64| if value < 0 { value + length } else { value };
        let start = from_end(if params[0].known { params[0].value } else { 0 });
        let mut end = if params[1].known { params[1].value } else { length };
        if end < 0 || (end == 0 && params[1].derived) {
            end += length;
        }
        if start == end {
            continue;
        }
        let outside = |index: i64| Err(format!("array index out of bounds: index {index}, length {length}"));
        if start >= length || start < 0 {
            return outside(start);
        }
        if end > length || end < 0 {
            return outside(end - 1);
        }
        if start > end {
            return Err(format!("starting index {start} is greater than ending index {end}"));
        }
        let step = if params[2].known { params[2].value } else { 1 };
        if step <= 0 {
            return Err("step must be > 0".to_string());
        }
        found.extend(items[start as usize..end as usize].iter().step_by(step as usize));
    }
    Ok(found)
}

fn filtered<'v>(filter: &'v Filter, values: Vec<&'v Value>) -> Result<Vec<&'v Value>, String> {
    let mut found = Vec::new();
    for value in values {
        let Value::List(items) = value else {
            return Err(format!("{} is not array or slice and cannot be filtered", go_type(value)));
        };
        for item in items {
            let left = list(&filter.left, vec![item]);
            if filter.operator == "exists" {
                if left.is_ok_and(|left| !left.is_empty()) {
                    found.push(item);
                }
                continue;
            }
            let (Some(left), Some(right)) = (single(left?)?, single(list(&filter.right, vec![item])?)?) else {
                continue;
            };
            if compare(left, right, &filter.operator)? {
                found.push(item);
            }
        }
    }
    Ok(found)
}

fn single(values: Vec<&Value>) -> Result<Option<&Value>, String> {
    match values.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err("can only compare one element at a time".to_string()),
    }
}

fn compare(left: &Value, right: &Value, operator: &str) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, "==" | "!=") => Some(a.cmp(b)),
        (Value::Bool(_), Value::Bool(_)) => return Err("invalid type for comparison".to_string()),
        _ => return Err("incompatible types for comparison".to_string()),
    };
    match operator {
        "==" => Ok(order == Some(Ordering::Equal)),
        "!=" => Ok(order != Some(Ordering::Equal)),
        "<" => Ok(order == Some(Ordering::Less)),
        ">" => Ok(order == Some(Ordering::Greater)),
        "<=" => Ok(matches!(order, Some(Ordering::Less | Ordering::Equal))),
        ">=" => Ok(matches!(order, Some(Ordering::Greater | Ordering::Equal))),
        other => Err(format!("unrecognized filter operator {other}")),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Map(_) => "map[string]interface {}",
        Value::List(_) => "[]interface {}",
        Value::String(_) => "string",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Bool(_) => "bool",
        Value::Null | Value::Raw(_) => "interface {}",
    }
}
