//! base64 as Go's `StdEncoding` reads it: line breaks are passed over, spare bits of the last group are dropped, and
//! errors name the offset of the first bad byte.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// The offset Go's `CorruptInputError` would carry.
#[derive(Debug, PartialEq, Eq)]
pub struct Corrupt(pub usize);

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "illegal base64 data at input byte {}", self.0)
    }
}

/// Bytes as text, with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The alphabet for URLs, without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The canonical text for the same bytes, or `None` where `text` is canonical already, which it nearly always is.
pub fn normalise(text: &str) -> Result<Option<String>, Corrupt> {
    if STANDARD.decode(text).is_ok() {
        return Ok(None);
    }
    decode_slow(text.as_bytes()).map(|bytes| Some(encode(&bytes)))
}

/// Text as bytes; padding is required, as in Go.
pub fn decode(text: &str) -> Result<Vec<u8>, Corrupt> {
    STANDARD.decode(text).or_else(|_| decode_slow(text.as_bytes()))
}

/// Byte by byte, the way Go does it, for text the strict decoder refuses.
fn decode_slow(text: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut group = [0u8; 4];
        let mut filled = 0;
        while filled < 4 {
            let Some(&byte) = text.get(at) else {
                return if filled == 0 { Ok(out) } else { Err(Corrupt(at - filled)) };
            };
            at += 1;
            if let Some(bits) = sextet(byte) {
                group[filled] = bits;
                filled += 1;
            } else if byte == b'\n' || byte == b'\r' {
                continue;
            } else if byte != b'=' {
                return Err(Corrupt(at - 1));
            } else {
                check_padding(text, at, filled)?;
                out.extend_from_slice(&unpack(group)[..filled - 1]);
                return Ok(out);
            }
        }
        out.extend_from_slice(&unpack(group));
    }
}

/// Padding must complete a group that holds two or three characters, and nothing but line breaks may follow it.
fn check_padding(text: &[u8], mut at: usize, filled: usize) -> Result<(), Corrupt> {
    let skip_breaks = |mut at: usize| {
        while matches!(text.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        at
    };
    match filled {
        0 | 1 => return Err(Corrupt(at - 1)),
        2 => {
            at = skip_breaks(at);
            match text.get(at) {
                None => return Err(Corrupt(text.len())),
                Some(b'=') => at += 1,
                Some(_) => return Err(Corrupt(at - 1)),
            }
        }
        _ => {}
    }
    at = skip_breaks(at);
    if at < text.len() { Err(Corrupt(at)) } else { Ok(()) }
}

fn unpack(group: [u8; 4]) -> [u8; 3] {
    let [a, b, c, d] = group;
    [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, want) in [
            ("", Ok("")),
            ("YWJj", Ok("abc")),
            ("YWI=", Ok("ab")),
            ("YQ==", Ok("a")),
            ("YW\nJj\r\n", Ok("abc")),
            ("YQ=\n=\n", Ok("a")),
            ("YR==", Ok("a")),
            ("YQ", Err(0)),
            ("YWJjYQ", Err(4)),
            ("YQ=", Err(3)),
            ("YQ=x", Err(2)),
            ("=", Err(0)),
            ("Y===", Err(1)),
            ("YQ==YQ==", Err(4)),
            ("YWI=x", Err(4)),
            ("not base64!", Err(3)),
            ("YW-j", Err(2)),
        ] {
            let want = want.map(|s: &str| s.as_bytes().to_vec()).map_err(Corrupt);
            assert_eq!(decode(text), want, "{text:?}");
        }
    }

    #[test]
    fn normalises_only_what_needs_it() {
        assert_eq!(normalise("YQ=="), Ok(None));
        assert_eq!(normalise("YR==\n"), Ok(Some("YQ==".into())));
    }
}
