//! Compares every cache with the store now and then, and counts the outcomes: feature gate `DetectCacheInconsistency`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Family};
use registry::ResourceStorage;
use rest::Api;
use server::Metrics;
use storage::RangeQuery;
use tokio::task::JoinSet;

/// The shortest time between two rounds; up to a half of it is added, so that servers do not all ask at once.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// How many keys are read at a time.
const PAGE: usize = 10_000;

/// Compares for as long as the tasks run, if the gate is on.
pub fn run(api: &Arc<Api>, metrics: &Metrics, tasks: &mut JoinSet<()>) {
    if !api.features.enabled("DetectCacheInconsistency") {
        return;
    }
    let checks = Arc::new(Family::new(
        "apiserver_storage_consistency_checks_total",
        "Counter for status of consistency checks between etcd and watch cache",
        &["group", "resource", "status"],
        Counter::default,
    ));
    let shown = checks.clone();
    metrics.contribute(move |out| shown.write(out).expect("writing to a string cannot fail"));
    let api = api.clone();
    tasks.spawn(async move {
        loop {
            let part = f64::from(api.clock.now().nanos % 1000) / 2000.0;
            tokio::time::sleep(PERIOD.mul_f64(1.0 + part)).await;
            compare_all(&api, &checks).await;
        }
    });
}

async fn compare_all(api: &Api, checks: &Family<Counter>) {
    let catalog = api.catalog.load_full();
    let mut stored: BTreeMap<(&str, &str), &Arc<ResourceStorage>> = BTreeMap::new();
    for storage in catalog.resources().filter_map(|resource| resource.storage.as_ref()) {
        stored.insert((&storage.resource.group, &storage.resource.resource), storage);
    }
    for ((group, resource), storage) in stored {
        let status = match compare(storage).await {
            Ok(None) => "success",
            Ok(Some(difference)) => {
                tracing::error!(group, resource, difference, "a cache differs from the store");
                "failure"
            }
            Err(error) => {
                tracing::warn!(group, resource, error, "a cache cannot be compared with the store");
                "error"
            }
        };
        checks.with(&[group, resource, status]).increment();
    }
}

/// The first difference between the keys and revisions of a cache and those of the store at the cache's revision.
async fn compare(storage: &ResourceStorage) -> Result<Option<String>, String> {
    let range = storage.range("");
    let snapshot = storage.cache.snapshot(&range.clone().into());
    let mut cached = snapshot.objects.iter().map(|object| object.entry());
    let mut rest = range;
    loop {
        let query = RangeQuery::new(rest.clone()).at(snapshot.revision).limit(PAGE).keys_only();
        let page = storage.store.range(query).await.map_err(|error| error.to_string())?;
        for entry in &page.entries {
            match cached.next() {
                Some(known) if known.key == entry.key && known.mod_revision == entry.mod_revision => {}
                known => {
                    let known = known.map_or_else(|| "nothing".to_string(), |known| known.key.to_string());
                    return Ok(Some(format!("stored {}, cached {known}", entry.key)));
                }
            }
        }
        match page.entries.last() {
            Some(last) if page.more => rest = rest.after(&last.key),
            _ => return Ok(cached.next().map(|known| format!("cached {} is not stored", known.key))),
        }
    }
}
