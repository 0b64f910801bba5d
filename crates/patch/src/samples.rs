//! A custom kind for tests: every sort of list and map in one object.

use object::{Value, value};
use proptest::prelude::*;
use schema::{Field, ListType, MapType, Node, Schema, Shape, Stated, Struct, Types};

/// The schema of the sample kind, in one version.
pub struct Sample {
    types: Types,
    root: Node,
}

impl Sample {
    pub fn schema(&self) -> Schema<'_> {
        Schema::new(&self.types, &self.root)
    }

    /// `set` and `items` granular; in the other version both are atomic.
    pub fn new(granular: bool) -> Sample {
        let mut arena = Arena::default();
        let pair = || vec![field("x", string()), field("y", of(Shape::Int64))];
        let (granular_pair, atomic_pair) = (arena.object(pair(), false), atomic_map(arena.object(pair(), false)));
        let port =
            Node { default: Some("tcp".into()), stated: Stated { default: true, ..Stated::default() }, ..string() };
        let item = arena.object(
            vec![
                field("key", string()),
                field("port", port),
                field("value", string()),
                field("inner", granular_pair.clone()),
            ],
            false,
        );
        let open = arena.object(vec![field("known", string())], true);
        let metadata = arena.object(
            ["name", "namespace", "uid", "resourceVersion"]
                .map(|name| field(name, string()))
                .into_iter()
                .chain([
                    field("labels", map(string())),
                    field("annotations", map(string())),
                    field("finalizers", list(string(), ListType::Set)),
                    field("managedFields", list(Node::default(), ListType::Atomic)),
                ])
                .collect(),
            false,
        );
        let keys = ListType::Map(vec!["key".into(), "port".into()]);
        let spec = arena.object(
            vec![
                field("number", of(Shape::Int64)),
                field("flag", of(Shape::Bool)),
                field("text", string()),
                field("either", of(Shape::IntOrString)),
                field("pair", granular_pair.clone()),
                field("atom", atomic_pair),
                field("items", list(item, if granular { keys } else { ListType::Atomic })),
                field("set", list(string(), if granular { ListType::Set } else { ListType::Atomic })),
                field("plain", list(string(), ListType::Atomic)),
                field("dict", map(granular_pair)),
                field("open", open),
                field("any", Node::default()),
                field("raw", of(Shape::RawExtension)),
            ],
            false,
        );
        let status = arena.object(vec![field("ready", of(Shape::Bool))], false);
        let root = arena.object(
            vec![
                field("apiVersion", string()),
                field("kind", string()),
                field("metadata", metadata),
                field("spec", spec),
                field("status", status),
            ],
            false,
        );
        Sample { types: arena.0, root }
    }
}

#[derive(Default)]
struct Arena(Types);

impl Arena {
    fn object(&mut self, fields: Vec<Field>, preserve_unknown: bool) -> Node {
        let id = self.0.declare("".into());
        self.0.define(id, Struct { fields, preserve_unknown, ..Struct::default() });
        of(Shape::Struct(id))
    }
}

fn field(name: &str, node: Node) -> Field {
    Field { name: name.into(), node, pointer: true, ..Field::default() }
}

fn of(shape: Shape) -> Node {
    Node { shape, ..Node::default() }
}

fn string() -> Node {
    of(Shape::String)
}

fn map(values: Node) -> Node {
    of(Shape::Map(Box::new(values)))
}

fn list(items: Node, list_type: ListType) -> Node {
    Node { list_type, ..of(Shape::List(Box::new(items))) }
}

fn atomic_map(node: Node) -> Node {
    Node { map_type: MapType::Atomic, ..node }
}

/// Objects of the sample kind that decode and have no repeated items.
pub fn any_object() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["a", "b", "c"]).prop_map(Value::from);
    let pair = || object(vec![("x", word().boxed()), ("y", (0..3i64).prop_map(Value::from).boxed())]);
    let item = object(vec![
        ("port", prop::sample::select(vec!["tcp", "udp"]).prop_map(Value::from).boxed()),
        ("value", word().boxed()),
        ("inner", pair().boxed()),
    ]);
    let items = prop::collection::btree_map("[1-4]", item, 0..4).prop_map(|items| {
        let with_key = |(key, mut item): (String, Value)| {
            item.set(&["key"], key);
            item
        };
        Value::List(items.into_iter().rev().map(with_key).collect())
    });
    let words = || {
        prop::collection::btree_set("[x-z]", 0..4)
            .prop_map(|set| Value::from(set.into_iter().rev().collect::<Vec<_>>()))
    };
    let free = word().prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            prop::collection::btree_map("[p-r]", inner, 0..3).prop_map(|map| Value::Map(map.into_iter().collect())),
        ]
    });
    let dict = prop::collection::btree_map("[m-n]", pair(), 0..3).prop_map(|map| Value::Map(map.into_iter().collect()));
    let spec = object(vec![
        ("number", (0..3i64).prop_map(Value::from).boxed()),
        ("text", word().boxed()),
        ("pair", pair().boxed()),
        ("atom", pair().boxed()),
        ("items", items.boxed()),
        ("set", words().boxed()),
        ("plain", words().boxed()),
        ("dict", dict.boxed()),
        ("any", free.clone().boxed()),
        ("raw", free.boxed()),
    ]);
    spec.prop_map(
        |spec| value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"name": "s"}, "spec": spec}),
    )
}

/// A map with some of these members.
fn object(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> + Clone {
    let optional: Vec<_> = members
        .into_iter()
        .map(|(name, value)| prop::option::of(value).prop_map(move |value| value.map(|value| (name, value))))
        .collect();
    optional.prop_map(|members| Value::Map(members.into_iter().flatten().collect()))
}
