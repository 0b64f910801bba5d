//! Percent-encoding with Go's rules for each part of a URL.

/// The part of a URL that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Path,
    UserPassword,
    Host,
    Zone,
    QueryComponent,
    Fragment,
}

fn must_escape(byte: u8, mode: Mode) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    let plain: &[u8] = match mode {
        Mode::Path => b"$&+,/:;=@",
        Mode::UserPassword => b"$&+,;=",
        Mode::Host | Mode::Zone => b"!$&'()*+,;=:[]<>\"",
        Mode::QueryComponent => b"",
        Mode::Fragment => b"$&+,/:;=?@!()*",
    };
    !plain.contains(&byte)
}

/// Percent-encodes what cannot stand for itself in this part.
pub fn escape(bytes: &[u8], mode: Mode) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if must_escape(*byte, mode) {
            text.push_str(&format!("%{byte:02X}"));
        } else {
            text.push(char::from(*byte));
        }
    }
    text
}

/// Whether a text could be what an encoder wrote; reserved characters may stand as they are.
pub fn is_valid_encoded(text: &str, mode: Mode) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !must_escape(byte, mode))
}

/// Reads percent-encoded text; the error is Go's.
pub fn unescape(text: &str, mode: Mode) -> Result<Vec<u8>, String> {
    let invalid = |part: &[u8]| Err(format!("invalid URL escape {}", crate::quote(&String::from_utf8_lossy(part))));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let part = &bytes[at..bytes.len().min(at + 3)];
                let Some(value) = hexadecimal(part) else { return invalid(part) };
                // Only bytes of other characters may be escaped in a host, and what a zone could not hold otherwise.
                let allowed = match mode {
                    Mode::Host => value >= 0x80 || value == b'%',
                    Mode::Zone => value == b'%' || value == b' ' || !must_escape(value, Mode::Host),
                    _ => true,
                };
                if !allowed {
                    return invalid(part);
                }
                out.push(value);
                at += 3;
                continue;
            }
            b'+' if mode == Mode::QueryComponent => out.push(b' '),
            _ if matches!(mode, Mode::Host | Mode::Zone) && byte < 0x80 && must_escape(byte, mode) => {
                return Err(format!("invalid character {} in host name", crate::quote(&char::from(byte).to_string())));
            }
            _ => out.push(byte),
        }
        at += 1;
    }
    Ok(out)
}

/// The value of `%41`.
fn hexadecimal(part: &[u8]) -> Option<u8> {
    let [b'%', high, low] = part else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}
