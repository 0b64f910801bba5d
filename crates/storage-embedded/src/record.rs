//! One change as it lies in the file: a fixed head, the key, the value. A chunk is any number of them in a row.
//!
//! ```text
//! revision i64 | create_revision i64 | version i64 | previous i64 | lease i64 | kind u8 | key length u32 | value length u32 | key | value
//! ```
//!
//! Numbers are little-endian. `previous` is the revision of the change of the same key before this one, 0 if there is
//! none. `lease` is the moment of expiry in milliseconds since 1970, 0 for never. A deletion has no value and zeros in
//! the fields of an entry. This layout is part of the file format (see `disk::FORMAT`).

use std::sync::Arc;

use bytes::Bytes;
use storage::{Condition, Entry, Event, Key, Revision};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const HEAD_BYTES: usize = 5 * 8 + 1 + 2 * 4;

/// A record where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record<'a> {
    pub revision: Revision,
    create_revision: Revision,
    version: i64,
    pub previous: Revision,
    lease: i64,
    pub is_delete: bool,
    pub key: &'a [u8],
    value: &'a [u8],
    /// All of it, to be copied elsewhere.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// The entry it wrote, with memory of its own; none for a deletion.
    pub fn entry(&self) -> Option<Arc<Entry>> {
        let entry = || Entry {
            key: Key::from(self.key),
            value: Bytes::copy_from_slice(self.value),
            create_revision: self.create_revision,
            mod_revision: self.revision,
            version: self.version,
            lease: self.lease,
            condition: Condition::Good,
        };
        (!self.is_delete).then(|| Arc::new(entry()))
    }
}

/// What the record of this event takes in the file.
pub(crate) fn encoded_len(event: &Event) -> usize {
    HEAD_BYTES + event.key.len() + event.entry.as_ref().map_or(0, |entry| entry.value.len())
}

/// Adds the event's record to a chunk.
pub(crate) fn encode(event: &Event, chunk: &mut Vec<u8>) {
    let previous = event.previous.as_ref().map_or(0, |entry| entry.mod_revision);
    let value = event.entry.as_ref().map_or(&[][..], |entry| &entry.value);
    let (kind, numbers) = match &event.entry {
        Some(entry) => (PUT, [event.revision, entry.create_revision, entry.version, previous, entry.lease]),
        None => (DELETE, [event.revision, 0, 0, previous, 0]),
    };
    for number in numbers {
        chunk.extend_from_slice(&number.to_le_bytes());
    }
    chunk.push(kind);
    chunk.extend_from_slice(&(event.key.len() as u32).to_le_bytes());
    chunk.extend_from_slice(&(value.len() as u32).to_le_bytes());
    chunk.extend_from_slice(&event.key);
    chunk.extend_from_slice(value);
}

/// The records of a chunk, in order. Ends after the first that cannot be read.
pub(crate) fn records(chunk: &[u8]) -> impl Iterator<Item = Result<Record<'_>, String>> {
    let mut rest = Some(chunk);
    std::iter::from_fn(move || {
        let bytes = rest.take().filter(|bytes| !bytes.is_empty())?;
        let record = split(bytes);
        if let Ok(record) = &record {
            rest = Some(&bytes[record.bytes.len()..]);
        }
        Some(record)
    })
}

fn split(bytes: &[u8]) -> Result<Record<'_>, String> {
    let cut = || "a record is cut short".to_string();
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(cut)?;
    let number =
        |at: usize, width: usize| head[at..at + width].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let kind = head[40];
    let (key_len, value_len) = (number(41, 4) as usize, number(45, 4) as usize);
    let (key, rest) = rest.split_at_checked(key_len).ok_or_else(cut)?;
    let (value, _) = rest.split_at_checked(value_len).ok_or_else(cut)?;
    let record = Record {
        revision: number(0, 8) as i64,
        create_revision: number(8, 8) as i64,
        version: number(16, 8) as i64,
        previous: number(24, 8) as i64,
        lease: number(32, 8) as i64,
        is_delete: kind == DELETE,
        key,
        value,
        bytes: &bytes[..HEAD_BYTES + key_len + value_len],
    };
    let revision = record.revision;
    if kind != PUT && kind != DELETE {
        return Err(format!("the record of revision {revision} is of unknown kind {kind}"));
    }
    if record.previous < 0 || record.previous >= revision {
        return Err(format!("the record of revision {revision} names {} as its predecessor", record.previous));
    }
    Ok(record)
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
            condition: Condition::Good,
        })
    }

    fn put(value: &'static [u8]) -> Event {
        Event { revision: 12, key: "/a/b".into(), entry: Some(entry(value)), previous: None }
    }

    #[test]
    fn what_was_written_is_read() {
        let previous = Arc::new(Entry { mod_revision: 9, ..(*entry(b"old")).clone() });
        let events = [
            Event { previous: Some(previous.clone()), ..put(b"\x00value") },
            Event { entry: None, previous: Some(previous), ..put(b"") },
            put(b""),
        ];
        let mut chunk = Vec::new();
        for event in &events {
            let before = chunk.len();
            encode(event, &mut chunk);
            assert_eq!(chunk.len() - before, encoded_len(event));
        }
        let found: Vec<_> = records(&chunk).map(Result::unwrap).collect();
        assert_eq!(found.len(), events.len());
        for (record, event) in found.iter().zip(&events) {
            assert_eq!((record.revision, record.key), (12, event.key.as_bytes()));
            assert_eq!(record.entry(), event.entry);
            assert_eq!(record.previous, event.previous.as_ref().map_or(0, |entry| entry.mod_revision));
            assert_eq!(records(record.bytes).next().unwrap().unwrap(), *record);
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut chunk = Vec::new();
        encode(&put(b"value"), &mut chunk);
        for end in 1..chunk.len() {
            assert!(records(&chunk[..end]).next().unwrap().is_err(), "{end}");
        }
        for (at, byte) in [(40, 0), (40, 3), (24, 12), (31, 0x80), (44, 0xff), (48, 0xff)] {
            let mut damaged = chunk.clone();
            damaged[at] = byte;
            assert!(records(&damaged).next().unwrap().is_err(), "byte {at}");
        }
        let mut trailing = chunk.clone();
        trailing.push(0);
        assert!(records(&trailing).nth(1).unwrap().is_err());
    }
}
