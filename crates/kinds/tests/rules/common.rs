//! What the tests over all kinds share: the kinds, an object of each that a real server accepted, and the way of a write
//! through every rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use codec::Notes;
use futures::FutureExt;
use object::{Cursor, Errors, GroupVersionKind, Map, Meta, Timestamp, Value};
use patch::apply::{FieldManager, Kind, Resets};
use registry::{Context, Features, Strategy, metadata};
use request::User;
use schema::{Node, Schema, Shape, StructId, Types};

/// A stored kind with its rules.
pub struct Stored {
    pub gvk: GroupVersionKind,
    pub namespaced: bool,
    pub strategy: Arc<dyn Strategy>,
    /// An object that a real server accepted, if one is recorded; otherwise little more than a name.
    pub base: Value,
}

impl Stored {
    pub fn schema(&self) -> Schema<'static> {
        schema::builtin().schema(&self.gvk).expect("a stored kind has a schema")
    }

    fn context<'a>(&'a self, subresource: &'a str, user: &'a User, features: &'a Features) -> Context<'a> {
        Context {
            namespace: "ns",
            group: &self.gvk.group,
            version: &self.gvk.version,
            subresource,
            dry_run: true,
            ..Context::of_server(now(), user, features)
        }
    }

    /// What a decoded object becomes before any rule sees it.
    pub fn defaulted(&self, mut object: Value) -> Value {
        schema::default(self.schema(), &mut object);
        self.strategy.default(&mut object);
        object
    }

    /// The rules that a new object meets, in their order: who owns its fields, then whether it is valid.
    pub fn create(&self, object: Value) -> (Value, Errors) {
        let (user, features) = (User::default(), Features::default());
        let cx = self.context("", &user, &features);
        let mut object = self.updated(&Value::map(), object, "m");
        let _ = wait(self.strategy.begin_create(&cx, &mut object));
        self.strategy.prepare_create(&cx, &mut object);
        let mut errors = Errors::new();
        let name = |name: &str, is_prefix: bool| (self.strategy.facts().name)(name, is_prefix);
        metadata::validate(&Cursor::root(&object), self.namespaced, &name, &mut errors);
        metadata::validate_finalizer_names(&Cursor::root(&object), &mut errors);
        self.strategy.validate(&cx, &Cursor::root(&object), &mut errors);
        self.strategy.warnings(&cx, &object, None);
        self.strategy.canonicalize(&mut object);
        errors.dedup();
        errors.aggregate();
        (object, errors)
    }

    /// The rules that a changed object meets.
    pub fn update(&self, object: Value, old: &Value, subresource: &str) -> Errors {
        let (user, features) = (User::default(), Features::default());
        let cx = self.context(subresource, &user, &features);
        let mut object = self.updated(old, object, "n");
        let _ = wait(self.strategy.begin_update(&cx, &mut object, old));
        let mut errors = Errors::new();
        match subresource {
            "" => self.strategy.prepare_update(&cx, &mut object, old),
            "status" => self.strategy.prepare_status_update(&cx, &mut object, old),
            _ => self.strategy.prepare_subresource(&cx, &mut object, old),
        }
        metadata::validate_update(&Cursor::root(&object), old, &mut errors);
        let (new, before) = (Cursor::root(&object), Cursor::root(old));
        match subresource {
            "" => {
                self.strategy.validate_update(&cx, &new, &before, &mut errors);
                self.strategy.warnings(&cx, &object, Some(old));
                self.strategy.facts().bumps_generation(&object, old);
            }
            "status" => {
                self.strategy.validate_status_update(&cx, &new, &before, &mut errors);
                self.strategy.status_warnings(&cx, &object, old);
            }
            _ => self.strategy.validate_subresource(&cx, &new, &before, &mut errors),
        }
        errors.dedup();
        errors.aggregate();
        errors
    }

    /// The object with its managed fields as an update leaves them.
    pub fn updated(&self, live: &Value, new: Value, manager: &str) -> Value {
        ready(self.field_manager().update(live, new, manager, now()))
    }

    /// What an apply makes of an object; None if it is refused.
    pub fn applied(&self, live: &Value, config: &Value, manager: &str, force: bool) -> Option<Value> {
        let mut applied = ready(self.field_manager().apply(live, config, manager, force, now())).ok()?;
        let object = match applied.merged.take() {
            Some(merged) => self.decoded(&merged)?,
            None => live.clone(),
        };
        Some(applied.with_owners(object, config, manager))
    }

    fn field_manager(&self) -> FieldManager<'_> {
        FieldManager { kind: self, gvk: self.gvk.clone(), subresource: "", resets: &Resets::Nothing }
    }

    fn decoded(&self, merged: &Value) -> Option<Value> {
        let mut json = Vec::new();
        codec::json::encode(merged, None, &mut json);
        let decoded = codec::json::decode(&json, Some(Stored::schema(self)), &mut Notes::ignore());
        decoded.ok().map(|object| self.defaulted(object))
    }
}

/// Kinds of one version convert nothing, so their managed fields are worked out at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing is waited for")
}

#[async_trait]
impl Kind for Stored {
    fn schema(&self, api_version: &str) -> Result<Option<Schema<'_>>, String> {
        Ok((self.gvk.group_version().to_string() == api_version).then(|| Stored::schema(self)))
    }

    async fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object.api_version() == api_version { Ok(object.clone()) } else { Err("there is one version".to_string()) }
    }
}

/// All kinds that have rules.
pub fn stored_kinds() -> Vec<Stored> {
    let table = schema::builtin();
    let mut kinds = Vec::new();
    for (group, resource, strategy) in kinds::strategies() {
        let row = table.resources().find(|row| row.name.group == group && row.name.resource == resource);
        let Some((row, gvk)) = row.and_then(|row| Some((row, row.stored.clone()?))) else { continue };
        let base = recorded(&gvk).unwrap_or_else(|| {
            let mut object = Value::map();
            object.set(&["metadata", "name"], "x");
            object
        });
        let mut stored = Stored { gvk, namespaced: row.namespaced, strategy, base };
        stored.base.set_type(&stored.gvk);
        stored.base.set(&["metadata", "uid"], "1-2-3");
        stored.base.set(&["metadata", "resourceVersion"], "1");
        if stored.namespaced {
            stored.base.set(&["metadata", "namespace"], "ns");
        }
        kinds.push(stored);
    }
    kinds
}

/// The object that the recorded cases of a kind change.
fn recorded(kind: &GroupVersionKind) -> Option<Value> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cases");
    let text = std::fs::read_to_string(folder.join(format!("{}.txt", kind.kind.to_lowercase()))).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("= "))?;
    let schema = schema::builtin().schema(kind);
    Some(codec::yaml::decode(line.as_bytes(), schema, &mut Notes::ignore()).expect("a recorded object can be read"))
}

pub fn now() -> Timestamp {
    Timestamp::new(1_700_000_000, 0)
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without I/O");
    runtime.block_on(future)
}

/// Tests are told by the environment how thorough to be.
#[allow(clippy::disallowed_methods)]
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub fn json(value: &Value) -> String {
    let mut out = Vec::new();
    codec::json::encode(value, None, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// One step into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Field(String),
    /// The first item of a list.
    Item,
    /// The entry of a map under this key.
    Key(&'static str),
}

/// A list or a map somewhere in a kind.
#[derive(Clone, Debug)]
pub struct Collection {
    pub steps: Vec<Step>,
    pub node: &'static Node,
}

impl Collection {
    pub fn path(&self) -> String {
        let step = |step: &Step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Item => "[]".to_string(),
            Step::Key(_) => "{}".to_string(),
        };
        self.steps.iter().map(step).collect()
    }

    /// Puts `content` into the collection's place in an object.
    pub fn put(&self, object: &mut Value, content: Value) {
        let mut slot = object;
        for step in &self.steps {
            slot = match step {
                Step::Field(name) => slot.make_map().entry(name),
                Step::Key(name) => slot.make_map().entry(name),
                Step::Item => {
                    let list = slot.make_list();
                    if list.is_empty() {
                        list.push(Value::map());
                    }
                    &mut list[0]
                }
            };
        }
        *slot = content;
    }
}

/// Every list and map of a kind, each once for every struct it is in; `met` remembers what other kinds had already.
pub fn collections(schema: Schema<'static>, met: &mut BTreeSet<String>) -> Vec<Collection> {
    let mut found = Vec::new();
    walk(schema.types, schema.node, &mut Vec::new(), &mut Vec::new(), met, &mut found);
    found
}

fn walk(
    types: &'static Types,
    node: &'static Node,
    steps: &mut Vec<Step>,
    open: &mut Vec<StructId>,
    met: &mut BTreeSet<String>,
    found: &mut Vec<Collection>,
) {
    let id = match &node.shape {
        Shape::Struct(id) => *id,
        Shape::List(items) | Shape::Map(items) => {
            steps.push(if matches!(node.shape, Shape::Map(_)) { Step::Key("k") } else { Step::Item });
            walk(types, items, steps, open, met, found);
            steps.pop();
            return;
        }
        _ => return,
    };
    if open.contains(&id) {
        return;
    }
    open.push(id);
    let of = types.get(id);
    for field in &of.fields {
        let is_collection = matches!(field.node.shape, Shape::List(_) | Shape::Map(_));
        steps.push(Step::Field(field.name.to_string()));
        let unknown = met.insert(format!("{} {}", of.name, field.name));
        if is_collection && unknown {
            found.push(Collection { steps: steps.clone(), node: &field.node });
        }
        if unknown {
            walk(types, &field.node, steps, open, met, found);
        }
        steps.pop();
    }
    open.pop();
}

/// How the items of a list are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alike {
    /// Every value is another.
    Distinct,
    /// All items are equal.
    Equal,
    /// What items are told apart by is the same, all else is not.
    Colliding,
}

/// A list or map with `count` items.
pub fn content(types: &'static Types, collection: &Collection, count: usize, alike: Alike) -> Value {
    match &collection.node.shape {
        Shape::List(items) => {
            let keys: Vec<&str> = match &collection.node.list_type {
                schema::ListType::Map(keys) => keys.iter().map(|key| key.as_str()).collect(),
                _ => collection.node.patch_merge_key.as_deref().into_iter().chain(["name"]).collect(),
            };
            let item = |i: usize| {
                let number = if alike == Alike::Equal { 1 } else { i + 1 };
                let mut item = plausible(types, items, number, 0);
                if alike == Alike::Colliding
                    && let Value::Map(map) = &mut item
                {
                    let same = plausible(types, items, 1, 0);
                    for key in &keys {
                        if let Some(value) = map.get_mut(key) {
                            *value = same.field(key).clone();
                        }
                    }
                }
                item
            };
            Value::List((0..count).map(item).collect())
        }
        Shape::Map(values) => {
            // Keys come in an order that is not theirs.
            let key = |i: usize| format!("k{}", (i * 7919) % count.max(1));
            let value = |i: usize| plausible(types, values, if alike == Alike::Equal { 1 } else { i + 1 }, 0);
            Value::Map((0..count).map(|i| (key(i), value(i))).collect::<Map>())
        }
        _ => Value::Null,
    }
}

/// A value such as people write, with `number` in it.
pub fn plausible(types: &'static Types, node: &'static Node, number: usize, depth: usize) -> Value {
    match &node.shape {
        Shape::Bool => true.into(),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::from(number % 60_000),
        Shape::Float => Value::Float(number as f64 + 0.5),
        Shape::String => match node.rules.as_ref().and_then(|rules| rules.enumeration.first()) {
            Some(first) => first.clone(),
            None => format!("a{number}").into(),
        },
        Shape::Bytes => "AAAA".into(),
        Shape::Quantity => number.to_string().into(),
        Shape::Time => "2024-01-01T00:00:00Z".into(),
        Shape::MicroTime => "2024-01-01T00:00:00.000000Z".into(),
        Shape::Duration => "1s".into(),
        Shape::RawExtension | Shape::Fields => Value::Raw(object::Raw::new("{}")),
        Shape::Any => format!("a{number}").into(),
        Shape::Struct(id) => {
            let fields =
                types.get(*id).fields.iter().filter(|field| depth == 0 || field.required || is_plain(&field.node));
            let fields = fields.filter(|field| depth < 2 || is_plain(&field.node));
            let fields = fields.map(|field| (field.name.clone(), plausible(types, &field.node, number, depth + 1)));
            Value::Map(fields.filter(|(_, value)| !value.is_null()).collect::<Map>())
        }
        Shape::StructOrList(_) | Shape::StructOrBool(_) | Shape::StructOrStrings(_) => Value::Null,
        Shape::List(items) if depth < 2 => Value::List(vec![plausible(types, items, number, depth + 1)]),
        Shape::List(_) => Value::Null,
        Shape::Map(values) if is_plain(values) && depth < 2 => {
            let value = plausible(types, values, number, depth);
            Value::Map([(format!("k{number}"), value)].into_iter().collect::<Map>())
        }
        Shape::Map(_) => Value::Null,
    }
}

fn is_plain(node: &Node) -> bool {
    !matches!(
        node.shape,
        Shape::Struct(_)
            | Shape::List(_)
            | Shape::Map(_)
            | Shape::StructOrList(_)
            | Shape::StructOrBool(_)
            | Shape::StructOrStrings(_)
    )
}
