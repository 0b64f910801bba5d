//! [`Connections`]: how many connections there may be, and what may be in memory of requests that have only begun to arrive.
//!
//! Both exist before it is known whose they are, so they are shared by address. What HTTP/2 lets clients send of bodies is in `windows`.

use std::net::IpAddr;

use crate::shares::{Share, Shares};
use crate::windows::{Window, Windows, network};

/// The bytes of all requests' lines and headers that have not arrived completely.
const HEAD_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Those of nearly all requests are shorter, and are not counted.
pub const SHORT_HEAD_BYTES: usize = 16 * 1024;

/// The number of connections, the bytes of requests that begin to arrive, and windows.
#[derive(Clone)]
pub struct Connections {
    open: Shares<IpAddr>,
    heads: Shares<IpAddr>,
    windows: Windows,
}

impl Connections {
    pub fn new(connections_max: usize) -> Connections {
        Connections {
            open: Shares::new(connections_max),
            heads: Shares::new(HEAD_BYTES_MAX),
            windows: Windows::default(),
        }
    }

    /// Counts a new connection until the result is dropped. None if its address has as many as it may have.
    pub fn open(&self, address: IpAddr) -> Option<ConnectionPlace> {
        let mut share = self.open.share(network(address));
        share.grow(1).then(|| ConnectionPlace { shared: self.clone(), address, _share: share })
    }
}

/// The place of one connection among all.
pub struct ConnectionPlace {
    shared: Connections,
    address: IpAddr,
    _share: Share<IpAddr>,
}

impl ConnectionPlace {
    /// How much it may send of bodies over HTTP/2.
    pub fn window(&self) -> Window {
        self.shared.windows.open(self.address)
    }

    /// The account of the request that is arriving, with nothing in it.
    pub fn head(&self) -> ArrivingHead {
        ArrivingHead(self.shared.heads.share(network(self.address)))
    }
}

/// How much has arrived of a request's line and headers.
pub struct ArrivingHead(Share<IpAddr>);

impl ArrivingHead {
    /// Notes how much it is; 0 when the head is complete. False if that is more than its address may have.
    pub fn set(&mut self, bytes: usize) -> bool {
        if bytes <= SHORT_HEAD_BYTES {
            self.0.clear();
            return true;
        }
        self.0.grow(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leaves_room_for_others() {
        let connections = Connections::new(100);
        let open = |address: &str| connections.open(address.parse().unwrap());
        let hog: Vec<ConnectionPlace> = std::iter::from_fn(|| open("10.0.0.1")).collect();
        assert_eq!(hog.len(), 50);
        let polite: Vec<ConnectionPlace> = std::iter::from_fn(|| open("10.0.0.2")).collect();
        assert_eq!(polite.len(), 25);
        assert!(open("10.0.0.1").is_none() && open("::ffff:10.0.0.1").is_none());
        let heads = |place: &ConnectionPlace| -> Vec<ArrivingHead> {
            let next = || {
                let mut head = place.head();
                head.set(1 << 20).then_some(head)
            };
            std::iter::from_fn(next).collect()
        };
        let held = heads(&hog[0]);
        assert_eq!(held.len(), HEAD_BYTES_MAX >> 21);
        // Short ones are always received, and there is room for another address.
        assert!(hog[1].head().set(SHORT_HEAD_BYTES) && !hog[1].head().set(1 << 20));
        let mut next = polite[0].head();
        assert!(next.set(1 << 19) && next.set(1 << 20));
        assert!(next.set(0));
        drop(held);
        assert_eq!(connections.heads.held(), 0);
        drop((hog, polite));
        assert_eq!(connections.open.held(), 0);
    }
}
