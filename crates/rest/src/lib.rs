//! The REST verbs of the Kubernetes API, one file a verb.
//!
//! Start with [`serve`]: it finds the resource in the catalog, picks the verb from one table, and turns every failure into
//! a Status. [`create`] is a typical verb; [`render`] turns stored bytes into what a client asked for.

pub mod accept;
mod action;
mod api;
mod body;
mod call;
pub mod client;
mod connect;
mod create;
mod delete;
mod fields;
mod forward;
mod get;
mod join;
mod large;
mod list;
mod managed;
mod media;
mod meter;
mod options;
mod patch;
mod recent;
mod render;
mod reply;
mod report;
mod route;
mod scale;
mod scope;
mod table;
mod update;
mod watch;
mod wire;

pub use api::{Api, CBOR, Definitions, Limits, Snapshot, WatchCache};
pub use call::Call;
pub use connect::StreamMeters;
pub use forward::{Dial, ForwardBody, Unreachable, forward, passed_on};
pub use managed::{ManagedKind, force_apply, track};
pub use media::{Accept, Media, Transform};
pub use meter::{Meters, SIZE_BOUNDS, WatchMeter};
pub use recent::Recent;
pub use reply::{Aborted, Body, Chunks, Reply, ReplyBody, RequestBody, encode_value, failure, untyped_failure};
pub use route::{page_not_found, serve};
