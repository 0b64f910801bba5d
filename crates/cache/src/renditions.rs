//! Other encodings of an object, built when first asked for and kept while they are used and the budget lasts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

/// Names an encoding of an object: which version, which media type. The cache does not care what it means.
pub type RenditionKey = u64;

/// So many bytes are kept whether they are used or not: what a small cluster has, and what is asked for again and again.
const ALWAYS_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Beyond that, encodings that were not used for this long are dropped, at the latest after twice this time: a list of a large
/// cluster needs as much memory as its objects.
const UNUSED_TIME: Duration = Duration::from_secs(5);

/// How many bytes of renditions all caches together may keep. What does not fit is built again for every request.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    limit: usize,
    /// Objects with renditions, those first that have had them for the longest time or were looked at the longest time ago.
    /// Each of them is here once; objects that are gone are forgotten after [`UNUSED_TIME`].
    objects: Mutex<VecDeque<Weak<Kept>>>,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicUsize::new(0), limit, objects: Mutex::default() })
    }

    /// Bytes kept at this moment, for metrics.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Drops renditions that are not used, for as long as the budget itself is in use.
    pub fn drop_unused(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let budget = Arc::downgrade(self);
        async move {
            loop {
                tokio::time::sleep(UNUSED_TIME).await;
                let Some(budget) = budget.upgrade() else { return };
                budget.sweep(ALWAYS_KEPT_BYTES);
            }
        }
    }

    /// Looks at each object once. What was used since the last time stays until the next.
    fn sweep(&self, always_kept: usize) {
        let count = self.objects.lock().len();
        for _ in 0..count {
            let Some(object) = self.objects.lock().pop_front() else { break };
            let Some(kept) = object.upgrade() else { continue };
            if kept.was_used.swap(false, Ordering::Relaxed) || self.used() <= always_kept {
                self.objects.lock().push_back(object);
            } else {
                kept.clear();
            }
        }
        let mut objects = self.objects.lock();
        let room = 2 * objects.len();
        objects.shrink_to(room);
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limit;
        if !taken {
            self.give_back(bytes);
        }
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The renditions of one object; most objects have none.
#[derive(Debug)]
pub(crate) struct Renditions {
    kept: OnceLock<Arc<Kept>>,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Kept {
    renditions: Mutex<Vec<(RenditionKey, Bytes)>>,
    was_used: AtomicBool,
    budget: Arc<Budget>,
}

impl Renditions {
    pub(crate) fn new(budget: Arc<Budget>) -> Renditions {
        Renditions { kept: OnceLock::new(), budget }
    }

    pub(crate) fn get(&self, key: RenditionKey) -> Option<Bytes> {
        self.read(key, Bytes::clone)
    }

    /// Reads a rendition where it is.
    pub(crate) fn read<T>(&self, key: RenditionKey, read: impl FnOnce(&Bytes) -> T) -> Option<T> {
        let kept = self.kept.get()?;
        // Mostly it is set already, and a write would take the cache line away from other processors.
        if !kept.was_used.load(Ordering::Relaxed) {
            kept.was_used.store(true, Ordering::Relaxed);
        }
        kept.renditions.lock().iter().find(|(other, _)| *other == key).map(|(_, bytes)| read(bytes))
    }

    pub(crate) fn keep(&self, key: RenditionKey, bytes: &Bytes) {
        if !self.budget.take(bytes.len()) {
            return;
        }
        let kept = self.kept.get_or_init(|| Arc::new(Kept::new(self.budget.clone())));
        let mut renditions = kept.renditions.lock();
        if renditions.iter().any(|(other, _)| *other == key) {
            return self.budget.give_back(bytes.len());
        }
        if renditions.is_empty() {
            self.budget.objects.lock().push_back(Arc::downgrade(kept));
        }
        renditions.push((key, bytes.clone()));
    }
}

impl Kept {
    fn new(budget: Arc<Budget>) -> Kept {
        Kept { renditions: Mutex::default(), was_used: AtomicBool::new(true), budget }
    }

    fn clear(&self) {
        let renditions = std::mem::take(&mut *self.renditions.lock());
        self.budget.give_back(renditions.iter().map(|(_, bytes)| bytes.len()).sum());
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn six() -> Bytes {
        Bytes::from_static(b"123456")
    }

    #[test]
    fn renditions_stay_within_the_budget_and_return_it() {
        let budget = Budget::new(10);
        let first = Renditions::new(budget.clone());
        first.keep(1, &six());
        first.keep(1, &six());
        let second = Renditions::new(budget.clone());
        second.keep(1, &six());
        assert_eq!((first.get(1).is_some(), second.get(1).is_some(), budget.used()), (true, false, 6));
        drop(first);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_not_used_is_dropped_beyond_what_is_always_kept() {
        let budget = Budget::new(100);
        let [first, second, gone] = [(); 3].map(|()| Renditions::new(budget.clone()));
        for object in [&first, &second, &gone] {
            object.keep(1, &six());
        }
        second.keep(2, &six());
        drop(gone);
        budget.sweep(0);
        assert_eq!((budget.used(), budget.objects.lock().len()), (18, 2), "all were new");
        assert!(first.get(1).is_some());
        budget.sweep(18);
        budget.sweep(18);
        assert_eq!(budget.used(), 18, "so much is always kept");
        assert!(first.get(1).is_some());
        budget.sweep(0);
        assert_eq!((first.get(1).is_some(), second.get(1), second.get(2), budget.used()), (true, None, None, 6));
        second.keep(1, &six());
        assert_eq!((second.get(1), budget.used(), budget.objects.lock().len()), (Some(six()), 12, 2));
    }
}
