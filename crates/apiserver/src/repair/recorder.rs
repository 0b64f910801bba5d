//! Events about what was repaired, as upstream's event recorder writes them: the same event again is counted in its series.

use std::collections::HashMap;
use std::sync::Arc;

use kinds::core::service::allocation::repair::{About, Finding, Note};
use object::timestamp::MicroTime;
use object::{Meta, Value, value};
use registry::Lookup;
use rest::Api;
use rest::client::{Client, Collection, Failure, Item};
use tokio::sync::Mutex;

use super::NETWORKING;

/// Events that are remembered, so that repeated ones are counted.
const SERIES_MAX: usize = 1024;
/// The same event after this time is a new one.
const SERIES_SECONDS: i64 = 6 * 60;

static EVENTS: Collection = Collection::new("events.k8s.io", "v1", "events");

pub struct Recorder {
    client: Client,
    instance: String,
    series: Mutex<HashMap<Key, Series>>,
}

/// The parts that are equal for events of one series: the object's namespace and name, reason and text.
type Key = (String, &'static str, String);

/// An event, how often it happened, and when it did last.
struct Series {
    event: Item,
    count: i64,
    last: i64,
}

impl Recorder {
    pub fn new(api: Arc<Api>, hostname: &str) -> Recorder {
        Recorder { client: Client::new(api, "kube-apiserver"), instance: hostname.into(), series: Mutex::default() }
    }

    /// Writes to the log, and an event if there is one for this.
    pub async fn record(&self, finding: &Finding) {
        let note = finding.note();
        let (reason, what) = note.as_ref().map_or(("", ""), |note| (note.reason, note.text.as_str()));
        tracing::warn!(reason, what, "an address or port of a service was not as it should be");
        let Some(note) = note else { return };
        let Some(regarding) = self.regarding(&note.about) else { return };
        if let Err(error) = self.write(&note, regarding).await {
            tracing::warn!(%error, reason = note.reason, "an event about a repair cannot be written");
        }
    }

    /// A reference to the object; None if it is gone.
    fn regarding(&self, about: &About) -> Option<Value> {
        let refer = |version: &str, kind: &str, object: &Value| {
            value!({
                "apiVersion": version,
                "kind": kind,
                "namespace": (object.namespace()),
                "name": (object.name()),
                "uid": (object.uid()),
                "resourceVersion": (object.resource_version())
            })
        };
        match about {
            About::Service { namespace, name } => {
                let service = self.client.api.snapshot().get("", "services", namespace, name)?;
                Some(refer("v1", "Service", &service))
            }
            About::Address(object) => Some(refer(&format!("{NETWORKING}/v1"), "IPAddress", object)),
        }
    }

    async fn write(&self, note: &Note, regarding: Value) -> Result<(), Failure> {
        let now = self.client.api.clock.now();
        let mut series = self.series.lock().await;
        let key = (
            format!("{}/{}", regarding.str_at(&["namespace"]), regarding.str_at(&["name"])),
            note.reason,
            note.text.clone(),
        );
        if let Some(known) = series.get_mut(&key).filter(|known| now.secs - known.last < SERIES_SECONDS) {
            (known.count, known.last) = (known.count + 1, now.secs);
            let patch = value!({"series": {"count": (known.count), "lastObservedTime": (MicroTime(now).to_string())}});
            return self.client.merge(&known.event, &patch).await.map(drop);
        }
        let namespace = match regarding.str_at(&["namespace"]) {
            "" => "default",
            namespace => namespace,
        };
        let name = format!("{}.{:x}", regarding.str_at(&["name"]), now.secs * 1_000_000_000 + i64::from(now.nanos));
        let events = EVENTS.within(namespace);
        let event = value!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": (name.clone()), "namespace": namespace},
            "eventTime": (MicroTime(now).to_string()),
            "reportingController": (note.controller),
            "reportingInstance": (format!("{}-{}", note.controller, self.instance)),
            "action": (note.action),
            "reason": (note.reason),
            "regarding": (regarding.clone()),
            "note": (note.text.clone()),
            "type": "Warning"
        });
        self.client.create(&events, &event).await?;
        if series.len() >= SERIES_MAX {
            series.retain(|_, known| now.secs - known.last < SERIES_SECONDS);
        }
        if series.len() < SERIES_MAX {
            series.insert(key, Series { event: events.item(&name), count: 1, last: now.secs });
        }
        Ok(())
    }
}
