//! The wakers of tasks that wait for the same event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use slab::Slab;

/// A slot for each task that may wait; a task that waits has left its waker there.
#[derive(Default)]
pub(crate) struct Wakers(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    wakers: Slab<WakerSlot>,
    waiting: usize,
}

struct WakerSlot {
    waker: Option<Waker>,
    /// The number of the event that the task reads next.
    position: Arc<AtomicU64>,
}

/// How far the watchers of a resource are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchLag {
    /// All of them.
    pub watchers: usize,
    /// How many of them do not wait for the next event: they have some that their clients have not read yet.
    pub behind: usize,
    /// How many events the last of them has to read.
    pub events_max: u64,
}

impl Wakers {
    pub(crate) fn join(&self, position: Arc<AtomicU64>) -> usize {
        self.0.lock().wakers.insert(WakerSlot { waker: None, position })
    }

    /// Adds these tasks to those that are told of, where the next event will have this number.
    pub(crate) fn survey(&self, next: u64, lag: &mut WatchLag) {
        let slots = self.0.lock();
        lag.watchers += slots.wakers.len();
        for (_, slot) in slots.wakers.iter().filter(|(_, slot)| slot.waker.is_none()) {
            lag.behind += 1;
            lag.events_max = lag.events_max.max(next.saturating_sub(slot.position.load(Ordering::Relaxed)));
        }
    }

    /// Gives a slot back. Whether it was the last one.
    pub(crate) fn leave(&self, slot: usize) -> bool {
        let mut slots = self.0.lock();
        if slots.wakers.remove(slot).waker.is_some() {
            slots.waiting -= 1;
        }
        slots.wakers.is_empty()
    }

    /// Leaves a waker, which the next [`Wakers::take`] takes.
    pub(crate) fn wait(&self, slot: usize, waker: &Waker) {
        let mut slots = self.0.lock();
        match &mut slots.wakers[slot].waker {
            Some(left) => left.clone_from(waker),
            empty => {
                *empty = Some(waker.clone());
                slots.waiting += 1;
            }
        }
    }

    /// Takes the wakers of all waiting tasks; the caller wakes them after it has released its locks.
    pub(crate) fn take(&self, woken: &mut Vec<Waker>) {
        let mut slots = self.0.lock();
        if slots.waiting > 0 {
            woken.extend(slots.wakers.iter_mut().filter_map(|(_, slot)| slot.waker.take()));
            slots.waiting = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_tasks_are_woken_once() {
        let wakers = Wakers::default();
        let join = || wakers.join(Arc::new(AtomicU64::new(5)));
        let [one, two, three] = [join(), join(), join()];
        let taken = || {
            let mut woken = Vec::new();
            wakers.take(&mut woken);
            woken.len()
        };
        assert_eq!(taken(), 0, "no task waits");
        wakers.wait(one, Waker::noop());
        wakers.wait(one, Waker::noop());
        wakers.wait(two, Waker::noop());
        wakers.wait(three, Waker::noop());
        let lag = |next| {
            let mut lag = WatchLag::default();
            wakers.survey(next, &mut lag);
            (lag.watchers, lag.behind, lag.events_max)
        };
        assert_eq!(lag(9), (3, 0, 0));
        wakers.leave(two);
        assert_eq!((taken(), taken()), (2, 0));
        assert_eq!(lag(9), (2, 2, 4), "tasks that were woken have not read");
        wakers.leave(one);
        wakers.wait(three, Waker::noop());
        assert_eq!(taken(), 1);
    }
}
