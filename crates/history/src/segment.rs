//! A segment: a chunk or the journal, read in the same way; and several of them, read as one.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use storage::{KeyRange, Revision};

use crate::change::{Change, Replaced, Written, by_key, from_key};
use crate::chunk::Chunk;
use crate::error::{Error, Result};
use crate::journal::{Journal, JournalCursor, Order, key_of};
use crate::table::{TableCursor, last_block_until};

/// Every change of some revisions.
#[derive(Clone)]
pub(crate) enum Segment {
    Chunk(Arc<Chunk>),
    Journal(Arc<Journal>),
}

impl Segment {
    /// It has every change after this revision.
    pub fn from(&self) -> Revision {
        match self {
            Segment::Chunk(chunk) => chunk.footer.from,
            Segment::Journal(journal) => journal.from,
        }
    }

    /// And up to this one.
    pub fn to(&self) -> Revision {
        match self {
            Segment::Chunk(chunk) => chunk.footer.to,
            Segment::Journal(journal) => journal.to(),
        }
    }

    pub fn begun(&self) -> i64 {
        match self {
            Segment::Chunk(chunk) => chunk.footer.begun,
            Segment::Journal(journal) => journal.begun,
        }
    }

    pub fn min_time(&self) -> Option<i64> {
        match self {
            Segment::Chunk(chunk) => (chunk.footer.changes > 0).then_some(chunk.footer.min_time),
            Segment::Journal(journal) => journal.times().map(|(least, _)| least),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Segment::Chunk(chunk) => chunk.bytes,
            Segment::Journal(journal) => journal.bytes(),
        }
    }

    pub fn cursor(&self, order: Order, from: &[u8]) -> Result<SegmentCursor> {
        Ok(match self {
            Segment::Journal(journal) => SegmentCursor::Journal(JournalCursor::at(journal, order, from)),
            Segment::Chunk(chunk) => {
                let root = match order {
                    Order::Key => &chunk.by_key,
                    Order::Revision => &chunk.by_revision,
                };
                SegmentCursor::Chunk(chunk.clone(), chunk.cursor(root, from)?)
            }
        })
    }

    /// The last change, in the order of revisions, that was made until then.
    pub fn last_until(&self, time: i64) -> Result<Option<Revision>> {
        let chunk = match self {
            Segment::Journal(journal) => return Ok(journal.last_until(time)),
            Segment::Chunk(chunk) => chunk,
        };
        let Some(block) = last_block_until(&chunk.blocks, &chunk.by_revision, time)? else { return Ok(None) };
        let mut cursor = TableCursor::within(&chunk.blocks, block)?;
        let mut last = None;
        while cursor.key().is_some() {
            let written = chunk.read_head(&cursor)?;
            if written.time <= time {
                last = Some(written.revision);
            }
            cursor.step()?;
        }
        Ok(last)
    }
}

/// A place in a segment, in one of its orders.
pub(crate) enum SegmentCursor {
    Chunk(Arc<Chunk>, TableCursor),
    Journal(JournalCursor),
}

impl SegmentCursor {
    /// The sort key of the current change; none at the end.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            SegmentCursor::Chunk(_, cursor) => cursor.key(),
            SegmentCursor::Journal(cursor) => cursor.key(),
        }
    }

    pub fn step(&mut self) -> Result<()> {
        match self {
            SegmentCursor::Chunk(_, cursor) => cursor.step(),
            SegmentCursor::Journal(cursor) => {
                cursor.step();
                Ok(())
            }
        }
    }

    /// To the first change that is sorted no lower than `key`; never back.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            SegmentCursor::Chunk(_, cursor) => cursor.seek(key),
            SegmentCursor::Journal(cursor) => {
                cursor.seek(key);
                Ok(())
            }
        }
    }

    /// The current change; its value may be somewhere else.
    pub fn written(&self) -> Result<Written> {
        match self {
            SegmentCursor::Chunk(chunk, cursor) => chunk.read_head(cursor),
            SegmentCursor::Journal(cursor) => cursor.written(),
        }
    }

    /// The current change, of the order of keys, with the value that it replaced.
    pub fn change(&self) -> Result<Change> {
        let written = self.written()?;
        let value = match self {
            SegmentCursor::Chunk(chunk, _) => chunk.value(&written)?,
            SegmentCursor::Journal(_) => written.value.clone(),
        };
        Ok(written.change(value))
    }
}

/// The first change after a revision of each key of a range, in the order of keys.
pub(crate) struct FirstChanges {
    cursors: Vec<SegmentCursor>,
    after: Revision,
    end: Option<Vec<u8>>,
    has_values: bool,
}

impl FirstChanges {
    /// `segments` have every change after `after`.
    pub fn of(segments: &[Segment], range: &KeyRange, after: Revision) -> Result<FirstChanges> {
        let start = from_key(&range.start);
        let cursors: Result<Vec<_>> = segments.iter().map(|segment| segment.cursor(Order::Key, &start)).collect();
        Ok(FirstChanges {
            cursors: cursors?,
            after,
            end: range.end.as_ref().map(|end| from_key(end)),
            has_values: true,
        })
    }

    /// Whether values are left out from here on, for a reader that only counts.
    pub fn without_values(&mut self, without: bool) {
        self.has_values = !without;
    }

    /// The next changes, up to so many with about so many bytes; none at the end.
    pub fn some(&mut self, most: usize, enough_bytes: usize) -> Result<VecDeque<Change>> {
        let (mut read, mut bytes) = (VecDeque::new(), 0);
        while read.len() < most && bytes < enough_bytes {
            let Some(change) = self.next()? else { break };
            if let Replaced::Entry(entry) = &change.replaced {
                bytes += entry.value.len();
            }
            read.push_back(change);
        }
        Ok(read)
    }

    /// The next change.
    pub fn next(&mut self) -> Result<Option<Change>> {
        loop {
            let least = self.cursors.iter().enumerate().filter_map(|(at, cursor)| Some((cursor.key()?, at))).min();
            let Some((sort, at)) = least else { return Ok(None) };
            if self.end.as_ref().is_some_and(|end| sort >= &end[..]) {
                return Ok(None);
            }
            let written = self.cursors[at].written()?;
            if written.revision <= self.after {
                let next = by_key(&written.key, self.after.saturating_add(1));
                self.cursors[at].seek(&next)?;
                continue;
            }
            let change = match self.has_values {
                true => self.cursors[at].change()?,
                false => written.clone().change(Bytes::new()),
            };
            let next = from_key(&key_of(&written).successor());
            for cursor in &mut self.cursors {
                cursor.seek(&next)?;
            }
            return Ok(Some(change));
        }
    }
}

/// The segments that together have every change after `after`, the first of which begins there or before it.
pub(crate) fn reaching_back(segments: &[Segment], after: Revision) -> Result<Vec<Segment>> {
    let needed: Vec<Segment> = segments.iter().filter(|segment| segment.to() > after).cloned().collect();
    let mut covered = after;
    for segment in &needed {
        if segment.from() > covered {
            return Err(Error::NotKept(after));
        }
        covered = segment.to();
    }
    Ok(needed)
}
