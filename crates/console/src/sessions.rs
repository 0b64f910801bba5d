//! Sessions of browsers, and codes of sign-in links. Both are in memory only and end with the server.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hashbrown::HashMap;
use parking_lot::Mutex;

/// How many sessions there are at most. The one that was not used for longest makes room.
const SESSIONS_MAX: usize = 256;
/// How many of them one user has.
const SESSIONS_OF_USER_MAX: usize = 16;
/// How long a session lasts that is not used, and at most.
const IDLE_SECONDS: i64 = 60 * 60;
const LASTS_SECONDS: i64 = 8 * 60 * 60;
/// How long a code is good for, and how many there are at most.
const CODE_SECONDS: i64 = 15 * 60;
const CODES_MAX: usize = 8;
/// The same for tokens of issuers, which the request that brings them takes at once.
const ISSUED_SECONDS: i64 = 60;
const ISSUED_MAX: usize = 64;

/// A secret as it is kept: a copy of the server's memory opens no session.
type Digest = [u8; 32];

/// The credential that a session authenticates its requests with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A bearer token, which is asked about again with every request, so that the session ends when the token does.
    Token(String),
    /// A code of a sign-in link: the administrator.
    Administrator,
}

/// The secrets that a browser gets when it signs in.
#[derive(Debug)]
pub struct NewSession {
    /// The cookie's value, which no script sees.
    pub cookie: String,
    /// The value of the header that proves where a request comes from, which only the page has.
    pub key: String,
    /// The seconds that the session lasts at most.
    pub lasts: i64,
}

/// A session that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOf {
    pub credential: Credential,
    /// Names the session in the audit log, and when it is ended. It opens nothing.
    pub id: String,
    pub ends: i64,
}

struct BrowserSession {
    user: String,
    key: Digest,
    found: SessionOf,
    used: i64,
}

impl BrowserSession {
    fn is_over(&self, now: i64) -> bool {
        now >= self.found.ends || now >= self.used + IDLE_SECONDS
    }
}

/// All sessions, by the digest of their cookie.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<Digest, BrowserSession>>);

impl Sessions {
    pub fn begin(&self, user: &str, credential: Credential, now: i64) -> NewSession {
        let (cookie, key) = (secret(), secret());
        let by = digest_of(cookie.as_bytes());
        let id = URL_SAFE_NO_PAD.encode(by.get(..9).unwrap_or(&[]));
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| !session.is_over(now));
        if sessions.values().filter(|session| session.user == user).count() >= SESSIONS_OF_USER_MAX {
            remove_oldest(&mut sessions, |session| session.user == user);
        }
        if sessions.len() >= SESSIONS_MAX {
            remove_oldest(&mut sessions, |_| true);
        }
        let found = SessionOf { credential, id, ends: now + LASTS_SECONDS };
        sessions
            .insert(by, BrowserSession { user: user.to_string(), key: digest_of(key.as_bytes()), found, used: now });
        NewSession { cookie, key, lasts: LASTS_SECONDS }
    }

    /// The session of a cookie, if the page's key belongs to it.
    pub fn find(&self, cookie: &[u8], key: &[u8], now: i64) -> Option<SessionOf> {
        let by = digest_of(cookie);
        let mut sessions = self.0.lock();
        let session = sessions.get_mut(&by)?;
        if session.is_over(now) {
            sessions.remove(&by);
            return None;
        }
        // Digests are compared, so how long that takes says nothing about the key.
        if session.key != digest_of(key) {
            return None;
        }
        session.used = now;
        Some(session.found.clone())
    }

    /// Ends the session of this name.
    pub fn end(&self, id: &str) {
        self.0.lock().retain(|_, session| session.found.id != id);
    }
}

fn remove_oldest(sessions: &mut HashMap<Digest, BrowserSession>, of: impl Fn(&BrowserSession) -> bool) {
    let oldest = sessions.iter().filter(|(_, session)| of(session)).min_by_key(|(_, session)| session.used);
    if let Some(by) = oldest.map(|(by, _)| *by) {
        sessions.remove(&by);
    }
}

/// Something that is kept for one who knows a secret, and given out once. Only a few are kept, and not for long.
pub struct OneTime<T> {
    kept: Mutex<Vec<(Digest, i64, T)>>,
    count_max: usize,
    seconds: i64,
}

impl<T> OneTime<T> {
    fn new(count_max: usize, seconds: i64) -> OneTime<T> {
        OneTime { kept: Mutex::default(), count_max, seconds }
    }

    pub fn keep(&self, secret: &[u8], thing: T, now: i64) {
        let mut kept = self.kept.lock();
        kept.retain(|(_, ends, _)| now < *ends);
        if kept.len() >= self.count_max {
            kept.remove(0);
        }
        kept.push((digest_of(secret), now + self.seconds, thing));
    }

    pub fn take(&self, secret: &[u8], now: i64) -> Option<T> {
        let wanted = digest_of(secret);
        let mut kept = self.kept.lock();
        kept.retain(|(_, ends, _)| now < *ends);
        let at = kept.iter().position(|(known, ..)| *known == wanted)?;
        Some(kept.remove(at).2)
    }
}

/// Codes of sign-in links that have not been used.
pub struct Codes(OneTime<()>);

impl Default for Codes {
    fn default() -> Codes {
        Codes(OneTime::new(CODES_MAX, CODE_SECONDS))
    }
}

impl Codes {
    pub fn make(&self, now: i64) -> String {
        let code = secret();
        self.0.keep(code.as_bytes(), (), now);
        code
    }

    /// Whether the code is good. It is not good for a second time.
    pub fn take(&self, code: &[u8], now: i64) -> bool {
        self.0.take(code, now).is_some()
    }
}

/// ID tokens of issuers with their users, between the authentication of a request that signs a browser in and its answer. They are found by
/// what the browser sent.
pub struct IssuedTokens(pub OneTime<(String, String)>);

impl Default for IssuedTokens {
    fn default() -> IssuedTokens {
        IssuedTokens(OneTime::new(ISSUED_MAX, ISSUED_SECONDS))
    }
}

/// 256 random bits as text.
fn secret() -> String {
    let mut bytes = [0; 32];
    // Fails only where the operating system has no randomness; then there is no TLS either.
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system has randomness");
    URL_SAFE_NO_PAD.encode(bytes)
}

fn digest_of(secret: &[u8]) -> Digest {
    let mut made = [0; 32];
    made.copy_from_slice(digest(&SHA256, secret).as_ref());
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn a_session_needs_its_cookie_and_its_key_and_ends() {
        let sessions = Sessions::default();
        let token = Credential::Token("t".into());
        let (one, other) =
            (sessions.begin("alice", token.clone(), NOW), sessions.begin("bob", Credential::Administrator, NOW));
        let find = |cookie: &str, key: &str, now| {
            sessions.find(cookie.as_bytes(), key.as_bytes(), now).map(|found| found.credential)
        };
        assert_eq!(find(&one.cookie, &one.key, NOW), Some(token.clone()));
        for (cookie, key) in [
            (&one.cookie, &other.key),
            (&other.cookie, &one.key),
            (&one.key, &one.cookie),
            (&one.cookie, &String::new()),
        ] {
            assert_eq!(find(cookie, key, NOW), None);
        }
        assert_eq!(find(&one.cookie, &one.key, NOW + IDLE_SECONDS - 1), Some(token.clone()));
        // The other one was not used meanwhile.
        assert_eq!(find(&other.cookie, &other.key, NOW + IDLE_SECONDS), None);
        let mut now = NOW + IDLE_SECONDS;
        while now < NOW + LASTS_SECONDS {
            assert_eq!(find(&one.cookie, &one.key, now), Some(token.clone()));
            now += IDLE_SECONDS / 2;
        }
        assert_eq!(find(&one.cookie, &one.key, now), None);
    }

    #[test]
    fn a_session_can_be_ended_by_its_name() {
        let sessions = Sessions::default();
        let one = sessions.begin("alice", Credential::Administrator, NOW);
        let other = sessions.begin("alice", Credential::Administrator, NOW);
        let find = |new: &NewSession| sessions.find(new.cookie.as_bytes(), new.key.as_bytes(), NOW);
        sessions.end(&find(&one).unwrap().id);
        assert_eq!(find(&one), None);
        assert!(find(&other).is_some());
    }

    #[test]
    fn sessions_are_few_and_one_user_cannot_end_those_of_others() {
        let sessions = Sessions::default();
        let bob = sessions.begin("bob", Credential::Administrator, NOW);
        for at in 0..1000 {
            sessions.begin("alice", Credential::Administrator, NOW + at);
        }
        assert_eq!(sessions.0.lock().len(), SESSIONS_OF_USER_MAX + 1);
        assert!(sessions.find(bob.cookie.as_bytes(), bob.key.as_bytes(), NOW + 1000).is_some());
        for at in 0..1000 {
            sessions.begin(&at.to_string(), Credential::Administrator, NOW + 1000 + at);
        }
        assert_eq!(sessions.0.lock().len(), SESSIONS_MAX);
    }

    #[test]
    fn a_code_is_good_once_and_not_for_long() {
        let codes = Codes::default();
        let code = codes.make(NOW);
        assert!(!codes.take(b"", NOW));
        assert!(codes.take(code.as_bytes(), NOW + CODE_SECONDS - 1));
        assert!(!codes.take(code.as_bytes(), NOW + CODE_SECONDS - 1));
        let code = codes.make(NOW);
        assert!(!codes.take(code.as_bytes(), NOW + CODE_SECONDS));
        let first = codes.make(NOW);
        (0..CODES_MAX).for_each(|_| drop(codes.make(NOW)));
        assert!(!codes.take(first.as_bytes(), NOW));
        assert_eq!(codes.0.kept.lock().len(), CODES_MAX);
    }
}
