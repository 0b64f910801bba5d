//! Constraints on IP addresses.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::{nearest, prune};

/// An address and a mask, of 4 or 16 bytes each, as they stand in the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    ip: Vec<u8>,
    mask: Vec<u8>,
}

impl Network {
    pub fn read(bytes: &[u8]) -> Result<Network, String> {
        if !matches!(bytes.len(), 8 | 32) {
            return Err(format!("x509: IP constraint contained value of length {}", bytes.len()));
        }
        let (ip, mask) = bytes.split_at(bytes.len() / 2);
        let ones = mask.iter().take_while(|byte| **byte == 0xff).count();
        let rest = mask.get(ones..).unwrap_or_default();
        let is_prefix = match rest.split_first() {
            None => true,
            Some((edge, zeros)) => edge.leading_ones() == edge.count_ones() && zeros.iter().all(|byte| *byte == 0),
        };
        if !is_prefix {
            let shown: String = mask.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(format!("x509: IP constraint contained invalid mask {shown}"));
        }
        Ok(Network { ip: ip.to_vec(), mask: mask.to_vec() })
    }

    /// Address and mask, of 4 bytes for an IPv4 address in either form.
    fn short(&self) -> (&[u8], &[u8]) {
        match (short(&self.ip), self.mask.len()) {
            (ip, 16) if ip.len() == 4 => (ip, &self.mask[12..]),
            (ip, _) => (ip, &self.mask),
        }
    }

    fn contains(&self, ip: &[u8]) -> bool {
        let (own, mask) = self.short();
        let ip = short(ip);
        ip.len() == own.len() && ip.iter().zip(own).zip(mask).all(|((a, b), mask)| a & mask == b & mask)
    }

    fn covers(&self, other: &Network) -> bool {
        let last: Vec<u8> = other.ip.iter().zip(&other.mask).map(|(byte, mask)| byte | !mask).collect();
        self.contains(&other.ip) && self.contains(&last)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ip, mask) = self.short();
        let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
        match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
            (Ok(four), _) => write!(f, "{}/{ones}", IpAddr::from(four)),
            (_, Ok(sixteen)) => write!(f, "{}/{ones}", IpAddr::from(sixteen)),
            _ => Ok(()),
        }
    }
}

/// The four bytes of an IPv4 address that is written as an IPv6 one.
fn short(ip: &[u8]) -> &[u8] {
    ip.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]).filter(|rest| rest.len() == 4).unwrap_or(ip)
}

/// An address as Go prints it.
pub(super) fn shown(ip: IpAddr) -> String {
    ip.to_canonical().to_string()
}

/// Networks of IPv4 and of IPv6, sorted.
pub(super) struct Set {
    four: Vec<Network>,
    sixteen: Vec<Network>,
}

impl Set {
    pub fn new(networks: &[Network]) -> Option<Set> {
        let of = |length: usize| {
            let mut list: Vec<Network> =
                networks.iter().filter(|network| network.ip.len() == length).cloned().collect();
            list.sort_by(|a, b| (&a.ip, &a.mask).cmp(&(&b.ip, &b.mask)));
            prune(list, Network::covers)
        };
        (!networks.is_empty()).then(|| Set { four: of(4), sixteen: of(16) })
    }

    pub fn find(&self, ip: IpAddr) -> Option<&Network> {
        let (list, bytes) = match ip {
            IpAddr::V4(ip) => (&self.four, ip.octets().to_vec()),
            IpAddr::V6(ip) => (&self.sixteen, ip.octets().to_vec()),
        };
        let order = |network: &Network| -> Ordering { network.ip.cmp(&bytes) };
        nearest(list, order).filter(|(network, exact)| *exact || network.contains(&bytes)).map(|(network, _)| network)
    }
}
