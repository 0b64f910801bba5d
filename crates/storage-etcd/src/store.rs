//! [`EtcdStore`]: the store's trait in terms of etcd's calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use metrics::Histogram;
use storage::{
    Condition, Entry, Error, Found, Health, Key, KeyRange, Page, RangeQuery, RefusedWrites, Result, Revision, Status,
    Store, WatchRequest, WatchStream, Write, WriteLimits, Written,
};
use tokio::sync::Mutex;
use tonic::Code;

use crate::client::{Client, Failed, Pause, read_failed};
use crate::compactor;
use crate::lease::Leases;
use crate::proto::{self, CompactRequest, CompactResponse, KeyValue, RangeRequest, RangeResponse, StatusRequest};
use crate::receipt::Receipts;
use crate::watch::{self, Watches};
use crate::{EtcdOptions, StartError, write};

/// Keys in the first answer of etcd. Larger ranges are read in pages, so that neither side holds a huge message.
const PAGE_KEYS: usize = 500;
/// Later pages have as many keys as fit into so many bytes if objects go on as large as before. etcd counts all keys that are
/// left for every page, so that many small pages of a large range cost it more than the range itself.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
const PAGE_KEYS_MIN: usize = 50;
const PAGE_KEYS_MAX: usize = 10_000;
/// Earlier releases do not answer a request for progress, or answer too early.
const OLDEST: [(u64, u64, u64); 2] = [(3, 4, 31), (3, 5, 13)];

/// A store on an etcd cluster. Clones share connections.
#[derive(Clone)]
pub struct EtcdStore {
    shared: Arc<Shared>,
    _compactor: Option<Arc<compactor::Running>>,
}

pub(crate) struct Shared {
    pub client: Client,
    pub leases: Leases,
    pub receipts: Receipts,
    pub watches: Watches,
    /// The oldest readable revision as far as we have been told.
    compacted: AtomicI64,
    progress: Progress,
}

/// Reads of the current revision that were asked for at the same time are one read.
#[derive(Default)]
struct Progress {
    asked: AtomicU64,
    /// How many callers the last read has answered, and with what.
    answered: Mutex<(u64, Revision)>,
}

impl EtcdStore {
    /// Waits for a member that answers, makes sure that it can do what is needed, and starts compacting. Must be called
    /// within a runtime.
    pub async fn connect(options: EtcdOptions) -> Result<Self, StartError> {
        let client = Client::new(&options)?;
        let mut pause = Pause::until(tokio::time::Instant::now() + options.start_timeout, options.endpoints.len());
        let endpoints = client.endpoints().collect::<Vec<_>>().join(", ");
        let mut waiting = StartWait::for_etcd(&endpoints);
        let status: proto::StatusResponse = loop {
            match waiting.while_saying(client.once(proto::STATUS, StatusRequest {})).await {
                Ok(status) => break status,
                Err(failed) => {
                    waiting.reason = failed.message().to_string();
                    if !waiting.while_saying(pause.wait()).await {
                        return Err(StartError(format!("cannot reach etcd at {endpoints}: {}", waiting.reason)));
                    }
                }
            }
        };
        check_version(&status.version)?;
        client.saw(proto::revision(&status.header));
        let shared = Arc::new(Shared {
            client,
            leases: Leases::new(options.lease_reuse),
            receipts: Receipts::default(),
            watches: Watches::default(),
            compacted: AtomicI64::new(0),
            progress: Progress::default(),
        });
        let compactor = (!options.compaction_interval.is_zero())
            .then(|| Arc::new(compactor::start(shared.clone(), options.compaction_interval)));
        Ok(EtcdStore { shared, _compactor: compactor })
    }

    /// How many keys leases have.
    pub fn keys_per_lease(&self) -> Arc<Histogram> {
        self.shared.leases.keys.clone()
    }

    /// Whether a majority answers: what health checks ask. Not for watches, which are left alone.
    pub async fn check(&self) -> Result<(), String> {
        self.shared.revision().await.map(drop).map_err(|error| format!("error getting data from etcd: {error}"))
    }
}

/// Says what a start waits for.
struct StartWait<'a> {
    endpoints: &'a str,
    reason: String,
    next: tokio::time::Instant,
}

impl StartWait<'_> {
    /// An etcd that is there answers sooner.
    const FIRST: Duration = Duration::from_millis(700);
    const AGAIN: Duration = Duration::from_secs(10);

    fn for_etcd(endpoints: &str) -> StartWait<'_> {
        let reason = "no answer yet; is it there, and does it speak TLS exactly if the URL begins with https?".into();
        StartWait { endpoints, reason, next: tokio::time::Instant::now() + Self::FIRST }
    }

    /// Waits for something that etcd has to do with.
    async fn while_saying<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep_until(self.next) => {
                    tracing::warn!(endpoints = self.endpoints, reason = self.reason, "waiting for etcd");
                    self.next += Self::AGAIN;
                }
            }
        }
    }
}

fn check_version(version: &str) -> Result<(), StartError> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u64>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(Some(patch))) = (parts.next(), parts.next(), parts.next()) else {
        return Err(StartError(format!("etcd has a version that cannot be understood: {version:?}")));
    };
    let oldest = OLDEST.iter().find(|oldest| (oldest.0, oldest.1) == (major, minor));
    let fits = oldest.map_or((major, minor) > (3, 5), |oldest| (major, minor, patch) >= *oldest);
    if fits {
        return Ok(());
    }
    Err(StartError(format!("etcd {version} cannot tell a watcher how far it has come; 3.5.13 or later is needed")))
}

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        let request =
            RangeRequest { key: Bytes::copy_from_slice(key), revision: at.unwrap_or(0), ..RangeRequest::default() };
        let answer = self.shared.read(request).await?;
        let revision = at.unwrap_or(proto::revision(&answer.header));
        Ok(Found { entry: answer.kvs.into_iter().next().map(entry), revision })
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.shared.range(query).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        write::write(&self.shared, write).await
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        self.write_limits().check(&writes)?;
        match writes.is_empty() {
            true => Ok(Vec::new()),
            false => write::write_all(&self.shared, &writes).await,
        }
    }

    fn write_limits(&self) -> WriteLimits {
        write::LIMITS
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        watch::watch(&self.shared, request).await
    }

    async fn progress(&self) -> Result<Revision> {
        self.progress_of(&KeyRange::all()).await
    }

    async fn progress_of(&self, range: &KeyRange) -> Result<Revision> {
        let revision = self.shared.revision().await?;
        self.shared.watches.want(range, revision);
        Ok(revision)
    }

    async fn is_unchanged(&self, key: &[u8], revision: Revision) -> Result<bool> {
        self.shared.is_unchanged(key, revision).await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.shared.compact(revision).await
    }

    fn compacted(&self, _: &KeyRange) -> Revision {
        self.shared.compacted.load(Ordering::Acquire)
    }

    async fn status(&self) -> Result<Status> {
        let status: Result<proto::StatusResponse, _> = self.shared.client.repeat(proto::STATUS, StatusRequest {}).await;
        let status = status.map_err(|failed| read_failed(&failed))?;
        let health = match (status.leader, status.errors.as_slice()) {
            (0, _) => Health::Degraded("etcd has no leader".into()),
            (_, []) => Health::Healthy,
            (_, errors) => Health::Degraded(errors.join(", ")),
        };
        Ok(Status {
            revision: proto::revision(&status.header).max(self.shared.client.seen()),
            compacted: self.shared.oldest().await?,
            size: u64::try_from(status.db_size).unwrap_or(0),
            size_in_use: u64::try_from(status.db_size_in_use).unwrap_or(0),
            health,
            log: None,
        })
    }
}

impl Shared {
    /// The current revision, confirmed by a majority after the call began.
    async fn revision(&self) -> Result<Revision> {
        let mine = self.progress.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut answered = self.progress.answered.lock().await;
        if answered.0 >= mine {
            return Ok(answered.1);
        }
        // All callers counted so far asked before the read begins, so its answer serves them all.
        let asked = self.progress.asked.load(Ordering::Acquire);
        let request = RangeRequest { key: FIRST, count_only: true, ..RangeRequest::default() };
        let answer: RangeResponse =
            self.client.repeat(proto::RANGE, request).await.map_err(|failed| read_failed(&failed))?;
        let revision = proto::revision(&answer.header);
        self.client.saw(revision);
        *answered = (asked, revision);
        Ok(revision)
    }

    /// Reads the key without its value, if no other caller waits for the current revision: then reading that serves all of them, and
    /// the answer is false. What is read here tells the current revision, too.
    async fn is_unchanged(&self, key: &[u8], revision: Revision) -> Result<bool> {
        let Ok(mut answered) = self.progress.answered.try_lock() else { return Ok(false) };
        let asked = self.progress.asked.load(Ordering::Acquire);
        let key = Bytes::copy_from_slice(key);
        let answer = self.read(RangeRequest { key, keys_only: true, ..RangeRequest::default() }).await?;
        *answered = (asked, proto::revision(&answer.header));
        Ok(answer.kvs.first().is_some_and(|kv| kv.mod_revision == revision))
    }

    pub async fn read(&self, request: RangeRequest) -> Result<RangeResponse> {
        let requested = request.revision;
        match self.client.repeat(proto::RANGE, request).await {
            Ok::<RangeResponse, _>(answer) => {
                self.client.saw(proto::revision(&answer.header));
                Ok(answer)
            }
            Err(failed) => Err(self.explain(failed, requested).await),
        }
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        if query.range.is_empty() {
            let revision = query.at.map_or(self.revision().await, Ok)?;
            return Ok(Page { entries: Vec::new(), more: false, count: 0, revision });
        }
        let (key, range_end) = bounds(&query.range);
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut request = RangeRequest {
            key,
            range_end,
            revision: query.at.unwrap_or(0),
            keys_only: query.keys_only,
            count_only: limit == 0,
            ..RangeRequest::default()
        };
        let mut page = Page { entries: Vec::new(), more: false, count: 0, revision: 0 };
        let mut keys = PAGE_KEYS;
        loop {
            request.limit = i64::try_from((limit - page.entries.len()).min(keys)).unwrap_or(i64::MAX);
            let answer = self.read(request.clone()).await?;
            if page.revision == 0 {
                page.revision = query.at.unwrap_or(proto::revision(&answer.header));
                page.count = usize::try_from(answer.count).unwrap_or(0);
            }
            keys = next_page(&answer.kvs);
            page.entries.extend(answer.kvs.into_iter().map(entry));
            page.more = answer.more && limit > 0;
            match page.entries.last() {
                // Later pages are read at the revision of the first.
                Some(last) if page.more && page.entries.len() < limit => {
                    request.key = last.key.successor().to_bytes();
                    request.revision = page.revision;
                }
                _ => return Ok(page),
            }
        }
    }

    pub async fn compact(&self, revision: Revision) -> Result<()> {
        let answer: Result<CompactResponse, _> = self.client.repeat(proto::COMPACT, CompactRequest { revision }).await;
        match answer {
            Ok(_) => {}
            Err(failed) if is_compacted(&failed) => {}
            Err(failed) => return Err(self.explain(failed, revision).await),
        }
        self.knows_compacted(revision);
        Ok(())
    }

    pub fn knows_compacted(&self, revision: Revision) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    /// The oldest readable revision; 0 if nothing was ever compacted.
    async fn oldest(&self) -> Result<Revision> {
        let request = RangeRequest { key: FIRST, revision: 1, count_only: true, ..RangeRequest::default() };
        match self.client.repeat::<_, RangeResponse>(proto::RANGE, request).await {
            Ok(_) => Ok(0),
            Err(failed) if is_compacted(&failed) => Ok(self.compacted_beyond(1).await),
            Err(failed) => Err(read_failed(&failed)),
        }
    }

    /// What etcd's refusal to read at a revision means.
    pub async fn explain(&self, failed: Failed, requested: Revision) -> Error {
        if is_compacted(&failed) {
            return Error::Compacted { requested, compacted: self.compacted_beyond(requested).await };
        }
        if matches!(&failed, Failed::Refused(status) if status.code() == Code::OutOfRange) {
            return Error::FutureRevision { requested, current: self.client.seen() };
        }
        read_failed(&failed)
    }

    /// The revision of the last compaction, when `requested` is known to be before it. Only watches are told.
    async fn compacted_beyond(&self, requested: Revision) -> Revision {
        if let Some(told) = watch::compaction(&self.client, requested).await {
            self.knows_compacted(told);
        }
        self.compacted.load(Ordering::Acquire).max(requested + 1)
    }
}

/// The first key there can be: etcd has no empty one.
const FIRST: Bytes = Bytes::from_static(b"\0");
/// As the end of a range: everything from the start on.
const TO_THE_END: Bytes = Bytes::from_static(b"\0");

/// How many keys the page after this one has.
fn next_page(kvs: &[KeyValue]) -> usize {
    let bytes: usize = kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    (PAGE_BYTES / (bytes / kvs.len().max(1)).max(1)).clamp(PAGE_KEYS_MIN, PAGE_KEYS_MAX)
}

/// A range as etcd writes it.
pub(crate) fn bounds(range: &KeyRange) -> (Bytes, Bytes) {
    let start = if range.start.is_empty() { FIRST } else { range.start.to_bytes() };
    (start, range.end.as_ref().map_or(TO_THE_END, Key::to_bytes))
}

pub(crate) fn is_compacted(failed: &Failed) -> bool {
    matches!(failed, Failed::Refused(status)
        if status.code() == Code::OutOfRange && status.message().contains("has been compacted"))
}

/// Copies out of the message it came in: a kept entry must not keep the whole message.
pub(crate) fn entry(kv: KeyValue) -> Arc<Entry> {
    let value = Bytes::copy_from_slice(&kv.value);
    with_value(&kv, value)
}

pub(crate) fn with_value(kv: &KeyValue, value: Bytes) -> Arc<Entry> {
    Arc::new(Entry {
        key: kv.key.as_ref().into(),
        value,
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
        condition: Condition::Good,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (version, fits) in [
            ("3.6.16", true),
            ("3.5.13", true),
            ("3.5.12", false),
            ("3.4.31", true),
            ("3.4.30", false),
            ("3.3.99", false),
            ("3.7.0-rc.1", true),
            ("4.0.0", true),
            ("new", false),
        ] {
            assert_eq!(check_version(version).is_ok(), fits, "{version}");
        }
    }

    #[test]
    fn pages_are_as_large_as_objects_allow() {
        for (bytes, keys) in [(0, PAGE_KEYS_MAX), (100, PAGE_KEYS_MAX), (8192, 1024), (1024 * 1024, PAGE_KEYS_MIN)] {
            let kv = KeyValue { value: vec![0; bytes].into(), ..KeyValue::default() };
            assert_eq!(next_page(&[kv.clone(), kv]), keys, "{bytes} bytes");
        }
        assert_eq!(next_page(&[]), PAGE_KEYS_MAX);
    }

    #[test]
    fn ranges_as_etcd_writes_them() {
        let cases: [(KeyRange, &[u8], &[u8]); 4] = [
            (KeyRange::prefix("/a/"), b"/a/", b"/a0"),
            (KeyRange::single("/a"), b"/a", b"/a\0"),
            (KeyRange::all(), b"\0", b"\0"),
            (KeyRange { start: "/a".into(), end: None }, b"/a", b"\0"),
        ];
        for (range, start, end) in cases {
            let (key, range_end) = bounds(&range);
            assert_eq!((&key[..], &range_end[..]), (start, end), "{range:?}");
        }
    }
}
