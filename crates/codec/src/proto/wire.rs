//! The wire: varints, tags, and what may be skipped.

use crate::DecodeError;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Reads one message, field by field.
#[derive(Clone, Copy)]
pub(super) struct Wire<'a> {
    rest: &'a [u8],
}

impl<'a> Wire<'a> {
    pub fn new(bytes: &'a [u8]) -> Wire<'a> {
        Wire { rest: bytes }
    }

    /// The next field's tag and wire type, `None` at the end. `message` is named in errors.
    #[inline]
    pub fn field(&mut self, message: &str) -> Result<Option<(u32, u8)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        // Go keeps the low 32 bits of the tag and reads them as a signed number.
        let (tag, kind) = ((key >> 3) as u32 as i32, (key & 7) as u8);
        if kind == END_GROUP || tag <= 0 {
            return Err(wrong_key(message, tag, kind, key));
        }
        Ok(Some((tag as u32, kind)))
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(unexpected_end)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(error("proto: integer overflow"))
    }

    /// A length and that many bytes.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.varint()?;
        if length > i64::MAX as u64 {
            return Err(error("proto: negative length found during unmarshaling"));
        }
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    pub fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(unexpected_end)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(unexpected_end)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Passes over a field with an unknown tag; groups are followed to their end without recursion.
    pub fn skip(&mut self, kind: u8) -> Result<(), DecodeError> {
        let mut open = 0usize;
        let mut kind = kind;
        loop {
            match kind {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                BYTES => drop(self.bytes()?),
                START_GROUP => open += 1,
                END_GROUP if open == 0 => return Err(error("proto: unexpected end of group")),
                END_GROUP => open -= 1,
                FIXED32 => drop(self.take(4)?),
                _ => return Err(error(format!("proto: illegal wireType {kind}"))),
            }
            if open == 0 {
                return Ok(());
            }
            if self.rest.is_empty() {
                return Err(unexpected_end());
            }
            kind = (self.varint()? & 7) as u8;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Passes over a zero or an empty string, if that is what comes next.
    #[inline]
    pub fn skip_zero(&mut self) -> bool {
        match self.rest {
            [0, rest @ ..] => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// How many bytes have not been read.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

pub(super) fn error(message: impl Into<String>) -> DecodeError {
    DecodeError::Syntax(message.into())
}

fn unexpected_end() -> DecodeError {
    error("unexpected EOF")
}

#[cold]
fn wrong_key(message: &str, tag: i32, kind: u8, key: u64) -> DecodeError {
    let message = message.rsplit('.').next().unwrap_or(message);
    if kind == END_GROUP {
        return error(format!("proto: {message}: wiretype end group for non-group"));
    }
    error(format!("proto: {message}: illegal tag {tag} (wire type {key})"))
}

/// The error for a field of the wrong wire type. Upstream names the Go field, which is the JSON name with a capital.
#[cold]
pub(super) fn wrong_wire_type(kind: u8, name: &str) -> DecodeError {
    let mut letters = name.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase()).into_iter();
    let name: String = first.chain(letters).collect();
    error(format!("proto: wrong wireType = {kind} for field {name}"))
}

#[inline]
pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes a varint takes.
pub(super) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

#[inline]
pub(super) fn write_tag(tag: u32, kind: u8, out: &mut Vec<u8>) {
    write_varint(u64::from(tag) << 3 | u64::from(kind), out);
}

pub(super) fn write_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_tag(tag, BYTES, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub(super) fn write_int(tag: u32, value: i64, out: &mut Vec<u8>) {
    write_tag(tag, VARINT, out);
    write_varint(value as u64, out);
}

/// Writes a nested message whose length is only known afterwards. Most are shorter than 128 bytes, so one byte is set
/// aside for the length and the message moves up in the rare case that it needs more.
pub(super) fn write_nested<E>(
    tag: u32,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    write_tag(tag, BYTES, out);
    let start = out.len();
    out.push(0);
    body(out)?;
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return Ok(());
    }
    let extra = varint_len(length as u64) - 1;
    out.resize(out.len() + extra, 0);
    out.copy_within(start + 1..start + 1 + length, start + 1 + extra);
    let mut rest = length;
    for byte in &mut out[start..start + extra] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[start + extra] = rest as u8;
    Ok(())
}
