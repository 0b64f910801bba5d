//! In the place of `own_console` in programs without the feature `console`: a configuration that asks for one is refused, so that nothing
//! else here is ever called.

use std::sync::Arc;

use ::audit::Auditor;
use rest::Api;
use server::{Metrics, Paths, PublicPages, RequestObserver, Seats, Unfinished};

pub use self::{NoConsole as Console, NoConsole as OwnConsole};
use crate::authentication::Authentication;
use crate::store::Opened;
use crate::{Config, Pki, ProgramParts};

/// A console; there is none.
pub enum NoConsole {}

pub fn cookie(_: &Config) -> Option<&'static str> {
    None
}

pub fn link(console: &NoConsole, _: &str) -> String {
    match *console {}
}

impl NoConsole {
    pub fn open(config: &Config, _: &mut ProgramParts, _: &Pki, _: &Opened) -> Result<Option<NoConsole>, String> {
        if config.console && config.listens { Err(crate::left_out("console")) } else { Ok(None) }
    }

    #[cfg(feature = "embedded")]
    pub fn make_code(&self) -> String {
        match *self {}
    }

    pub fn paths(
        &self,
        _: &Arc<Api>,
        _: &Authentication,
        _: Option<&Arc<Auditor>>,
        _: &Arc<Metrics>,
        _: &Seats,
        _: &Unfinished,
    ) -> Arc<dyn Paths> {
        match *self {}
    }

    pub fn pages(&self) -> Arc<dyn PublicPages> {
        match *self {}
    }

    pub fn observer(&self) -> Arc<dyn RequestObserver> {
        match *self {}
    }

    pub fn into_console(self) -> Arc<NoConsole> {
        match self {}
    }
}
