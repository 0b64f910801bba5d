//! How objects live: the [`Strategy`] a kind brings, and the generic create, update, delete, list and watch around it.
//! Nothing here sees HTTP, and nothing here knows a particular kind.

#![warn(missing_docs)]

mod action;
mod builtin;
mod catalog;
pub mod columns;
mod condition;
mod connect;
mod context;
mod create;
pub mod custom;
mod delete;
mod effects;
mod error;
mod facts;
mod features;
mod form;
mod jsonpath;
mod lifecycle;
mod live;
pub mod metadata;
mod own_client;
mod pace;
mod readable;
mod report;
mod reserved;
mod shard;
mod storage;
mod stored_codec;
mod strategy;
mod update;
mod write;

pub use action::{Action, ActionCall, REVIEWS};
pub use builtin::{Setup, key_paths};
pub use catalog::{Catalog, Column, Convert, Deprecation, Resource, Subresource};
pub use codec::StoredEncoding;
pub use condition::ListCondition;
pub use connect::{Connect, ConnectCall, Exchange, Target};
pub use context::{Context, Lookup, NoLookup, Warnings};
pub use create::{Creation, at_revision, ensure_namespace, wipe_system_fields};
pub use custom::{Definition, ScalePaths};
pub use delete::{Deleted, Mismatch, Planned, Removal, UNREADABLE, validate_options};
pub use effects::{Effects, Undo};
pub use error::{EXPIRED, Error, MODIFIED, Taken, Unreadable};
pub use facts::{Deletion, Facts, FieldRefusal, GarbageCollection, Paths, is_changed};
pub use features::{Features, Release};
pub use form::{Form, Shape, go_package};
pub use jsonpath::JsonPath;
pub use lifecycle::Lifecycle;
pub use live::{LiveCatalog, Withdrawn};
pub use own_client::{MakeChange, OwnChange, OwnClient};
pub use pace::Pace;
pub use readable::{DirectStorage, Readable, ReadableBatches, Readables};
pub use report::Report;
pub use shard::Shard;
pub use storage::{Describer, Filter, ResourceStorage};
pub use stored_codec::{SealedCodec, StoredCodec};
pub use strategy::{Generic, Strategy};
pub use update::check_version_form;
pub use write::{Draft, Outcome, UpdateOptions, UpdateScope, Write};
