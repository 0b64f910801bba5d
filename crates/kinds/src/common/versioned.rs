//! Values by the types of the API: how messages show them, and whether two of them mean the same.
//!
//! A type is named as OpenAPI names it, `io.k8s.api.apps.v1.DeploymentSpec`. What upstream shows of its internal types is
//! in [`internal`](super::internal) instead.

use object::{BadValue, Value};
use schema::{Node, Schema, Shape, builtin};

pub const LABEL_SELECTOR: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector";

/// `value`, or a list of such, as a message shows it: fields in the order of the type, and only those that are set.
pub fn shown(type_name: &str, value: &Value) -> BadValue {
    if value.is_null() {
        return BadValue::Raw("null".to_string());
    }
    let mut out = Vec::new();
    match node_of(type_name, value) {
        Some(node) => codec::json::encode(value, Some(Schema::new(builtin().types(), &node)), &mut out),
        None => codec::json::encode(value, None, &mut out),
    }
    BadValue::Raw(String::from_utf8_lossy(&out).into_owned())
}

/// Whether two values, or lists of such, are the same to upstream: unset and zero are alike where there is no pointer, so are
/// missing and empty lists, and quantities are compared as numbers.
pub fn same(type_name: &str, a: &Value, b: &Value) -> bool {
    match node_of(type_name, if a.is_null() { b } else { a }) {
        Some(node) => schema::equal(Schema::new(builtin().types(), &node), a, b),
        None => a == b,
    }
}

/// The type, or a list of it where the value is a list.
fn node_of(type_name: &str, value: &Value) -> Option<Node> {
    let id = builtin().types().find(type_name)?;
    let node = Node { shape: Shape::Struct(id), ..Node::default() };
    Some(match value {
        Value::List(_) => Node { shape: Shape::List(Box::new(node)), ..Node::default() },
        _ => node,
    })
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn fields_come_in_the_order_of_the_type() {
        let selector =
            value!({"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchLabels": {"b": "c", "a": "b"}});
        assert_eq!(
            shown(LABEL_SELECTOR, &selector),
            BadValue::Raw(
                r#"{"matchLabels":{"a":"b","b":"c"},"matchExpressions":[{"key":"a","operator":"Exists"}]}"#.to_string()
            )
        );
        assert_eq!(shown(LABEL_SELECTOR, &Value::Null), BadValue::Raw("null".to_string()));
    }

    #[test]
    fn zero_is_unset_unless_there_is_a_pointer() {
        let spec = "io.k8s.api.apps.v1.DeploymentSpec";
        assert!(same(spec, &value!({"minReadySeconds": 0, "paused": false}), &value!({})));
        assert!(!same(spec, &value!({"replicas": 0}), &value!({})));
    }
}
