//! Whether bytes are CBOR at all, in the words of upstream's library. What they mean is looked at afterwards.

use super::{BREAK, major};
use crate::{DecodeError, MAX_DEPTH};

const MAX_MAP_PAIRS: u64 = 2_097_152;

/// Checks that exactly one well-formed item is there.
pub(super) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        return Err(error("EOF"));
    }
    let mut reader = Reader { bytes, at: 0 };
    reader.item(0)?;
    if reader.at < bytes.len() {
        let left = bytes.len() - reader.at;
        return Err(error(format!("cbor: {left} bytes of extraneous data starting at index {}", reader.at)));
    }
    Ok(())
}

pub(super) fn error(message: impl Into<String>) -> DecodeError {
    DecodeError::Syntax(message.into())
}

pub(super) fn unacceptable(kind: u8, message: impl std::fmt::Display) -> DecodeError {
    error(format!("cbor: data item of cbor type {} is not accepted by protocol: {message}", major::name(kind)))
}

/// An item's first byte and argument.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub major: u8,
    /// The low five bits of the first byte.
    pub info: u8,
    pub argument: u64,
}

impl Head {
    pub fn is_indefinite(self) -> bool {
        self.info == 31
    }
}

pub(super) struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn peek(&self) -> Result<u8, DecodeError> {
        self.bytes.get(self.at).copied().ok_or_else(unexpected_end)
    }

    pub fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let left = &self.bytes[self.at..];
        let length = usize::try_from(length).ok().filter(|&length| length <= left.len()).ok_or_else(unexpected_end)?;
        self.at += length;
        Ok(&left[..length])
    }

    pub fn head(&mut self) -> Result<Head, DecodeError> {
        let first = self.peek()?;
        self.at += 1;
        let (major, info) = (first >> 5, first & 31);
        let argument = match info {
            0..=23 | 31 => u64::from(info),
            24..=27 => self.take(1 << (info - 24))?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)),
            _ => return Err(invalid_info(major, info)),
        };
        Ok(Head { major, info, argument })
    }

    /// One item with everything inside of it.
    fn item(&mut self, depth: usize) -> Result<(), DecodeError> {
        let head = self.head()?;
        match head.major {
            major::UNSIGNED | major::NEGATIVE if head.is_indefinite() => Err(invalid_info(head.major, head.info)),
            major::UNSIGNED | major::NEGATIVE => Ok(()),
            major::BYTES | major::TEXT if head.is_indefinite() => self.chunks(head.major),
            major::BYTES | major::TEXT => {
                if head.argument > i64::MAX as u64 {
                    let (name, length) = (major::name(head.major), head.argument);
                    return Err(error(format!("cbor: {name} length {length} is too large, causing integer overflow")));
                }
                self.take(head.argument).map(drop)
            }
            major::ARRAY | major::MAP => self.collection(head, depth + 1),
            major::TAG => self.tag(head, depth),
            _ => check_simple(head),
        }
    }

    /// The pieces of a string of indefinite length.
    fn chunks(&mut self, kind: u8) -> Result<(), DecodeError> {
        loop {
            let next = self.peek()?;
            if next == BREAK {
                self.at += 1;
                return Ok(());
            }
            let (found, wanted) = (major::name(next >> 5), major::name(kind));
            if next >> 5 != kind {
                return Err(error(format!("cbor: wrong element type {found} for indefinite-length {wanted}")));
            }
            if next & 31 == 31 {
                return Err(error(format!("cbor: indefinite-length {wanted} chunk is not definite-length")));
            }
            self.item(0)?;
        }
    }

    fn collection(&mut self, head: Head, depth: usize) -> Result<(), DecodeError> {
        check_depth(depth)?;
        if head.is_indefinite() {
            let mut count = 0u64;
            while self.peek()? != BREAK {
                self.item(depth)?;
                count += 1;
            }
            self.at += 1;
            if head.major == major::MAP && count % 2 == 1 {
                return Err(error("cbor: unexpected \"break\" code"));
            }
            return check_pairs(head.major, count / 2);
        }
        if head.argument > i64::MAX as u64 {
            let (name, length) = (major::name(head.major), head.argument);
            let message = format!("cbor: {name} length {length} is too large, it would cause integer overflow");
            return Err(error(message));
        }
        check_pairs(head.major, head.argument)?;
        let items = if head.major == major::MAP { head.argument * 2 } else { head.argument };
        (0..items).try_for_each(|_| self.item(depth))
    }

    fn tag(&mut self, head: Head, depth: usize) -> Result<(), DecodeError> {
        let mut head = head;
        let mut depth = depth;
        loop {
            if head.is_indefinite() {
                return Err(invalid_info(head.major, head.info));
            }
            let content = self.peek()?;
            check_tag(head.argument, content)?;
            if matches!(head.argument, 2 | 3) {
                return Err(unacceptable(major::TAG, "bignum"));
            }
            if content >> 5 != major::TAG {
                return self.item(depth);
            }
            head = self.head()?;
            depth += 1;
            check_depth(depth)?;
        }
    }
}

fn check_depth(depth: usize) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::TooDeep(format!("cbor: exceeded max nested level {MAX_DEPTH}")));
    }
    Ok(())
}

fn check_pairs(kind: u8, pairs: u64) -> Result<(), DecodeError> {
    if kind == major::MAP && pairs > MAX_MAP_PAIRS {
        return Err(error(format!("cbor: exceeded max number of key-value pairs {MAX_MAP_PAIRS} for CBOR map")));
    }
    Ok(())
}

/// What the tags that mean something must be followed by.
fn check_tag(tag: u64, content: u8) -> Result<(), DecodeError> {
    let found = content >> 5;
    let float = matches!(content, 0xf9..=0xfb);
    let wanted = match tag {
        0 if !matches!(found, major::BYTES | major::TEXT) => "text string",
        1 if !matches!(found, major::UNSIGNED | major::NEGATIVE) && !float => "integer or floating-point number",
        2 | 3 if found != major::BYTES => "byte string",
        21..=23 if matches!(found, major::UNSIGNED | major::NEGATIVE | major::TEXT | major::SIMPLE) => {
            "byte string, array, map, or tag"
        }
        _ => return Ok(()),
    };
    Err(error(format!("cbor: tag number {tag} must be followed by {wanted}, got {}", major::name(found))))
}

fn check_simple(head: Head) -> Result<(), DecodeError> {
    match head.info {
        31 => Err(error("cbor: unexpected \"break\" code")),
        24 if head.argument < 32 => {
            Err(error(format!("cbor: invalid simple value {} for type primitives", head.argument)))
        }
        25..=27 => {
            let float = float(head);
            match float {
                _ if float.is_nan() => Err(unacceptable(major::SIMPLE, "floating-point NaN")),
                _ if float.is_infinite() => Err(unacceptable(major::SIMPLE, "floating-point infinity")),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The float in a head that is one.
pub(super) fn float(head: Head) -> f64 {
    match head.info {
        25 => from_half(head.argument as u16),
        26 => f64::from(f32::from_bits(head.argument as u32)),
        _ => f64::from_bits(head.argument),
    }
}

fn from_half(half: u16) -> f64 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f64::from(half & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

fn invalid_info(kind: u8, info: u8) -> DecodeError {
    error(format!("cbor: invalid additional information {info} for type {}", major::name(kind)))
}

fn unexpected_end() -> DecodeError {
    error("unexpected EOF")
}
