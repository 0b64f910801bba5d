//! Objects of all built-in kinds with random fields: what is owned by one manager is found as a comparison finds it.

use schema::{Node, Shape, builtin};

use super::*;

/// A kind in one version.
pub(super) struct Plain<'a> {
    pub schema: Schema<'a>,
    pub is_structured: bool,
}

#[async_trait]
impl Kind for Plain<'_> {
    fn schema(&self, _: &str) -> Result<Option<Schema<'_>>, String> {
        Ok(Some(self.schema))
    }

    async fn convert(&self, object: &Value, _: &str) -> Result<Value, String> {
        Ok(object.clone())
    }

    fn is_structured(&self) -> bool {
        self.is_structured
    }
}

pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub fn word(&mut self) -> Value {
        Value::from(["", "a", "b\"", "<c>", "d\\e", "1", "long-enough-to-be-allocated"][self.below(7) as usize])
    }

    /// A value of the schema's shape. `sparse` is how many fields are left out for each that is set.
    pub fn value(&mut self, schema: Schema<'_>, sparse: u64, depth: usize) -> Value {
        match &schema.node.shape {
            Shape::Bool => Value::Bool(self.below(2) == 0),
            Shape::Int32 | Shape::Int64 | Shape::Float => Value::Int(self.below(4) as i64),
            Shape::IntOrString if self.below(2) == 0 => Value::Int(self.below(2) as i64),
            Shape::Time | Shape::MicroTime => {
                Value::from(["0001-01-01T00:00:00Z", "2026-01-02T03:04:05Z"][self.below(8).min(1) as usize])
            }
            Shape::Quantity => Value::from(["0", "100m", "1Gi"][self.below(3) as usize]),
            Shape::Struct(id) => self.object(schema, *id, sparse, depth),
            Shape::List(items) => {
                let count = self.below(4);
                Value::List((0..count).map(|_| self.item(schema, items, sparse, depth)).collect())
            }
            Shape::Map(values) => {
                let count = self.below(3);
                let mut entry = |_| (self.word(), self.item(schema, values, sparse, depth));
                Value::Map((0..count).map(&mut entry).map(|(k, v)| (k.as_str().unwrap().to_string(), v)).collect())
            }
            Shape::RawExtension | Shape::Any | Shape::StructOrBool(_) => value!({"free": {"form": [1]}}),
            Shape::Fields | Shape::StructOrList(_) | Shape::StructOrStrings(_) => Value::Null,
            _ => self.word(),
        }
    }

    fn item(&mut self, schema: Schema<'_>, node: &Node, sparse: u64, depth: usize) -> Value {
        self.value(schema.with(node), sparse, depth + 1)
    }

    fn object(&mut self, schema: Schema<'_>, id: schema::StructId, sparse: u64, depth: usize) -> Value {
        let mut map = Value::map();
        for field in &schema.types.get(id).fields {
            // Keys are nearly always set, as validation wants them.
            let is_key = matches!(field.name.as_str(), "name" | "type" | "key" | "port" | "containerPort" | "protocol");
            if depth < 9 && self.below(if is_key { 8 } else { sparse + 1 }) == 0 || is_key && self.below(20) > 0 {
                let value = self.value(schema.with(&field.node), sparse, depth + 1);
                map.set(&[&field.name], value);
            }
        }
        map
    }
}

/// Changes, sets or removes a few values anywhere.
pub(super) fn change(value: &mut Value, random: &mut Random) {
    match value {
        Value::List(items) if !items.is_empty() => {
            let at = random.below(items.len() as u64) as usize;
            match random.below(12) {
                0 => drop(items.remove(at)),
                1 => items.reverse(),
                _ => change(&mut items[at], random),
            }
        }
        Value::Map(map) if !map.is_empty() => {
            let at = random.below(map.len() as u64) as usize;
            let name = map.keys().nth(at).unwrap().to_string();
            match random.below(16) {
                0 => drop(map.remove(&name)),
                _ => change(map.get_mut(&name).unwrap(), random),
            }
        }
        Value::Int(number) => *number = random.below(3) as i64,
        Value::Bool(flag) => *flag = !*flag,
        Value::String(text) if text.ends_with('Z') => *text = "2026-02-03T04:05:06Z".into(),
        Value::String(text) if text.ends_with('m') || text.ends_with("Gi") => *text = "5".into(),
        Value::String(_) => *value = random.word(),
        _ => {}
    }
}

pub(super) const NOW: Timestamp = Timestamp { secs: 1_700_000_000, nanos: 0 };
pub(super) const LATER: Timestamp = Timestamp { secs: 1_700_000_009, nanos: 0 };

/// Creates and updates objects of all kinds, and counts how often no comparison was needed for either.
fn check(random: &mut Random, resets: &Resets) -> (usize, usize, usize) {
    let (mut created, mut updated, mut all) = (0, 0, 0);
    for resource in builtin().resources() {
        let Some(schema) = builtin().schema(&resource.kind) else { continue };
        for round in 0..24 {
            let plain = Plain { schema, is_structured: true };
            let fields = FieldManager { kind: &plain, gvk: resource.kind.clone(), subresource: "", resets };
            let mut object = random.value(schema, 1 + round % 6, 0);
            object.set_type(&resource.kind);
            object.set(&["metadata", "uid"], "u");
            managed::clear(&mut object);
            let nothing = Value::map();
            let live = ready(fields.update_by_comparison(&nothing, object.clone(), "me", NOW));
            assert_eq!(ready(fields.update(&nothing, object.clone(), "me", NOW)), live, "{}", go::json(&object));
            let mut new = live.clone();
            for _ in 0..1 + random.below(2) {
                for part in ["metadata", "spec", "data", "status"] {
                    if let Some(part) = new.get_mut(part) {
                        change(part, random);
                    }
                }
            }
            if random.below(2) == 0 {
                managed::clear(&mut new);
            }
            let want = ready(fields.update_by_comparison(&live, new.clone(), "me", LATER));
            assert_eq!(
                ready(fields.update(&live, new.clone(), "me", LATER)),
                want,
                "{}\n{}",
                go::json(&live),
                go::json(&new)
            );
            all += 1;
            created += usize::from(fields.of_one_owner(&nothing, &object, "me", NOW).is_some());
            updated += usize::from(fields.of_one_owner(&live, &new, "me", LATER).is_some());
        }
    }
    (created, updated, all)
}

#[test]
fn one_walk_gives_what_a_comparison_gives() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let some = Resets::Fields(FieldSet::of([&["status"][..], &["spec", "replicas"], &["metadata", "labels"]]));
    for resets in [Resets::Nothing, some] {
        let (created, updated, all) = check(&mut random, &resets);
        assert!(created * 4 > all && updated * 20 > all, "{created} and {updated} of {all}");
    }
}
