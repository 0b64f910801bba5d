//! The engine for clusters: a real etcd, in kube-apiserver's layout.
//!
//! Keys and values are stored as they are, so an etcd that kube-apiserver has written to can be taken over and given
//! back, and API servers of both kinds can work on the same one.
//!
//! Start reading at `store`. A write is one transaction on the revision of its key (`write`, which also tells what
//! becomes of one whose answer was lost, with the help of `receipt`); a watch is a task that reconnects and resumes by itself (`watch`); `client`
//! knows the members of the cluster and asks the next one when one fails, each over its `channel`.

mod channel;
mod client;
mod compactor;
mod connect;
mod lease;
mod link;
mod options;
mod proto;
mod receipt;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod watch;
mod write;

pub use options::{EtcdDial, EtcdOptions, Io, StartError};
pub use store::EtcdStore;
