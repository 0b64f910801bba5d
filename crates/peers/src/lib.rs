//! Other API servers of the same control plane, which share the store with this one: its peers.
//!
//! Each server keeps a key that says where it can be reached (`leases.rs`). Where peers serve group-versions that this server does
//! not, such as during an upgrade, [`Peers`] passes requests for them on (`proxy.rs`), and `/apis` lists them too (`merge.rs`).
//! Custom resources and aggregated APIs are left out (`claims.rs`): every server knows those from the store.

mod claims;
mod leases;
mod merge;
mod meters;
mod peers;
mod proxy;

pub use leases::{Leases, Place};
pub use merge::merge;
pub use meters::PeerMeters;
pub use peers::{Peer, PeerSettings, Peers};
pub use proxy::PEER_PROXIED;
