//! How a file of the write-ahead log looks.
//!
//! ```text
//! file    header in one sector | frames, each from the beginning of a sector
//! header  magic 8 | generation u64 | nonce u64 | after i64 | id u64 | checksum u64; the same again in the middle of the sector
//! sector  nonce u64 | the next 504 bytes of the frame, zeros behind its end
//! frame   head checksum u32 | payload length u32 | first revision i64 | last revision i64 | payload: records
//! ```
//!
//! Disks write whole sectors or leave them as they were. A sector that begins with the file's nonce has been written since
//! the file was begun, so a frame all of whose sectors do was written completely. The nonce is random and also seeds the
//! checksum of heads, so neither what earlier use of the file left nor anything a client stores can look like a frame. The
//! payload needs no checksum: its records have theirs, and there must be one for each revision.

use storage::Revision;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const SECTOR_BYTES: usize = 512;
const NONCE_BYTES: usize = 8;
pub(super) const FRAME_HEAD_BYTES: usize = 4 + 4 + 8 + 8;
/// What a sector holds of a frame.
const BODY_BYTES: usize = SECTOR_BYTES - NONCE_BYTES;

const MAGIC: [u8; 8] = *b"fk-wal\x00\x03";
/// Headers before there were identities.
const MAGIC_WITHOUT_ID: [u8; 8] = *b"fk-wal\x00\x02";
/// Where the copy of the header is, so that damage to one of them does no harm.
const COPY_AT: usize = SECTOR_BYTES / 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// 0 for a file that was never begun.
    pub generation: u64,
    pub nonce: u64,
    pub after: Revision,
    /// The store that the file belongs to; 0 if the file does not say.
    pub id: u64,
}

impl Header {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut header = Vec::with_capacity(COPY_AT);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&self.generation.to_le_bytes());
        header.extend_from_slice(&self.nonce.to_le_bytes());
        header.extend_from_slice(&self.after.to_le_bytes());
        header.extend_from_slice(&self.id.to_le_bytes());
        let checksum = xxh3_64(&header);
        header.extend_from_slice(&checksum.to_le_bytes());
        header.resize(COPY_AT, 0);
        out.extend_from_slice(&header);
        out.extend_from_slice(&header);
    }

    /// The header of a file, from either copy.
    pub fn parse(sector: &[u8]) -> Option<Header> {
        let known = [MAGIC, MAGIC_WITHOUT_ID];
        known
            .into_iter()
            .find_map(|magic| [0, COPY_AT].into_iter().find_map(|at| Header::parse_as(magic, sector.get(at..)?)))
    }

    pub fn parse_as(magic: [u8; 8], bytes: &[u8]) -> Option<Header> {
        let has_id = magic == MAGIC;
        let checked_bytes = if has_id { 40 } else { 32 };
        let header = bytes.get(..checked_bytes + 8)?;
        let number = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
        let is_whole = header[..8] == magic && number(checked_bytes)? == xxh3_64(&header[..checked_bytes]);
        is_whole.then_some(())?;
        let id = if has_id { number(32)? } else { 0 };
        Some(Header { generation: number(8)?, nonce: number(16)?, after: number(24)? as Revision, id })
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub payload_bytes: usize,
    pub first: Revision,
    pub last: Revision,
}

impl Head {
    /// The head in the first sector of a frame.
    pub fn parse(sector: &[u8], nonce: u64) -> Option<Head> {
        let head = body(sector).get(..FRAME_HEAD_BYTES)?;
        let number = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let checksum = u32::from_le_bytes(head[..4].try_into().ok()?);
        let payload_bytes = u32::from_le_bytes(head[4..8].try_into().ok()?) as usize;
        (checksum == head_checksum(head, nonce)).then_some(())?;
        Some(Head { payload_bytes, first: number(8)? as i64, last: number(16)? as i64 })
    }

    pub fn sectors(&self) -> usize {
        bytes_on_disk(self.payload_bytes) as usize / SECTOR_BYTES
    }

    /// The payload, put together from the frame's sectors.
    pub fn payload(&self, sectors: &[u8]) -> Vec<u8> {
        let mut payload = join(sectors);
        payload.truncate(FRAME_HEAD_BYTES + self.payload_bytes);
        payload.drain(..FRAME_HEAD_BYTES);
        payload
    }
}

/// How much a frame with so much payload takes in the file.
pub(super) fn bytes_on_disk(payload_bytes: usize) -> u64 {
    ((FRAME_HEAD_BYTES + payload_bytes).div_ceil(BODY_BYTES) * SECTOR_BYTES) as u64
}

/// Fills in the head of a frame whose payload is there already.
pub(super) fn seal(frame: &mut [u8], first: Revision, last: Revision, nonce: u64) {
    let payload_bytes = (frame.len() - FRAME_HEAD_BYTES) as u32;
    frame[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
    frame[8..16].copy_from_slice(&first.to_le_bytes());
    frame[16..24].copy_from_slice(&last.to_le_bytes());
    let checksum = head_checksum(&frame[..FRAME_HEAD_BYTES], nonce);
    frame[..4].copy_from_slice(&checksum.to_le_bytes());
}

fn head_checksum(head: &[u8], nonce: u64) -> u32 {
    xxh3_64_with_seed(&head[4..], nonce) as u32
}

/// Adds a frame as it goes to the file.
pub(super) fn push_sectors(frame: &[u8], nonce: u64, out: &mut Vec<u8>) {
    out.reserve(bytes_on_disk(frame.len()) as usize);
    for body in frame.chunks(BODY_BYTES) {
        out.extend_from_slice(&nonce.to_le_bytes());
        out.extend_from_slice(body);
    }
    out.resize(out.len().next_multiple_of(SECTOR_BYTES), 0);
}

/// Whether the sector was written since the file was begun with this nonce. One byte of it may have been damaged since.
pub(super) fn is_written(sector: &[u8], nonce: u64) -> bool {
    let expected = nonce.to_le_bytes();
    if sector.starts_with(&expected) {
        return sector.len() == SECTOR_BYTES;
    }
    let differing = sector.iter().zip(expected).filter(|(found, expected)| **found != *expected).count();
    sector.len() == SECTOR_BYTES && differing <= 1
}

/// What sectors hold of frames.
pub(super) fn join(sectors: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(sectors.len());
    sectors.chunks(SECTOR_BYTES).for_each(|sector| joined.extend_from_slice(body(sector)));
    joined
}

fn body(sector: &[u8]) -> &[u8] {
    sector.get(NONCE_BYTES..).unwrap_or_default()
}
