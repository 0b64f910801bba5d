//! Counts the events and bytes that watches send, for the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object::GroupVersionResource;
use parking_lot::RwLock;

/// The sizes of events are counted up to these bounds; what is larger comes after them.
pub const SIZE_BOUNDS: [usize; 8] = [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072];

/// The events that were sent to watchers of one resource.
#[derive(Default)]
pub struct WatchMeter {
    /// By size: one for each bound and one more.
    sizes: [AtomicU64; SIZE_BOUNDS.len() + 1],
    bytes: AtomicU64,
}

impl WatchMeter {
    pub fn record(&self, bytes: usize) {
        let at = SIZE_BOUNDS.partition_point(|bound| *bound < bytes);
        self.sizes[at].fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many events there were of each size, and how many bytes in all.
    pub fn read(&self) -> (Vec<u64>, u64) {
        let sizes = self.sizes.iter().map(|size| size.load(Ordering::Relaxed)).collect();
        (sizes, self.bytes.load(Ordering::Relaxed))
    }
}

/// A meter for each resource that was ever watched.
#[derive(Default)]
pub struct WatchMeters(RwLock<BTreeMap<String, (GroupVersionResource, Arc<WatchMeter>)>>);

impl WatchMeters {
    pub fn of(&self, resource: &GroupVersionResource) -> Arc<WatchMeter> {
        let name = format!("{}/{}/{}", resource.group, resource.version, resource.resource);
        if let Some((_, meter)) = self.0.read().get(&name) {
            return meter.clone();
        }
        let mut all = self.0.write();
        all.entry(name).or_insert_with(|| (resource.clone(), Arc::default())).1.clone()
    }

    pub fn each(&self, mut show: impl FnMut(&GroupVersionResource, &WatchMeter)) {
        self.0.read().values().for_each(|(resource, meter)| show(resource, meter));
    }
}
