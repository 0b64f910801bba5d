//! [`Call`]: one request on its way to a verb.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use object::Status;
use request::{RequestInfo, User};

use crate::reply::Body;

/// A request after the filters: authenticated, authorized, its path understood.
pub struct Call {
    pub info: RequestInfo,
    pub user: User,
    pub method: Method,
    pub headers: HeaderMap,
    /// Decoded query parameters in the order sent.
    pub query: Vec<(String, String)>,
    pub body: Body,
    /// When a request that is not long-running must be over.
    pub timeout: Duration,
}

impl Call {
    /// The first value of a query parameter.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// Who changes fields: the parameter, or the first word of the user agent.
    pub fn field_manager(&self) -> String {
        if let Some(manager) = self.query("fieldManager").filter(|manager| !manager.is_empty()) {
            return manager.to_string();
        }
        let agent = self.header("user-agent").split('/').next().unwrap_or("");
        // Upstream cuts the default at the limit that it enforces on explicit names.
        agent.chars().filter(|c| object::is_print(*c)).take(128).collect()
    }

    /// Reads the whole body, up to `limit` bytes.
    pub async fn read_body(&mut self, limit: usize) -> Result<Bytes, Status> {
        let body = std::mem::take(&mut self.body);
        body.read(limit).await
    }
}
