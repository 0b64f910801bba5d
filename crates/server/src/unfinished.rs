//! [`Unfinished`]: how many bytes are in memory of requests that have not arrived completely, by user.

use std::sync::Arc;

use http::{HeaderMap, Uri};
use object::Status;
use request::User;

use crate::connections::SHORT_HEAD_BYTES;
use crate::shares::{Share, Shares};

/// How many bytes of unfinished requests the server holds for all users together. With what connections may send before it is read
/// (`windows.rs`) that is 256 MiB.
pub const BYTES_MAX: usize = 192 * 1024 * 1024;
/// So much of one body counts at most. Bodies of objects are not longer, and others are passed on while they arrive.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The bytes of all bodies that have begun to arrive, have been waited for, and are not complete, with the headers of their requests.
/// One body of each user is always received.
#[derive(Clone)]
pub struct Unfinished(Shares<Arc<str>>);

impl Default for Unfinished {
    fn default() -> Unfinished {
        Unfinished(Shares::with_one_for_each(BYTES_MAX))
    }
}

impl Unfinished {
    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.0.held()
    }

    /// The account of one body, with nothing in it.
    pub fn account(&self, user: &str) -> Account {
        Account(self.0.share(user.into()))
    }

    /// Counts the headers of a request if they are longer than most. Members of `system:masters` are never refused.
    pub fn head(&self, user: &User, headers: &HeaderMap, uri: &Uri) -> Result<Option<Account>, Status> {
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let bytes = fields + uri.path_and_query().map_or(0, |target| target.as_str().len());
        if bytes <= SHORT_HEAD_BYTES || user.groups.iter().any(|group| group == User::MASTERS) {
            return Ok(None);
        }
        let mut account = self.account(&user.name);
        match account.set(bytes) {
            true => Ok(Some(account)),
            false => Err(Status::too_many_requests(
                "too many long headers of this user's requests are being held, please try again later",
                1,
            )),
        }
    }
}

/// The bytes that one body adds to those of its user, until it is dropped.
pub struct Account(Share<Arc<str>>);

impl Account {
    /// Notes how much of the body has arrived. False if that is more than its user may have.
    pub fn set(&mut self, arrived: usize) -> bool {
        self.0.grow(arrived.min(BODY_BYTES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
