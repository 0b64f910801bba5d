//! Which request made which change: a request says who it is before it writes, and the change is known by its revision.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::{Key, Revision};
use tokio::sync::Notify;

use crate::change::Origin;

tokio::task_local! {
    static ORIGIN: Arc<Origin>;
}

/// Runs a request whose writes are those of `origin`, if that is known.
pub async fn attributed<T>(origin: Option<Arc<Origin>>, work: impl Future<Output = T>) -> T {
    match origin {
        Some(origin) => ORIGIN.scope(origin, work).await,
        None => work.await,
    }
}

/// The request that the running code belongs to.
pub(crate) fn current() -> Option<Arc<Origin>> {
    ORIGIN.try_with(Arc::clone).ok()
}

/// How many origins wait for their changes to be recorded, in bytes. More than that wait only if nothing can be recorded.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How long a change waits for the answer of the write that may have made it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The origins of changes that were made and are not recorded yet.
#[derive(Default)]
pub(crate) struct Origins {
    known: Mutex<KnownOrigins>,
    answered: Notify,
}

#[derive(Default)]
struct KnownOrigins {
    /// Writes that have no answer yet, by key.
    unanswered: HashMap<Key, usize>,
    /// By revision and key: changes that were made in one step can have one revision.
    made: BTreeMap<(Revision, Key), MadeChange>,
    bytes: usize,
}

/// A change of this server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MadeChange {
    pub origin: Arc<Origin>,
    pub time: i64,
}

/// A write that has no answer yet.
pub(crate) struct Unanswered<'a> {
    origins: &'a Origins,
    key: Key,
    origin: Arc<Origin>,
}

impl Origins {
    /// Notes that a request is about to write a key.
    pub fn begin(&self, key: &Key, origin: Option<Arc<Origin>>) -> Option<Unanswered<'_>> {
        let origin = origin?;
        *self.known.lock().unanswered.entry(key.clone()).or_default() += 1;
        Some(Unanswered { origins: self, key: key.clone(), origin })
    }

    /// Who made a change, and when. Waits for writes of the key that have no answer yet, and forgets what is older.
    pub async fn take(&self, key: &Key, revision: Revision) -> Option<MadeChange> {
        if let Some(answer) = self.look(key, revision) {
            return answer;
        }
        let answer = async {
            loop {
                let mut answered = std::pin::pin!(self.answered.notified());
                answered.as_mut().enable();
                if let Some(answer) = self.look(key, revision) {
                    return answer;
                }
                answered.await;
            }
        };
        tokio::time::timeout(ANSWER_MAX, answer).await.ok().flatten()
    }

    /// Who made a change, if anyone of us did; None while that is not known.
    fn look(&self, key: &Key, revision: Revision) -> Option<Option<MadeChange>> {
        let mut known = self.known.lock();
        known.forget_before(revision);
        let made = known.made.get(&(revision, key.clone())).cloned();
        (made.is_some() || !known.unanswered.contains_key(key)).then_some(made)
    }
}

impl KnownOrigins {
    fn forget_before(&mut self, revision: Revision) {
        while let Some(first) = self.made.first_entry().filter(|first| first.key().0 < revision) {
            self.bytes -= first.remove().origin.bytes();
        }
    }
}

impl Unanswered<'_> {
    /// The write has made this change.
    pub fn made(&self, revision: Revision, time: i64) {
        let mut known = self.origins.known.lock();
        let made = MadeChange { origin: self.origin.clone(), time };
        known.bytes += self.origin.bytes();
        if let Some(before) = known.made.insert((revision, self.key.clone()), made) {
            known.bytes -= before.origin.bytes();
        }
        while known.bytes > WAITING_BYTES_MAX
            && let Some((_, oldest)) = known.made.pop_first()
        {
            known.bytes -= oldest.origin.bytes();
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let mut known = self.origins.known.lock();
        if let Some(count) = known.unanswered.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                known.unanswered.remove(&self.key);
            }
        }
        drop(known);
        self.origins.answered.notify_waiters();
    }
}
