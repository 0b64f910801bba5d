//! [`TokenCache`]: tokens that were good a moment ago.
//!
//! What a token says is taken as true for ten seconds, as upstream does: a deleted service account's tokens work that much
//! longer. The keys are keyed hashes, so that neither a dump of the memory nor the timing of a lookup tells a token.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::hmac;

use crate::{Identity, Token};

/// How long a good credential is not looked at again.
const GOOD_FOR_SECONDS: i64 = 10;
/// Twice as many tokens as the largest clusters use at once.
const STRIPES: usize = 32;
const STRIPE_ENTRIES: usize = 1024;

type Hash = [u8; 32];

pub struct TokenCache {
    key: hmac::Key,
    stripes: Vec<Mutex<Good<Hash>>>,
}

/// Whose credentials were good a moment ago. It forgets what is too old when it is full, and everything if that is not enough.
pub(crate) struct Good<K> {
    entries: HashMap<K, Entry>,
    entries_max: usize,
}

struct Entry {
    until: i64,
    identity: Identity,
}

impl<K: Eq + std::hash::Hash> Good<K> {
    pub fn new(entries_max: usize) -> Self {
        Good { entries: HashMap::new(), entries_max }
    }

    pub fn get(&self, key: &K, now: i64) -> Option<Identity> {
        self.entries.get(key).filter(|entry| now < entry.until).map(|entry| entry.identity.clone())
    }

    /// Caches an authenticated user until the entry's TTL or the credential's expiry, whichever comes first.
    pub fn put(&mut self, key: K, identity: &Identity, now: i64) {
        if self.entries.len() >= self.entries_max {
            self.entries.retain(|_, entry| now < entry.until);
        }
        if self.entries.len() >= self.entries_max {
            self.entries.clear();
        }
        let until = (now + GOOD_FOR_SECONDS).min(identity.certificate_ends.unwrap_or(i64::MAX));
        self.entries.insert(key, Entry { until, identity: identity.clone() });
    }
}

impl Default for TokenCache {
    fn default() -> TokenCache {
        let secret: [u8; 32] = rand::random();
        TokenCache {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            stripes: (0..STRIPES).map(|_| Mutex::new(Good::new(STRIPE_ENTRIES))).collect(),
        }
    }
}

impl TokenCache {
    pub fn get(&self, token: &Token<'_>) -> Option<Identity> {
        let hash = self.hash(token);
        let stripe = self.stripe(&hash).lock().unwrap_or_else(PoisonError::into_inner);
        stripe.get(&hash, token.now)
    }

    pub fn put(&self, token: &Token<'_>, identity: &Identity) {
        let hash = self.hash(token);
        let mut stripe = self.stripe(&hash).lock().unwrap_or_else(PoisonError::into_inner);
        stripe.put(hash, identity, token.now);
    }

    fn hash(&self, token: &Token<'_>) -> Hash {
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

    fn stripe(&self, hash: &Hash) -> &Mutex<Good<Hash>> {
        &self.stripes[usize::from(hash[0]) % STRIPES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_tokens_are_remembered_for_a_while() {
        let cache = TokenCache::default();
        let (ours, theirs) = (["a".to_string()], ["b".to_string()]);
        let token = |now, audiences| Token { text: "t", audiences, now };
        cache.put(&token(100, &ours[..]), &Identity::default());
        assert!(cache.get(&token(109, &ours[..])).is_some());
        assert!(cache.get(&token(110, &ours[..])).is_none());
        assert!(cache.get(&token(100, &theirs[..])).is_none());
        assert!(cache.get(&Token { text: "x", ..token(100, &ours[..]) }).is_none());
    }
}
