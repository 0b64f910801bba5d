//! No list or map of any kind takes time with the square of its length, or much more time than an ordinary object of the
//! same size: for every one of them an object with very many items goes the way of each write, and the CPU time of the thread
//! is compared with that of an ordinary Pod of as many bytes.
//!
//! The test takes small objects and a part of the writes. `cargo xtask growth` takes large ones and all writes:
//! `FERROKUBE_GROWTH_BYTES` says how large, `FERROKUBE_GROWTH_ALL=1` takes all writes, `FERROKUBE_GROWTH_KIND` one kind only.

use std::collections::BTreeSet;

use crate::common::{self, Alike, Collection, Stored, content};
use codec::{Notes, json, proto, yaml};
use object::{Meta, Value, value};

/// How many times the CPU time of an ordinary object a hostile one may take, byte for byte.
const FACTOR_MAX: f64 = 20.0;
/// How many times the time for a byte may be that of an object a fourth as large: four times if it grows with the square,
/// hardly more than once if it does not.
const GROWTH_MAX: f64 = 2.2;
/// Below so many times an ordinary object's time, growth is not told from noise.
const GROWTH_FROM: f64 = 1.5;
/// A measurement that is too slow is repeated, in case something else used the CPU's caches.
const TRIES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    CreateJson,
    CreateYaml,
    CreateProtobuf,
    Update,
    UpdateStatus,
    Apply,
    MergePatch,
    StrategicPatch,
}

/// Which writes are tried with which lists. Lists whose items are all alike differ only for the rules, which all see them the
/// same way.
const WRITES: [(Write, &[Alike]); 8] = [
    (Write::CreateJson, &[Alike::Distinct, Alike::Equal, Alike::Colliding]),
    (Write::CreateYaml, &[Alike::Distinct]),
    (Write::CreateProtobuf, &[Alike::Distinct]),
    (Write::Update, &[Alike::Distinct, Alike::Equal]),
    (Write::UpdateStatus, &[Alike::Distinct]),
    (Write::Apply, &[Alike::Distinct, Alike::Colliding]),
    (Write::MergePatch, &[Alike::Distinct]),
    (Write::StrategicPatch, &[Alike::Distinct, Alike::Colliding]),
];

#[test]
fn no_collection_takes_time_with_its_square() {
    let bytes = common::setting("FERROKUBE_GROWTH_BYTES", 8 * 1024) as usize;
    let all_writes = common::setting("FERROKUBE_GROWTH_ALL", 0) == 1;
    let only = std::env::var("FERROKUBE_GROWTH_KIND").ok();
    let kinds = common::stored_kinds();
    let ordinary = Ordinary::measure(&kinds, bytes);
    let cases: Vec<(Write, Alike)> =
        WRITES.iter().flat_map(|(write, alikes)| alikes.iter().map(move |alike| (*write, *alike))).collect();
    let mut met = BTreeSet::new();
    let (mut tried, mut worst, mut wrong) = (0usize, (0.0, String::new()), Vec::new());
    // Pods first, so that what is in pod templates is tried with them.
    let (pods, others): (Vec<&Stored>, Vec<&Stored>) = kinds.iter().partition(|stored| stored.gvk.kind == "Pod");
    let chosen = |stored: &&Stored| only.as_ref().is_none_or(|only| stored.gvk.kind == *only);
    for stored in pods.into_iter().chain(others).filter(chosen) {
        for collection in common::collections(stored.schema(), &mut met) {
            // Without time for all writes each collection goes one way, and the next one another.
            let some = &cases[tried % cases.len()..][..1];
            for &(write, alike) in if all_writes { &cases[..] } else { some } {
                tried += 1;
                let found = compare(stored, &collection, write, alike, bytes, &ordinary);
                let what = format!("{found}: {} {} {write:?} {alike:?}", stored.gvk.kind, collection.path());
                if found.is_wrong() {
                    println!("{what}");
                    wrong.push(what.clone());
                }
                if found.factor > worst.0 {
                    worst = (found.factor, what);
                }
            }
        }
    }
    println!("{tried} objects of {bytes} bytes; the worst takes {}", worst.1);
    assert!(tried > 300 || only.is_some(), "only {tried} were tried");
    assert!(wrong.is_empty(), "these take too long, against an ordinary pod of the same size:\n{}", wrong.join("\n"));
}

/// Nanoseconds a byte that an ordinary pod takes.
struct Ordinary {
    by_write: Vec<(Write, f64)>,
}

impl Ordinary {
    fn measure(kinds: &[Stored], bytes: usize) -> Ordinary {
        let pods = kinds.iter().find(|stored| stored.gvk.kind == "Pod").expect("pods are a kind");
        let mut pod = pods.base.clone();
        let variables = |i: usize| -> Vec<Value> {
            (0..10).map(|j| value!({"name": (format!("VARIABLE_{j}")), "value": (format!("some value {i}"))})).collect()
        };
        let container = |i: usize| {
            let mut container = value!({
                "name": (format!("container-{i}")),
                "image": "registry.example.com/team/image:v1.2.3",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "ports": [{"name": "http", "containerPort": (8000 + i % 1000), "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
            });
            container.set(&["env"], variables(i));
            container
        };
        let containers = (1 + bytes / 900).max(2);
        pod.set(&["spec", "containers"], (0..containers).map(container).collect::<Vec<Value>>());
        let changed = |pod: &Value| {
            let mut changed = pod.clone();
            changed.set(&["metadata", "labels", "changed"], "yes");
            changed
        };
        let rate = |(write, _)| {
            let (nanos, bytes) =
                (0..TRIES).map(|_| run(pods, write, &pod, &changed(&pod))).fold((u64::MAX, 1), |a, b| a.min(b));
            (write, nanos as f64 / bytes as f64)
        };
        Ordinary { by_write: WRITES.map(rate).to_vec() }
    }

    fn rate(&self, write: Write) -> f64 {
        self.by_write.iter().find(|(known, _)| *known == write).map_or(f64::MIN_POSITIVE, |(_, rate)| *rate)
    }
}

/// How an object compares with an ordinary one.
struct Found {
    /// How many times as long it takes, byte for byte.
    factor: f64,
    /// How much longer a byte takes than in an object that is a fourth as large.
    growth: f64,
}

impl Found {
    fn is_wrong(&self) -> bool {
        self.factor > FACTOR_MAX || (self.factor > GROWTH_FROM && self.growth > GROWTH_MAX)
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1}x (growth {:.1})", self.factor, self.growth)
    }
}

fn compare(
    stored: &Stored,
    collection: &Collection,
    write: Write,
    alike: Alike,
    bytes: usize,
    ordinary: &Ordinary,
) -> Found {
    let types = stored.schema().types;
    let probe = common::json(&content(types, collection, 20, alike)).len() / 20;
    let count = (bytes / probe.max(1)).clamp(8, 100_000);
    let objects = |count: usize| {
        let (mut first, mut second) = (stored.base.clone(), stored.base.clone());
        collection.put(&mut first, content(types, collection, count, alike));
        let mut longer = content(types, collection, count + 1, alike);
        if let (Value::List(items), Alike::Distinct) = (&mut longer, alike) {
            items.reverse();
        }
        collection.put(&mut second, longer);
        (first, second)
    };
    let (large, small) = (objects(count), objects(count / 4));
    let rate = |(nanos, size): (u64, usize)| nanos as f64 / size as f64;
    let (mut least, mut least_small) = (f64::MAX, f64::MAX);
    for _ in 0..TRIES {
        least = least.min(rate(run(stored, write, &large.0, &large.1)));
        least_small = least_small.min(rate(run(stored, write, &small.0, &small.1)));
        let found = Found { factor: least / ordinary.rate(write), growth: least / least_small.max(1.0) };
        if !found.is_wrong() {
            return found;
        }
    }
    Found { factor: least / ordinary.rate(write), growth: least / least_small.max(1.0) }
}

/// The CPU time of a write, and how many bytes the client sent. Updates and patches make `second` of `first`.
fn run(stored: &Stored, write: Write, first: &Value, second: &Value) -> (u64, usize) {
    let schema = stored.schema();
    let text = |object: &Value| {
        let mut out = Vec::new();
        json::encode(object, Some(schema), &mut out);
        out
    };
    let decode = |bytes: &[u8]| {
        json::decode(bytes, Some(schema), &mut Notes::collect())
            .map(|object| stored.defaulted(object))
            .unwrap_or_default()
    };
    let live = match write {
        Write::CreateJson | Write::CreateYaml | Write::CreateProtobuf => Value::Null,
        Write::Apply | Write::MergePatch | Write::StrategicPatch => stored.create(decode(&text(&stored.base))).0,
        Write::Update | Write::UpdateStatus => stored.create(decode(&text(first))).0,
    };
    match write {
        Write::CreateJson => {
            let body = text(first);
            timed(body.len(), || store(stored, &stored.create(decode(&body)).0))
        }
        Write::CreateYaml => {
            let mut body = Vec::new();
            yaml::encode(first, Some(schema), &mut body);
            timed(body.len(), || {
                let decoded = yaml::decode(&body, Some(schema), &mut Notes::collect());
                store(stored, &stored.create(stored.defaulted(decoded.unwrap_or_default())).0);
            })
        }
        Write::CreateProtobuf => {
            let mut body = Vec::new();
            if proto::encode(first, schema, &mut body).is_err() {
                return (0, 1);
            }
            timed(body.len(), || {
                let decoded = proto::decode(&body, schema).unwrap_or_default();
                store(stored, &stored.create(stored.defaulted(decoded)).0);
            })
        }
        Write::Update | Write::UpdateStatus => {
            let body = text(second);
            let subresource = if write == Write::Update { "" } else { "status" };
            timed(body.len(), || drop(stored.update(decode(&body), &live, subresource)))
        }
        Write::Apply => {
            let mut config = first.clone();
            for field in ["uid", "resourceVersion", "managedFields"] {
                config.metadata_mut().remove(field);
            }
            let body = text(&config);
            timed(body.len(), || {
                let config = yaml::decode(&body, None, &mut Notes::collect()).unwrap_or_default();
                let once = stored.applied(&live, &config, "a", true);
                // Applying the same again is what controllers do all day.
                let again = once.and_then(|once| stored.applied(&once, &config, "b", false));
                drop(again.map(|again| stored.update(again, &live, "")));
            })
        }
        Write::MergePatch => {
            let body = text(first);
            timed(body.len(), || {
                let patch = json::decode_exact(&body, &mut Notes::collect()).unwrap_or_default();
                let patched = patch::merge_patch(patch::as_printed(&live, schema), patch, patch::Reading::Checked);
                drop(patched.map(|patched| stored.update(decode(&text(&patched)), &live, "")));
            })
        }
        Write::StrategicPatch => {
            let body = text(first);
            timed(body.len(), || {
                let mut patch = json::decode(&body, None, &mut Notes::collect()).unwrap_or_default();
                let printed = patch::as_printed(&live, schema);
                let once = patch::strategic_patch(&printed, &mut patch, schema).unwrap_or_default();
                let mut patch = json::decode(&body, None, &mut Notes::collect()).unwrap_or_default();
                let twice = patch::strategic_patch(&once, &mut patch, schema).unwrap_or_default();
                drop(stored.update(decode(&text(&twice)), &live, ""));
            })
        }
    }
}

/// Writes an object as it is stored and as it is answered with.
fn store(stored: &Stored, object: &Value) {
    let mut out = Vec::new();
    let _ = proto::encode(object, stored.schema(), &mut out);
    json::encode(object, Some(stored.schema()), &mut out);
}

/// The CPU time that this thread uses; what else the machine does hardly changes it.
fn timed(bytes: usize, work: impl FnOnce()) -> (u64, usize) {
    let began = cpu_time::ThreadTime::now();
    work();
    (u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX), bytes.max(1))
}
