//! One change as it lies in a file: a fixed head, the key, the value, a checksum. A chunk is any number of them in a row.
//!
//! ```text
//! revision i64 | create_revision i64 | version i64 | previous i64 | lease i64 | kind u8 | key length u32 | value length u32
//! | key | value | checksum u64
//! ```
//!
//! Numbers are little-endian. `previous` is the revision of the change of the same key before this one, 0 if there is
//! none. `lease` is the moment of expiry in milliseconds since 1970, 0 for never. A deletion has no value and zeros in
//! the fields of an entry. The checksum covers everything before it; formats 1 and 2 had none. This layout is part of the
//! file format (see `disk::FORMAT`).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Condition, Entry, Event, Key, Revision};
use xxhash_rust::xxh3::xxh3_64;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const HEAD_BYTES: usize = 5 * 8 + 1 + 2 * 4;
const CHECKSUM_BYTES: usize = 8;

/// Whether records end with a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Formats 1 and 2.
    Plain,
    /// Since format 3.
    Checked,
}

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
    /// 0 in the plain layout.
    pub checksum: u64,
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
    HEAD_BYTES + event.key.len() + event.entry.as_ref().map_or(0, |entry| entry.value.len()) + CHECKSUM_BYTES
}

/// Adds the event's record to a chunk.
pub(crate) fn encode(event: &Event, chunk: &mut Vec<u8>) {
    let previous = event.previous.as_ref().map_or(0, |entry| entry.mod_revision);
    match &event.entry {
        Some(entry) => encode_entry(entry, previous, chunk),
        None => push(DELETE, [event.revision, 0, 0, previous, 0], &event.key, &[], chunk),
    }
}

/// Adds the record that wrote this entry to a chunk.
pub(crate) fn encode_entry(entry: &Entry, previous: Revision, chunk: &mut Vec<u8>) {
    let numbers = [entry.mod_revision, entry.create_revision, entry.version, previous, entry.lease];
    push(PUT, numbers, &entry.key, &entry.value, chunk);
}

fn push(kind: u8, numbers: [i64; 5], key: &[u8], value: &[u8], chunk: &mut Vec<u8>) {
    let start = chunk.len();
    for number in numbers {
        chunk.extend_from_slice(&number.to_le_bytes());
    }
    chunk.push(kind);
    chunk.extend_from_slice(&(key.len() as u32).to_le_bytes());
    chunk.extend_from_slice(&(value.len() as u32).to_le_bytes());
    chunk.extend_from_slice(key);
    chunk.extend_from_slice(value);
    let checksum = xxh3_64(&chunk[start..]);
    chunk.extend_from_slice(&checksum.to_le_bytes());
}

/// The records of a chunk, in order. Ends after the first that cannot be read.
pub(crate) fn records(chunk: &[u8], layout: Layout) -> impl Iterator<Item = Result<Record<'_>, String>> {
    let mut rest = Some(chunk);
    std::iter::from_fn(move || {
        let bytes = rest.take().filter(|bytes| !bytes.is_empty())?;
        let record = split(bytes, layout);
        if let Ok(record) = &record {
            rest = Some(&bytes[record.bytes.len()..]);
        }
        Some(record)
    })
}

/// The chunk with checksums.
pub(crate) fn checked(chunk: &[u8], layout: Layout) -> Result<Cow<'_, [u8]>, String> {
    if layout == Layout::Checked {
        return Ok(Cow::Borrowed(chunk));
    }
    let mut checked = Vec::with_capacity(chunk.len() + CHECKSUM_BYTES);
    for record in records(chunk, layout) {
        let record = record?;
        checked.extend_from_slice(record.bytes);
        checked.extend_from_slice(&xxh3_64(record.bytes).to_le_bytes());
    }
    Ok(Cow::Owned(checked))
}

/// A record among damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Remains<'a> {
    Whole(Record<'a>),
    /// It lies between whole records, and something in it is not as it was written.
    Damaged(Record<'a>),
}

impl<'a> Remains<'a> {
    pub fn whole(self) -> Option<Record<'a>> {
        match self {
            Remains::Whole(record) => Some(record),
            Remains::Damaged(_) => None,
        }
    }
}

/// The records in damaged bytes, wherever they begin.
pub(crate) fn salvage(bytes: &[u8]) -> impl Iterator<Item = Remains<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Ok(record) = split(rest, Layout::Checked) {
                at += record.bytes.len();
                return Some(Remains::Whole(record));
            }
            // Its lengths are right if they lead to another record or to the end.
            let after = |record: &Record| rest.get(record.bytes.len() + CHECKSUM_BYTES..);
            let is_followed = |record: &Record| {
                after(record).is_some_and(|next| next.is_empty() || split(next, Layout::Checked).is_ok())
            };
            if let Some(record) = split(rest, Layout::Plain).ok().filter(is_followed) {
                at += record.bytes.len() + CHECKSUM_BYTES;
                return Some(Remains::Damaged(record));
            }
            at += 1;
        }
        None
    })
}

fn split(bytes: &[u8], layout: Layout) -> Result<Record<'_>, String> {
    let cut = || "a record is cut short".to_string();
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(cut)?;
    let number =
        |at: usize, width: usize| head[at..at + width].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let kind = head[40];
    let (key_len, value_len) = (number(41, 4) as usize, number(45, 4) as usize);
    let (key, rest) = rest.split_at_checked(key_len).ok_or_else(cut)?;
    let (value, rest) = rest.split_at_checked(value_len).ok_or_else(cut)?;
    let end = HEAD_BYTES + key_len + value_len;
    let revision = number(0, 8) as i64;
    if kind != PUT && kind != DELETE {
        return Err(format!("the record of revision {revision} is of unknown kind {kind}"));
    }
    let previous = number(24, 8) as i64;
    if previous < 0 || previous >= revision {
        return Err(format!("the record of revision {revision} names {previous} as its predecessor"));
    }
    let mut record = Record {
        revision,
        create_revision: number(8, 8) as i64,
        version: number(16, 8) as i64,
        previous,
        lease: number(32, 8) as i64,
        is_delete: kind == DELETE,
        key,
        value,
        checksum: 0,
        bytes: &bytes[..end],
    };
    if layout == Layout::Checked {
        let stored = rest.first_chunk::<CHECKSUM_BYTES>().ok_or_else(cut)?;
        record.checksum = u64::from_le_bytes(*stored);
        if record.checksum != xxh3_64(record.bytes) {
            return Err(format!("the record of revision {revision} does not match its checksum"));
        }
        record.bytes = &bytes[..end + CHECKSUM_BYTES];
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
        let found: Vec<_> = records(&chunk, Layout::Checked).map(Result::unwrap).collect();
        assert_eq!(found.len(), events.len());
        for (record, event) in found.iter().zip(&events) {
            assert_eq!((record.revision, record.key), (12, event.key.as_bytes()));
            assert_eq!(record.entry(), event.entry);
            assert_eq!(record.previous, event.previous.as_ref().map_or(0, |entry| entry.mod_revision));
            assert_eq!(records(record.bytes, Layout::Checked).next().unwrap().unwrap(), *record);
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut chunk = Vec::new();
        encode(&put(b"value"), &mut chunk);
        let first = |chunk: &[u8]| records(chunk, Layout::Checked).next().unwrap().map(drop);
        for end in 1..chunk.len() {
            assert!(first(&chunk[..end]).is_err(), "{end}");
        }
        for at in 0..chunk.len() {
            for mask in [1, 0x80, 0xff] {
                let mut damaged = chunk.clone();
                damaged[at] ^= mask;
                assert!(first(&damaged).is_err(), "byte {at}");
            }
        }
        let mut trailing = chunk.clone();
        trailing.push(0);
        assert!(records(&trailing, Layout::Checked).nth(1).unwrap().is_err());
    }

    #[test]
    fn plain_records_get_checksums() {
        let mut expected = Vec::new();
        encode(&put(b"one"), &mut expected);
        let one = expected.len();
        encode(&put(b"another"), &mut expected);
        let end = expected.len() - CHECKSUM_BYTES;
        let plain = [&expected[..one - CHECKSUM_BYTES], &expected[one..end]].concat();
        assert_eq!(records(&plain, Layout::Plain).map(Result::unwrap).count(), 2);
        assert_eq!(checked(&plain, Layout::Plain).unwrap(), expected);
        assert_eq!(checked(&expected, Layout::Checked).unwrap(), expected);
    }

    #[test]
    fn whole_records_are_found_among_damaged_ones() {
        let mut chunk = Vec::new();
        let starts = [&b"one"[..], b"two", b"three", b"four"].map(|value| {
            let start = chunk.len();
            encode(&put(value), &mut chunk);
            start
        });
        let found = |chunk: &[u8]| {
            let text = |record: Record| String::from_utf8_lossy(record.value).into_owned();
            let describe = |remains| match remains {
                Remains::Whole(record) => text(record),
                Remains::Damaged(record) => format!("damaged {}", text(record)),
            };
            salvage(chunk).map(describe).collect::<Vec<_>>()
        };
        assert_eq!(found(&chunk), ["one", "two", "three", "four"]);
        // A length that leads beyond the next record, and a flipped value.
        chunk[starts[1] + 41] ^= 0x20;
        let last = chunk.len() - CHECKSUM_BYTES - 1;
        chunk[last] ^= 1;
        assert_eq!(found(&chunk), ["one", "three", "damaged fous"]);
        assert_eq!(found(&[0; 1000]), [""; 0]);
    }
}
