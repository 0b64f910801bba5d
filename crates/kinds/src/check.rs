//! How tests of rules run: YAML in, one line an error out.
//!
//! A [`Check`] holds a strategy and a base object that is fine; a case is a merge patch over the base and the errors it
//! must cause, so that a case says only what is wrong with it. Objects go the way requests go: decoding and defaults by
//! the schema (where the base says its apiVersion and kind), the strategy's defaults, `begin_create` or `begin_update`,
//! the preparation, validation.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Cursor, Errors, GroupVersion, Map, Meta, Status, Timestamp, Value};
use registry::{Context, Features, Lookup, Strategy};
use request::User;

/// A strategy, an object it is happy with, and the world around them.
pub struct Check {
    strategy: Arc<dyn Strategy>,
    base: Value,
    pub now: Timestamp,
    pub user: User,
    pub namespace: &'static str,
    /// The group of the request's path, where it matters.
    pub group: &'static str,
    pub features: Features,
    pub world: World,
    /// From the base's form to the stored one, where they differ.
    pub to_stored: fn(Value) -> Value,
}

impl Check {
    pub fn new(strategy: impl Strategy, base: &str) -> Check {
        Check {
            strategy: Arc::new(strategy),
            base: yaml(base),
            now: Timestamp::new(1_700_000_000, 0),
            user: User::default(),
            namespace: "default",
            group: "",
            features: Features::default(),
            world: World::default(),
            to_stored: |object| object,
        }
    }

    /// The base with a merge patch over it.
    pub fn object(&self, patch: &str) -> Value {
        let mut object = self.base.clone();
        merge(&mut object, yaml(patch));
        object
    }

    /// Creates base + patch for each case and compares the errors, one a line.
    #[track_caller]
    pub fn create(&self, cases: &[(&str, &str)]) {
        for (patch, want) in cases {
            let got = lines(self.try_create(patch).map(|_| ()));
            assert_eq!(got, dedent(want), "creating with {patch}");
        }
    }

    /// Updates base + old patch to base + new patch for each case and compares the errors.
    #[track_caller]
    pub fn update(&self, cases: &[(&str, &str, &str)]) {
        for (old, new, want) in cases {
            let got = lines(self.try_update(old, new).map(|_| ()));
            assert_eq!(got, dedent(want), "updating {old} to {new}");
        }
    }

    /// Updates through the status subresource.
    #[track_caller]
    pub fn update_status(&self, cases: &[(&str, &str, &str)]) {
        for (old, new, want) in cases {
            let got = lines(self.try_update_status(old, new).map(|_| ()));
            assert_eq!(got, dedent(want), "updating the status of {old} to {new}");
        }
    }

    /// What the object looks like when it is stored, as the base with a patch over it.
    #[track_caller]
    pub fn stored(&self, cases: &[(&str, &str)]) {
        for (patch, want) in cases {
            let got = self.try_create(patch).unwrap_or_else(|errors| panic!("{patch}:\n{errors}"));
            let mut wanted = self.object(patch);
            merge(&mut wanted, yaml(want));
            assert_eq!(got, (self.to_stored)(typed(wanted)), "storing {patch}");
        }
    }

    #[track_caller]
    pub fn warnings(&self, cases: &[(&str, &[&str])]) {
        for (patch, want) in cases {
            let object = self.decoded(patch);
            assert_eq!(self.strategy.warnings(&self.context(""), &object, None), *want, "warnings for {patch}");
        }
    }

    /// The cells of the stored object's row, with spaces between them.
    #[track_caller]
    pub fn cells(&self, cases: &[(&str, &str)]) {
        for (patch, want) in cases {
            let object = self.decoded(patch);
            let cells: Vec<String> = self.strategy.cells(&self.context(""), &object).iter().map(text).collect();
            assert_eq!(cells.join(" "), *want, "cells of {patch}");
        }
    }

    /// The created object, or what is wrong with it.
    pub fn try_create(&self, patch: &str) -> Result<Value, Failed> {
        let cx = self.context("");
        let mut object = self.decoded(patch);
        wait(self.strategy.begin_create(&cx, &mut object)).map_err(Status::from)?;
        let facts = self.strategy.facts();
        if facts.has_status && !facts.keeps_status_on_create {
            object.remove(&["status"]);
        }
        self.strategy.prepare_create(&cx, &mut object);
        let mut errors = Errors::new();
        self.strategy.authorize_create(&cx, &Cursor::root(&object), &mut errors);
        let name = Cursor::root(&object).at(&["metadata", "name"]);
        if !name.is_empty() {
            name.invalid_each(&mut errors, self.strategy.validate_name(&cx, &object, name.str(), false));
        }
        self.strategy.validate(&cx, &Cursor::root(&object), &mut errors);
        if errors.is_empty() { Ok(object) } else { Err(errors.into()) }
    }

    /// The object after an update from base + old to base + new.
    pub fn try_update(&self, old: &str, new: &str) -> Result<Value, Failed> {
        let cx = self.context("");
        let (old, mut new) = (self.decoded(old), self.decoded(new));
        wait(self.strategy.begin_update(&cx, &mut new, &old)).map_err(Status::from)?;
        if self.strategy.facts().has_status {
            new.keep(&["status"], &old);
        }
        self.strategy.prepare_update(&cx, &mut new, &old);
        let mut errors = Errors::new();
        self.strategy.validate_update(&cx, &Cursor::root(&new), &Cursor::root(&old), &mut errors);
        if errors.is_empty() { Ok(new) } else { Err(errors.into()) }
    }

    pub fn try_update_status(&self, old: &str, new: &str) -> Result<Value, Failed> {
        let cx = self.context("status");
        let (old, mut new) = (self.decoded(old), self.decoded(new));
        let keys: Vec<String> =
            [&old, &new].iter().filter_map(|o| o.as_map()).flat_map(Map::keys).map(String::from).collect();
        for key in keys.iter().filter(|key| !matches!(key.as_str(), "status" | "metadata")) {
            new.keep(&[key], &old);
        }
        self.strategy.prepare_status_update(&cx, &mut new, &old);
        let mut errors = Errors::new();
        wait(self.strategy.authorize_status_update(&cx, &new, &old, &mut errors));
        self.strategy.validate_status_update(&cx, &Cursor::root(&new), &Cursor::root(&old), &mut errors);
        if errors.is_empty() { Ok(new) } else { Err(errors.into()) }
    }

    /// The object as a strategy's hooks receive it: decoded and defaulted.
    pub fn decoded(&self, patch: &str) -> Value {
        let mut object = typed(self.object(patch));
        self.strategy.default(&mut object);
        (self.to_stored)(object)
    }

    pub fn context<'a>(&'a self, subresource: &'a str) -> Context<'a> {
        Context {
            namespace: self.namespace,
            group: self.group,
            subresource,
            lookup: &self.world,
            ..Context::of_server(self.now, &self.user, &self.features)
        }
    }
}

/// Other objects, by group and resource.
#[derive(Default)]
pub struct World(Vec<(String, String, Arc<Value>)>);

impl World {
    pub fn add(&mut self, group: &str, resource: &str, object: &str) {
        self.0.push((group.to_string(), resource.to_string(), Arc::new(yaml(object))));
    }
}

#[async_trait]
impl Lookup for World {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.list(group, resource, namespace).into_iter().find(|object| object.str_at(&["metadata", "name"]) == name)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        let here = self.0.iter().filter(|(g, r, _)| g == group && r == resource).map(|(_, _, object)| object);
        let here = here.filter(|o| namespace.is_empty() || o.str_at(&["metadata", "namespace"]) == namespace);
        here.cloned().collect()
    }
}

/// What a create or update was refused with: field errors one a line, or the message of a Status.
#[derive(Debug)]
pub struct Failed(String);

impl From<Errors> for Failed {
    fn from(errors: Errors) -> Failed {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failed(lines.join("\n"))
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Failed {
        Failed(format!("{} {}", status.code, status.message))
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A document as a value.
#[track_caller]
pub fn yaml(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::map();
    }
    let parsed = codec::yaml::decode(text.as_bytes(), None, &mut codec::Notes::ignore());
    parsed.unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// An object that says what it is, as the schema has it, with the schema's defaults; any other as it is.
fn typed(object: Value) -> Value {
    let Ok(version) = GroupVersion::parse(object.api_version()) else { return object };
    let Some(schema) = schema::builtin().schema(&version.with_kind(object.kind())) else { return object };
    let mut text = Vec::new();
    codec::json::encode(&object, None, &mut text);
    let decoded = codec::json::decode(&text, Some(schema), &mut codec::Notes::ignore());
    let mut decoded = decoded.unwrap_or_else(|error| panic!("{error} in {object:?}"));
    schema::default(schema, &mut decoded);
    decoded
}

/// Runs a future to its end.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without I/O").block_on(future)
}

/// RFC 7396: null takes a field away, maps are merged, everything else is replaced.
pub fn merge(target: &mut Value, patch: Value) {
    let Value::Map(fields) = patch else {
        *target = patch;
        return;
    };
    if let Value::Raw(raw) = target {
        *target = codec::json::open(raw);
    }
    let map = target.make_map();
    for (key, value) in fields {
        match value {
            Value::Null => {
                map.remove(&key);
            }
            value => merge(map.entry(&key), value),
        }
    }
}

fn lines(result: Result<(), Failed>) -> String {
    result.map_or_else(|failed| failed.to_string(), |()| String::new())
}

/// The lines of an expectation without the indentation the test's source gives them.
fn dedent(text: &str) -> String {
    text.trim().lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}

fn text(cell: &Value) -> String {
    match cell {
        Value::String(s) => s.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Bool(b) => b.to_string(),
        other => format!("{other:?}"),
    }
}
