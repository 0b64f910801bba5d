//! Reading a file of the write-ahead log.
//!
//! A frame that cannot be read is one of two things. If it is the last one and not all of its sectors were written, a crash
//! interrupted it before it was acknowledged, and it never happened. Otherwise it was acknowledged, because the next
//! frame is only written after the fsync of this one, and it was damaged later. Reading goes on behind it, and the
//! revisions that are missing are reported: the database may have them.

use std::fmt::{self, Display};
use std::path::PathBuf;

use storage::Revision;

use super::frames::{Head, Header, SECTOR_BYTES, is_written, join};
use super::plain;
use crate::record::{self, Layout, Remains};

/// What was found in a file.
#[derive(Default)]
pub(super) struct Found {
    pub header: Header,
    pub frames: Vec<Frame>,
    pub damage: Vec<Damage>,
    /// Where the next frame goes; 0 if another file has to be begun first.
    pub end: u64,
}

/// The records of one group.
pub(crate) struct Frame {
    pub first: Revision,
    pub last: Revision,
    pub payload: Vec<u8>,
    pub layout: Layout,
}

/// Revisions that were acknowledged and cannot be read from the file any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    pub file: PathBuf,
    /// Where it begins in the file.
    pub offset: u64,
    pub first: Revision,
    /// None if it is not known.
    pub last: Option<Revision>,
    /// The file's header is damaged, so that nothing is known of what it had.
    pub is_header: bool,
    /// What is left of it.
    pub remains: Vec<u8>,
}

impl Damage {
    /// Whether everything that was there has a revision up to this one.
    pub fn is_within(&self, revision: Revision) -> bool {
        // A damaged head leaves the records behind it to tell.
        let whole = || record::salvage(&self.remains).filter_map(Remains::whole);
        let known = || whole().map(|record| record.revision).max();
        !self.is_header && self.last.or_else(known).is_some_and(|last| last <= revision)
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.last {
            _ if self.is_header => write!(f, "the header of {file} is damaged"),
            None => write!(f, "{file} is damaged at byte {}, revision {} and later", self.offset, self.first),
            Some(last) => write!(f, "{file} is damaged at byte {}, revisions {} to {last}", self.offset, self.first),
        }
    }
}

/// What the sectors from some place on hold.
enum ScannedPlace {
    Whole(Frame, usize),
    /// A frame that a crash interrupted, or nothing.
    Unfinished,
    /// A frame that was written completely and cannot be read.
    Damaged(Option<Head>),
}

pub(super) fn scan(bytes: &[u8]) -> Found {
    let first_sector = bytes.get(..SECTOR_BYTES).unwrap_or(bytes);
    if let Some(header) = Header::parse(first_sector) {
        return Scan { bytes, nonce: header.nonce }.run(header);
    }
    if let Some(found) = plain::scan(bytes) {
        return found;
    }
    // A header is written as a whole or not at all.
    let is_header = first_sector.iter().any(|byte| *byte != 0);
    let damage = is_header.then(|| Damage { is_header, remains: join(bytes), ..Damage::default() });
    Found { damage: damage.into_iter().collect(), ..Found::default() }
}

struct Scan<'a> {
    bytes: &'a [u8],
    nonce: u64,
}

impl Scan<'_> {
    fn run(&self, header: Header) -> Found {
        let mut found = Found { header, ..Found::default() };
        let (mut at, mut last) = (1, header.after);
        loop {
            let head = match self.place(at) {
                ScannedPlace::Whole(frame, sectors) if frame.first == last + 1 => {
                    (at, last) = (at + sectors, frame.last);
                    found.frames.push(frame);
                    continue;
                }
                ScannedPlace::Damaged(head) => Some(head),
                ScannedPlace::Whole(..) | ScannedPlace::Unfinished => None,
            };
            let next = self.next_whole(at + 1, last);
            let (until, beginning) = next
                .as_ref()
                .map_or((self.bytes.len() / SECTOR_BYTES, None), |(sector, first)| (*sector, Some(*first)));
            let known = beginning.map(|first| first - 1).or(head.flatten().map(|head| head.last));
            if beginning.is_some() || head.is_some() {
                let until = if beginning.is_none() { self.end_of_written(at) } else { until };
                found.damage.push(Damage {
                    offset: (at * SECTOR_BYTES) as u64,
                    first: last + 1,
                    last: known,
                    remains: join(&self.bytes[at * SECTOR_BYTES..until * SECTOR_BYTES]),
                    ..Damage::default()
                });
            }
            match next {
                Some((sector, first)) => (at, last) = (sector, first - 1),
                None => break,
            }
        }
        // Sectors that an interrupted write left would make the next one look complete.
        let is_untouched = found.damage.is_empty() && !self.any_written(at);
        found.end = if is_untouched { (at * SECTOR_BYTES) as u64 } else { 0 };
        found
    }

    fn sector(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(at * SECTOR_BYTES..(at + 1) * SECTOR_BYTES)
    }

    fn is_written(&self, at: usize) -> bool {
        self.sector(at).is_some_and(|sector| is_written(sector, self.nonce))
    }

    fn place(&self, at: usize) -> ScannedPlace {
        let Some(sector) = self.sector(at).filter(|_| self.is_written(at)) else { return ScannedPlace::Unfinished };
        let Some(head) = Head::parse(sector, self.nonce) else { return ScannedPlace::Damaged(None) };
        let end = at + head.sectors();
        if !(at..end).all(|sector| self.is_written(sector)) {
            return ScannedPlace::Unfinished;
        }
        let payload = head.payload(&self.bytes[at * SECTOR_BYTES..end * SECTOR_BYTES]);
        if !has_all(&payload, &head) {
            return ScannedPlace::Damaged(Some(head));
        }
        let frame = Frame { first: head.first, last: head.last, payload, layout: Layout::Checked };
        ScannedPlace::Whole(frame, head.sectors())
    }

    /// The next frame that can be read, and its first revision.
    fn next_whole(&self, from: usize, last: Revision) -> Option<(usize, Revision)> {
        (from..self.bytes.len() / SECTOR_BYTES).find_map(|at| match self.place(at) {
            ScannedPlace::Whole(frame, _) if frame.first > last => Some((at, frame.first)),
            _ => None,
        })
    }

    fn end_of_written(&self, at: usize) -> usize {
        (at..).find(|at| !self.is_written(*at)).unwrap_or(at)
    }

    fn any_written(&self, from: usize) -> bool {
        (from..self.bytes.len() / SECTOR_BYTES).any(|at| self.is_written(at))
    }
}

/// Whether the payload has a record that matches its checksum for every revision of the frame.
fn has_all(payload: &[u8], head: &Head) -> bool {
    let mut next = head.first;
    for record in record::records(payload, Layout::Checked) {
        match record {
            Ok(record) if record.revision == next => next += 1,
            _ => return false,
        }
    }
    next == head.last + 1
}
