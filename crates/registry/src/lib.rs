//! How objects live: the [`Strategy`] a kind brings, and the generic create, update, delete, list and watch around it.
//! Nothing here sees HTTP, and nothing here knows a particular kind.

mod action;
mod builtin;
mod catalog;
pub mod columns;
mod connect;
mod context;
mod create;
pub mod custom;
mod delete;
mod error;
mod features;
mod form;
mod lifecycle;
mod live;
pub mod metadata;
mod report;
mod shard;
mod storage;
mod strategy;
mod update;

pub use action::{Action, ActionCall, REVIEWS};
pub use builtin::{Setup, key_paths};
pub use catalog::{Catalog, Column, Convert, Deprecation, Resource, Subresource};
pub use codec::StoredEncoding;
pub use connect::{Connect, ConnectCall, Exchange, Target};
pub use context::{Context, Lookup, NoLookup};
pub use create::{Admit, AdmitAll, Outcome, at_revision, ensure_namespace, wipe_system_fields};
pub use custom::{Definition, ScalePaths};
pub use delete::{Deleted, UNREADABLE, validate_options};
pub use error::{EXPIRED, Error, MODIFIED, Taken, Unreadable};
pub use features::{Features, Release};
pub use form::{Form, Shape, go_package};
pub use lifecycle::Lifecycle;
pub use live::{LiveCatalog, Withdrawn};
pub use report::Report;
pub use shard::Shard;
pub use storage::{Describer, Filter, Prepared, ResourceStorage, StoredCodec};
pub use strategy::{Deletion, FieldRefusal, GarbageCollection, Generic, Strategy, Undo};
pub use update::{UpdateOptions, UpdateScope, UpdatedObject, check_version_form};
