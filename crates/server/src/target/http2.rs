//! Finds `:path` in the HEADERS frames of an HTTP/2 connection.
//!
//! A path is rewritten only where it does not enter the decoder's dynamic table, because the client's copy of the table would
//! differ from then on. curl never lets a path enter it.

use super::{Outcome, escape, huffman, is_escaped};

/// The preface that a client sends before the first frame.
const PREFACE_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;
/// The largest frame we let clients send.
const FRAME_BYTES_MAX: usize = 16 * 1024;
/// Pseudo-headers come first: `:method`, `:scheme`, `:authority`, `:path`, `:protocol`, and changes of the table's size before.
const FIELDS_MAX: usize = 8;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Follows frames.
pub struct Frames {
    /// How many bytes to go until a frame begins.
    skip: usize,
    /// The beginning of a header frame, or of any frame's header, whose rest has not arrived.
    held: Vec<u8>,
    /// How long the frames are of headers that do not end with them.
    head: usize,
    is_lost: bool,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames { skip: PREFACE_BYTES, held: Vec::new(), head: 0, is_lost: false }
    }
}

/// A frame at the beginning of some bytes.
enum Frame {
    /// More bytes are needed to know it.
    Incomplete,
    /// One to let pass, with its length.
    Any(usize),
    /// Headers that do not end in this frame, with its length.
    Unfinished(usize),
    /// Headers that end in this frame, with its length.
    Headers(usize),
    /// Larger than allowed.
    TooLarge,
}

impl Frame {
    fn at_start_of(bytes: &[u8]) -> Frame {
        let Some(&[a, b, c, kind, flags, ..]) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
            return Frame::Incomplete;
        };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let whole = FRAME_HEADER_BYTES + length;
        match (kind, flags & END_HEADERS != 0) {
            _ if length > FRAME_BYTES_MAX => Frame::TooLarge,
            (HEADERS, true) if bytes.len() < whole => Frame::Incomplete,
            (HEADERS, true) => Frame::Headers(whole),
            (HEADERS | CONTINUATION, false) => Frame::Unfinished(whole),
            _ => Frame::Any(whole),
        }
    }
}

impl Frames {
    pub fn can_be_followed(&self) -> bool {
        !self.is_lost
    }

    /// How long the headers are so far that have begun to arrive: no other frame may come before their end.
    pub fn unfinished_head(&self) -> usize {
        self.head
    }

    pub fn arrived(&mut self, bytes: &[u8]) -> Outcome {
        if self.held.is_empty() {
            return match self.follow(bytes) {
                (passed, None) if passed == bytes.len() => Outcome::Unchanged,
                (passed, None) => {
                    self.held = bytes[passed..].to_vec();
                    Outcome::Instead(bytes[..passed].to_vec())
                }
                (passed, Some(out)) => {
                    self.held = bytes[passed..].to_vec();
                    Outcome::Instead(out)
                }
            };
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let (passed, out) = self.follow(&all);
        self.held = all.split_off(passed);
        Outcome::Instead(out.unwrap_or(all))
    }

    /// How many bytes need not be held back, and what they became if they were rewritten.
    fn follow(&mut self, bytes: &[u8]) -> (usize, Option<Vec<u8>>) {
        let mut out: Option<Vec<u8>> = None;
        let mut at = 0;
        loop {
            let piece = self.skip.min(bytes.len() - at);
            if let Some(out) = &mut out {
                out.extend_from_slice(&bytes[at..at + piece]);
            }
            (self.skip, at) = (self.skip - piece, at + piece);
            let rest = &bytes[at..];
            if rest.is_empty() || self.skip > 0 {
                return (at, out);
            }
            match Frame::at_start_of(rest) {
                Frame::Incomplete => return (at, out),
                Frame::Any(length) => (self.skip, self.head) = (length, 0),
                Frame::Unfinished(length) => (self.skip, self.head) = (length, self.head + length),
                Frame::Headers(length) => match escaped(&rest[..length]) {
                    None => self.skip = length,
                    Some(frame) => {
                        out.get_or_insert_with(|| bytes[..at].to_vec()).extend_from_slice(&frame);
                        at += length;
                    }
                },
                Frame::TooLarge => {
                    self.is_lost = true;
                    self.skip = usize::MAX;
                }
            }
        }
    }
}

/// The frame with its path escaped; None if that is not necessary, or not possible.
fn escaped(frame: &[u8]) -> Option<Vec<u8>> {
    let (header, payload) = frame.split_at_checked(FRAME_HEADER_BYTES)?;
    let flags = header[4];
    let (padding_length, padding) = if flags & PADDED != 0 { (1, usize::from(*payload.first()?)) } else { (0, 0) };
    let before = padding_length + if flags & PRIORITY != 0 { 5 } else { 0 };
    let end = payload.len().checked_sub(padding)?;
    let block = payload.get(before..end)?;
    let value = path_value(block)?;
    let path = value.escaped()?;
    let mut rewritten = Vec::with_capacity(frame.len() + path.len());
    rewritten.extend_from_slice(header);
    rewritten.extend_from_slice(&payload[..before + value.starts]);
    write_length(path.len(), &mut rewritten);
    rewritten.extend_from_slice(&path);
    rewritten.extend_from_slice(&payload[before + value.starts + value.length..]);
    let length = rewritten.len() - FRAME_HEADER_BYTES;
    if length > FRAME_BYTES_MAX {
        return None;
    }
    rewritten[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    Some(rewritten)
}

/// A string in a header block.
struct Text<'a> {
    /// Where its length stands in the block.
    starts: usize,
    /// How many bytes it takes there, with its length.
    length: usize,
    bytes: &'a [u8],
    is_huffman: bool,
}

impl<'a> Text<'a> {
    fn at(block: &'a [u8], starts: usize) -> Option<Text<'a>> {
        let (length, after) = integer(block, starts, 7)?;
        let bytes = block.get(after..after.checked_add(length)?)?;
        let is_huffman = block[starts] & 0x80 != 0;
        Some(Text { starts, length: after + length - starts, bytes, is_huffman })
    }

    /// The text with its bytes escaped; None if it can stay as it is.
    fn escaped(&self) -> Option<Vec<u8>> {
        let mut is_changed = false;
        let mut out = Vec::new();
        match self.is_huffman {
            true => {
                huffman::decode(self.bytes, |byte| is_changed |= is_escaped(&byte))?;
                if is_changed {
                    let mut plain = Vec::with_capacity(2 * self.bytes.len());
                    huffman::decode(self.bytes, |byte| plain.push(byte))?;
                    escape(&plain, &mut out);
                }
            }
            false => {
                is_changed = self.bytes.iter().any(is_escaped);
                if is_changed {
                    escape(self.bytes, &mut out);
                }
            }
        }
        is_changed.then_some(out)
    }
}

/// The value of `:path`, if it is written out and does not enter the dynamic table.
fn path_value(block: &[u8]) -> Option<Text<'_>> {
    let mut at = 0;
    for _ in 0..FIELDS_MAX {
        let first = *block.get(at)?;
        let (prefix, is_literal, is_indexed) = match first {
            0x80.. => (7, false, true),
            0x40.. => (6, true, true),
            0x20.. => (5, false, false),
            _ => (4, true, false),
        };
        let (name, after) = integer(block, at, prefix)?;
        at = after;
        if !is_literal {
            continue;
        }
        let mut is_path = matches!(name, 4 | 5);
        if name == 0 {
            let name = Text::at(block, at)?;
            at += name.length;
            is_path = !name.is_huffman && name.bytes == b":path";
        }
        let value = Text::at(block, at)?;
        if is_path {
            return (!is_indexed).then_some(value);
        }
        at += value.length;
    }
    None
}

/// Reads an integer (RFC 7541, 5.1) and tells where it ends.
fn integer(block: &[u8], at: usize, prefix: u32) -> Option<(usize, usize)> {
    let most = (1usize << prefix) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    let mut at = at + 1;
    if value < most {
        return Some((value, at));
    }
    // More would be longer than any frame.
    for shift in [0, 7, 14] {
        let byte = *block.get(at)?;
        at += 1;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

/// Writes the length of a string that is not Huffman-coded.
fn write_length(length: usize, out: &mut Vec<u8>) {
    let Some(mut rest) = length.checked_sub(0x7f) else { return out.push(length as u8) };
    out.push(0x7f);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
