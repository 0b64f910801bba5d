//! [`Unfinished`]: how many bytes of request bodies are in memory that have not arrived completely, by user.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// How many bytes of unfinished bodies the server holds for all users together. With what connections may send before it is read
/// (`windows.rs`) that is 256 MiB.
pub const BYTES_MAX: usize = 192 * 1024 * 1024;
/// So much of one body counts at most. Bodies of objects are not longer, and others are passed on while they arrive.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The bytes of all bodies that have begun to arrive, have been waited for, and are not complete. A user may have as many as are free
/// for all: one gets half of them, two a third each, and there is always some room for the next. One body of each user is always
/// received.
#[derive(Clone, Default)]
pub struct Unfinished(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    bytes: usize,
    users: HashMap<Arc<str>, usize>,
}

impl Unfinished {
    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// The account of one body, with nothing in it.
    pub fn account(&self, user: &str) -> Account {
        Account { all: self.clone(), user: user.into(), bytes: 0 }
    }
}

/// What one body adds to the bytes of its user, until it is dropped.
pub struct Account {
    all: Unfinished,
    user: Arc<str>,
    bytes: usize,
}

impl Account {
    /// Notes how much of the body has arrived. False if that is more than its user may have.
    pub fn set(&mut self, arrived: usize) -> bool {
        let arrived = arrived.min(BODY_BYTES_MAX);
        let Some(more) = arrived.checked_sub(self.bytes).filter(|more| *more > 0) else { return true };
        let mut state = self.all.0.lock();
        let of_user = state.users.get(&self.user).copied().unwrap_or_default();
        let is_only_one = of_user == self.bytes;
        if !is_only_one && state.bytes + of_user + 2 * more > BYTES_MAX {
            return false;
        }
        state.bytes += more;
        *state.users.entry(self.user.clone()).or_default() += more;
        self.bytes = arrived;
        true
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.all.0.lock();
        state.bytes -= self.bytes;
        if let Some(of_user) = state.users.get_mut(&self.user) {
            *of_user -= self.bytes;
            if *of_user == 0 {
                state.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: usize = 250_000;

    /// Receives bodies until one is refused.
    fn fill(all: &Unfinished, user: &str) -> Vec<Account> {
        let body = || {
            let mut account = all.account(user);
            account.set(BODY).then_some(account)
        };
        std::iter::from_fn(body).collect()
    }

    #[test]
    fn users_share_what_is_free() {
        let all = Unfinished::default();
        let mut held = Vec::new();
        for users in 1..=40 {
            let bodies = fill(&all, &format!("user {users}"));
            // The first has half of all, the next half of the rest, and so on; there is always some room.
            assert!(!bodies.is_empty(), "{users}");
            if users == 1 {
                assert!((BYTES_MAX / 2 - BODY..=BYTES_MAX / 2).contains(&all.bytes()), "{}", all.bytes());
            }
            held.push(bodies);
            assert!(all.bytes() <= BYTES_MAX + users * BODY, "{}", all.bytes());
        }
        assert!(!all.account("user 1").set(1));
        drop(held);
        assert_eq!((all.bytes(), all.0.lock().users.len()), (0, 0));
    }

    #[test]
    fn a_body_counts_as_far_as_it_is_kept() {
        let all = Unfinished::default();
        let mut passed_on = all.account("a");
        for arrived in [1, 10, BODY_BYTES_MAX, 1 << 40] {
            assert!(passed_on.set(arrived));
        }
        assert_eq!(all.bytes(), BODY_BYTES_MAX);
        drop(passed_on);
        assert_eq!(all.bytes(), 0);
    }
}
