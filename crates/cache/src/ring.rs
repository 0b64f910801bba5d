//! The latest events, numbered: watchers hold a number, not a queue.

use std::collections::VecDeque;
use std::sync::Arc;

use storage::Revision;

use crate::Event;

/// A bounded window on the event history of one resource.
#[derive(Debug)]
pub(crate) struct Ring {
    events: VecDeque<Arc<Event>>,
    /// The sequence number of the first event in the window.
    first: u64,
    /// Every event after this revision is in the window.
    complete_after: Revision,
    events_max: usize,
    bytes_max: usize,
    /// The bytes of all objects that only the events in the window still hold.
    bytes: usize,
}

impl Ring {
    pub(crate) fn new(events_max: usize, bytes_max: usize, complete_after: Revision) -> Ring {
        Ring { events: VecDeque::new(), first: 0, complete_after, events_max, bytes_max, bytes: 0 }
    }

    /// Adds an event. The oldest ones leave while there are too many or they hold too much; the new one always stays.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes += held(&event);
        while self.events.len() >= self.events_max || self.bytes > self.bytes_max {
            let Some(dropped) = self.events.pop_front() else { break };
            self.bytes -= held(&dropped);
            self.complete_after = dropped.revision;
            self.first += 1;
        }
        self.events.push_back(event);
    }

    /// Forgets everything: the events between the old state and `revision` were missed.
    pub(crate) fn reset(&mut self, revision: Revision) {
        // One number is left out: a cursor that had read everything must not take the next event for its next one.
        self.first += self.events.len() as u64 + 1;
        self.events.clear();
        self.bytes = 0;
        self.complete_after = revision;
    }

    /// The bytes of old versions that it keeps in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number that the next event will have.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The number of the first event after `revision`; None if some of those have left the window.
    pub(crate) fn position_after(&self, revision: Revision) -> Option<u64> {
        if revision < self.complete_after {
            return None;
        }
        let index = self.events.partition_point(|event| event.revision <= revision);
        Some(self.first + index as u64)
    }

    /// The events after `revision`; None if some of those have left the window.
    pub(crate) fn after(&self, revision: Revision) -> Option<impl Iterator<Item = &Arc<Event>>> {
        self.from(self.position_after(revision)?)
    }

    /// The number of the first event in the window, or of the next one if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The event with this number, if it is in the window.
    pub(crate) fn get(&self, number: u64) -> Option<&Arc<Event>> {
        self.events.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The events from a number on; None if the first of them has left the window.
    pub(crate) fn from(&self, number: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        Some(self.events.iter().skip(usize::try_from(number.checked_sub(self.first)?).ok()?))
    }
}

/// What an event keeps in memory: the object as it was before. As it is now, it is kept by the current state, or else by the
/// next event about it.
fn held(event: &Event) -> usize {
    event.previous.as_ref().map_or(0, |object| object.value().len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use storage::{Condition, Entry, Key};

    use super::*;
    use crate::renditions::Renditions;
    use crate::{Budget, Object};

    fn event(revision: Revision) -> Arc<Event> {
        Arc::new(Event::new(revision, None, None, crate::Budget::new(0)))
    }

    fn read(ring: &Ring, from: u64) -> Option<Vec<Revision>> {
        Some(ring.from(from)?.map(|event| event.revision).collect())
    }

    #[test]
    fn cursors_survive_until_their_event_leaves() {
        let mut ring = Ring::new(3, 1000, 10);
        for revision in [11, 13, 17] {
            ring.push(event(revision));
        }
        assert_eq!(ring.position_after(9), None);
        let cursor = ring.position_after(11).unwrap();
        assert_eq!(read(&ring, cursor), Some(vec![13, 17]));
        ring.push(event(18));
        assert_eq!(read(&ring, cursor), Some(vec![13, 17, 18]));
        ring.push(event(19));
        assert_eq!(read(&ring, cursor), None);
        assert_eq!(ring.position_after(13).map(|p| read(&ring, p).unwrap()), Some(vec![17, 18, 19]));
        assert_eq!(ring.position_after(12), None);
    }

    #[test]
    fn large_objects_leave_sooner() {
        let budget = Budget::new(0);
        let update = |revision: Revision, bytes: usize| {
            let entry = Entry {
                key: Key::default(),
                value: Bytes::from(vec![0; bytes]),
                create_revision: 1,
                mod_revision: 1,
                version: 1,
                lease: 0,
                condition: Condition::default(),
            };
            let previous = Object::new(Arc::new(entry), Renditions::new(budget.clone()));
            Arc::new(Event::new(revision, None, Some(Arc::new(previous)), budget.clone()))
        };
        let mut ring = Ring::new(100, 1000, 0);
        for revision in 1..=50 {
            ring.push(update(revision, 400));
        }
        assert_eq!((ring.events.len(), ring.bytes, ring.position_after(47)), (2, 800, None));
        assert_eq!(ring.position_after(48).map(|at| read(&ring, at).unwrap()), Some(vec![49, 50]));
        ring.push(update(51, 5000));
        assert_eq!((ring.events.len(), ring.bytes), (1, 5000));
        ring.push(update(52, 10));
        assert_eq!((ring.events.len(), ring.bytes), (1, 10));
        ring.reset(60);
        assert_eq!(ring.bytes, 0);
    }

    #[test]
    fn a_reset_leaves_no_hole_unnoticed() {
        let mut ring = Ring::new(8, 1000, 0);
        ring.push(event(1));
        let behind = ring.position_after(0).unwrap();
        let up_to_date = ring.position_after(1).unwrap();
        ring.reset(5);
        assert_eq!((read(&ring, behind), read(&ring, up_to_date)), (None, None));
        assert_eq!(ring.position_after(4), None);
        ring.push(event(6));
        assert_eq!(ring.position_after(5).map(|p| read(&ring, p).unwrap()), Some(vec![6]));
        assert_eq!(ring.next(), 3);
    }
}
