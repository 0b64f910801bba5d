//! Measures how long the store's operations take, by operation and by resource.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use parking_lot::RwLock;
use server::Histogram;
use spans::{KeyValue, Kind, OpenSpan};
use storage::{
    Change, Error, Expect, Found, Layer, Page, RangeQuery, RefusedWrites, Result, Revision, Store, Write, Written,
};

/// Upstream's buckets, in seconds.
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// How the operations of one sort on one part of the store went.
pub struct Timing {
    pub seconds: Histogram,
    pub requests: AtomicU64,
    /// Failures of the store. A precondition that does not hold is an answer, not an error.
    pub errors: AtomicU64,
    /// Objects that lists have read.
    pub listed: AtomicU64,
}

/// All timings, by operation and where in the store (`/registry/pods/`).
pub struct Timings {
    prefix: String,
    parts: RwLock<BTreeMap<(&'static str, String), Arc<Timing>>>,
}

impl Timings {
    /// For keys that begin with a prefix and a slash.
    pub fn under(prefix: &str) -> Timings {
        Timings { prefix: format!("{prefix}/"), parts: RwLock::default() }
    }

    fn of(&self, operation: &'static str, key: &[u8]) -> Arc<Timing> {
        let key = (operation, self.part_of(key));
        if let Some(timing) = self.parts.read().get(&key) {
            return timing.clone();
        }
        let none = || AtomicU64::new(0);
        let fresh = || {
            let seconds = Histogram::new(SECONDS);
            Arc::new(Timing { seconds, requests: none(), errors: none(), listed: none() })
        };
        self.parts.write().entry(key).or_insert_with(fresh).clone()
    }

    pub fn each(&self, mut show: impl FnMut(&str, &str, &Timing)) {
        self.parts.read().iter().for_each(|((operation, part), timing)| show(operation, part, timing));
    }

    /// The part that the keys of one resource have in common: a name after the prefix, or two for those under a group and for
    /// the two resources that are called services.
    fn part_of(&self, key: &[u8]) -> String {
        let text = String::from_utf8_lossy(key);
        let Some(path) = text.strip_prefix(&self.prefix) else { return text.into_owned() };
        let first = path.split('/').next().unwrap_or_default();
        let names = if first == "services" || first.contains('.') { 2 } else { 1 };
        let end = path.match_indices('/').nth(names - 1).map_or(path.len(), |(at, _)| at + 1);
        format!("{}{}", self.prefix, &path[..end])
    }
}

/// A store that is timed.
pub struct Metered {
    store: Arc<dyn Store>,
    timings: Arc<Timings>,
    /// The name of the store in spans: upstream's `etcd3`, or `embedded`.
    engine: &'static str,
}

impl Metered {
    pub fn over(store: Arc<dyn Store>, timings: Arc<Timings>, engine: &'static str) -> Arc<dyn Store> {
        Arc::new(Metered { store, timings, engine })
    }

    async fn time<T>(&self, operation: &'static str, key: &[u8], work: impl Future<Output = Result<T>>) -> Result<T> {
        let timing = self.timings.of(operation, key);
        let began = Instant::now();
        let result = match self.span(operation, key) {
            None => work.await,
            Some(span) => span.run(work).await,
        };
        timing.seconds.observe(began.elapsed().as_secs_f64());
        timing.requests.fetch_add(1, Ordering::Relaxed);
        let answered = |error: &Error| matches!(error, Error::KeyExists(_) | Error::Conflict(_) | Error::NotFound);
        if result.as_ref().is_err_and(|error| !answered(error)) {
            timing.errors.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// The span of an operation, if the request that needs it is traced.
    fn span(&self, operation: &'static str, key: &[u8]) -> Option<OpenSpan> {
        let name = || match operation {
            "get" => "Get",
            "list" => "List(recursive=true)",
            "create" => "Create",
            "delete" => "Delete",
            _ => "GuaranteedUpdate",
        };
        let mut span = spans::begin(Kind::Internal, || format!("{} {}", name(), self.engine))?;
        span.add([KeyValue::text("key", String::from_utf8_lossy(key))]);
        Some(span)
    }
}

#[async_trait]
impl Layer for Metered {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        self.time("get", key, self.store.get(key, at)).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        let start = query.range.start.clone();
        let page = self.time("list", &start, self.store.range(query)).await?;
        self.timings.of("list", &start).listed.fetch_add(page.entries.len() as u64, Ordering::Relaxed);
        Ok(page)
    }

    async fn write(&self, write: Write) -> Result<Written> {
        let operation = match (&write.change, &write.expect) {
            (Change::Delete, _) => "delete",
            (Change::Put { .. }, Expect::Absent) => "create",
            (Change::Put { .. }, _) => "update",
        };
        let key = write.key.clone();
        self.time(operation, &key, self.store.write(write)).await
    }

    /// Counted as one update of the first key.
    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let Some(key) = writes.first().map(|write| write.key.clone()) else { return Ok(Vec::new()) };
        let mut at = 0;
        let work = async {
            let written = self.store.write_all(writes).await;
            written.map_err(|refused| {
                at = refused.at;
                refused.error
            })
        };
        let written = self.time("update", &key, work).await;
        written.map_err(|error| RefusedWrites { at, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_resource() {
        for (prefix, key, want) in [
            ("/registry", "/registry/pods/default/web", "/registry/pods/"),
            ("/registry", "/registry/pods/", "/registry/pods/"),
            ("/registry", "/registry/services/specs/default/web", "/registry/services/specs/"),
            ("/registry", "/registry/example.com/widgets/default/web", "/registry/example.com/widgets/"),
            ("/a/b", "/a/b/minions/one", "/a/b/minions/"),
            (
                "/registry",
                "/registry/apiregistration.k8s.io/apiservices/v1.",
                "/registry/apiregistration.k8s.io/apiservices/",
            ),
            ("/registry", "compact_rev_key", "compact_rev_key"),
        ] {
            assert_eq!(Timings::under(prefix).part_of(key.as_bytes()), want);
        }
    }
}
