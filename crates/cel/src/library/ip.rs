//! `kubernetes.net.ip`: IP addresses.

use std::net::IpAddr;

use object::address::parse;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::opaque::Opaque;
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.net.ip", since: Version { major: 1, minor: 30 }, until: None, overloads: OVERLOADS };

pub const IP: Type = Type::Opaque("net.IP");

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!("ip", "string_to_ip", (Type::String) -> IP, ip),
    overload!(member "family", "ip_family", (IP) -> Type::Int, family),
    overload!("ip.isCanonical", "ip_is_canonical", (Type::String) -> Type::Bool, is_canonical),
    overload!(member "isUnspecified", "ip_is_unspecified", (IP) -> Type::Bool, is_unspecified),
    overload!(member "isLoopback", "ip_is_loopback", (IP) -> Type::Bool, is_loopback),
    overload!(member "isLinkLocalMulticast", "ip_is_link_local_multicast", (IP) -> Type::Bool, is_link_local_multicast),
    overload!(member "isLinkLocalUnicast", "ip_is_link_local_unicast", (IP) -> Type::Bool, is_link_local_unicast),
    overload!(member "isGlobalUnicast", "ip_is_global_unicast", (IP) -> Type::Bool, is_global_unicast),
    overload!("isIP", "is_ip", (Type::String) -> Type::Bool, is_ip),
    overload!("string", "ip_to_string", (IP) -> Type::String, to_string),
];

fn ip<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Opaque(Opaque::Ip(arena.copy(read(text, arena)?))))
}

/// Reads an address that has no zone and is no IPv4 address written as an IPv6 one.
pub fn read<'a>(text: &str, arena: &'a Arena) -> Outcome<'a, IpAddr> {
    let quoted = || object::quote(text);
    let address = parse(text).map_err(|error| {
        arena.error(format_args!("IP Address {} parse error during conversion from string: {error}", quoted()))
    })?;
    if address.has_zone {
        return Err(arena.error(format_args!("IP address {} with zone value is not allowed", quoted())));
    }
    if is_mapped(address.ip) {
        return Err(arena.error(format_args!("IPv4-mapped IPv6 address {} is not allowed", quoted())));
    }
    Ok(address.ip)
}

/// Whether it is an IPv4 address written as an IPv6 one.
pub fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn is_canonical<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(read(text, arena)?.to_string() == text))
}

fn is_ip<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(parse(text).is_ok_and(|address| !address.has_zone && !is_mapped(address.ip))))
}

fn to_string<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    address(args).map(|ip| arena.string_val(&ip.to_string()))
}

fn family<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    address(args).map(|ip| Val::Int(if ip.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    address(args).map(|ip| Val::Bool(ip.is_unspecified()))
}

fn is_loopback<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    address(args).map(|ip| Val::Bool(ip.is_loopback()))
}

fn is_link_local_multicast<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    address(args).map(|ip| {
        Val::Bool(match ip {
            IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        })
    })
}

fn is_link_local_unicast<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    address(args).map(|ip| Val::Bool(link_local_unicast(ip)))
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Go counts private addresses as global.
fn is_global_unicast<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    address(args).map(|ip| {
        let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        let excluded = ip.is_unspecified() || is_broadcast || ip.is_loopback() || ip.is_multicast();
        Val::Bool(!excluded && !link_local_unicast(ip))
    })
}

fn address<'a>(args: &[Val<'a>]) -> Outcome<'a, IpAddr> {
    match *args {
        [Val::Opaque(Opaque::Ip(ip))] => Ok(*ip),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}
