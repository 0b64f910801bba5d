//! [`FaultyStore`]: a store in memory that answers late, fails, does not say what became of a write, and breaks its feeds.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ferrokube::async_trait;
use futures::StreamExt;
use object::{Randomness, SeededRandomness};
use storage::memory::MemoryStore;
use storage::{
    Batch, Error, Found, KeyRange, Page, RangeQuery, RefusedWrites, Result, Revision, Status, Store, Subscriber,
    Subscription, WatchRequest, WatchStream, Write, WriteLimits, Written,
};
use tokio::sync::Notify;

/// How the store behaves for the time being. Chances are in a hundred.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Every operation, and every batch of a watch, takes up to so long, twice.
    pub pause_millis: usize,
    /// Operations that fail and have done nothing.
    pub failing: usize,
    /// Writes that are carried out and whose outcome is not told.
    pub unanswered: usize,
    /// Writes that are not carried out and whose outcome is not told.
    pub lost: usize,
}

pub struct FaultyStore {
    below: MemoryStore,
    /// Whether subscribers are called within a commit, as by the embedded store, or fed from watches, as by etcd.
    in_commit: bool,
    randomness: SeededRandomness,
    weather: Mutex<Weather>,
    /// How often something has gone wrong.
    faults: AtomicUsize,
    /// Tells watches that they are cut off.
    cut: Arc<Notify>,
    subscribers: Mutex<Vec<Weak<Cut>>>,
}

impl FaultyStore {
    pub fn new(below: MemoryStore, in_commit: bool, seed: u64) -> FaultyStore {
        FaultyStore {
            below,
            in_commit,
            randomness: SeededRandomness::new(seed),
            weather: Mutex::default(),
            faults: AtomicUsize::new(0),
            cut: Arc::default(),
            subscribers: Mutex::default(),
        }
    }

    pub fn set_weather(&self, weather: Weather) {
        *self.weather.lock().unwrap() = weather;
    }

    /// How often something has gone wrong; None while anything can.
    pub fn calm(&self) -> Option<usize> {
        let Weather { failing, unanswered, lost, .. } = self.weather();
        (failing + unanswered + lost == 0).then(|| self.faults.load(Ordering::Relaxed))
    }

    /// Cuts off all watches and subscriptions.
    pub fn cut_off(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.cut.notify_waiters();
        let subscribers = std::mem::take(&mut *self.subscribers.lock().unwrap());
        subscribers.iter().filter_map(Weak::upgrade).for_each(|subscriber| subscriber.cut_off());
    }

    fn weather(&self) -> Weather {
        *self.weather.lock().unwrap()
    }

    fn happens(&self, chance: usize) -> bool {
        let happens = chance > 0 && self.randomness.below(100) < chance;
        self.faults.fetch_add(usize::from(happens), Ordering::Relaxed);
        happens
    }

    async fn pause(&self) {
        let longest = self.weather().pause_millis;
        if longest > 0 {
            tokio::time::sleep(Duration::from_millis(self.randomness.below(longest + 1) as u64)).await;
        }
    }

    /// What comes before each operation.
    async fn reach(&self) -> Result<()> {
        self.pause().await;
        match self.happens(self.weather().failing) {
            true => Err(Error::Unavailable("the test's store fails".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Found> {
        self.reach().await?;
        let found = self.below.get(key, at).await;
        self.pause().await;
        found
    }

    async fn range(&self, query: RangeQuery) -> Result<Page> {
        self.reach().await?;
        let page = self.below.range(query).await;
        self.pause().await;
        page
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.reach().await?;
        let weather = self.weather();
        let unknown = || Err(Error::OutcomeUnknown("the test's store does not answer".into()));
        if self.happens(weather.lost) {
            return unknown();
        }
        let written = self.below.write(write).await;
        self.pause().await;
        if self.happens(weather.unanswered) { unknown() } else { written }
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        self.reach().await.map_err(RefusedWrites::all)?;
        let weather = self.weather();
        let unknown = || Err(RefusedWrites::all(Error::OutcomeUnknown("the test's store does not answer".into())));
        if self.happens(weather.lost) {
            return unknown();
        }
        let written = self.below.write_all(writes).await;
        self.pause().await;
        if self.happens(weather.unanswered) { unknown() } else { written }
    }

    fn write_limits(&self) -> WriteLimits {
        self.below.write_limits()
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream> {
        self.reach().await?;
        let stream = self.below.watch(request).await?;
        let cut = Arc::new(AtomicBool::new(false));
        let (pauses, told) = (SeededRandomness::new(self.randomness.number()), self.cut.clone());
        let longest = self.weather().pause_millis;
        Ok(Box::pin(futures::stream::unfold(
            (stream, pauses, told, cut),
            move |(mut stream, pauses, told, cut)| async move {
                if cut.load(Ordering::Relaxed) {
                    return None;
                }
                let next = async {
                    let batch = stream.next().await;
                    tokio::time::sleep(Duration::from_millis(pauses.below(longest + 1) as u64)).await;
                    batch
                };
                let batch = tokio::select! {
                    biased;
                    () = told.notified() => {
                        cut.store(true, Ordering::Relaxed);
                        Some(Err(Error::Unavailable("the test's store cut off the watch".into())))
                    }
                    batch = next => batch,
                };
                batch.map(|batch| (batch, (stream, pauses, told, cut)))
            },
        )))
    }

    async fn subscribe(&self, request: WatchRequest, subscriber: Arc<dyn Subscriber>) -> Result<Subscription> {
        if !self.in_commit {
            return Ok(Subscription::over(self.watch(request).await?, subscriber));
        }
        self.reach().await?;
        let cut = Arc::new(Cut { subscriber, is_cut: AtomicBool::new(false) });
        self.subscribers.lock().unwrap().push(Arc::downgrade(&cut));
        self.below.subscribe(request, cut).await
    }

    fn delivers_in_commit(&self) -> bool {
        self.in_commit
    }

    async fn progress(&self) -> Result<Revision> {
        self.reach().await?;
        self.below.progress().await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.below.compact(revision).await
    }

    fn compacted(&self, range: &KeyRange) -> Revision {
        self.below.compacted(range)
    }

    async fn status(&self) -> Result<Status> {
        self.below.status().await
    }
}

/// A subscriber that can be cut off.
struct Cut {
    subscriber: Arc<dyn Subscriber>,
    is_cut: AtomicBool,
}

impl Cut {
    fn cut_off(&self) {
        if !self.is_cut.swap(true, Ordering::Relaxed) {
            self.subscriber.end(Error::Unavailable("the test's store cut off the subscription".into()));
        }
    }
}

impl Subscriber for Cut {
    fn apply(&self, batch: &Batch) {
        if !self.is_cut.load(Ordering::Relaxed) {
            self.subscriber.apply(batch);
        }
    }

    fn end(&self, error: Error) {
        if !self.is_cut.swap(true, Ordering::Relaxed) {
            self.subscriber.end(error);
        }
    }
}
