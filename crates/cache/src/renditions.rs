//! Other encodings of an object, built when first asked for and kept while the budget lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

/// Names an encoding of an object: which version, which media type. The cache does not care what it means.
pub type RenditionKey = u64;

/// How many bytes of renditions all caches together may keep. What does not fit is built again for every request.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicUsize::new(0), limit })
    }

    /// Bytes kept at this moment, for metrics.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
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

/// The renditions of one object.
#[derive(Debug)]
pub(crate) struct Renditions {
    kept: Mutex<Vec<(RenditionKey, Bytes)>>,
    budget: Arc<Budget>,
}

impl Renditions {
    pub(crate) fn new(budget: Arc<Budget>) -> Renditions {
        Renditions { kept: Mutex::new(Vec::new()), budget }
    }

    pub(crate) fn get(&self, key: RenditionKey) -> Option<Bytes> {
        self.kept.lock().iter().find(|(kept, _)| *kept == key).map(|(_, bytes)| bytes.clone())
    }

    pub(crate) fn keep(&self, key: RenditionKey, bytes: &Bytes) {
        if !self.budget.take(bytes.len()) {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.iter().any(|(other, _)| *other == key) {
            self.budget.give_back(bytes.len());
        } else {
            kept.push((key, bytes.clone()));
        }
    }
}

impl Drop for Renditions {
    fn drop(&mut self) {
        self.budget.give_back(self.kept.get_mut().iter().map(|(_, bytes)| bytes.len()).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renditions_stay_within_the_budget_and_return_it() {
        let budget = Budget::new(10);
        let first = Renditions::new(budget.clone());
        first.keep(1, &Bytes::from_static(b"123456"));
        first.keep(1, &Bytes::from_static(b"123456"));
        let second = Renditions::new(budget.clone());
        second.keep(1, &Bytes::from_static(b"123456"));
        assert_eq!((first.get(1).is_some(), second.get(1).is_some(), budget.used()), (true, false, 6));
        drop(first);
        assert_eq!(budget.used(), 0);
    }
}
