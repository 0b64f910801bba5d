//! DER, read as strictly as Go's `cryptobyte` reads it.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The tag of a primitive element that has its meaning from where it stands.
pub(crate) const fn context(number: u8) -> u8 {
    0x80 | number
}

/// The tag of such an element that consists of others.
pub(crate) const fn constructed(number: u8) -> u8 {
    0xa0 | number
}

/// The most bytes of a number in an object identifier.
const SUBIDENTIFIER_BYTES_MAX: usize = 5;

/// What is left of a sequence of elements. A failed read leaves it wherever it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

/// One element.
#[derive(Clone, Copy)]
pub(crate) struct DerElement<'a> {
    pub tag: u8,
    pub contents: &'a [u8],
    /// With tag and length.
    pub whole: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub fn any(&mut self) -> Option<DerElement<'a>> {
        let (tag, first) = (*self.0.first()?, *self.0.get(1)?);
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (header, length) = if first < 0x80 {
            (2, usize::from(first))
        } else {
            let count = usize::from(first & 0x7f);
            let bytes = self.0.get(2..2 + count).filter(|bytes| (1..=4).contains(&bytes.len()))?;
            let length = bytes.iter().fold(0usize, |length, byte| (length << 8) | usize::from(*byte));
            // The shortest way to say it is the only one.
            if length < 0x80 || bytes.first() == Some(&0) {
                return None;
            }
            (2 + count, length)
        };
        let whole = self.0.get(..header.checked_add(length)?)?;
        self.0 = self.0.get(whole.len()..)?;
        Some(DerElement { tag, contents: whole.get(header..)?, whole })
    }

    /// The contents of the next element, which must have this tag.
    pub fn take(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.any().filter(|element| element.tag == tag).map(|element| Reader(element.contents))
    }

    /// The next element with tag and length.
    pub fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.any().filter(|element| element.tag == tag).map(|element| element.whole)
    }

    pub fn next_is(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The contents of the next element if it has this tag; None if it has and cannot be read.
    pub fn optional(&mut self, tag: u8) -> Option<Option<Reader<'a>>> {
        if self.next_is(tag) { self.take(tag).map(Some) } else { Some(None) }
    }

    pub fn boolean(&mut self) -> Option<bool> {
        match self.take(BOOLEAN)?.0 {
            [0] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// The bytes of a number in two's complement.
    pub fn integer(&mut self) -> Option<&'a [u8]> {
        self.integer_with(INTEGER)
    }

    pub fn integer_with(&mut self, tag: u8) -> Option<&'a [u8]> {
        let bytes = self.take(tag)?.0;
        let is_minimal = match bytes {
            [] => false,
            [0, second, ..] => *second >= 0x80,
            [0xff, second, ..] => *second < 0x80,
            _ => true,
        };
        is_minimal.then_some(bytes)
    }

    pub fn int(&mut self) -> Option<i64> {
        signed(self.integer()?)
    }

    /// The contents of an object identifier.
    pub fn oid(&mut self) -> Option<&'a [u8]> {
        let bytes = self.take(OBJECT_IDENTIFIER)?.0;
        numbers(bytes).map(|_| bytes)
    }

    /// The bytes of a bit string and how many bits of the last one count for nothing.
    pub fn bits(&mut self) -> Option<(&'a [u8], u8)> {
        let (unused, bytes) = self.take(BIT_STRING)?.0.split_first()?;
        let padding = match bytes.last() {
            None => 0,
            Some(last) if *unused <= 7 => last & ((1u8 << unused) - 1),
            Some(_) => return None,
        };
        (padding == 0 && (*unused == 0 || !bytes.is_empty())).then_some((bytes, *unused))
    }
}

pub(crate) fn signed(bytes: &[u8]) -> Option<i64> {
    let start = if bytes.first()? & 0x80 == 0 { 0 } else { -1 };
    (bytes.len() <= 8).then(|| bytes.iter().fold(start, |number, byte| (number << 8) | i64::from(*byte)))
}

/// A bit string's bytes with the bits that count for nothing at the front instead.
pub(crate) fn right_aligned((bytes, unused): (&[u8], u8)) -> Vec<u8> {
    if unused == 0 {
        return bytes.to_vec();
    }
    let mut carried = 0u8;
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        out.push(carried | (byte >> unused));
        carried = byte << (8 - unused);
    }
    out
}

/// The numbers of an object identifier after the first two, which share one.
fn numbers(bytes: &[u8]) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    let (mut number, mut length) = (0u32, 0);
    for byte in bytes {
        if (length == 0 && *byte == 0x80) || length == SUBIDENTIFIER_BYTES_MAX || number >= 1 << 24 {
            return None;
        }
        number = (number << 7) | u32::from(byte & 0x7f);
        length += 1;
        if byte & 0x80 == 0 {
            numbers.push(number);
            (number, length) = (0, 0);
        }
    }
    (length == 0 && !numbers.is_empty()).then_some(numbers)
}

/// An object identifier as it is written: `2.5.29.15`.
pub(crate) fn dotted(oid: &[u8]) -> String {
    let numbers = numbers(oid).unwrap_or_default();
    let Some((first, rest)) = numbers.split_first() else { return String::new() };
    let top = (first / 40).min(2);
    let mut text = format!("{top}.{}", first - 40 * top);
    for number in rest {
        text.push_str(&format!(".{number}"));
    }
    text
}
