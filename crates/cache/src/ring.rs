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
    capacity: usize,
}

impl Ring {
    pub(crate) fn new(capacity: usize, complete_after: Revision) -> Ring {
        Ring { events: VecDeque::new(), first: 0, complete_after, capacity }
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        if self.events.len() >= self.capacity
            && let Some(dropped) = self.events.pop_front()
        {
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
        self.complete_after = revision;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: Revision) -> Arc<Event> {
        Arc::new(Event::new(revision, None, None, crate::Budget::new(0)))
    }

    fn read(ring: &Ring, from: u64) -> Option<Vec<Revision>> {
        Some(ring.from(from)?.map(|event| event.revision).collect())
    }

    #[test]
    fn cursors_survive_until_their_event_leaves() {
        let mut ring = Ring::new(3, 10);
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
    fn a_reset_leaves_no_hole_unnoticed() {
        let mut ring = Ring::new(8, 0);
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
