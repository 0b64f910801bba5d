//! [`Windows`]: how much HTTP/2 connections may send of bodies before anything of them was read.
//!
//! What arrives in a connection's window is in memory before anybody knows whose request it belongs to, so it is shared by address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// The windows of all connections together, beside the least one that HTTP/2 gives to each.
const BYTES_MAX: u32 = 64 * 1024 * 1024;
/// The windows of all connections from one address.
const ADDRESS_BYTES_MAX: u32 = BYTES_MAX / 2;
/// A new connection gets this part of what its address has left, so that there is always some room for the next.
const PART: u32 = 16;
/// The least window that a connection can have.
const LEAST_BYTES: u32 = 65_535;

#[derive(Clone, Default)]
pub struct Windows(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    bytes: u32,
    addresses: HashMap<IpAddr, u32>,
}

impl Windows {
    /// The window of a new connection from this address.
    pub fn open(&self, address: IpAddr) -> Window {
        let address = network(address);
        let mut state = self.0.lock();
        let of_address = state.addresses.get(&address).copied().unwrap_or_default();
        let free = (BYTES_MAX - state.bytes).min(ADDRESS_BYTES_MAX - of_address);
        let extra = (free / PART).saturating_sub(LEAST_BYTES);
        if extra > 0 {
            state.bytes += extra;
            state.addresses.insert(address, of_address + extra);
        }
        Window { all: self.clone(), address, extra }
    }
}

/// Whom a connection is counted for: a client with IPv6 usually has all addresses of its network.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

/// A connection's window, which others can have when it is dropped.
pub struct Window {
    all: Windows,
    address: IpAddr,
    extra: u32,
}

impl Window {
    pub fn bytes(&self) -> u32 {
        LEAST_BYTES + self.extra
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.extra == 0 {
            return;
        }
        let mut state = self.all.0.lock();
        state.bytes -= self.extra;
        if let Some(of_address) = state.addresses.get_mut(&self.address) {
            *of_address -= self.extra;
            if *of_address == 0 {
                state.addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_shared_by_address() {
        let windows = Windows::default();
        let hog: Vec<Window> =
            (0..10_000).map(|at| windows.open(format!("10.0.0.1{}", at % 2).parse().unwrap())).collect();
        let held: u64 = hog.iter().map(|window| u64::from(window.extra)).sum();
        assert!(held <= u64::from(BYTES_MAX), "{held}");
        assert_eq!(hog.last().unwrap().bytes(), LEAST_BYTES);
        assert!(hog[0].bytes() > 1 << 20 && hog[100].bytes() > LEAST_BYTES);
        drop(hog);
        let state = windows.0.lock();
        assert_eq!((state.bytes, state.addresses.len()), (0, 0));
        drop(state);
        // A whole network of IPv6 is one client, and so is an address in both notations.
        let one: Vec<Window> =
            (0..2_000).map(|at| windows.open(format!("2001:db8::{at:x}").parse().unwrap())).collect();
        assert_eq!(one.last().unwrap().bytes(), LEAST_BYTES);
        assert!(windows.open("2001:db8:0:1::1".parse().unwrap()).bytes() > 1 << 20);
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), network("10.0.0.1".parse().unwrap()));
    }
}
