//! PEM blocks, found exactly as Go's `pem.Decode` finds them: what it skips is skipped here.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// Base64 with its padding; like Go, the bits of the last character that count for nothing may be anything.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What stands behind `BEGIN`: `CERTIFICATE`.
    pub label: String,
    /// Whether lines such as `Proc-Type: …` come before the data.
    pub has_headers: bool,
    pub bytes: Vec<u8>,
}

/// Every block in the text, in order.
pub fn blocks(text: &[u8]) -> impl Iterator<Item = Block> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (block, after) = decode(rest)?;
        rest = after;
        Some(block)
    })
}

/// The first block in the text, and the text after it.
pub fn decode(text: &[u8]) -> Option<(Block, &[u8])> {
    let mut rest = text;
    loop {
        match attempt(rest)? {
            BlockAttempt::Found(block, after) => return Some((block, after)),
            BlockAttempt::Skip(after) => rest = after,
        }
    }
}

enum BlockAttempt<'a> {
    Found(Block, &'a [u8]),
    /// The text up to the next `END` is no block; one may follow.
    Skip(&'a [u8]),
}

/// Looks at the text up to its first `END` line. None if there can be no block any more.
fn attempt(text: &[u8]) -> Option<BlockAttempt<'_>> {
    let end = find(text, END)?;
    let after_end = end + END.len();
    let skip = || text.get(after_end..).map(BlockAttempt::Skip);
    // The last BEGIN before it: earlier ones have no end of their own.
    let Some(begin) = find_last(text.get(..end)?, BEGIN).filter(|at| *at == 0 || text.get(at - 1) == Some(&b'\n'))
    else {
        return skip();
    };
    let mut at = begin + BEGIN.len();
    let (line, consumed) = line(text.get(at..)?);
    at += consumed;
    let Some(label) = line.strip_suffix(DASHES) else { return skip() };
    let mut has_headers = false;
    loop {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let (line, consumed) = self::line(rest);
        if !line.contains(&b':') {
            break;
        }
        has_headers = true;
        at += consumed;
    }
    // Headers that swallowed the END line. Text that was taken for a header is not looked at again.
    if at > end && has_headers {
        return if at > after_end { None } else { skip() };
    }
    let Some(after) = end_line(text.get(after_end..)?, label) else { return skip() };
    let data = text.get(at..end).unwrap_or_default();
    let encoded: Vec<u8> = data.iter().copied().filter(|byte| !b" \t\r\n".contains(byte)).collect();
    let Ok(bytes) = BASE64.decode(encoded) else { return skip() };
    let label = String::from_utf8_lossy(label).into_owned();
    Some(BlockAttempt::Found(Block { label, has_headers, bytes }, after))
}

/// What follows the END line, which goes on with the label, dashes and nothing else.
fn end_line<'a>(text: &'a [u8], label: &[u8]) -> Option<&'a [u8]> {
    let rest = text.strip_prefix(label)?.strip_prefix(DASHES)?;
    let (line, consumed) = line(rest);
    if line.is_empty() { rest.get(consumed..) } else { None }
}

/// A line without its end and the blanks before that, and how many bytes it takes.
fn line(text: &[u8]) -> (&[u8], usize) {
    let (mut line, consumed) = match text.iter().position(|byte| *byte == b'\n') {
        None => (text, text.len()),
        Some(at) => {
            let line = text.get(..at).unwrap_or_default();
            (line.strip_suffix(b"\r").unwrap_or(line), at + 1)
        }
    };
    while let [before @ .., b' ' | b'\t'] = line {
        line = before;
    }
    (line, consumed)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn find_last(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).rposition(|window| window == wanted)
}
