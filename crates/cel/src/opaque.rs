//! [`Opaque`]: values of the library types that have no literal: quantities, addresses and the like.

use std::net::IpAddr;

use object::quantity::Quantity;

use crate::error::{Error, Outcome};
use crate::library::authorizer::{Authorizer, Decision, GroupCheck, PathCheck, ResourceCheck};
use crate::library::cidr::Cidr;
use crate::library::format::Format;
use crate::library::semver::Semver;
use crate::val::Val;
use object::url::Url;

/// A value of a library type.
#[derive(Clone, Copy, Debug)]
pub enum Opaque<'a> {
    Quantity(&'a Quantity),
    /// The result of arithmetic. In Go it is a pointer, which another quantity refuses to be compared with.
    ComputedQuantity(&'a Quantity),
    Ip(&'a IpAddr),
    Cidr(&'a Cidr),
    Url(&'a Url),
    Semver(&'a Semver),
    Format(&'static Format),
    Authorizer(&'a Authorizer<'a>),
    PathCheck(&'a PathCheck<'a>),
    GroupCheck(&'a GroupCheck<'a>),
    ResourceCheck(&'a ResourceCheck<'a>),
    Decision(&'a Decision<'a>),
}

impl<'a> Opaque<'a> {
    /// The name of the type at run time.
    pub fn type_name(self) -> &'static str {
        match self {
            Opaque::Quantity(_) | Opaque::ComputedQuantity(_) => "kubernetes.Quantity",
            Opaque::Ip(_) => "net.IP",
            Opaque::Cidr(_) => "net.CIDR",
            Opaque::Url(_) => "kubernetes.URL",
            Opaque::Semver(_) => "kubernetes.Semver",
            Opaque::Format(_) => "kubernetes.NamedFormat",
            Opaque::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Opaque::PathCheck(_) => "kubernetes.authorization.PathCheck",
            Opaque::GroupCheck(_) => "kubernetes.authorization.GroupCheck",
            Opaque::ResourceCheck(_) => "kubernetes.authorization.ResourceCheck",
            Opaque::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    /// Whether two values are equal; what has another type, or is a part of an authorization check, cannot be compared.
    pub fn equal(self, other: Val<'a>) -> Outcome<'a, bool> {
        let Val::Opaque(other) = other else { return Err(Error::NO_SUCH_OVERLOAD) };
        match (self, other) {
            (Opaque::Quantity(a) | Opaque::ComputedQuantity(a), Opaque::Quantity(b)) => Ok(a == b),
            (Opaque::Ip(a), Opaque::Ip(b)) => Ok(a == b),
            (Opaque::Cidr(a), Opaque::Cidr(b)) => Ok(a == b),
            (Opaque::Url(a), Opaque::Url(b)) => Ok(a.to_string() == b.to_string()),
            (Opaque::Semver(a), Opaque::Semver(b)) => Ok(a.compare(b).is_eq()),
            (Opaque::Format(a), Opaque::Format(b)) => Ok(a.title == b.title),
            _ => Err(Error::NO_SUCH_OVERLOAD),
        }
    }

    /// The size by which cost is counted, for types that have one: bytes of an address, bytes of a prefix.
    pub fn size(self) -> Option<u64> {
        match self {
            Opaque::Ip(IpAddr::V4(_)) => Some(4),
            Opaque::Ip(IpAddr::V6(_)) => Some(16),
            Opaque::Cidr(cidr) => Some(u64::from(cidr.bits).div_ceil(8)),
            _ => None,
        }
    }

    /// The text by which messages know the value, and what `string(…)` makes of addresses; for types that have one.
    pub fn text(self) -> Option<String> {
        match self {
            Opaque::Quantity(quantity) | Opaque::ComputedQuantity(quantity) => Some(quantity.to_string()),
            Opaque::Ip(ip) => Some(ip.to_string()),
            Opaque::Cidr(cidr) => Some(cidr.to_string()),
            Opaque::Url(url) => Some(url.to_string()),
            Opaque::Semver(version) => Some(version.to_string()),
            Opaque::Format(format) => Some(format.title.to_string()),
            _ => None,
        }
    }
}
