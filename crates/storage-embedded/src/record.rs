//! One change as it lies in the log: a fixed head, the key, the value.
//!
//! ```text
//! kind u8 | create_revision i64 | version i64 | previous i64 | lease i64 | key length u32 | key | value
//! ```
//!
//! Numbers are little-endian. `previous` is the revision of the change of the same key before this one, 0 if there is
//! none; compaction and previous values need it. `lease` is the moment of expiry in milliseconds since 1970, 0 for never.
//! A deletion has no value and zeros in the other fields. This layout is part of the file format (see `disk::FORMAT`).

use std::sync::Arc;

use bytes::Bytes;
use storage::{Entry, Event, Key, Revision};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const HEAD_BYTES: usize = 1 + 4 * 8 + 4;

pub(crate) struct Record {
    pub key: Key,
    /// None for a deletion.
    pub entry: Option<Arc<Entry>>,
    pub previous: Revision,
}

/// What the record of this event takes in the log.
pub(crate) fn encoded_len(event: &Event) -> usize {
    HEAD_BYTES + event.key.len() + event.entry.as_ref().map_or(0, |entry| entry.value.len())
}

pub(crate) fn encode(event: &Event, out: &mut Vec<u8>) {
    out.clear();
    let previous = event.previous.as_ref().map_or(0, |entry| entry.mod_revision);
    let (kind, numbers) = match &event.entry {
        Some(entry) => (PUT, [entry.create_revision, entry.version, previous, entry.lease]),
        None => (DELETE, [0, 0, previous, 0]),
    };
    out.push(kind);
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&(event.key.len() as u32).to_le_bytes());
    out.extend_from_slice(&event.key);
    if let Some(entry) = &event.entry {
        out.extend_from_slice(&entry.value);
    }
}

pub(crate) fn decode(revision: Revision, bytes: &[u8]) -> Result<Record, String> {
    let (head, key, value) = split(revision, bytes)?;
    let key = Key::from(key);
    let entry = (head.kind == PUT).then(|| {
        Arc::new(Entry {
            key: key.clone(),
            value: Bytes::copy_from_slice(value),
            create_revision: head.create_revision,
            mod_revision: revision,
            version: head.version,
            lease: head.lease,
            stale: false,
        })
    });
    Ok(Record { key, entry, previous: head.previous })
}

/// What compaction needs to know, without copying the value.
pub(crate) struct Outline {
    pub key: Key,
    pub is_delete: bool,
    pub previous: Revision,
}

pub(crate) fn outline(revision: Revision, bytes: &[u8]) -> Result<Outline, String> {
    let (head, key, _) = split(revision, bytes)?;
    Ok(Outline { key: Key::from(key), is_delete: head.kind == DELETE, previous: head.previous })
}

struct Head {
    kind: u8,
    create_revision: Revision,
    version: i64,
    previous: Revision,
    lease: i64,
}

fn split(revision: Revision, bytes: &[u8]) -> Result<(Head, &[u8], &[u8]), String> {
    let fail = |what: &str| format!("the log record of revision {revision} {what}");
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| fail("is cut short"))?;
    let number = |index: usize| {
        let at = 1 + index * 8;
        head[at..at + 8].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)) as i64
    };
    let key_len = head[HEAD_BYTES - 4..].iter().rev().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
    let (key, value) = rest.split_at_checked(key_len).ok_or_else(|| fail("is cut short in its key"))?;
    let head =
        Head { kind: head[0], create_revision: number(0), version: number(1), previous: number(2), lease: number(3) };
    if head.kind != PUT && head.kind != DELETE {
        return Err(fail(&format!("is of unknown kind {}", head.kind)));
    }
    if head.previous < 0 || head.previous >= revision {
        return Err(fail(&format!("names {} as its predecessor", head.previous)));
    }
    Ok((head, key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &'static [u8]) -> Arc<Entry> {
        Arc::new(Entry {
            key: "/a/b".into(),
            value: Bytes::from_static(value),
            create_revision: 7,
            mod_revision: 12,
            version: 3,
            lease: 1_700_000_000_123,
            stale: false,
        })
    }

    #[test]
    fn what_was_written_is_read() {
        let previous = Arc::new(Entry { mod_revision: 9, ..(*entry(b"old")).clone() });
        let put = Event {
            revision: 12,
            key: "/a/b".into(),
            entry: Some(entry(b"\x00value")),
            previous: Some(previous.clone()),
        };
        let delete = Event { entry: None, ..put.clone() };
        let empty = Event { entry: Some(entry(b"")), previous: None, ..put.clone() };
        for event in [put, delete, empty] {
            let mut bytes = vec![0xaa; 3];
            encode(&event, &mut bytes);
            assert_eq!(bytes.len(), encoded_len(&event));
            let record = decode(12, &bytes).unwrap();
            assert_eq!(record.key, event.key);
            assert_eq!(record.entry, event.entry);
            assert_eq!(record.previous, event.previous.as_ref().map_or(0, |entry| entry.mod_revision));
            let outline = outline(12, &bytes).unwrap();
            assert_eq!((outline.key, outline.is_delete), (event.key.clone(), event.is_delete()));
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut bytes = Vec::new();
        let event = Event { revision: 12, key: "/a/b".into(), entry: Some(entry(b"value")), previous: None };
        encode(&event, &mut bytes);
        for end in 0..HEAD_BYTES + 4 {
            assert!(decode(12, &bytes[..end]).is_err(), "{end}");
        }
        for (at, byte) in [(0, 0), (0, 3), (17, 12), (24, 0x80), (36, 0xff)] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            assert!(decode(12, &damaged).is_err(), "byte {at}");
        }
    }
}
