//! Waking those who wait for the same thing.

use std::task::Waker;

use parking_lot::Mutex;
use slab::Slab;

/// Everybody who may wait has a place; whoever does has left a waker there.
#[derive(Default)]
pub(crate) struct Bell(Mutex<Places>);

#[derive(Default)]
struct Places {
    wakers: Slab<Option<Waker>>,
    waiting: usize,
}

impl Bell {
    pub(crate) fn join(&self) -> usize {
        self.0.lock().wakers.insert(None)
    }

    /// Gives a place back, and says whether nobody has one any more.
    pub(crate) fn leave(&self, place: usize) -> bool {
        let mut places = self.0.lock();
        if places.wakers.remove(place).is_some() {
            places.waiting -= 1;
        }
        places.wakers.is_empty()
    }

    /// Asks to be woken when the bell rings next.
    pub(crate) fn listen(&self, place: usize, waker: &Waker) {
        let mut places = self.0.lock();
        match &mut places.wakers[place] {
            Some(left) => left.clone_from(waker),
            empty => {
                *empty = Some(waker.clone());
                places.waiting += 1;
            }
        }
    }

    /// Takes the wakers of all who wait. Waking takes time, which is the caller's to find.
    pub(crate) fn ring(&self, woken: &mut Vec<Waker>) {
        let mut places = self.0.lock();
        if places.waiting > 0 {
            woken.extend(places.wakers.iter_mut().filter_map(|(_, waker)| waker.take()));
            places.waiting = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken_once() {
        let bell = Bell::default();
        let [one, two, three] = [bell.join(), bell.join(), bell.join()];
        let rung = || {
            let mut woken = Vec::new();
            bell.ring(&mut woken);
            woken.len()
        };
        assert_eq!(rung(), 0, "nobody waits");
        bell.listen(one, Waker::noop());
        bell.listen(one, Waker::noop());
        bell.listen(two, Waker::noop());
        bell.listen(three, Waker::noop());
        bell.leave(two);
        assert_eq!((rung(), rung()), (2, 0));
        bell.leave(one);
        bell.listen(three, Waker::noop());
        assert_eq!(rung(), 1);
    }
}
