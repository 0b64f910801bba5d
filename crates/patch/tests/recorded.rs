//! Writes that a real server answered, played again: who owns what afterwards, what a patch makes of an object, and how
//! a refusal is worded must be the same.
//!
//! `testdata/recorded.jsonl` holds one step a line: the steps of a case follow each other on the same object.

use async_trait::async_trait;
use codec::Notes;
use futures::FutureExt;
use object::{GroupVersion, GroupVersionKind, Raw, Status, Timestamp, Value};
use patch::apply::{FieldManager, Kind, Resets};
use patch::{FieldSet, JsonPatch, Reading, go, merge_patch, strategic_patch};
use schema::{Schema, builtin};

const RECORDED: &str = include_str!("../testdata/recorded.jsonl");
const NOW: Timestamp = Timestamp { secs: 1_767_225_600, nanos: 0 };

/// A built-in kind without conversions and defaults.
struct Plain(GroupVersionKind);

#[async_trait]
impl Kind for Plain {
    fn schema(&self, api_version: &str) -> Result<Option<Schema<'_>>, String> {
        Ok(builtin().schema(&GroupVersion::parse(api_version)?.with_kind(&self.0.kind)))
    }

    async fn convert(&self, _: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("nothing here is of version {api_version}"))
    }
}

struct Step {
    line: Value,
    live: Value,
}

impl Step {
    fn text(&self, field: &str) -> &str {
        self.line.str_at(&[field])
    }

    fn kind(&self) -> GroupVersionKind {
        let names: Vec<&str> = self.line.list_at(&["kind"]).iter().filter_map(Value::as_str).collect();
        GroupVersionKind::new(names[0], names[1], names[2])
    }

    fn schema(&self) -> Schema<'static> {
        builtin().schema(&self.kind()).expect("recorded kinds are in the table")
    }

    fn typed(&self, object: &Value) -> Value {
        let json = go::json(object);
        codec::json::decode(json.as_bytes(), Some(self.schema()), &mut Notes::ignore())
            .expect("recorded objects decode")
    }

    /// What the patch makes of the live object; the object of the answer if there is no patch.
    fn patched(&self) -> Result<Value, Status> {
        let live = self.typed(&self.live);
        let patch = self.line.field("patch");
        match self.text("type") {
            "" => Ok(self.line.field("want").clone()),
            "merge" => Ok(merge_patch(live, patch.clone(), Reading::Checked)?),
            "json" => {
                let patch = JsonPatch::parse(&go::json(patch), Reading::Checked)?;
                let patched = patch.run(live, Some(self.schema()))?;
                Ok(codec::json::open(&Raw::new(go::json(&patched.document))))
            }
            "strategic" => Ok(strategic_patch(&live, &mut patch.clone(), self.schema())?),
            other => unreachable!("no patch of type {other} was recorded"),
        }
    }

    fn run(&self) -> Result<Value, Status> {
        let kind = Plain(self.kind());
        let subresource = self.text("subresource");
        let reset: &[&str] = if subresource.is_empty() { &["status"] } else { &["spec"] };
        let resets = Resets::Fields(FieldSet::of([reset]));
        let manager = FieldManager { kind: &kind, gvk: self.kind(), subresource, resets: &resets };
        match self.text("operation") {
            "apply" => {
                let force = self.line.field("force") == &Value::Bool(true);
                let live = self.typed(&self.live);
                let (config, name) = (self.line.field("config"), self.text("manager"));
                let applying = manager.apply(&live, config, name, force, NOW);
                let mut applied = applying.now_or_never().expect("nothing is waited for")?;
                let object = applied.merged.take().map_or(live, |merged| self.typed(&merged));
                Ok(applied.with_owners(object, config, name))
            }
            _ => {
                let patched = self.patched()?;
                covers(self.line.field("want"), &self.typed(&patched), &mut vec!["patched".into()]);
                // Ownership is worked out on what the answer shows: the patched object with its defaults.
                let mut new = self.typed(self.line.field("want"));
                new.remove(&["metadata", "managedFields"]);
                let live = self.typed(&self.live);
                let updating = manager.update(&live, new, self.text("manager"), NOW);
                Ok(updating.now_or_never().expect("nothing is waited for"))
            }
        }
    }

    fn check(&self) {
        let name = format!("{} {}", self.text("case"), go::json(self.line.field("patch")));
        match (self.run(), self.text("message")) {
            (Err(status), message) => {
                assert_eq!((status.message.as_str(), status.code.into()), (message, self.code()), "{name}")
            }
            (Ok(object), "") => {
                let want = self.line.field("want");
                assert_eq!(managed_fields(&object), managed_fields(want), "{name}");
                covers(want, &object, &mut vec![name]);
            }
            (Ok(_), message) => assert_eq!("it went through", message, "{name}"),
        }
    }

    fn code(&self) -> i64 {
        self.line.field("code").as_int().unwrap_or_default()
    }
}

/// The entries as text, without their times but with whether they have one; in no particular order.
fn managed_fields(object: &Value) -> Vec<String> {
    let entry = |entry: &Value| {
        let mut entry = entry.clone();
        let timed = entry.remove(&["time"]).is_some();
        // The recording has lost the order of keys.
        if let Value::Raw(raw) = entry.field("fieldsV1") {
            let fields = codec::json::open(raw);
            entry.set(&["fieldsV1"], fields);
        }
        format!("{timed} {}", go::json(&entry))
    };
    let mut entries: Vec<String> = object.list_at(&["metadata", "managedFields"]).iter().map(entry).collect();
    entries.sort();
    entries
}

/// Everything in `part` must be in `whole`, which may have defaults on top.
fn covers(whole: &Value, part: &Value, path: &mut Vec<String>) {
    match (whole, part) {
        (_, Value::Null) => {}
        (Value::Map(whole), Value::Map(part)) => {
            // The generation goes up only after the patch.
            for (key, value) in part.iter().filter(|(key, _)| !matches!(*key, "managedFields" | "generation")) {
                // An empty struct is printed whether it is there or not.
                if whole.get(key).is_none() && value.is_empty() {
                    continue;
                }
                path.push(key.to_string());
                covers(whole.get(key).unwrap_or(&Value::Null), value, path);
                path.pop();
            }
        }
        (Value::List(whole), Value::List(part)) => {
            assert_eq!(whole.len(), part.len(), "{path:?}");
            for (whole, part) in whole.iter().zip(part) {
                covers(whole, part, path);
            }
        }
        (whole, part) => assert_eq!(whole, part, "{path:?}"),
    }
}

#[test]
fn recorded_writes_come_out_the_same() {
    let mut live = (String::new(), Value::map());
    let mut steps = 0;
    for line in RECORDED.lines() {
        let line = codec::json::decode(line.as_bytes(), None, &mut Notes::ignore()).expect("test data is JSON");
        let case = line.str_at(&["case"]).to_string();
        if live.0 != case {
            live = (case, Value::map());
        }
        let step = Step { line, live: live.1.clone() };
        step.check();
        if let Some(want) = step.line.get("want") {
            live.1 = want.clone();
        }
        steps += 1;
    }
    assert!(steps > 40, "only {steps} steps");
}
