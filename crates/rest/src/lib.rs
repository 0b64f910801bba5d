//! The REST verbs of the Kubernetes API, one file a verb.
//!
//! Start with [`serve`]: it finds the resource in the catalog, picks the verb from one table, and turns every failure into
//! a Status. [`create`] is a typical verb; [`render`] turns stored bytes into what a client asked for.

pub mod accept;
mod action;
mod answers;
mod api;
mod body;
mod call;
pub mod client;
mod connect;
mod create;
mod delete;
mod explain;
mod fields;
mod find;
mod finish;
mod forward;
mod get;
mod history;
mod join;
mod large;
mod list;
mod managed;
mod media;
mod meter;
mod options;
mod parts;
mod past;
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
mod view;
mod watch;
mod wire;

pub use answers::Answers;
pub use api::{Api, CBOR, DefinitionBarrier, Limits, RunWrite, Snapshot, WatchCache};
pub use call::Call;
pub use connect::StreamMeters;
pub use find::{
    GROUP as LISTS_GROUP, VERSION as LISTS_VERSION, is_asked_for as is_find, looked_at as looked_at_by_find,
};
pub use finish::FinishWrite;
pub use forward::{
    ForwardBody, ForwardClient, NoHeader, Unreachable, append_forwarded_for, forward, header_value, passed_on,
};
pub use large::{aside, was_aside};
pub use managed::{ManagedKind, track};
pub use media::{Accept, Media, Transform};
pub use meter::{SIZE_BOUNDS, WatchMeter, WatchMeters};
pub use parts::CarryOut;
pub use past::{CHANGES_PATH, changes_of_everything};
pub use recent::{LoadedObjects, Recent, ServedObjects};
pub use reply::{Aborted, Body, Chunks, Reply, ReplyBody, RequestBody, encode_value, failure, untyped_failure};
pub use route::{page_not_found, serve};
pub use streams::websocket::is_upgrade;
pub use view::{PARAMETERS as LIST_PARAMETERS, looks_at_all};
