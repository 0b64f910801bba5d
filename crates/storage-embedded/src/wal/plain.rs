//! Files of the write-ahead log as earlier versions wrote them: frames from one byte to the next, records without
//! checksums. They are read once; what follows goes to a file of the current kind.
//!
//! ```text
//! file   magic 8 | generation u64 | nonce u64 | after i64 | checksum u64 | zeros up to 64 | frames
//! frame  checksum u64 | payload length u32 | first revision i64 | payload
//! ```

use storage::Revision;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::frames::Header;
use super::scan::{Damage, Found, Frame};
use crate::record::{self, Layout};

const MAGIC: [u8; 8] = *b"fk-wal\x00\x01";
const HEADER_BYTES: usize = 64;
const FRAME_HEAD_BYTES: usize = 8 + 4 + 8;
/// No frame begins with a revision that is further from the one before it; revisions count changes of one file.
const REVISIONS_MAX: Revision = 32 << 20;

/// None if the file does not have such a header.
pub(super) fn scan(bytes: &[u8]) -> Option<Found> {
    let header = Header::parse_as(MAGIC, bytes)?;
    let mut found = Found { header, ..Found::default() };
    let (mut at, mut last) = (HEADER_BYTES, header.after);
    loop {
        match frame_at(bytes, at, header.nonce).filter(|frame| frame.first == last + 1) {
            Some(frame) => {
                (at, last) = (at + FRAME_HEAD_BYTES + frame.payload.len(), frame.last);
                found.frames.push(frame);
            }
            None => {
                // A whole frame behind one that cannot be read proves that it was acknowledged.
                let Some((next, first)) = next_whole(bytes, at + 1, header.nonce, last) else { break };
                let offset = at as u64;
                found.damage.push(Damage { offset, first: last + 1, last: Some(first - 1), ..Damage::default() });
                (at, last) = (next, first - 1);
            }
        }
    }
    Some(found)
}

fn next_whole(bytes: &[u8], from: usize, nonce: u64, last: Revision) -> Option<(usize, Revision)> {
    (from..bytes.len()).find_map(|at| {
        let head = bytes.get(at..at + FRAME_HEAD_BYTES)?;
        let first = Revision::from_le_bytes(head[12..20].try_into().ok()?);
        let is_possible = first > last && first - last <= REVISIONS_MAX;
        is_possible.then(|| frame_at(bytes, at, nonce).map(|frame| (at, frame.first))).flatten()
    })
}

/// The frame that begins here, if there is one.
fn frame_at(bytes: &[u8], at: usize, nonce: u64) -> Option<Frame> {
    let (head, rest) = bytes.get(at..)?.split_at_checked(FRAME_HEAD_BYTES)?;
    let checksum = u64::from_le_bytes(head[..8].try_into().ok()?);
    let length = u32::from_le_bytes(head[8..12].try_into().ok()?) as usize;
    let first = Revision::from_le_bytes(head[12..20].try_into().ok()?);
    let payload = rest.get(..length)?;
    if checksum != xxh3_64_with_seed(&bytes[at + 8..at + FRAME_HEAD_BYTES + length], nonce) {
        return None;
    }
    let mut next = first;
    for record in record::records(payload, Layout::Plain) {
        (record.ok()?.revision == next).then_some(())?;
        next += 1;
    }
    (next > first).then(|| Frame { first, last: next - 1, payload: payload.to_vec(), layout: Layout::Plain })
}
