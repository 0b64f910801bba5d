//! The console: pages that show what only the server knows, at `/console/`.
//!
//! The pages themselves ([`pages`]) say nothing about the cluster and are sent to everyone. Everything that they show is read
//! through the ordinary chain as the user who signed in ([`sign_in`], [`sessions`]): objects through the API, and what no other
//! endpoint tells through `/console/api/…` ([`answer`]), for which RBAC asks as for every path. What clients cost ([`costs`]) is
//! measured only while a page asks for it. `console/` has the pages' source; docs/decisions/034-console.md says why it is so.

mod answer;
mod contain;
mod costs;
mod pages;
mod parts;
mod recent;
mod sessions;
mod sign_in;
mod trial;

use std::sync::Arc;

use object::Clock;
use server::RequestObserver;
use tokio::sync::Semaphore;

pub use self::answer::ConsolePaths;
use self::costs::Costs;
pub use self::pages::ConsolePages;
pub use self::parts::{CertificateRow, LogFigures, ServerParts, StoreFigures, WatchedResource};
use self::sessions::{Codes, IssuedTokens, Sessions};
pub use self::sign_in::{ConsoleAuthentication, CookieMethod, SignInAuthorizer};

/// The cookie of a session. Browsers accept this name only over TLS, from the whole host, and from no other one.
pub const COOKIE: &str = "__Host-ferrokube-console";
/// The header that proves that a request comes from the page: it has the key that the page got when it signed in.
pub const PROOF: &str = "x-ferrokube-console";
/// The header with the code of a sign-in link.
pub const CODE: &str = "x-ferrokube-console-code";
/// The header with a code that an issuer gave to the browser.
pub const ISSUED: &str = "x-ferrokube-console-issued";
/// The path at which sessions begin, are asked about, and end.
pub const SESSION_PATH: &str = "/console/session";

/// How many codes of issuers are exchanged at the same time.
const EXCHANGES_MAX: usize = 8;

/// The state of the console of one server.
pub struct Console {
    sessions: Sessions,
    codes: Codes,
    issued: IssuedTokens,
    /// Limits how many codes of issuers are exchanged at the same time, and how many schemas are judged.
    exchanges: Semaphore,
    trials: Semaphore,
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
        Arc::new(Console {
            sessions: Sessions::default(),
            codes: Codes::default(),
            issued: IssuedTokens::default(),
            exchanges: Semaphore::new(EXCHANGES_MAX),
            trials: Semaphore::new(1),
            costs,
            clock,
        })
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
