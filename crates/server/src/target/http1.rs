//! Finds the request targets of an HTTP/1 connection.

use super::{Outcome, escape, is_escaped};

/// How much of a line is kept until the rest of it arrives: enough for the names and the length that are looked for.
const LINE_KEPT_BYTES: usize = 64;
/// The line that begins HTTP/2 on a connection without ALPN.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Parses requests whose bodies have a Content-Length. After a chunked body or an upgrade the rest is not parsed any more.
#[derive(Default)]
pub struct Requests {
    place: HeadPlace,
    /// The body's length as the headers seen so far tell it.
    length: u64,
    /// Another protocol, or a body without a known length, follows these headers.
    is_last: bool,
    /// The beginning of the request line, or of a header line whose end has not arrived.
    line: Vec<u8>,
}

/// The part of the head that comes next.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum HeadPlace {
    /// A request line, or empty lines before it.
    #[default]
    Start,
    Method,
    /// The target and the version.
    Target,
    Headers,
    Body,
    /// The rest of the connection is not parsed.
    Other,
}

impl Requests {
    pub fn can_be_followed(&self) -> bool {
        self.place != HeadPlace::Other
    }

    pub fn arrived(&mut self, bytes: &[u8]) -> Outcome {
        let mut out = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_target = self.place == HeadPlace::Target;
            let (piece, after) = rest.split_at(self.step(rest).min(rest.len()));
            if is_target && piece.iter().any(is_escaped) {
                if out.is_empty() {
                    out.reserve(bytes.len() + 64);
                    out.extend_from_slice(&bytes[..bytes.len() - rest.len()]);
                }
                escape(piece, &mut out);
            } else if !out.is_empty() {
                out.extend_from_slice(piece);
            }
            rest = after;
        }
        if out.is_empty() { Outcome::Unchanged } else { Outcome::Instead(out) }
    }

    /// Goes past the next piece, and tells how long it is.
    fn step(&mut self, bytes: &[u8]) -> usize {
        match self.place {
            HeadPlace::Start => {
                let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
                if empty < bytes.len() {
                    self.place = HeadPlace::Method;
                }
                empty
            }
            HeadPlace::Method => self.up_to(bytes, b' ', HeadPlace::Target),
            HeadPlace::Target => {
                let length = self.up_to(bytes, b'\n', HeadPlace::Headers);
                if self.place == HeadPlace::Headers {
                    self.is_last = self.line.starts_with(HTTP2_PREFACE);
                    self.line.clear();
                }
                length
            }
            HeadPlace::Headers => self.header(bytes),
            HeadPlace::Body => {
                let length = usize::try_from(self.length).unwrap_or(usize::MAX).min(bytes.len());
                self.length -= length as u64;
                if self.length == 0 {
                    self.place = HeadPlace::Start;
                }
                length
            }
            HeadPlace::Other => bytes.len(),
        }
    }

    fn up_to(&mut self, bytes: &[u8], end: u8, next: HeadPlace) -> usize {
        let length = match bytes.iter().position(|byte| *byte == end) {
            Some(at) => {
                self.place = next;
                at + 1
            }
            None => bytes.len(),
        };
        self.keep(&bytes[..length]);
        length
    }

    fn header(&mut self, bytes: &[u8]) -> usize {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.keep(bytes);
            return bytes.len();
        };
        let line = &bytes[..end];
        if self.line.is_empty() {
            self.read(line);
        } else {
            self.keep(line);
            let line = std::mem::take(&mut self.line);
            self.read(&line);
        }
        end + 1
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LINE_KEPT_BYTES - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Reads a header line, or the empty one at the end.
    fn read(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.first() {
            None => self.end_headers(),
            Some(b'c' | b'C') => {
                if let Some(value) = value(line, b"content-length:") {
                    match length(value) {
                        Some(length) if line.len() < LINE_KEPT_BYTES => self.length = length,
                        _ => self.is_last = true,
                    }
                }
            }
            Some(b't' | b'T') => self.is_last |= value(line, b"transfer-encoding:").is_some(),
            Some(b'u' | b'U') => self.is_last |= value(line, b"upgrade:").is_some(),
            Some(_) => {}
        }
    }

    fn end_headers(&mut self) {
        self.place = match self.length {
            _ if self.is_last => HeadPlace::Other,
            0 => HeadPlace::Start,
            _ => HeadPlace::Body,
        };
    }
}

fn length(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The value of a header with this name, which ends in a colon.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (given, value) = line.split_at_checked(name.len())?;
    given.eq_ignore_ascii_case(name).then_some(value)
}
