//! The wakers of tasks that wait for the same event.

use std::task::Waker;

use parking_lot::Mutex;
use slab::Slab;

/// A slot for each task that may wait; a task that waits has left its waker there.
#[derive(Default)]
pub(crate) struct Wakers(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    wakers: Slab<Option<Waker>>,
    waiting: usize,
}

impl Wakers {
    pub(crate) fn join(&self) -> usize {
        self.0.lock().wakers.insert(None)
    }

    /// Gives a slot back. Whether it was the last one.
    pub(crate) fn leave(&self, slot: usize) -> bool {
        let mut slots = self.0.lock();
        if slots.wakers.remove(slot).is_some() {
            slots.waiting -= 1;
        }
        slots.wakers.is_empty()
    }

    /// Leaves a waker, which the next [`Wakers::take`] takes.
    pub(crate) fn wait(&self, slot: usize, waker: &Waker) {
        let mut slots = self.0.lock();
        match &mut slots.wakers[slot] {
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
            woken.extend(slots.wakers.iter_mut().filter_map(|(_, waker)| waker.take()));
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
        let [one, two, three] = [wakers.join(), wakers.join(), wakers.join()];
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
        wakers.leave(two);
        assert_eq!((taken(), taken()), (2, 0));
        wakers.leave(one);
        wakers.wait(three, Waker::noop());
        assert_eq!(taken(), 1);
    }
}
