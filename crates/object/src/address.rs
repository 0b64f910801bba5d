//! Addresses as Go's `netip.ParseAddr` reads them, with its errors.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address, and whether a zone was given with it.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Whether a zone was named, as in `fe80::1%eth0`.
    pub has_zone: bool,
}

/// Why a text is no address: the text, the reason and the place.
#[derive(Clone, Copy, Debug)]
pub struct ParseError<'t> {
    text: &'t str,
    reason: &'static str,
    at: &'t str,
}

impl fmt::Display for ParseError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParseAddr({}): {}", crate::quote(self.text), self.reason)?;
        if !self.at.is_empty() {
            write!(f, " (at {})", crate::quote(self.at))?;
        }
        Ok(())
    }
}

/// Reads an address as Go's `netip.ParseAddr` does.
pub fn parse(text: &str) -> Result<Address, ParseError<'_>> {
    let fail = |reason| Err(ParseError { text, reason, at: "" });
    match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        Some(b'.') => Ok(Address { ip: Ipv4Addr::from(ipv4(text, text)?).into(), has_zone: false }),
        Some(b':') => ipv6(text),
        Some(_) => fail("missing IPv6 address"),
        None => fail("unable to parse IP"),
    }
}

/// Four decimal numbers; `text` is the whole address for errors.
fn ipv4<'t>(text: &'t str, part: &'t str) -> Result<[u8; 4], ParseError<'t>> {
    let fail = |reason, at| Err(ParseError { text, reason, at });
    let bytes = part.as_bytes();
    let mut octets = [0_u8; 4];
    let (mut at, mut value, mut digits) = (0_usize, 0_u32, 0_u32);
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return fail("IPv4 field has octet with leading zero", "");
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return fail("IPv4 field has value >255", "");
                }
            }
            b'.' => {
                if i == 0 || i == bytes.len() - 1 || bytes[i - 1] == b'.' {
                    return fail("IPv4 field must have at least one digit", &part[i..]);
                }
                if at == 3 {
                    return fail("IPv4 address too long", "");
                }
                octets[at] = value as u8;
                at += 1;
                (value, digits) = (0, 0);
            }
            _ => return fail("unexpected character", &part[i..]),
        }
    }
    if at < 3 {
        return fail("IPv4 address too short", "");
    }
    octets[3] = value as u8;
    Ok(octets)
}

fn ipv6(text: &str) -> Result<Address, ParseError<'_>> {
    let fail = |reason, at| Err(ParseError { text, reason, at });
    let (address, zone) = match text.split_once('%') {
        Some((_, "")) => return fail("zone must be a non-empty string", ""),
        Some((address, _)) => (address, true),
        None => (text, false),
    };
    let mut rest = address;
    let mut bytes: Vec<u8> = Vec::with_capacity(16);
    let mut ellipsis: Option<usize> = None;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok(Address { ip: Ipv6Addr::UNSPECIFIED.into(), has_zone: zone });
        }
    }
    while bytes.len() < 16 {
        let (value, digits) = group(text, rest)?;
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if ellipsis.is_none() && bytes.len() != 12 {
                return fail("embedded IPv4 address must replace the final 2 fields of the address", rest);
            }
            if bytes.len() + 4 > 16 {
                return fail("too many hex fields to fit an embedded IPv4 at the end of the address", rest);
            }
            bytes.extend(ipv4(text, rest)?);
            rest = "";
            break;
        }
        bytes.extend(value.to_be_bytes());
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        if !rest.starts_with(':') {
            return fail("unexpected character, want colon", rest);
        }
        if rest.len() == 1 {
            return fail("colon must be followed by more characters", rest);
        }
        rest = &rest[1..];
        if rest.starts_with(':') {
            if ellipsis.is_some() {
                return fail("multiple :: in address", rest);
            }
            ellipsis = Some(bytes.len());
            rest = &rest[1..];
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return fail("trailing garbage after address", rest);
    }
    expand(text, bytes, ellipsis).map(|ip| Address { ip, has_zone: zone })
}

/// One group of hexadecimal digits: its value and how many digits it has.
fn group<'t>(text: &'t str, rest: &'t str) -> Result<(u16, usize), ParseError<'t>> {
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let fail = |reason| Err(ParseError { text, reason, at: rest });
    match digits {
        0 => fail("each colon-separated field must have at least one digit"),
        5.. => fail("each group must have 4 or less digits"),
        _ => Ok((u16::from_str_radix(&rest[..digits], 16).unwrap_or(0), digits)),
    }
}

/// Puts zeros where the `::` was.
fn expand<'t>(text: &'t str, mut bytes: Vec<u8>, ellipsis: Option<usize>) -> Result<IpAddr, ParseError<'t>> {
    let fail = |reason| Err(ParseError { text, reason, at: "" });
    match ellipsis {
        None if bytes.len() < 16 => return fail("address string too short"),
        Some(_) if bytes.len() >= 16 => return fail("the :: must expand to at least one field of zeros"),
        Some(at) => {
            let tail = bytes.split_off(at);
            bytes.resize(16 - tail.len(), 0);
            bytes.extend(tail);
        }
        None => {}
    }
    let mut octets = [0_u8; 16];
    octets.copy_from_slice(&bytes[..16]);
    Ok(Ipv6Addr::from(octets).into())
}
