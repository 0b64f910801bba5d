//! Whether a value is read as it was written.
//!
//! The formats have no form for some of what a value can say: an empty list is no list in protobuf, nor in JSON where a field
//! is left out when it is empty; a zero held by value is nothing; a quantity is read in its canonical spelling. A value
//! without any of these need not be decoded to know what decoding would give.

use object::{Map, Value, compare_names};
use schema::{Field, Schema, Shape, Struct, StructId};

use crate::fields::{is_left_out, is_unset};
use crate::scalar::{self, is_zero_time};
use crate::{MAX_DEPTH, base64, json};

/// The encoding of stored objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoredEncoding {
    /// Protobuf, which is smaller and faster to read.
    #[default]
    Protobuf,
    /// JSON, which everybody can read.
    Json,
}

impl StoredEncoding {
    /// Whether decoding what this format's `encode` makes of a value gives the same value. False also where that would be too
    /// much work to find out.
    pub fn is_exact(self, value: &Value, schema: Schema<'_>) -> bool {
        let (Some(map), Some(of)) = (value.as_map(), schema.as_struct()) else { return false };
        if self == StoredEncoding::Json {
            return self.fields(map, schema, of, &[], 1);
        }
        // The envelope has these two.
        let is_stated = |name: &str| map.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        is_stated("apiVersion") && is_stated("kind") && self.fields(map, schema, of, &["apiVersion", "kind"], 1)
    }

    fn fields(self, map: &Map, schema: Schema<'_>, of: &Struct, known: &[&str], depth: usize) -> bool {
        // Both are sorted by name.
        let mut definitions = of.fields.iter().peekable();
        map.iter().all(|(key, value)| {
            while definitions.next_if(|field| compare_names(&field.name, key).is_lt()).is_some() {}
            let field = definitions.next_if(|field| field.name.as_str() == key);
            known.contains(&key)
                || field.is_some_and(|field| {
                    self.is_written(field, value, schema, of)
                        && !is_unset(field, value)
                        && self.exact(value, schema.with(&field.node), depth)
                })
        })
    }

    /// Whether a field with this value has a place in what is written.
    fn is_written(self, field: &Field, value: &Value, schema: Schema<'_>, of: &Struct) -> bool {
        if self == StoredEncoding::Json {
            return !is_left_out(field, value);
        }
        // Go may embed the struct that the field is in.
        let embedded = |target: &Struct| target.field(&field.name).is_some_and(|inner| inner.tag != 0);
        field.tag != 0 || of.proto_inlines.iter().any(|inline| embedded(schema.types.get(inline.target)))
    }

    fn exact(self, value: &Value, schema: Schema<'_>, depth: usize) -> bool {
        if depth >= MAX_DEPTH {
            return false;
        }
        match (&schema.shape, value) {
            (Shape::Bool, Value::Bool(_)) | (Shape::Int64, Value::Int(_)) | (Shape::String, Value::String(_)) => true,
            (Shape::Int32 | Shape::IntOrString, Value::Int(number)) => i32::try_from(*number).is_ok(),
            (Shape::IntOrString, Value::String(_)) => true,
            (Shape::Struct(id), Value::Map(map)) => self.structure(map, schema, *id, depth),
            (Shape::List(_), Value::List(list)) => self.list(list, schema, depth),
            (Shape::Map(_), Value::Map(map)) => self.map(map, schema, depth),
            (Shape::Bytes, Value::String(text)) => {
                base64::decode(text).is_ok_and(|bytes| base64::encode(&bytes) == text.as_str())
            }
            (Shape::Quantity, Value::String(text)) => scalar::quantity(text).is_ok_and(|canonical| canonical == *text),
            (Shape::Duration, Value::String(text)) => scalar::duration(text).is_ok_and(|canonical| canonical == *text),
            (Shape::Time, Value::String(text)) => {
                !is_zero_time(text) && scalar::time(text).is_ok_and(|canonical| canonical == *text)
            }
            (Shape::MicroTime, Value::String(text)) => {
                !is_zero_time(text) && scalar::micro_time(text).is_ok_and(|canonical| canonical == *text)
            }
            (Shape::Fields, Value::Raw(raw)) if self == StoredEncoding::Protobuf => {
                raw.text().starts_with('{') && raw.text().ends_with('}')
            }
            (Shape::Fields, Value::Raw(raw)) => raw.compact() == raw.text(),
            _ => self == StoredEncoding::Json && only_in_json(value, schema, depth),
        }
    }

    fn structure(self, map: &Map, schema: Schema<'_>, id: StructId, depth: usize) -> bool {
        self.fields(map, schema, schema.types.get(id), &[], depth + 1)
    }

    fn list(self, list: &[Value], schema: Schema<'_>, depth: usize) -> bool {
        let Some(items) = schema.items() else { return false };
        let is_sayable = self == StoredEncoding::Json
            || !schema.proto_wrapped && !list.is_empty() && !matches!(items.shape, Shape::List(_));
        is_sayable && list.iter().all(|item| self.exact(item, items, depth + 1))
    }

    fn map(self, map: &Map, schema: Schema<'_>, depth: usize) -> bool {
        let Some(values) = schema.child("") else { return false };
        let is_sayable =
            self == StoredEncoding::Json || !map.is_empty() && !matches!(values.shape, Shape::List(_) | Shape::Map(_));
        is_sayable && map.values().all(|value| self.exact(value, values, depth + 1))
    }
}

/// What only JSON says as it is: floats, any JSON, and the unions of JSON schemas.
fn only_in_json(value: &Value, schema: Schema<'_>, depth: usize) -> bool {
    match (&schema.shape, value) {
        (Shape::Float, Value::Float(float)) => float.is_finite(),
        (Shape::Any, _) => json::is_exact_at(value, depth),
        (Shape::StructOrBool(_), Value::Bool(_)) => true,
        (Shape::StructOrList(id) | Shape::StructOrBool(id) | Shape::StructOrStrings(id), Value::Map(map)) => {
            StoredEncoding::Json.structure(map, schema, *id, depth)
        }
        (Shape::StructOrList(id), Value::List(list)) => {
            let is_exact =
                |item: &Value| item.as_map().is_some_and(|map| StoredEncoding::Json.structure(map, schema, *id, depth));
            !list.is_empty() && list.iter().all(is_exact)
        }
        (Shape::StructOrStrings(_), Value::List(list)) => {
            !list.is_empty() && list.iter().all(|item| item.as_str().is_some())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use object::{GroupVersionKind, value};

    use super::*;
    use crate::{Notes, proto};

    /// What decoding gives; None if it fails.
    fn read_again(encoding: StoredEncoding, value: &Value, schema: Schema<'_>) -> Option<Value> {
        let mut out = Vec::new();
        match encoding {
            StoredEncoding::Json => {
                json::encode(value, Some(schema), &mut out);
                json::decode(&out, Some(schema), &mut Notes::ignore()).ok()
            }
            StoredEncoding::Protobuf => {
                proto::encode(value, schema, &mut out).ok()?;
                proto::decode(&out, schema).ok()
            }
        }
    }

    /// Checks whether an object of a kind is exact with a field set to something.
    fn check(kind: &str, object: &Value, field: (&[&str], Option<Value>), encoding: StoredEncoding, exact: bool) {
        let (path, set) = field;
        let mut object = object.clone();
        if let Some(set) = set {
            object.set(path, set);
        }
        let group = if kind == "Pod" { "" } else { "apiextensions.k8s.io" };
        let schema = schema::builtin().schema(&GroupVersionKind::new(group, "v1", kind)).unwrap();
        assert_eq!(encoding.is_exact(&object, schema), exact, "{encoding:?} {path:?} {object:?}");
        let again = read_again(encoding, &object, schema);
        assert!(again.as_ref() == Some(&object) || !exact, "{encoding:?} {path:?}: {again:?}");
    }

    #[test]
    fn exact_values_are_read_as_they_were_written() {
        let pod = value!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "creationTimestamp": "2020-01-02T03:04:05Z"},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "100m"}}}],
                "volumes": [{"name": "v", "emptyDir": {}}], "terminationGracePeriodSeconds": 0}});
        let cases: [(&[&str], Option<Value>, bool, bool); 12] = [
            (&["metadata", "labels"], None, true, true),
            (&["metadata", "labels"], Some(value!({"a": ""})), true, true),
            (&["metadata", "labels"], Some(Value::map()), false, false),
            (&["metadata", "name"], Some(value!("")), false, false),
            (&["metadata", "creationTimestamp"], Some(value!("2020-01-02T04:04:05+01:00")), false, false),
            (&["metadata", "finalizers"], Some(Value::List(Vec::new())), false, false),
            (&["metadata", "unknown"], Some(value!("a")), false, false),
            (&["spec", "overhead"], Some(value!({"cpu": "0.1"})), false, false),
            (&["spec", "securityContext"], Some(Value::map()), true, true),
            // JSON prints an empty list of containers, which has no `omitempty`.
            (&["spec", "containers"], Some(Value::List(Vec::new())), true, false),
            (&["spec", "activeDeadlineSeconds"], Some(value!("1")), false, false),
            (&["kind"], Some(value!("")), false, false),
        ];
        for (path, set, json, protobuf) in cases {
            check("Pod", &pod, (path, set.clone()), StoredEncoding::Json, json);
            check("Pod", &pod, (path, set), StoredEncoding::Protobuf, protobuf);
        }
    }

    #[test]
    fn definitions_are_exact_in_json() {
        let fields = |text: &str| Value::Raw(object::Raw::new(text));
        let schema = &["spec", "versions"];
        let version = |schema: Value| value!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": (schema)}}]);
        let definition = value!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "a.b.c", "managedFields": [{"manager": "m", "fieldsV1": (fields("{\"f:spec\":{}}"))}]},
            "spec": {"group": "b.c", "scope": "Cluster", "names": {"plural": "a", "kind": "A"}, "versions": (version(value!({"type": "object"})))}});
        let cases: [(&[&str], Option<Value>, bool); 13] = [
            (schema, None, true),
            (schema, Some(version(value!({"default": {"a": [1, null, "x", {}, []]}}))), true),
            (schema, Some(version(value!({"default": 1.5}))), true),
            (schema, Some(version(value!({"default": (Value::Float(2.0))}))), false),
            (schema, Some(version(value!({"maximum": (Value::Float(2.0))}))), true),
            (schema, Some(version(value!({"maximum": 2}))), false),
            (schema, Some(version(value!({"additionalProperties": false}))), true),
            (schema, Some(version(value!({"additionalProperties": {"type": "string"}}))), true),
            (schema, Some(version(value!({"items": {"type": "string", "enum": ["a", 1]}}))), true),
            (schema, Some(version(value!({"items": [{"type": "string"}]}))), true),
            (schema, Some(version(value!({"items": []}))), false),
            (schema, Some(version(value!({"properties": {}}))), false),
            (&["metadata", "managedFields"], Some(value!([{"fieldsV1": (fields("{ }"))}])), false),
        ];
        for (path, set, json) in cases {
            check("CustomResourceDefinition", &definition, (path, set), StoredEncoding::Json, json);
        }
    }
}
