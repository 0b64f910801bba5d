//! IP addresses and networks.
//!
//! Fields older than strict checking may hold addresses that Go once read and no longer does, such as `010.0.0.1`. They
//! are read by the sloppy parsers here and refused, with a message that says why, where strictness is asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::quote;

/// Numbers from here on are too large for any part of an address.
const TOO_LARGE: u32 = 0xff_ffff;

/// A network and the address it was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// As it was written: an IPv4 address in IPv6 clothes stays one.
    pub address: IpAddr,
    /// How many bits of the address are the network's.
    pub prefix_length: u8,
}

/// Whether an address belongs to one machine that is not this one: neither loopback, link-local, multicast, broadcast nor
/// unspecified.
pub fn is_global_unicast(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let is_local = match ip {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(is_local || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
}

/// An address in canonical form, as fields with strict rules need it.
pub fn ip(value: &str) -> Vec<String> {
    let errors = ip_for_legacy_field(value, true);
    match parse_ip_sloppy(value).map(printed) {
        Some(canonical) if errors.is_empty() && canonical != value => vec![not_canonical(&canonical)],
        _ => errors,
    }
}

/// An address in any form; `strict` refuses those that different software reads differently.
pub fn ip_for_legacy_field(value: &str, strict: bool) -> Vec<String> {
    let Some(address) = parse_ip_sloppy(value) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_string()];
    };
    if !strict {
        Vec::new()
    } else if value.parse::<IpAddr>().is_err() {
        vec!["must not have leading 0s".to_string()]
    } else if is_mapped(address) {
        vec!["must not be an IPv4-mapped IPv6 address".to_string()]
    } else {
        Vec::new()
    }
}

/// What to warn of in an address that [`ip_for_legacy_field`] accepts.
pub fn ip_warnings(path: &str, value: &str) -> Option<String> {
    let address = parse_ip_sloppy(value)?;
    match value.parse::<IpAddr>() {
        Ok(strict) if !is_mapped(strict) => {
            let canonical = strict.to_string();
            (strict.is_ipv6() && canonical != value).then(|| {
                let (value, canonical) = (quote(value), quote(&canonical));
                format!("{path}: IPv6 address {value} should be in RFC 5952 canonical format ({canonical})")
            })
        }
        _ => {
            let (value, preferred) = (quote(value), quote(&printed(address)));
            Some(format!("{path}: non-standard IP address {value} is invalid: use {preferred}"))
        }
    }
}

/// A network in canonical form, with no bits beyond the prefix.
pub fn cidr(value: &str) -> Vec<String> {
    let errors = cidr_for_legacy_field(value, true);
    match parse_cidr_sloppy(value).map(Cidr::network_printed) {
        Some(canonical) if errors.is_empty() && canonical != value => vec![not_canonical(&canonical)],
        _ => errors,
    }
}

/// A network in any form; `strict` refuses those that different software reads differently.
pub fn cidr_for_legacy_field(value: &str, strict: bool) -> Vec<String> {
    let Some(parsed) = parse_cidr_sloppy(value) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_string()];
    };
    let message = if !strict {
        return Vec::new();
    } else if parse_cidr_strict(value).is_none() {
        "must not have leading 0s in IP or prefix length"
    } else if is_mapped(parsed.address) {
        "must not have an IPv4-mapped IPv6 address"
    } else if parsed.network() != parsed.address {
        "must not have bits set beyond the prefix length"
    } else {
        return Vec::new();
    };
    vec![message.to_string()]
}

/// What to warn of in a network that [`cidr_for_legacy_field`] accepts.
pub fn cidr_warnings(path: &str, value: &str) -> Vec<String> {
    let Some(parsed) = parse_cidr_sloppy(value) else { return Vec::new() };
    let (quoted, network) = (quote(value), quote(&parsed.network_printed()));
    let mut warnings = Vec::new();
    if parsed.network() != parsed.address {
        let single = quote(&format!("{}/{}", printed(parsed.address), parsed.address_bits()));
        warnings.push(format!(
            "{path}: CIDR value {quoted} is ambiguous in this context (should be {network} or {single}?)"
        ));
    }
    let strict = parse_cidr_strict(value).filter(|strict| !is_mapped(strict.address));
    match strict {
        None => warnings.push(format!("{path}: non-standard CIDR value {quoted} is invalid: use {network}")),
        Some(strict) => {
            let canonical = format!("{}/{}", strict.address, strict.prefix_length);
            if warnings.is_empty() && strict.address.is_ipv6() && canonical != value {
                let canonical = quote(&canonical);
                warnings.push(format!(
                    "{path}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format ({canonical})"
                ));
            }
        }
    }
    warnings
}

/// An address with the length of its network, in canonical form: `192.168.1.5/24`.
pub fn interface_address(value: &str) -> Vec<String> {
    let Some(parsed) = parse_cidr_sloppy(value) else {
        return vec!["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".to_string()];
    };
    let mut length = i32::from(parsed.prefix_length);
    // A prefix of less than 96 bits comes out negative; no value equals that, and the message shows it as upstream's does.
    if is_mapped(parsed.address) && length > 32 {
        length -= 96;
    }
    let canonical = format!("{}/{length}", printed(parsed.address));
    if canonical == value { Vec::new() } else { vec![not_canonical(&canonical)] }
}

fn not_canonical(canonical: &str) -> String {
    format!("must be in canonical form ({})", quote(canonical))
}

impl Cidr {
    fn address_bits(self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// Whether an address is of this network.
    pub fn contains(self, address: IpAddr) -> bool {
        let other = Cidr { address, prefix_length: self.prefix_length };
        address.is_ipv4() == self.address.is_ipv4() && other.network() == self.network()
    }

    /// The address with every bit beyond the prefix cleared.
    pub fn network(self) -> IpAddr {
        let beyond = u32::from(self.address_bits() - self.prefix_length);
        match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(beyond).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(beyond).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        }
    }

    /// The network as Go prints an `IPNet`: one of IPv4 addresses in IPv6 clothes comes out as IPv4.
    fn network_printed(self) -> String {
        let network = self.network();
        let length = if is_mapped(network) { self.prefix_length.saturating_sub(96) } else { self.prefix_length };
        format!("{}/{length}", printed(network))
    }
}

/// Whether an address is IPv4 written as IPv6, `::ffff:1.2.3.4`.
fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// An address as Go's `net.IP` prints it, which cannot tell a mapped address from the IPv4 one.
fn printed(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// Reads addresses as Go did before 1.17: leading zeros do not matter.
pub fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    match text.bytes().find(|b| matches!(b, b'.' | b':'))? {
        b'.' => sloppy_v4(text).map(IpAddr::V4),
        _ => sloppy_v6(text).map(IpAddr::V6),
    }
}

/// Reads networks as Go did before 1.17: leading zeros and bits beyond the prefix do not matter.
pub fn parse_cidr_sloppy(text: &str) -> Option<Cidr> {
    let (address, length) = text.split_once('/')?;
    let address = sloppy_v4(address).map(IpAddr::V4).or_else(|| sloppy_v6(address).map(IpAddr::V6))?;
    let (prefix_length, "") = number(length, 10)? else { return None };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (prefix_length <= bits).then_some(Cidr { address, prefix_length: prefix_length as u8 })
}

fn parse_cidr_strict(text: &str) -> Option<Cidr> {
    let (address, length) = text.rsplit_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let leading_zero = length.len() > 1 && length.starts_with('0');
    if leading_zero || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let prefix_length: u8 = length.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (prefix_length <= bits).then_some(Cidr { address, prefix_length })
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut rest = text;
    for (i, octet) in octets.iter_mut().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('.')?;
        }
        let (value, after) = number(rest, 10)?;
        *octet = u8::try_from(value).ok()?;
        rest = after;
    }
    rest.is_empty().then(|| Ipv4Addr::from(octets))
}

fn sloppy_v6(text: &str) -> Option<Ipv6Addr> {
    let mut groups: Vec<u16> = Vec::with_capacity(8);
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
        if rest.is_empty() {
            return Some(Ipv6Addr::UNSPECIFIED);
        }
    }
    while groups.len() < 8 {
        let (value, after) = number(rest, 16)?;
        let value = u16::try_from(value).ok()?;
        if after.starts_with('.') {
            // IPv4 at the end: in the last two groups, or anywhere when a gap fills up the front.
            if (gap.is_none() && groups.len() != 6) || groups.len() > 6 {
                return None;
            }
            let [a, b, c, d] = sloppy_v4(rest)?.octets();
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            rest = "";
            break;
        }
        groups.push(value);
        rest = after;
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(':').filter(|rest| !rest.is_empty())?;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return None;
            }
            gap = Some(groups.len());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return None;
    }
    match gap {
        Some(at) if groups.len() < 8 => {
            let missing = 8 - groups.len();
            groups.splice(at..at, std::iter::repeat_n(0, missing));
        }
        None if groups.len() == 8 => {}
        _ => return None,
    }
    <[u16; 8]>::try_from(groups).ok().map(Ipv6Addr::from)
}

/// The number at the start of `text` and what follows it.
fn number(text: &str, radix: u32) -> Option<(u32, &str)> {
    let length = text.bytes().take_while(|b| char::from(*b).is_digit(radix)).count();
    let (digits, rest) = text.split_at(length);
    let mut value = 0;
    for digit in digits.chars() {
        value = value * radix + digit.to_digit(radix)?;
        if value >= TOO_LARGE {
            return None;
        }
    }
    (length > 0).then_some((value, rest))
}
