//! `kubernetes.net.cidr`: networks in CIDR notation.

use std::fmt;
use std::net::IpAddr;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::ip::{self, IP};
use crate::library::{Library, Overload, Version};
use crate::opaque::Opaque;
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.net.cidr", since: Version { major: 1, minor: 30 }, until: None, overloads: OVERLOADS };

const CIDR: Type = Type::Opaque("net.CIDR");

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!("cidr", "string_to_cidr", (Type::String) -> CIDR, cidr),
    overload!(member "containsIP", "cidr_contains_ip_string", (CIDR, Type::String) -> Type::Bool, contains_ip_text),
    overload!(member "containsIP", "cidr_contains_ip_ip", (CIDR, IP) -> Type::Bool, contains_ip),
    overload!(member "containsCIDR", "cidr_contains_cidr_string", (CIDR, Type::String) -> Type::Bool, contains_cidr_text),
    overload!(member "containsCIDR", "cidr_contains_cidr", (CIDR, CIDR) -> Type::Bool, contains_cidr),
    overload!(member "ip", "cidr_ip", (CIDR) -> IP, address),
    overload!(member "prefixLength", "cidr_prefix_length", (CIDR) -> Type::Int, prefix_length),
    overload!(member "masked", "cidr_masked", (CIDR) -> CIDR, masked),
    overload!("isCIDR", "is_cidr", (Type::String) -> Type::Bool, is_cidr),
    overload!("string", "cidr_to_string", (CIDR) -> Type::String, to_string),
];

/// An address and how many of its bits name the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub ip: IpAddr,
    pub bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

impl Cidr {
    /// Reads a network as Go's `netip.ParsePrefix` does, with its errors.
    fn parse(text: &str) -> Result<Cidr, String> {
        let fail = |reason: String| {
            let place = format!("netip.ParsePrefix({})", object::quote(text));
            Err(format!("network address parse error during conversion from string: {place}: {reason}"))
        };
        let Some((address, bits)) = text.rsplit_once('/') else { return fail("no '/'".to_string()) };
        let address = match object::address::parse(address) {
            Ok(address) => address,
            Err(error) => return fail(error.to_string()),
        };
        if address.has_zone {
            return fail("IPv6 zones cannot be present in a prefix".to_string());
        }
        let quoted = object::quote(bits);
        if bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9') {
            return fail(format!("bad bits after slash: {quoted}"));
        }
        let is_number = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        if !is_number || bits.len() > 19 {
            return fail(format!("bad bits after slash: {quoted}"));
        }
        let most = if address.ip.is_ipv4() { 32 } else { 128 };
        let Some(bits) = bits.parse::<u8>().ok().filter(|bits| *bits <= most) else {
            return fail("prefix length out of range".to_string());
        };
        if ip::is_mapped(address.ip) {
            return Err(format!("IPv4-mapped IPv6 address {} is not allowed", object::quote(text)));
        }
        Ok(Cidr { ip: address.ip, bits })
    }

    /// The network's own address: all other bits are zero.
    fn masked(self) -> Cidr {
        let ip = match self.ip {
            IpAddr::V4(v4) => {
                IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0)).into())
            }
            IpAddr::V6(v6) => {
                IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0)).into())
            }
        };
        Cidr { ip, bits: self.bits }
    }

    fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && Cidr { ip, bits: self.bits }.masked() == self.masked()
    }
}

fn cidr<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    read(text, arena).map(|cidr| Val::Opaque(Opaque::Cidr(arena.copy(cidr))))
}

fn read<'a>(text: &str, arena: &'a Arena) -> Outcome<'a, Cidr> {
    Cidr::parse(text).map_err(|error| {
        arena.error(format_args!("network address parse error during conversion from string: {error}"))
    })
}

fn is_cidr<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(Cidr::parse(text).is_ok()))
}

fn contains_ip_text<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Cidr(cidr)), Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    // Upstream does not tell what is wrong with the address.
    let ip = ip::read(text, arena).map_err(|_| Error::NO_SUCH_OVERLOAD)?;
    Ok(Val::Bool(cidr.contains(ip)))
}

fn contains_ip<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Cidr(cidr)), Val::Opaque(Opaque::Ip(ip))] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    Ok(Val::Bool(cidr.contains(*ip)))
}

fn contains_cidr_text<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Cidr(cidr)), Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(covers(*cidr, read(text, arena)?)))
}

fn contains_cidr<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Cidr(cidr)), Val::Opaque(Opaque::Cidr(other))] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    Ok(Val::Bool(covers(*cidr, *other)))
}

/// Whether every address of `inner` is one of `outer`.
fn covers(outer: Cidr, inner: Cidr) -> bool {
    outer.bits <= inner.bits && outer.contains(inner.ip)
}

fn address<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    network(args).map(|cidr| Val::Opaque(Opaque::Ip(&cidr.ip)))
}

fn prefix_length<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    network(args).map(|cidr| Val::Int(cidr.bits.into()))
}

fn masked<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    network(args).map(|cidr| Val::Opaque(Opaque::Cidr(arena.copy(cidr.masked()))))
}

fn to_string<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    network(args).map(|cidr| arena.string_val(&cidr.to_string()))
}

fn network<'a>(args: &[Val<'a>]) -> Outcome<'a, &'a Cidr> {
    match *args {
        [Val::Opaque(Opaque::Cidr(cidr))] => Ok(cidr),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}
