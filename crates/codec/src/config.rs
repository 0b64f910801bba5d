//! [`ConfigKind`]: configuration files of the server, YAML or JSON, read as strictly as upstream reads them.

use object::{Value, quote};
use schema::{Field, Node, Schema, Shape, Struct, Types};

use crate::{Notes, json, yaml};

/// A kind of configuration file, such as AuthenticationConfiguration.
pub struct ConfigKind {
    /// The `kind` that files state.
    pub kind: &'static str,
    /// The `apiVersion`s in which the kind exists.
    pub versions: &'static [&'static str],
    /// How upstream names the scheme in the error about an unknown kind: the source line that makes it.
    pub scheme: &'static str,
    /// The fields besides apiVersion and kind.
    pub fields: Fields,
}

/// Names and types of an object's fields.
pub type Fields = &'static [(&'static str, Type)];

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// Any value.
    Any,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A text.
    String,
    /// A duration as Go writes it, such as 5s.
    Duration,
    /// An object with these fields.
    Object(Fields),
    /// A list of values of one type.
    List(&'static Type),
    /// A map with values of one type.
    Map(&'static Type),
}

impl ConfigKind {
    /// Reads a file. Unknown and repeated fields are errors.
    pub fn read(&self, text: &[u8]) -> Result<Value, String> {
        let converted = yaml::to_json(text, false).map_err(|error| error.to_string())?;
        let meta = json::decode(&converted, None, &mut Notes::ignore());
        let meta = meta.map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        self.check_kind(&meta, text)?;
        let mut types = Types::with_zeros();
        let node = object(self.kind, self.fields, META, &mut types);
        let mut notes = Notes::collect();
        let value = yaml::decode(text, Some(Schema::new(&types, &node)), &mut notes);
        let value = value.map_err(|error| error.to_string())?;
        notes.strict_error().map_or(Ok(value), Err)
    }

    fn check_kind(&self, meta: &Value, text: &[u8]) -> Result<(), String> {
        let (version, kind) = (meta.str_at(&["apiVersion"]), meta.str_at(&["kind"]));
        let missing = |what: &str| Err(format!("Object '{what}' is missing in '{}'", String::from_utf8_lossy(text)));
        match () {
            () if kind.is_empty() => missing("Kind"),
            () if version.is_empty() => missing("apiVersion"),
            () if kind == self.kind && self.versions.contains(&version) => Ok(()),
            () => {
                let (kind, version, scheme) = (quote(kind), quote(version), quote(self.scheme));
                Err(format!("no kind {kind} is registered for version {version} in scheme {scheme}"))
            }
        }
    }
}

const META: Fields = &[("apiVersion", Type::String), ("kind", Type::String)];

fn object(go_name: &str, fields: Fields, more: Fields, types: &mut Types) -> Node {
    let id = types.declare("".into());
    let fields = fields.iter().chain(more).map(|(name, field)| Field {
        name: (*name).into(),
        node: node(name, field, types),
        pointer: true,
        ..Field::default()
    });
    let fields = fields.collect();
    types.define(id, Struct { go_name: go_name.into(), fields, ..Struct::default() });
    shape(Shape::Struct(id))
}

fn node(name: &str, field: &Type, types: &mut Types) -> Node {
    shape(match field {
        Type::Any => Shape::Any,
        Type::Bool => Shape::Bool,
        Type::Int => Shape::Int64,
        Type::String => Shape::String,
        Type::Duration => Shape::Duration,
        Type::Object(fields) => return object(name, fields, &[], types),
        Type::List(item) => Shape::List(Box::new(node(name, item, types))),
        Type::Map(value) => Shape::Map(Box::new(node(name, value, types))),
    })
}

fn shape(shape: Shape) -> Node {
    Node { shape, ..Node::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: ConfigKind = ConfigKind {
        kind: "DemoConfiguration",
        versions: &["demo.k8s.io/v1", "demo.k8s.io/v1beta1"],
        scheme: "demo.go:1",
        fields: &[
            ("name", Type::String),
            ("wait", Type::Duration),
            ("items", Type::List(&Type::Object(&[("enabled", Type::Bool)]))),
            ("labels", Type::Map(&Type::String)),
        ],
    };

    #[test]
    fn files_are_read_strictly() {
        let head = "apiVersion: demo.k8s.io/v1\nkind: DemoConfiguration\n";
        for (rest, want) in [
            ("name: a\nwait: 1m\nitems: [{enabled: true}]\nlabels: {a: b}", ""),
            ("nam: a", "strict decoding error: unknown field \"nam\""),
            ("items: [{enabled: true}, {other: true}]", "strict decoding error: unknown field \"items[1].other\""),
            (
                "name: a\nname: b",
                "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"name\" already set in map",
            ),
            ("name: {}", "json: cannot unmarshal object into Go struct field DemoConfiguration.name of type string"),
        ] {
            let got = KIND.read(format!("{head}{rest}\n").as_bytes()).err().unwrap_or_default();
            assert_eq!(got, want, "{rest}");
        }
    }

    #[test]
    fn the_kind_is_checked() {
        for (text, want) in [
            ("kind: DemoConfiguration", "Object 'apiVersion' is missing in 'kind: DemoConfiguration'"),
            ("apiVersion: demo.k8s.io/v1", "Object 'Kind' is missing in 'apiVersion: demo.k8s.io/v1'"),
            (
                "apiVersion: demo.k8s.io/v2\nkind: DemoConfiguration",
                "no kind \"DemoConfiguration\" is registered for version \"demo.k8s.io/v2\" in scheme \"demo.go:1\"",
            ),
        ] {
            assert_eq!(KIND.read(text.as_bytes()).unwrap_err(), want);
        }
        assert!(KIND.read(b"apiVersion: demo.k8s.io/v1beta1\nkind: DemoConfiguration\n").is_ok());
    }
}
