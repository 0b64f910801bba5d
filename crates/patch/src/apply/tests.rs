mod created;
mod unstructured;

use codec::Notes;
use futures::FutureExt;
use object::{Status, Value, value};
use proptest::prelude::*;

use super::*;
use crate::samples::{Sample, any_object};
use crate::{MAX_DEPTH, go};

/// The sample kind in three versions. v2 has `text` under the name `either`; in v3 lists are atomic.
struct Versions {
    granular: Sample,
    atomic: Sample,
}

impl Versions {
    fn new() -> Versions {
        Versions { granular: Sample::new(true), atomic: Sample::new(false) }
    }
}

#[async_trait]
impl Kind for Versions {
    fn schema(&self, api_version: &str) -> Result<Option<Schema<'_>>, String> {
        match api_version {
            "example.com/v1" | "example.com/v2" => Ok(Some(self.granular.schema())),
            "example.com/v3" => Ok(Some(self.atomic.schema())),
            "example.com/inconvertible" => Err("it has no such version".to_string()),
            _ => Ok(None),
        }
    }

    async fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut object = object.clone();
        let moved = match (object.api_version(), api_version) {
            (from, to) if from == to => None,
            ("example.com/v2", _) => Some(("either", "text")),
            (_, "example.com/v2") => Some(("text", "either")),
            _ => None,
        };
        if let Some((from, to)) = moved
            && let Some(value) = object.remove(&["spec", from])
        {
            object.set(&["spec", to], value);
        }
        object.set(&["apiVersion"], api_version);
        Ok(object)
    }

    fn is_structured(&self) -> bool {
        false
    }
}

/// Kinds in tests convert at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing is waited for")
}

/// An object in the making: every call is one request.
struct World {
    kind: Versions,
    object: Value,
    seconds: i64,
    version: &'static str,
    subresource: &'static str,
    resets: Resets,
}

impl World {
    fn new() -> World {
        let object = value!({"apiVersion": "example.com/v1", "kind": "Sample"});
        let kind = Versions::new();
        World { kind, object, seconds: 1_700_000_000, version: "v1", subresource: "", resets: Resets::Nothing }
    }

    fn now(&mut self) -> Timestamp {
        self.seconds += 1;
        Timestamp::new(self.seconds, 0)
    }

    fn manager(&self) -> FieldManager<'_> {
        let gvk = GroupVersionKind::new("example.com", self.version, "Sample");
        FieldManager { kind: &self.kind, gvk, subresource: self.subresource, resets: &self.resets }
    }

    /// The live object as the request's version has it.
    fn live(&self) -> Value {
        ready(self.kind.convert(&self.object, &format!("example.com/{}", self.version))).unwrap()
    }

    fn apply(&mut self, manager: &str, force: bool, spec: Value) -> Result<bool, Status> {
        let mut config = value!({"kind": "Sample", "metadata": {"name": "s"}, "spec": spec});
        config.set(&["apiVersion"], format!("example.com/{}", self.version));
        self.apply_config(manager, force, &config)
    }

    fn apply_config(&mut self, manager: &str, force: bool, config: &Value) -> Result<bool, Status> {
        let now = self.now();
        let live = self.live();
        let mut applied = ready(self.manager().apply(&live, config, manager, force, now))?;
        let merged = applied.merged.take();
        let unchanged = merged.is_none();
        self.object = applied.with_owners(merged.unwrap_or(live), config, manager);
        self.object.set(&["metadata", "uid"], "u");
        Ok(unchanged)
    }

    fn update(&mut self, manager: &str, change: impl FnOnce(&mut Value)) {
        let now = self.now();
        let live = self.live();
        let mut new = live.clone();
        new.set(&["metadata", "uid"], "u");
        new.set(&["metadata", "name"], "s");
        change(&mut new);
        self.object = ready(self.manager().update(&live, new, manager, now));
    }

    /// One line an entry: who, how, with what.
    fn owners(&self) -> Vec<String> {
        let entries = self.object.list_at(&["metadata", "managedFields"]);
        let text = |entry: &Value| {
            let part = |name: &str| entry.str_at(&[name]).to_string();
            let version = part("apiVersion").replace("example.com/", "");
            let subresource = part("subresource");
            let timed = if part("time").is_empty() { " timeless" } else { "" };
            let subresource = if subresource.is_empty() { subresource } else { format!(" {subresource}") };
            format!(
                "{} {} {version}{subresource}{timed} {}",
                part("manager"),
                part("operation"),
                go::json(entry.field("fieldsV1"))
            )
        };
        entries.iter().map(text).collect()
    }

    #[track_caller]
    fn check(&self, spec: Value, owners: &[&str]) {
        assert_eq!(self.object.field("spec"), &spec);
        assert_eq!(self.owners(), owners);
    }
}

fn message(result: Result<bool, Status>) -> String {
    result.expect_err("the apply is refused").message
}

#[test]
fn appliers_share_and_take_back() {
    let mut world = World::new();
    world.apply("one", false, value!({"text": "a", "set": ["x"], "pair": {"x": "1"}})).unwrap();
    world.apply("two", false, value!({"text": "a", "set": ["y"], "pair": {"y": 2}})).unwrap();
    world.check(
        value!({"text": "a", "set": ["x", "y"], "pair": {"x": "1", "y": 2}}),
        &[
            r#"one Apply v1 {"f:spec":{"f:pair":{"f:x":{}},"f:set":{"v:\"x\"":{}},"f:text":{}}}"#,
            r#"two Apply v1 {"f:spec":{"f:pair":{"f:y":{}},"f:set":{"v:\"y\"":{}},"f:text":{}}}"#,
        ],
    );
    // What one does not claim any more goes, unless two claims it too.
    world.apply("one", false, value!({"number": 1})).unwrap();
    world.check(
        value!({"text": "a", "set": ["y"], "pair": {"y": 2}, "number": 1}),
        &[
            r#"two Apply v1 {"f:spec":{"f:pair":{"f:y":{}},"f:set":{"v:\"y\"":{}},"f:text":{}}}"#,
            r#"one Apply v1 {"f:spec":{"f:number":{}}}"#,
        ],
    );
    world.apply("two", false, value!({})).unwrap();
    assert_eq!(world.object.field("spec"), &value!({"number": 1}));
}

#[test]
fn conflicts_name_their_owners() {
    let mut world = World::new();
    world.apply("one", false, value!({"text": "a", "number": 1, "atom": {"x": "1"}})).unwrap();
    assert_eq!(
        message(world.apply("two", false, value!({"text": "b"}))),
        r#"Apply failed with 1 conflict: conflict with "one": .spec.text"#
    );
    world.update("editor", |object| object.set(&["spec", "number"], 2));
    world.subresource = "status";
    world.update("controller", |object| object.set(&["spec", "dict", "m", "x"], "q"));
    world.subresource = "";
    let refused =
        world.apply("two", false, value!({"text": "b", "number": 3, "atom": {"y": 1}, "dict": {"m": {"x": "r"}}}));
    let status = refused.expect_err("conflicts");
    assert_eq!(
        status.message,
        "Apply failed with 4 conflicts: conflicts with \"controller\" with subresource \"status\" using example.com/v1:\n\
         - .spec.dict.m.x\nconflicts with \"editor\" using example.com/v1:\n- .spec.number\n\
         conflicts with \"one\":\n- .spec.atom\n- .spec.text"
    );
    let causes = status.details.expect("causes").causes;
    assert_eq!(causes.len(), 4);
    assert_eq!((causes[0].reason.as_str(), causes[0].field.as_str()), ("FieldManagerConflict", ".spec.dict.m.x"));
    assert_eq!(causes[3].message, r#"conflict with "one""#);

    // With force the fields change hands, and who has none left is gone.
    world.apply("two", true, value!({"text": "b", "number": 3, "atom": {"y": 1}})).unwrap();
    assert_eq!(
        world.owners(),
        [
            r#"two Apply v1 {"f:spec":{"f:atom":{},"f:number":{},"f:text":{}}}"#,
            r#"controller Update v1 status {"f:spec":{"f:dict":{".":{},"f:m":{".":{},"f:x":{}}}}}"#,
        ]
    );
}

#[test]
fn an_apply_that_changes_nothing_moves_no_time() {
    let mut world = World::new();
    world.update("creator", |object| object.set(&["spec", "text"], "a"));
    assert_eq!(world.apply("one", false, value!({"text": "a"})), Ok(true));
    assert_eq!(world.owners()[0], r#"one Apply v1 timeless {"f:spec":{"f:text":{}}}"#);
    assert_eq!(world.apply("one", false, value!({"text": "a", "number": 1})), Ok(false));
    let time = world.object.at(&["metadata", "managedFields"]).clone();
    assert_eq!(world.apply("one", false, value!({"text": "a", "number": 1})), Ok(true));
    assert_eq!(world.object.at(&["metadata", "managedFields"]), &time);
}

#[test]
fn updates_take_over_what_they_change() {
    let mut world = World::new();
    world.update("creator", |object| {
        object.set(&["spec"], value!({"text": "a", "items": [{"key": "1"}], "plain": ["p"]}))
    });
    assert_eq!(
        world.owners(),
        [
            r#"creator Update v1 {"f:spec":{".":{},"f:items":{".":{},"k:{\"key\":\"1\",\"port\":\"tcp\"}":{".":{},"f:key":{}}},"f:plain":{},"f:text":{}}}"#
        ]
    );
    world.update("editor", |object| object.set(&["spec", "text"], "b"));
    world.update("remover", |object| {
        object.remove(&["spec", "items"]);
    });
    assert_eq!(
        world.owners(),
        [r#"creator Update v1 {"f:spec":{".":{},"f:plain":{}}}"#, r#"editor Update v1 {"f:spec":{"f:text":{}}}"#,]
    );
    // Who changes nothing leaves no trace.
    world.update("looker", |_| ());
    assert_eq!(world.owners().len(), 2);
}

#[test]
fn identity_and_server_metadata_have_no_owner() {
    let mut world = World::new();
    let config = value!({
        "apiVersion": "example.com/v1", "kind": "Sample",
        "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}
    });
    world.apply_config("one", false, &config).unwrap();
    assert_eq!(world.owners(), [r#"one Apply v1 {"f:metadata":{"f:labels":{"f:a":{}}}}"#]);
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner_of_its_own() {
    let mut world = World::new();
    world.object = value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"name": "s", "uid": "u"}, "spec": {"text": "a"}});
    // No manager is tracked before the first apply.
    world.update("editor", |object| object.set(&["spec", "number"], 1));
    assert!(world.owners().is_empty());
    assert_eq!(
        message(world.apply("one", false, value!({"text": "b"}))),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using example.com/v1: .spec.text"#
    );
    world.apply("one", true, value!({"text": "b"})).unwrap();
    assert_eq!(
        world.owners(),
        [
            r#"one Apply v1 {"f:spec":{"f:text":{}}}"#,
            r#"before-first-apply Update v1 {"f:spec":{".":{},"f:number":{}}}"#,
        ]
    );
}

#[test]
fn managed_fields_can_be_reset_and_edited_but_not_broken() {
    let mut world = World::new();
    world.update("creator", |object| object.set(&["spec", "text"], "a"));
    let entries = world.object.at(&["metadata", "managedFields"]).clone();
    let put = |world: &mut World, entries: Value| {
        world.update("editor", |object| object.set(&["metadata", "managedFields"], entries));
    };
    // What makes no sense is passed over.
    for bad in [
        value!([{"manager": "x", "operation": "Patch"}]),
        value!([{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"}]),
        value!([{"manager": "x", "operation": "Update", "apiVersion": "v1"}]),
        value!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"bad": {}}}]),
        Value::Null,
    ] {
        put(&mut world, bad);
        assert_eq!(world.object.at(&["metadata", "managedFields"]), &entries);
    }
    let mut edited = entries.clone();
    edited.as_list_mut().unwrap()[0].set(&["manager"], "renamed");
    put(&mut world, edited);
    assert_eq!(world.owners(), [r#"renamed Update v1 {"f:spec":{".":{},"f:text":{}}}"#]);
    for reset in [value!([]), value!([{}])] {
        world.object.set(&["metadata", "managedFields"], entries.clone());
        put(&mut world, reset);
        assert!(world.owners().is_empty());
    }
    // Through a subresource they cannot be changed at all.
    world.object.set(&["metadata", "managedFields"], entries.clone());
    world.subresource = "status";
    put(&mut world, value!([]));
    assert_eq!(world.object.at(&["metadata", "managedFields"]), &entries);
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let mut world = World::new();
    for (config, code, want) in [
        (value!({}), 400, "invalid object type: /, Kind="),
        (value!({"apiVersion": "v1", "kind": "Pod"}), 400, "invalid object type: /v1, Kind=Pod"),
        (value!({"apiVersion": "a/b/c", "kind": "Sample"}), 400, "invalid object type: /, Kind="),
        (
            value!({"apiVersion": "example.com/v2", "kind": "Sample"}),
            400,
            "invalid object type: example.com/v2, Kind=Sample",
        ),
        (
            value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"managedFields": []}}),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"managedFields": [{}]}}),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"managedFields": "x"}}),
            500,
            "failed to create typed patch object (/; example.com/v1, Kind=Sample): .metadata.managedFields: expected list, got &{x}",
        ),
        (
            value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"name": "s", "namespace": "n"}, "spec": {"bogus": 1}}),
            500,
            "failed to create typed patch object (n/s; example.com/v1, Kind=Sample): .spec.bogus: field not declared in schema",
        ),
        (
            value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": "x"}),
            500,
            "failed to create typed patch object (/; example.com/v1, Kind=Sample): .metadata: expected map, got &{x}",
        ),
    ] {
        let status = world.apply_config("one", false, &config).expect_err(want);
        assert_eq!((status.code, status.message.as_str()), (code, want));
    }
}

#[test]
fn fields_that_are_reset_have_no_owner() {
    let status = || value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"name": "s"}, "spec": {"text": "a", "set": ["x"]}, "status": {"ready": true}});
    let mut world = World::new();
    world.resets = Resets::Fields(FieldSet::of([&["status"][..], &["spec", "set"]]));
    world.apply_config("one", false, &status()).unwrap();
    assert_eq!(world.owners(), [r#"one Apply v1 {"f:spec":{"f:text":{}}}"#]);

    let mut world = World::new();
    world.resets = Resets::AllBut(vec![vec![Some("spec"), Some("set"), None], vec![Some("status")]]);
    world.apply_config("one", false, &status()).unwrap();
    assert_eq!(world.owners(), [r#"one Apply v1 {"f:spec":{"f:set":{"v:\"x\"":{}}},"f:status":{"f:ready":{}}}"#]);
}

#[test]
fn owners_keep_their_version() {
    let mut world = World::new();
    world.apply("one", false, value!({"text": "a", "number": 1})).unwrap();
    world.version = "v2";
    // The same field under another name: it conflicts, and it can be shared.
    assert_eq!(
        message(world.apply("two", false, value!({"either": "b"}))),
        r#"Apply failed with 1 conflict: conflict with "one": .spec.text"#
    );
    world.apply("two", false, value!({"either": "a"})).unwrap();
    assert_eq!(
        world.owners(),
        [
            r#"two Apply v2 timeless {"f:spec":{"f:either":{}}}"#,
            r#"one Apply v1 {"f:spec":{"f:number":{},"f:text":{}}}"#,
        ]
    );
    // A manager that applies again in another version moves there, and still takes back what was claimed before.
    world.apply("one", false, value!({"pair": {"x": "1"}})).unwrap();
    assert_eq!(world.object.field("spec"), &value!({"either": "a", "pair": {"x": "1"}}));
    assert_eq!(world.owners()[1], r#"one Apply v2 {"f:spec":{"f:pair":{"f:x":{}}}}"#);
}

#[test]
fn versions_that_are_gone_are_forgotten_and_changed_types_followed() {
    let mut world = World::new();
    world.update("creator", |object| object.set(&["spec"], value!({"text": "a", "set": ["x", "y"]})));
    let entry = |version: &str, fields: Value| {
        value!({"manager": version, "operation": "Update", "apiVersion": (format!("example.com/{version}")),
                "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}})
    };
    let entries = vec![
        entry("v0", value!({"f:text": {}})),
        entry("v1", value!({"f:text": {}})),
        entry("v3", value!({"f:set": {"v:\"x\"": {}}})),
    ];
    world.object.set(&["metadata", "managedFields"], entries);
    world.update("editor", |object| object.set(&["spec", "number"], 1));
    assert_eq!(
        world.owners(),
        [
            r#"v1 Update v1 {"f:spec":{"f:text":{}}}"#,
            r#"v3 Update v3 {"f:spec":{"f:set":{}}}"#,
            r#"editor Update v1 {"f:spec":{"f:number":{}}}"#,
        ]
    );
}

#[test]
fn the_oldest_managers_are_joined() {
    let mut world = World::new();
    for i in 0..14 {
        world.update(&format!("m{i:02}"), |object| object.set(&["spec", "dict", &format!("k{i:02}"), "x"], "1"));
    }
    let owners = world.owners();
    assert_eq!(owners.len(), 10);
    assert!(owners[0].starts_with("ancient-changes Update v1 {"), "{}", owners[0]);
    for key in ["k00", "k01", "k02", "k03", "k04"] {
        assert!(owners[0].contains(&format!("f:{key}")), "{}", owners[0]);
    }
    assert!(!owners[0].contains("f:k05"));
    assert!(owners[9].starts_with("m13 "));
    // Managers that apply do not count.
    world.apply("one", false, value!({"text": "a"})).unwrap();
    assert_eq!(world.owners().len(), 11);
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let last =
        r#"{"apiVersion":"example.com/v1","kind":"Sample","metadata":{"name":"s"},"spec":{"text":"a","number":1}}"#;
    let create = |world: &mut World| {
        world.update("kubectl-client-side-apply", |object| {
            object.set(&["spec"], value!({"text": "a", "number": 1}));
            object.set_annotation(annotation, last);
        });
    };
    let mut world = World::new();
    create(&mut world);
    assert!(message(world.apply("somebody", false, value!({"text": "b"}))).contains("kubectl-client-side-apply"));
    world.apply("kubectl", false, value!({"text": "b"})).unwrap();
    assert_eq!(
        world.object.annotation(annotation),
        Some(
            "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Sample\",\"metadata\":{\"name\":\"s\"},\"spec\":{\"text\":\"b\"}}\n"
        )
    );
    // Fields that changed since are not kubectl's any more.
    let mut world = World::new();
    create(&mut world);
    world.update("editor", |object| object.set(&["spec", "text"], "c"));
    assert_eq!(
        message(world.apply("kubectl", false, value!({"text": "b", "number": 2}))),
        r#"Apply failed with 1 conflict: conflict with "editor" using example.com/v1: .spec.text"#
    );
    // An annotation that would not fit is dropped instead of failing the write.
    let long = "x".repeat(300 * 1024);
    world.apply("kubectl", true, value!({"text": (long.as_str())})).unwrap();
    assert_eq!(world.object.annotation(annotation), None);
}

#[test]
fn scales_show_and_carry_back_who_owns_replicas() {
    let json = |text: &str| codec::json::decode(text.as_bytes(), None, &mut Notes::ignore()).unwrap();
    let fields = ScaleFields {
        version: "apps/v1".into(),
        replicas: vec![("apps/v1".into(), Some(vec!["spec".into(), "replicas".into()]))],
    };
    let parent = json(
        r#"{"metadata":{"managedFields":[
            {"manager":"a","operation":"Apply","apiVersion":"apps/v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}},
            {"manager":"b","operation":"Update","apiVersion":"apps/v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:paused":{}}}},
            {"manager":"old","operation":"Update","apiVersion":"apps/v0","fieldsType":"FieldsV1","fieldsV1":{"f:x":{}}}]}}"#,
    );
    let scale = fields.of_scale(&parent).unwrap();
    assert_eq!(
        go::json(&scale),
        r#"[{"apiVersion":"autoscaling/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}},"manager":"a","operation":"Apply","time":"2020-01-01T00:00:00Z"}]"#
    );
    // After a scale the new owner has no time, as the object never knew one.
    let scaled = json(
        r#"[{"manager":"c","operation":"Update","apiVersion":"autoscaling/v1","subresource":"scale","time":"2021-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#,
    );
    let after = fields.of_parent(&parent, &scaled).unwrap();
    assert_eq!(
        go::json(&after),
        concat!(
            r#"[{"apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}},"manager":"c","operation":"Update","subresource":"scale"},"#,
            r#"{"apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:paused":{}}},"manager":"b","operation":"Update","time":"2020-01-01T00:00:00Z"}]"#
        )
    );
    assert_eq!(fields.of_parent(&parent, &scale).unwrap().as_list().map(<[Value]>::len), Some(2));
}

#[test]
fn deep_objects_fit_the_stack() {
    let deep = (0..MAX_DEPTH - 4).fold(value!(1), |inner, _| value!({"a": inner}));
    let mut world = World::new();
    world.apply("one", false, value!({"any": (deep.clone())})).unwrap();
    world.update("editor", |object| object.set(&["spec", "text"], "a"));
    world.apply("one", false, value!({"any": 1})).unwrap();
    assert_eq!(world.object.at(&["spec", "any"]), &value!(1));
}

/// Entries of managedFields, some of which make sense.
fn any_entries() -> impl Strategy<Value = Value> {
    let element = prop::sample::select(vec![
        "f:spec",
        "f:set",
        "f:text",
        "f:items",
        "f:any",
        "f:atom",
        "v:\"x\"",
        "k:{\"key\":\"1\",\"port\":\"tcp\"}",
        "k:{}",
        "i:0",
        ".",
        "x:y",
        "f:dict",
        "f:m",
        "f:bogus",
    ]);
    let fields = Just(value!({})).prop_recursive(4, 24, 4, move |inner| {
        prop::collection::btree_map(element.clone(), inner, 0..4).prop_map(|map| Value::Map(map.into_iter().collect()))
    });
    let operation = prop::sample::select(vec!["Apply", "Update"]);
    let version = prop::sample::select(vec!["example.com/v0", "example.com/v1", "example.com/v2", "example.com/v3"]);
    let entry = ("[ab]", operation, version, fields).prop_map(|(manager, operation, version, fields)| {
        value!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields})
    });
    prop::collection::vec(entry, 0..5).prop_map(Value::List)
}

/// The value without empty maps and lists; None if nothing is left of it.
fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Map(map) => {
            let rest: object::Map =
                map.into_iter().filter_map(|(key, value)| Some((key, without_empty(value)?))).collect();
            (!rest.is_empty()).then_some(Value::Map(rest))
        }
        Value::List(items) => {
            let rest: Vec<Value> = items.into_iter().filter_map(without_empty).collect();
            (!rest.is_empty()).then_some(Value::List(rest))
        }
        value => Some(value),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever the managed fields say, an apply by force ends with the configuration in place and owned.
    #[test]
    fn force_prevails(live in any_object(), config in any_object(), entries in any_entries()) {
        // A manager that applies an empty map owns all of it: entries without an owner are removed by the next apply, as upstream.
        let config = without_empty(config).unwrap();
        let mut world = World::new();
        world.object = live;
        world.object.set(&["metadata", "uid"], "u");
        world.object.set(&["metadata", "managedFields"], entries);
        world.apply_config("one", true, &config).unwrap();
        let schema = world.kind.granular.schema();
        let of = crate::typed::Type::of(schema);
        let changes = crate::typed::compare(&config, &world.object, of).unwrap();
        prop_assert!(changes.removed.is_empty(), "{:?}", changes.removed);
        // Applying once more changes nothing.
        prop_assert_eq!(world.apply_config("one", false, &config), Ok(true));
        // Taking everything back leaves nothing that only this manager had.
        let nothing = value!({"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"name": "s"}});
        world.apply_config("one", false, &nothing).unwrap();
        prop_assert!(!world.owners().iter().any(|owner| owner.starts_with("one ")));
    }

    /// After any update each change has an owner, and removed fields have none.
    #[test]
    fn updates_account_for_changes(live in any_object(), new in any_object(), entries in any_entries()) {
        let mut world = World::new();
        world.object = live.clone();
        world.object.set(&["metadata", "managedFields"], entries);
        let before = world.live();
        world.update("editor", |object| object.set(&["spec"], new.field("spec").clone()));
        let of = crate::typed::Type::of(world.kind.granular.schema());
        let changes = crate::typed::compare(&before, &world.object, of).unwrap();
        let mine = world.object.list_at(&["metadata", "managedFields"]).iter()
            .filter(|entry| entry.str_at(&["manager"]) == "editor")
            .map(|entry| FieldSet::from_value(entry.field("fieldsV1")).unwrap())
            .fold(FieldSet::new(), |all, set| all.union(&set));
        let spec = |set: &FieldSet| set.child(&crate::PathElement::field("spec")).cloned().unwrap_or_default();
        prop_assert_eq!(spec(&mine), spec(&changes.modified.union(&changes.added)));
    }
}
