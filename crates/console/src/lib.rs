//! The console: pages that show what only the server knows, at `/console/`.
//!
//! The pages themselves ([`pages`]) say nothing about the cluster and are sent to everyone. Everything that they show is read
//! through the ordinary chain as the user who signed in ([`sign_in`], [`sessions`]): objects through the API, and what no other
//! endpoint tells through `/console/api/…` ([`answer`]), for which RBAC asks as for every path. What clients cost ([`costs`]) is
//! measured only while a page asks for it. `console/` has the pages' source; docs/decisions/034-console.md says why it is so.

mod answer;
mod costs;
mod pages;
mod recent;
mod sessions;
mod sign_in;

use std::sync::Arc;

use object::Clock;
use server::RequestObserver;

pub use self::answer::{CertificateRow, ConsolePaths, MemoryParts, ReadCertificates};
use self::costs::Costs;
pub use self::pages::StaticPages;
use self::sessions::{Codes, Sessions};
pub use self::sign_in::{CookieMethod, SignInAuthorizer};

/// The cookie of a session. Browsers accept this name only over TLS, from the whole host, and from no other one.
pub const COOKIE: &str = "__Host-ferrokube-console";
/// The header that proves that a request comes from the page: it has the key that the page got when it signed in.
pub const PROOF: &str = "x-ferrokube-console";
/// The header with the code of a sign-in link.
pub const CODE: &str = "x-ferrokube-console-code";
/// The path at which sessions begin, are asked about, and end.
pub const SESSION_PATH: &str = "/console/session";

/// The state of the console of one server.
pub struct Console {
    sessions: Sessions,
    codes: Codes,
    costs: Arc<Costs>,
    clock: Arc<dyn Clock>,
}

/// The address that signs a browser in with a code. What is behind the # is not sent by browsers.
pub fn link(server: &str, code: &str) -> String {
    [server, "/console/#code=", code].concat()
}

impl Console {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Console> {
        let costs = Arc::new(Costs::new(clock.clone()));
        Arc::new(Console { sessions: Sessions::default(), codes: Codes::default(), costs, clock })
    }

    /// A code that makes a browser on this machine the administrator's, once and for a quarter of an hour.
    pub fn make_code(&self) -> String {
        self.codes.make(self.now())
    }

    /// Is told what requests cost.
    pub fn observer(&self) -> Arc<dyn RequestObserver> {
        self.costs.clone()
    }

    fn now(&self) -> i64 {
        self.clock.now().secs
    }
}
