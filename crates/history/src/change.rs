//! One recorded change, and how it is written.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use storage::{Condition, Entry, Key, Revision};

/// Who made a change and how, as far as the server knows.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Origin {
    /// The name of the user the request acted as.
    #[prost(string, tag = "1")]
    pub user: String,
    /// The user who impersonated that user; "" if there was none.
    #[prost(string, tag = "2")]
    pub impersonator: String,
    /// The `User-Agent` header.
    #[prost(string, tag = "3")]
    pub user_agent: String,
    /// The request's verb, such as `patch`.
    #[prost(string, tag = "4")]
    pub verb: String,
    /// The request's subresource, such as `status`.
    #[prost(string, tag = "5")]
    pub subresource: String,
    /// The request's `Audit-ID`.
    #[prost(string, tag = "6")]
    pub audit_id: String,
}

/// The longest text of an [`Origin`].
const TEXT_BYTES_MAX: usize = 512;

impl Origin {
    /// The origin of a request that acts as another user, if it does.
    pub fn acting_as(mut self, user: &str) -> Origin {
        if self.user != user {
            self.impersonator = std::mem::replace(&mut self.user, user.to_string());
            return self.cut();
        }
        self
    }

    /// The origin with each of its texts cut to what is kept of it.
    pub fn cut(mut self) -> Origin {
        let Origin { user, impersonator, user_agent, verb, subresource, audit_id } = &mut self;
        for text in [user, impersonator, user_agent, verb, subresource, audit_id] {
            let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        self
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Origin>() + self.encoded_len()
    }
}

/// Everything about a change besides values.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The revision of the change.
    pub revision: Revision,
    /// When it was made, in milliseconds since 1970.
    pub time: i64,
    /// The key that changed.
    pub key: Key,
    /// Whether the key was created, replaced or removed.
    pub what: What,
    /// Who made it; None if it was not a request to this server.
    pub origin: Option<Arc<Origin>>,
}

/// The effect of a change on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It did not exist before.
    Created,
    /// It got another value.
    Updated,
    /// It was removed or has expired.
    Deleted,
}

/// The state of a key before a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Replaced {
    /// The key did not exist.
    Nothing,
    /// This entry.
    Entry(Arc<Entry>),
    /// The store did not know any more when the change was recorded.
    Unknown,
}

/// A change with the value that it replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Everything about it besides values.
    pub head: Head,
    /// The state of the key before it.
    pub replaced: Replaced,
}

/// A change as it is written to a journal. Chunks have the value apart.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Written {
    #[prost(int64, tag = "1")]
    pub revision: i64,
    #[prost(int64, tag = "2")]
    pub time: i64,
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    #[prost(uint32, tag = "4")]
    pub what: u32,
    #[prost(message, optional, tag = "5")]
    pub origin: Option<Origin>,
    #[prost(message, optional, tag = "6")]
    pub replaced: Option<WrittenEntry>,
    #[prost(bool, tag = "7")]
    pub unknown: bool,
    #[prost(bytes = "bytes", tag = "8")]
    pub value: Bytes,
    /// Where a chunk has the value.
    #[prost(message, optional, tag = "9")]
    pub place: Option<ValuePlace>,
}

/// A replaced entry without its value.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WrittenEntry {
    #[prost(int64, tag = "1")]
    pub create_revision: i64,
    #[prost(int64, tag = "2")]
    pub mod_revision: i64,
    #[prost(int64, tag = "3")]
    pub version: i64,
    #[prost(int64, tag = "4")]
    pub lease: i64,
}

/// A value in a chunk: a block, and where it is in the block.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ValuePlace {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint32, tag = "2")]
    pub start: u32,
    #[prost(uint32, tag = "3")]
    pub length: u32,
}

impl Written {
    pub fn of(change: &Change) -> Written {
        let Head { revision, time, key, what, origin } = &change.head;
        let entry = match &change.replaced {
            Replaced::Entry(entry) => Some(entry),
            Replaced::Nothing | Replaced::Unknown => None,
        };
        Written {
            revision: *revision,
            time: *time,
            key: key.to_bytes(),
            what: match what {
                What::Created => 0,
                What::Updated => 1,
                What::Deleted => 2,
            },
            origin: origin.as_deref().cloned(),
            replaced: entry.map(|entry| WrittenEntry {
                create_revision: entry.create_revision,
                mod_revision: entry.mod_revision,
                version: entry.version,
                lease: entry.lease,
            }),
            unknown: change.replaced == Replaced::Unknown,
            value: entry.map(|entry| entry.value.clone()).unwrap_or_default(),
            place: None,
        }
    }

    /// The same without the value and what belongs to it.
    pub fn head_only(mut self) -> Written {
        (self.replaced, self.place, self.value) = (None, None, Bytes::new());
        self
    }

    pub fn head(&self) -> Head {
        Head {
            revision: self.revision,
            time: self.time,
            key: self.key.clone().into(),
            what: match self.what {
                0 => What::Created,
                1 => What::Updated,
                _ => What::Deleted,
            },
            origin: self.origin.clone().map(Arc::new),
        }
    }

    /// The change, whose value was read from its place if it has one.
    pub fn change(self, value: Bytes) -> Change {
        let head = self.head();
        let replaced = match self.replaced {
            _ if self.unknown => Replaced::Unknown,
            None => Replaced::Nothing,
            Some(entry) => Replaced::Entry(Arc::new(Entry {
                key: head.key.clone(),
                value,
                create_revision: entry.create_revision,
                mod_revision: entry.mod_revision,
                version: entry.version,
                lease: entry.lease,
                condition: Condition::Good,
            })),
        };
        Change { head, replaced }
    }
}

/// Bytes that sort as (key, revision) do: zeros of the key are escaped, so that no key is the beginning of another.
pub(crate) fn by_key(key: &[u8], revision: Revision) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 10);
    for byte in key {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&revision.max(0).to_be_bytes());
    out
}

/// The sort bytes of the first change of any key that is not below `key`.
pub(crate) fn from_key(key: &[u8]) -> Vec<u8> {
    let mut out = by_key(key, 0);
    out.truncate(out.len() - 8);
    out
}

/// Bytes that sort as (revision, key) do.
pub(crate) fn by_revision(revision: Revision, key: &[u8]) -> Vec<u8> {
    let mut out = revision.max(0).to_be_bytes().to_vec();
    out.extend_from_slice(key);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sort_bytes_sort_as_keys_and_revisions(
            one in proptest::collection::vec(0u8..3, 0..5), r in 0i64..4, two in proptest::collection::vec(0u8..3, 0..5), s in 0i64..4
        ) {
            prop_assert_eq!(by_key(&one, r).cmp(&by_key(&two, s)), (&one, r).cmp(&(&two, s)));
            prop_assert_eq!(from_key(&one) <= by_key(&two, s), one <= two);
            prop_assert_eq!(by_revision(r, &one).cmp(&by_revision(s, &two)), (r, &one).cmp(&(s, &two)));
        }

        #[test]
        fn bytes_that_are_no_change_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(written) = Written::decode(&bytes[..]) {
                let value = written.value.clone();
                drop(written.change(value));
            }
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let origin = Origin { user: "ä".repeat(400), user_agent: "x".repeat(600), ..Origin::default() }.cut();
        assert_eq!((origin.user.len(), origin.user_agent.len()), (512, 512));
        let origin = Origin { user: "€".repeat(400), ..Origin::default() }.cut();
        assert_eq!(origin.user.len(), 510);
    }
}
