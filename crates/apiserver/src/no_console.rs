//! In the place of `own_console` in programs without the feature `console`: a configuration that asks for one is refused, so that nothing
//! else here is ever called.

use std::sync::{Arc, Weak};

use ::audit::Auditor;
use authn::{Authenticator, Method};
use authz::Authorizer;
use object::Clock;
use rest::Api;
use server::{Metrics, Paths, PublicPages, RequestObserver, Seats, Unfinished};

pub use self::NoConsole as Console;
use crate::authentication::{Authentication, Issuers};
use crate::start::StartSettings;
use crate::store::OpenedStore;
use crate::{Config, Pki};

/// A console; there is none.
pub enum NoConsole {}

pub fn open(config: &Config, _: &Arc<dyn Clock>) -> Result<Option<Arc<NoConsole>>, String> {
    if config.console && config.listens { Err(crate::left_out("console")) } else { Ok(None) }
}

pub fn cookie(_: &Config) -> Option<&'static str> {
    None
}

pub fn link(console: &NoConsole, _: &str) -> String {
    match *console {}
}

pub fn method(console: &NoConsole, _: &Weak<Authenticator>, _: &Issuers) -> Box<dyn Method> {
    match *console {}
}

pub fn authorizer(console: &NoConsole) -> (String, Arc<dyn Authorizer>) {
    match *console {}
}

pub fn pages(console: &NoConsole, _: &Authentication) -> Arc<dyn PublicPages> {
    match *console {}
}

pub fn observer(console: &NoConsole) -> Arc<dyn RequestObserver> {
    match *console {}
}

#[cfg(feature = "embedded")]
impl NoConsole {
    pub fn make_code(&self) -> String {
        match *self {}
    }
}

#[allow(dead_code)] // Its fields are those of the console that there is.
pub struct OwnConsole<'a> {
    pub console: &'a Arc<NoConsole>,
    pub settings: &'a StartSettings,
    pub pki: &'a Pki,
    pub store: &'a OpenedStore,
}

impl OwnConsole<'_> {
    pub fn paths(
        &self,
        _: &Arc<Api>,
        _: &Authentication,
        _: Option<&Arc<Auditor>>,
        _: &Arc<Metrics>,
        _: &Seats,
        _: &Unfinished,
    ) -> Arc<dyn Paths> {
        match **self.console {}
    }
}
