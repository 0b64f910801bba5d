//! A Kubernetes API server in your process: the whole server, with your own parts in it.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ferrokube::Server::builder().start().await?;
//! let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(server.client());
//! assert!(namespaces.get_opt("kube-system").await?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! That server keeps everything in memory, listens on a free port of the loopback device, has an administrator, and ends when it is
//! dropped. What else it should be is said to the [`Builder`]:
//!
//! ```text
//!                        Builder::api                  which built-in resources there are
//!   a request            Builder::options              everything that flags can say
//!      │
//!   authentication    ◄─ Builder::authenticator, ::tokens
//!   audit             ◄─ Builder::audit
//!   priority and fairness
//!   authorization     ◄─ Builder::authorizer
//!      │
//!      ├─ paths       ◄─ Builder::path                 what is not a resource
//!      └─ resources   ◄─ Builder::resource             own kinds, stored or made when asked for
//!            │
//!         admission   ◄─ Builder::admission, ::rule    your rules, on typed objects
//!            │
//!         store       ◄─ Builder::store, ::data_dir    memory, a folder, etcd, or your own
//!
//!   beside requests   ◄─ Builder::background, ::elected, ::check, ::metrics
//!   connections out   ◄─ Builder::dialer              to webhooks, kubelets, Services, etcd
//! ```
//!
//! Every part is a value or a trait of this crate. Several servers can be in one process: nothing is global, no signal is handled and no
//! log is set up. A server needs a tokio runtime with time and, if it listens, I/O.
//!
//! Requests of the same process need neither a port nor TLS: [`Server::client`] is a `kube::Client` and [`Server::local`] a plain one,
//! whose requests go through the same chain as those of connections. [`Builder::without_listener`] leaves the port out.
//!
//! # Stability
//!
//! What this crate exports follows semantic versioning. The crates it is made of (`ferrokube-rest`, `ferrokube-server`, …) do not; the
//! parts of them that are exported here do.

#![deny(missing_docs)]

mod background;
mod builder;
mod changes;
mod client;
mod denied;
mod feed;
#[cfg(feature = "client")]
mod leader;
mod paths;
mod resource;
#[cfg(feature = "client")]
mod rule;
mod server;
mod subresource;
mod values;

pub use ::object::GroupResource;
pub use apiserver::{ApiProfile as Api, Config as Options};
pub use background::Background;
pub use builder::Builder;
pub use changes::MadeChanges;
pub use client::{Answer, CallError, InProcess, Local, ResponseBody, Stopped};
pub use denied::Denied;
pub use feed::Feed;
pub use paths::{PathRequest, PathResponse};
pub use request::User;
pub use resource::Resource;
#[cfg(feature = "client")]
pub use rule::{Request, Rule};
pub use server::{Error, Server};
pub use subresource::ActionRequest;

/// What objects are made of, as the server holds them.
pub mod object {
    pub use ::object::{
        Clock, GroupVersion, GroupVersionKind, GroupVersionResource, Randomness, SeededRandomness, Status, SystemClock,
        ThreadRandomness, Timestamp, Value,
    };
}

/// Who sends a request.
pub mod authentication {
    pub use authn::{Credentials, Identity, Method, Refused, Token, TokenMethod};
}

/// Who may do what.
pub mod authorization {
    pub use authz::{Authorizer, Decision, RulesFor, Verdict};
    pub use request::Access;
}

/// What changes or refuses a request before it is stored, on objects as the server holds them. [`crate::Rule`] is the same on typed
/// objects.
pub mod admission {
    pub use ::admission::{Attributes, Operation, Plugin, Sees};
}

/// The audit log.
pub mod audit {
    pub use ::audit::{Event, EventSink, Level, Stage};
}

/// Where objects are kept.
pub mod store {
    pub use storage::memory::MemoryStore;
    pub use storage::{
        Batch, Change, Entry, Error, Event, Expect, Found, Key, KeyRange, Layer, Page, RangeQuery, Result, Revision,
        Status, Store, Subscriber, Subscription, WatchRequest, WatchStream, Write, Written,
    };
}

/// Servers for tests, which can be emptied while they serve.
pub mod testing {
    pub use apiserver::{Reverted, TestDefinitions, TestUser};
}

/// Connections that the server makes.
pub mod egress {
    pub use outbound::{Address, Dial, Direct, Error, Stream};
}

/// Checks behind `/livez` and `/readyz`.
pub mod health {
    pub use ::server::{Check, Endpoint};
}

/// The async-trait macro that the traits of this crate are written with.
pub use async_trait::async_trait;
