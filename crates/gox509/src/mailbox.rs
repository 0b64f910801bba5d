//! E-mail addresses in certificates: a local part and a domain (RFC 2821, with what RFC 3696 says of it).

use crate::constraints::is_plain_domain;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mailbox {
    pub local: Vec<u8>,
    /// In small letters.
    pub domain: String,
}

impl Mailbox {
    pub fn parse(text: &str) -> Option<Mailbox> {
        let (local, rest) = match text.as_bytes() {
            [b'"', rest @ ..] => quoted(rest)?,
            bytes => dotted(bytes)?,
        };
        let domain = std::str::from_utf8(rest.strip_prefix(b"@")?).ok()?;
        is_plain_domain(domain).then(|| Mailbox { local, domain: domain.to_lowercase() })
    }
}

impl std::fmt::Display for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", String::from_utf8_lossy(&self.local), self.domain)
    }
}

/// A local part in quotes, whose first is gone.
fn quoted(mut text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut local = Vec::new();
    loop {
        let (byte, rest) = text.split_first()?;
        text = rest;
        match byte {
            b'"' => return Some((local, text)),
            b'\\' => {
                let (escaped, rest) = text.split_first()?;
                if !matches!(escaped, 1..=9 | 11 | 12 | 14..=127) {
                    return None;
                }
                local.push(*escaped);
                text = rest;
            }
            1..=8 | 11 | 12 | 14..=33 | 35..=91 | 93..=127 => local.push(*byte),
            _ => return None,
        }
    }
}

/// Words with single dots between them.
fn dotted(mut text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut local = Vec::new();
    while let Some((byte, rest)) = text.split_first() {
        if *byte == b'\\' {
            // What is escaped is taken as it is.
            let (escaped, rest) = rest.split_first()?;
            local.push(*escaped);
            text = rest;
        } else if byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(byte) {
            local.push(*byte);
            text = rest;
        } else {
            break;
        }
    }
    let is_bad = local.is_empty() || local.starts_with(b".") || local.ends_with(b".");
    (!is_bad && !local.windows(2).any(|pair| pair == b"..")).then_some((local, text))
}
