//! Priority and fairness follows the FlowSchemas and PriorityLevelConfigurations, and FlowSchemas say in their status whether
//! the priority level they name exists.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use flow::Flow;
use object::timestamp::Time;
use object::{Meta, Value, value};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::follow::follow;
use rest::client::{Client, Collection, Failure};

static FLOW_SCHEMAS: Collection = Collection::new("flowcontrol.apiserver.k8s.io", "v1", "flowschemas");
static PRIORITY_LEVELS: Collection =
    Collection::new("flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations");
/// The name under which upstream's servers keep this condition.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Levels that exist even if their objects were deleted.
const ALWAYS_THERE: [&str; 2] = ["exempt", "catch-all"];
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Servers of different versions can disagree about a condition. So that they do not overwrite each other without end, each writes
/// a schema at most so often in a minute, and looks again after a while.
const WRITES_PER_MINUTE: usize = 6;
const MINUTE: Duration = Duration::from_secs(60);
const PAUSE_SECONDS_MIN: u64 = 30;
const PAUSE_SECONDS_SPREAD: usize = 45;

pub async fn run(client: Client, flow: Option<Arc<Flow>>) {
    // Where the group is turned off there is nothing to look after.
    if client.list(&FLOW_SCHEMAS).await.is_err_and(|failure| failure.is_not_found()) {
        return;
    }
    let changed = Notify::new();
    let hear = |_| {
        changed.notify_one();
        true
    };
    let settle_whenever = async {
        let mut writes = Writes::default();
        let mut again = None;
        loop {
            match again {
                None => changed.notified().await,
                // Sooner if something changes.
                Some(pause) => drop(tokio::time::timeout(pause, changed.notified()).await),
            }
            again = match settle(&client, flow.as_deref(), &mut writes).await {
                Ok(pause) => pause,
                Err(failure) => {
                    tracing::debug!(%failure, "the status of a flow schema could not be written; it is tried again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    Some(Duration::ZERO)
                }
            }
        }
    };
    let all = |_: &[u8]| true;
    let (schemas, levels) = (follow(&client, &FLOW_SCHEMAS, all, hear), follow(&client, &PRIORITY_LEVELS, all, hear));
    tokio::join!(schemas, levels, settle_whenever);
}

/// Adjusts the limits of priority levels to their demand.
pub async fn adjust(flow: Arc<Flow>) {
    let mut ticks = tokio::time::interval(flow::ADJUSTMENT_PERIOD);
    loop {
        ticks.tick().await;
        flow.adjust();
    }
}

/// The writes that are due.
#[derive(Default)]
struct SchemaStep<'a> {
    /// By the schema's name.
    conditions: Vec<(&'a str, Value)>,
    /// Others were written too often and are to be looked at later.
    has_more: bool,
}

/// When conditions of flow schemas were written in the last minute.
#[derive(Default)]
struct Writes(HashMap<String, VecDeque<Instant>>);

impl Writes {
    /// Whether a schema may be written now; counts it if so.
    fn allow(&mut self, schema: &str, now: Instant) -> bool {
        let times = self.0.entry(schema.to_string()).or_default();
        while times.front().is_some_and(|then| now.duration_since(*then) > MINUTE) {
            times.pop_front();
        }
        let allowed = times.len() < WRITES_PER_MINUTE;
        if allowed {
            times.push_back(now);
        }
        allowed
    }

    /// Which conditions to write now, of what there is.
    fn step<'a>(&mut self, schemas: &'a [Value], levels: &[Value], now: Instant) -> SchemaStep<'a> {
        let known: BTreeSet<&str> = levels.iter().map(Meta::name).chain(ALWAYS_THERE).collect();
        self.keep(schemas);
        let mut step = SchemaStep::default();
        for schema in schemas {
            let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
            let wanted = condition(level, known.contains(level));
            if says(schema, &wanted) {
                continue;
            }
            match self.allow(schema.name(), now) {
                true => step.conditions.push((schema.name(), wanted)),
                false => step.has_more = true,
            }
        }
        step
    }

    /// Forgets schemas that are gone.
    fn keep(&mut self, schemas: &[Value]) {
        let names: BTreeSet<&str> = schemas.iter().map(Meta::name).collect();
        self.0.retain(|name, _| names.contains(name.as_str()));
    }
}

/// Writes the condition of every flow schema that does not have the right one. If one was written too often, the answer is when
/// to look again.
async fn settle(client: &Client, flow: Option<&Flow>, writes: &mut Writes) -> Result<Option<Duration>, Failure> {
    let levels = client.list_whole(&PRIORITY_LEVELS).await?;
    let schemas = client.list_whole(&FLOW_SCHEMAS).await?;
    if let Some(flow) = flow {
        flow.configure(schemas.list_at(&["items"]), levels.list_at(&["items"]));
    }
    let step = writes.step(schemas.list_at(&["items"]), levels.list_at(&["items"]), Instant::now());
    for (name, mut condition) in step.conditions {
        condition.set(&["lastTransitionTime"], Time(client.api.clock.now()).to_string());
        let config = value!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
            "metadata": {"name": name}, "status": {"conditions": [condition]}
        });
        match client.apply(&FLOW_SCHEMAS.item(name).part("status"), MANAGER, &config).await {
            Err(failure) if !failure.is_not_found() => return Err(failure),
            _ => {}
        }
    }
    let spread = || client.api.randomness.below(PAUSE_SECONDS_SPREAD) as u64;
    Ok(step.has_more.then(|| Duration::from_secs(PAUSE_SECONDS_MIN + spread())))
}

fn condition(level: &str, found: bool) -> Value {
    let (status, reason, end) =
        if found { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let subject = "This FlowSchema references the PriorityLevelConfiguration object named";
    let message = format!("{subject} {} {end}", object::quote(level));
    value!({"type": "Dangling", "status": status, "reason": reason, "message": message})
}

/// Whether the schema's condition is this one, whenever it became so.
fn says(schema: &Value, wanted: &Value) -> bool {
    let conditions = schema.list_at(&["status", "conditions"]);
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == "Dangling");
    found.is_some_and(|found| ["status", "reason", "message"].iter().all(|key| found.field(key) == wanted.field(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_a_schema_are_limited() {
        let (mut writes, now) = (Writes::default(), Instant::now());
        assert!((0..WRITES_PER_MINUTE).all(|_| writes.allow("a", now)));
        assert!(!writes.allow("a", now) && writes.allow("b", now));
        assert!(writes.allow("a", now + MINUTE + RETRY_PAUSE));
        writes.keep(&[value!({"metadata": {"name": "b"}})]);
        assert_eq!(writes.0.len(), 1);
    }

    /// Rounds: the second, the levels there are, and for each schema the level it names; what is written is what it then says. Two
    /// servers that disagree are a schema that says something else again in each round.
    #[test]
    fn conditions_follow_what_there_is() {
        for (rounds, expected) in [
            (&[(0, "x", "a=x b=y")][..], &["a:False b:True"][..]),
            (&[(0, "x", "a=x"), (1, "x", "a=x")], &["a:False", ""]),
            (&[(0, "", "a=x"), (1, "x", "a=x"), (2, "", "a=x")], &["a:True", "a:False", "a:True"]),
            (&[(0, "", "a=exempt b=catch-all")], &["a:False b:False"]),
            (&[(0, "x", "a=x"), (1, "x", ""), (2, "x", "a=x")], &["a:False", "", "a:False"]),
            // The seventh write within a minute waits, but not that of another schema.
            (
                &[
                    (0, "", "a=x"),
                    (1, "x", "a=x"),
                    (2, "", "a=x"),
                    (3, "x", "a=x"),
                    (4, "", "a=x"),
                    (5, "x", "a=x"),
                    (6, "", "a=x b=x"),
                    (62, "", "a=x b=x"),
                ],
                &["a:True", "a:False", "a:True", "a:False", "a:True", "a:False", "b:True ...", "a:True"],
            ),
        ] {
            let (mut writes, began) = (Writes::default(), Instant::now());
            let mut says: HashMap<String, Value> = HashMap::new();
            for ((second, levels, schemas), expected) in rounds.iter().zip(expected) {
                let level = |name: &str| value!({"metadata": {"name": name}});
                let levels: Vec<Value> = levels.split_whitespace().map(level).collect();
                let schema = |text: &str| {
                    let (name, level) = text.split_once('=').unwrap();
                    let conditions: Vec<Value> = says.get(name).into_iter().cloned().collect();
                    value!({
                        "metadata": {"name": name},
                        "spec": {"priorityLevelConfiguration": {"name": level}},
                        "status": {"conditions": conditions}
                    })
                };
                let schemas: Vec<Value> = schemas.split_whitespace().map(schema).collect();
                says.retain(|name, _| schemas.iter().any(|schema| schema.name() == name.as_str()));
                let step = writes.step(&schemas, &levels, began + Duration::from_secs(*second));
                let mut written = Vec::new();
                for (name, condition) in &step.conditions {
                    written.push(format!("{name}:{}", condition.str_at(&["status"])));
                    says.insert((*name).to_string(), condition.clone());
                }
                written.extend(step.has_more.then(|| "...".to_string()));
                assert_eq!(written.join(" "), *expected, "{rounds:?} at {second}");
            }
        }
    }

    #[test]
    fn a_condition_is_written_once() {
        let schema = |condition: Value| value!({"status": {"conditions": [condition]}});
        let (found, lost) = (condition("a", true), condition("a", false));
        assert!(says(&schema(found.clone()), &found));
        assert!(!says(&schema(found.clone()), &lost));
        assert!(!says(&schema(found), &condition("b", true)));
        assert!(!says(&value!({}), &lost));
    }
}
