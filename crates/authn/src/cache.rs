//! [`TokenCache`]: what is known about tokens that were seen a moment ago.
//!
//! The keys are keyed hashes, so that neither a dump of the memory nor the timing of a lookup tells a token. Age is counted on
//! a clock that nobody sets: a step of the wall clock must not keep what was revoked.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::hmac;
use tokio::time::Instant;

use crate::Token;

/// Twice as many tokens as the largest clusters use at once.
const STRIPES: usize = 32;
const STRIPE_ENTRIES: usize = 1024;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) type Hash = [u8; 32];

/// Values by token and wanted audiences.
pub struct TokenCache<V> {
    key: hmac::Key,
    ttl: Duration,
    stripes: Vec<Mutex<Recent<Hash, V>>>,
}

/// Values that are good for a while. When it is full it forgets what is too old, and everything if that is not enough.
pub(crate) struct Recent<K, V> {
    entries: HashMap<K, (Instant, V)>,
    entries_max: usize,
}

impl<K: Eq + std::hash::Hash, V: Clone> Recent<K, V> {
    pub fn new(entries_max: usize) -> Self {
        Recent { entries: HashMap::new(), entries_max }
    }

    pub fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.entries.get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    pub fn put(&mut self, key: K, value: V, now: Instant, ttl: Duration) {
        // What would last longer than the clock can count lasts for a year.
        let until = now.checked_add(ttl).unwrap_or(now + YEAR);
        if self.entries.len() >= self.entries_max {
            self.entries.retain(|_, (until, _)| now < *until);
        }
        if self.entries.len() >= self.entries_max {
            self.entries.clear();
        }
        self.entries.insert(key, (until, value));
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl<V: Clone> TokenCache<V> {
    pub fn new(ttl: Duration) -> TokenCache<V> {
        let secret: [u8; 32] = rand::random();
        TokenCache {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            ttl,
            stripes: (0..STRIPES).map(|_| Mutex::new(Recent::new(STRIPE_ENTRIES))).collect(),
        }
    }

    pub fn get(&self, token: &Token<'_>) -> Option<V> {
        let hash = self.hash(token);
        let stripe = self.stripe(&hash).lock().unwrap_or_else(PoisonError::into_inner);
        stripe.get(&hash, Instant::now())
    }

    pub fn put(&self, token: &Token<'_>, value: &V) {
        let hash = self.hash(token);
        let mut stripe = self.stripe(&hash).lock().unwrap_or_else(PoisonError::into_inner);
        stripe.put(hash, value.clone(), Instant::now(), self.ttl);
    }

    pub(crate) fn hash(&self, token: &Token<'_>) -> Hash {
        let mut context = hmac::Context::with_key(&self.key);
        // Lengths keep "xy" + "z" and "x" + "yz" apart.
        for part in std::iter::once(token.text).chain(token.audiences.iter().map(String::as_str)) {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.sign().as_ref());
        hash
    }

    fn stripe(&self, hash: &Hash) -> &Mutex<Recent<Hash, V>> {
        &self.stripes[usize::from(hash[0]) % STRIPES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokens_are_remembered_for_a_while() {
        let cache = TokenCache::new(Duration::from_secs(10));
        let (ours, theirs) = (["a".to_string()], ["b".to_string()]);
        let token = |now, audiences| Token { text: "t", audiences, now };
        cache.put(&token(10_000, &ours[..]), &7);
        tokio::time::advance(Duration::from_secs(9)).await;
        // The wall clock may have been set meanwhile.
        for now in [10_009, 2_800, 14_000] {
            assert_eq!(cache.get(&token(now, &ours[..])), Some(7), "{now}");
        }
        assert_eq!(cache.get(&token(10_009, &theirs[..])), None);
        assert_eq!(cache.get(&Token { text: "x", ..token(10_009, &ours[..]) }), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        for now in [10_010, 2_800, 14_000] {
            assert_eq!(cache.get(&token(now, &ours[..])), None, "{now}");
        }
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut recent = Recent::new(2);
        for (key, now) in [(1, 0), (2, 5), (3, 11)] {
            recent.put(key, key, at(now), Duration::from_secs(10));
        }
        assert_eq!((recent.get(&1, at(11)), recent.get(&2, at(11)), recent.get(&3, at(11))), (None, Some(2), Some(3)));
        recent.put(4, 4, at(12), Duration::MAX);
        assert_eq!((recent.get(&3, at(12)), recent.get(&4, at(12))), (None, Some(4)));
    }
}
