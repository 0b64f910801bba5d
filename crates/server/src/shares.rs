//! [`Shares`]: something of which there is a bounded amount, shared by whoever holds it.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// A holder may have as much as is free for all: one gets half of it, two a third each, and there is always some for the next.
pub struct Shares<K>(Arc<Mutex<HeldShares<K>>>);

struct HeldShares<K> {
    all: usize,
    /// Whether the first share of each holder is given whatever is free.
    is_first_free: bool,
    held: usize,
    holders: HashMap<K, usize>,
}

impl<K> Clone for Shares<K> {
    fn clone(&self) -> Shares<K> {
        Shares(self.0.clone())
    }
}

impl<K: Eq + Hash + Clone> Shares<K> {
    pub fn new(all: usize) -> Shares<K> {
        Shares::of(all, false)
    }

    /// Every holder can have one share of any size.
    pub fn with_one_for_each(all: usize) -> Shares<K> {
        Shares::of(all, true)
    }

    fn of(all: usize, is_first_free: bool) -> Shares<K> {
        Shares(Arc::new(Mutex::new(HeldShares { all, is_first_free, held: 0, holders: HashMap::new() })))
    }

    /// How much is held by all.
    pub fn held(&self) -> usize {
        self.0.lock().held
    }

    /// A share of this holder, with nothing in it.
    pub fn share(&self, holder: K) -> Share<K> {
        Share { all: self.clone(), holder, held: 0 }
    }
}

/// A part of it that one holder has until this is dropped.
pub struct Share<K: Eq + Hash + Clone> {
    all: Shares<K>,
    holder: K,
    held: usize,
}

impl<K: Eq + Hash + Clone> Share<K> {
    /// Grows to this size; it never shrinks. False if that is more than the holder may have.
    pub fn grow(&mut self, size: usize) -> bool {
        let Some(more) = size.checked_sub(self.held).filter(|more| *more > 0) else { return true };
        let mut state = self.all.0.lock();
        let of_holder = state.holders.get(&self.holder).map_or(0, |held| *held);
        let is_given = state.is_first_free && of_holder == self.held;
        if !is_given && state.held + of_holder + 2 * more > state.all {
            return false;
        }
        state.held += more;
        match state.holders.get_mut(&self.holder) {
            Some(held) => *held += more,
            None => drop(state.holders.insert(self.holder.clone(), more)),
        }
        self.held = size;
        true
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        if self.held == 0 {
            return;
        }
        let mut state = self.all.0.lock();
        state.held -= self.held;
        if let Some(held) = state.holders.get_mut(&self.holder) {
            *held -= self.held;
            if *held == 0 {
                state.holders.remove(&self.holder);
            }
        }
        self.held = 0;
    }
}

impl<K: Eq + Hash + Clone> Drop for Share<K> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = 1_000_000;
    const ONE: usize = 1_000;

    /// Takes shares until one is refused.
    fn fill(all: &Shares<usize>, holder: usize) -> Vec<Share<usize>> {
        let next = || {
            let mut share = all.share(holder);
            share.grow(ONE).then_some(share)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn holders_share_what_is_free() {
        for is_first_free in [false, true] {
            let all = Shares::of(ALL, is_first_free);
            let mut held = Vec::new();
            for holder in 1..=40 {
                let shares = fill(&all, holder);
                // The first has half of all, the next half of the rest, and so on.
                if holder == 1 {
                    assert!((ALL / 2 - ONE..=ALL / 2).contains(&all.held()), "{}", all.held());
                }
                assert!(!shares.is_empty() || !is_first_free, "{holder}");
                held.push(shares);
                assert!(all.held() <= ALL + if is_first_free { holder * ONE } else { 0 }, "{}", all.held());
            }
            assert!(!all.share(1).grow(1));
            drop(held);
            assert_eq!((all.held(), all.0.lock().holders.len()), (0, 0));
        }
    }

    #[test]
    fn shares_grow_and_end() {
        let all = Shares::new(100);
        let mut share = all.share("a");
        assert!(share.grow(10) && share.grow(5) && share.grow(50));
        assert!(!share.grow(51));
        assert_eq!(all.held(), 50);
        share.clear();
        assert_eq!(all.held(), 0);
        assert!(share.grow(20));
        drop(share);
        assert_eq!((all.held(), all.0.lock().holders.len()), (0, 0));
    }
}
