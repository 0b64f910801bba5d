//! The audit log: a policy decides which requests are recorded and how fully, a [`Record`] collects what becomes of a
//! request, and backends write its events to a file or send them to a webhook.
//!
//! Start with [`Auditor::begin`]. A request whose level is None has no record and costs one evaluation of the policy.

mod auditor;
mod backend;
mod event;
mod numbers;
mod policy;
mod record;

pub use auditor::{Auditor, Request};
pub use backend::{Backend, BatchOptions, EventSink, LogFormat, LogOptions, Mode, Truncation, WebhookOptions};
pub use event::{Event, Stage};
pub use policy::{Level, Policy, PolicyError};
pub use record::Record;
