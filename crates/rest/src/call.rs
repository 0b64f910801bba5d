//! [`Call`]: one request on its way to a verb.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use audit::Record;
use http::{HeaderMap, Method, Uri};
use request::{Access, RequestInfo, User};

use crate::{CarryOut, FinishWrite};

/// The longest name of a field manager.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// A request whose user is known and whose path is understood. Its body stays apart, because it can be read only once.
pub struct Call {
    pub info: RequestInfo,
    pub user: User,
    pub method: Method,
    /// As it was sent.
    pub uri: Uri,
    pub headers: HeaderMap,
    /// Decoded query parameters in the order sent.
    pub query: Vec<(String, String)>,
    /// When a request that is not long-running must be over.
    pub timeout: Duration,
    /// The client's address; None for requests that the server makes itself.
    pub client: Option<IpAddr>,
    /// The request's audit record, if the audit policy asks for one.
    pub record: Option<Arc<Record>>,
    /// What the history says about the changes that the request makes; None if there is none, and for reads.
    pub origin: Option<Arc<history::Origin>>,
    /// Whether lists and watches that do not say so are `authorized`, too, as `--authorized-lists-for` has it for the user.
    pub only_visible: bool,
    /// Finishes a write that outlives the request; None if there is nothing to do besides.
    pub finish: Option<Arc<dyn FinishWrite>>,
    /// Carries out the requests that a restore is made of; None for every other request.
    pub parts: Option<Arc<dyn CarryOut>>,
    /// The uid that the object gets which is created; None for one that the server makes up then.
    pub new_uid: Option<Box<str>>,
}

impl authz::Ask for Call {
    fn access(&self) -> Access<'_> {
        Access::of(&self.info, &self.user)
    }

    fn asks_for_visible(&self) -> bool {
        crate::view::asks_for_visible(self)
    }

    fn reads_secrets(&self) -> bool {
        crate::view::reads_secrets(self)
    }
}

impl Call {
    /// The first value of a query parameter.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a query parameter.
    pub fn query_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The field manager of a write: the query parameter, or the first word of the user agent.
    pub fn field_manager(&self) -> String {
        if let Some(manager) = self.query("fieldManager").filter(|manager| !manager.is_empty()) {
            return manager.to_string();
        }
        let agent = self.headers.get("user-agent").map_or(&b""[..], |agent| agent.as_bytes());
        let agent = String::from_utf8_lossy(agent);
        let name = agent.split('/').next().unwrap_or("").chars().filter(|c| object::is_print(*c));
        // Upstream cuts the default at the limit that it enforces on explicit names.
        let mut bytes = 0;
        let fits = |c: &char| {
            bytes += c.len_utf8();
            bytes <= FIELD_MANAGER_BYTES_MAX
        };
        name.take_while(fits).collect()
    }
}
