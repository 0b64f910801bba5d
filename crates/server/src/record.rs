//! What happens to a request, told to a recorder stage by stage: the place of the audit log.

use http::Request;
use hyper::body::Incoming;
use request::{RequestInfo, User};

use crate::peer::Peer;

/// Keeps a record of requests.
pub trait Recorder: Send + Sync + 'static {
    /// A request has arrived. None if it is not recorded.
    fn begin(&self, arrived: &Arrived<'_>) -> Option<Box<dyn Record>>;
}

/// A request before anything is known about its sender.
pub struct Arrived<'a> {
    pub audit_id: &'a str,
    pub request: &'a Request<Incoming>,
    pub info: &'a RequestInfo,
    pub peer: &'a Peer,
}

/// The record of one request. It is dropped after [`Stage::Complete`].
pub trait Record: Send {
    fn reached(&mut self, stage: Stage<'_>);
}

/// How far a request has come. A request that is refused (401, 403, 429), runs into its deadline (504) or panics skips to
/// [`Stage::Responding`] with that code.
pub enum Stage<'a> {
    Authenticated(&'a User),
    Impersonated(&'a User),
    /// Whether the request was allowed, and the authorizer's reason.
    Authorized {
        allowed: bool,
        reason: &'a str,
    },
    Panicked,
    /// The response's headers are about to be sent.
    Responding(u16),
    /// The response was sent or given up; a watch has ended.
    Complete {
        code: u16,
        bytes: u64,
    },
}
