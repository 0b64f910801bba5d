//! In the place of `issuers` in programs without the feature `oidc`: a configuration that names an issuer is refused.

use std::fmt;
use std::time::Duration;

use authn::TokenMethod;
use authn::configuration::AuthenticationConfiguration;
use outbound::Egress;

pub use self::NoIssuers as Issuers;
use super::AllowedIssuers;

/// No issuers.
pub struct NoIssuers;

impl NoIssuers {
    pub fn open(
        configuration: &AuthenticationConfiguration,
        _: AllowedIssuers,
        _: &Egress,
        _: &str,
    ) -> Result<NoIssuers, String> {
        if configuration.jwt.is_empty() { Ok(NoIssuers) } else { Err(crate::left_out("oidc")) }
    }

    pub fn method(&self) -> Option<Box<dyn TokenMethod>> {
        None
    }

    #[cfg(feature = "console")]
    pub fn of_browsers(&self) -> Option<std::sync::Arc<authn::jwt::JwtIssuers>> {
        None
    }

    pub async fn replace(&self, configuration: &AuthenticationConfiguration, _: Duration) -> Result<(), String> {
        if configuration.jwt.is_empty() { Ok(()) } else { Err(crate::left_out("oidc")) }
    }

    pub fn write_metrics(&self, _: &mut String) -> fmt::Result {
        Ok(())
    }
}
