//! The latest events in memory, shared by all watchers. A watcher is a position in it.

use std::collections::VecDeque;
use std::sync::Arc;

use storage::{Batch, Entry, Event, KeyRange, Revision};

use crate::options::BATCH_BYTES_MAX;
use crate::record::encoded_len;

pub(crate) struct Ring {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    events_max: usize,
    bytes_max: usize,
    /// Every event after this revision is here.
    floor: Revision,
    /// Events up to here are in the database too; later ones must stay.
    released: Revision,
    /// Every event up to this revision has been here.
    last: Revision,
}

impl Ring {
    pub fn new(start: Revision, events_max: usize, bytes_max: usize) -> Self {
        Ring { events: VecDeque::new(), bytes: 0, events_max, bytes_max, floor: start, released: start, last: start }
    }

    pub fn push(&mut self, events: &[Arc<Event>]) {
        for event in events {
            self.bytes += weight(event);
            self.last = event.revision;
            self.events.push_back(event.clone());
        }
        self.trim();
    }

    /// The database has everything up to this revision.
    pub fn release(&mut self, revision: Revision) {
        self.released = revision;
        self.trim();
    }

    fn trim(&mut self) {
        while self.events.len() > self.events_max || self.bytes > self.bytes_max {
            let released = self.released;
            let Some(oldest) = self.events.pop_front_if(|event| event.revision <= released) else { break };
            self.bytes -= weight(&oldest);
            self.floor = oldest.revision;
        }
    }

    /// The first events after a revision, about so many bytes of them; how many bytes that is, and whether it is all.
    pub fn first_after(&self, revision: Revision, bytes_max: usize) -> (Vec<Arc<Event>>, usize, bool) {
        let start = self.events.partition_point(|event| event.revision <= revision);
        let (mut events, mut bytes) = (Vec::new(), 0);
        for event in self.events.range(start..) {
            if bytes >= bytes_max {
                return (events, bytes, false);
            }
            bytes += encoded_len(event);
            events.push(event.clone());
        }
        (events, bytes, true)
    }

    /// What is not here any more is in the database: everything up to this revision.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// The events of the range after a position; none if the ring does not reach back that far. At most `limit` events
    /// out of `scan`: the batch's revision tells how far it got, which is before a position in the future.
    pub fn after(&self, position: Revision, range: &KeyRange, limit: usize, scan: usize) -> Option<Batch> {
        if position < self.floor {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision <= position);
        let mut batch = Batch { events: Vec::new(), revision: self.last };
        let mut bytes = 0;
        for (passed, event) in self.events.range(start..).enumerate() {
            if passed == scan || batch.events.len() == limit || bytes > BATCH_BYTES_MAX {
                batch.revision = event.revision - 1;
                break;
            }
            if range.contains(&event.key) {
                bytes += weight(event);
                batch.events.push(event.clone());
            }
        }
        Some(batch)
    }

    /// What the event of this revision wrote, if it is still here.
    pub fn entry(&self, revision: Revision) -> Option<Arc<Entry>> {
        let index = self.events.binary_search_by_key(&revision, |event| event.revision).ok()?;
        self.events[index].entry.clone()
    }
}

/// The memory an event may keep alive. Values are shared with the current state and with other events, so this is an
/// upper bound.
pub(crate) fn weight(event: &Event) -> usize {
    let entry = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.value.len());
    256 + event.key.len() + entry(&event.entry) + entry(&event.previous)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: Revision) -> Arc<Event> {
        Arc::new(Event { revision, key: format!("/{}", revision % 2).into(), entry: None, previous: None })
    }

    fn revisions(batch: Option<Batch>) -> Option<(Vec<Revision>, Revision)> {
        batch.map(|batch| (batch.events.iter().map(|event| event.revision).collect(), batch.revision))
    }

    #[test]
    fn keeps_the_latest_and_knows_what_it_lost() {
        let mut ring = Ring::new(10, 4, usize::MAX);
        let all = KeyRange::all();
        assert_eq!(revisions(ring.after(10, &all, 9, 9)), Some((vec![], 10)));
        assert_eq!(revisions(ring.after(9, &all, 9, 9)), None);
        // A watcher may wait for the future.
        assert_eq!(revisions(ring.after(50, &all, 9, 9)), Some((vec![], 10)));
        ring.push(&[event(11), event(12), event(15)]);
        ring.push(&[event(16), event(17)]);
        assert_eq!(revisions(ring.after(10, &all, 9, 9)), Some((vec![11, 12, 15, 16, 17], 17)), "not in the database");
        ring.release(12);
        assert_eq!(revisions(ring.after(10, &all, 9, 9)), None);
        assert_eq!(revisions(ring.after(11, &all, 9, 9)), Some((vec![12, 15, 16, 17], 17)));
        assert_eq!(revisions(ring.after(13, &all, 2, 9)), Some((vec![15, 16], 16)));
        assert_eq!(revisions(ring.after(13, &KeyRange::prefix("/0"), 9, 9)), Some((vec![16], 17)));
        assert_eq!(revisions(ring.after(13, &KeyRange::prefix("/x"), 9, 2)), Some((vec![], 16)));
    }

    #[test]
    fn keeps_to_its_size() {
        let mut ring = Ring::new(0, usize::MAX, 1024);
        for revision in 1..100 {
            ring.push(&[event(revision)]);
            ring.release(revision);
            assert!(ring.bytes <= 1024);
        }
        assert_eq!(ring.events.len(), 3);
    }
}
