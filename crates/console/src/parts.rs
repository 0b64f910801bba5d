//! [`ServerParts`]: what the console shows of the server around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use audit::Policy;
use serde::Serialize;

/// The parts of the server that the console shows and does not have itself.
#[async_trait]
pub trait ServerParts: Send + Sync + 'static {
    /// The parts of memory that are counted, in bytes, by their names.
    fn memory(&self) -> Vec<(&'static str, usize)>;

    /// The resources that have watchers.
    fn watched(&self) -> Vec<WatchedResource>;

    /// The stores: the one for everything, and those that some resources have for themselves.
    async fn stores(&self) -> Vec<StoreFigures>;

    /// Reads the certificates that the server uses from their files.
    fn certificates(&self) -> Vec<CertificateRow>;

    /// Every flag with its value.
    fn flags(&self) -> &BTreeMap<String, String>;

    /// The audit policy in force; None if no audit log is kept.
    fn audit_policy(&self) -> Option<Arc<Policy>>;
}

/// How a store is.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreFigures {
    /// "" if it works, else what is wrong.
    pub problem: String,
    pub revision: i64,
    pub compacted: i64,
    pub size: u64,
    pub in_use: u64,
    /// None for engines without a write-ahead log of their own.
    pub log: Option<LogFigures>,
}

/// How a store's write-ahead log is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogFigures {
    pub size: u64,
    /// Bytes that the database does not have yet.
    pub pending: u64,
    /// The revision up to which the database has everything.
    pub checkpoint: i64,
    /// Commits since the start, and the seconds that they took together and at most.
    pub commits: u64,
    pub seconds: f64,
    pub seconds_max: f64,
}

/// How far the watchers of a resource are.
#[derive(Debug, Serialize)]
pub struct WatchedResource {
    pub group: String,
    pub resource: String,
    pub watchers: usize,
    /// Those with events that their clients have not read yet.
    pub behind: usize,
    /// How many events the last of them has to read.
    pub events: u64,
}

/// A certificate in a file that the server uses.
#[derive(Debug, Serialize)]
pub struct CertificateRow {
    pub purpose: &'static str,
    pub file: String,
    /// The common name of its subject.
    pub name: String,
    /// In seconds since the epoch; None if the file cannot be read.
    pub ends: Option<i64>,
    /// Why it cannot be read, "" if it can.
    pub problem: String,
}
