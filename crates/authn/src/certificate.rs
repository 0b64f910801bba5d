//! Client certificates: the common name is the user, the organizations are the groups.

use std::sync::Arc;

use request::User;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Credentials, Method, Refused};

/// `--client-ca-file`: who may vouch for clients.
pub struct CertificateAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl CertificateAuthority {
    /// Trusts these certificates to have signed others.
    pub fn new(authorities: Vec<CertificateDer<'static>>) -> Result<CertificateAuthority, String> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| format!("a client CA certificate cannot be used: {error}"))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| format!("no usable client CA certificate: {error}"))?;
        Ok(CertificateAuthority { verifier })
    }
}

#[async_trait::async_trait]
impl Method for CertificateAuthority {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        let Some((leaf, intermediates)) = credentials.certificates.split_first() else { return Ok(None) };
        let seconds = u64::try_from(credentials.now).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        self.verifier
            .verify_client_cert(leaf, intermediates, now)
            .map_err(|error| Refused::because(format!("verifying certificate failed: {error}")))?;
        user_of(leaf).map(Some)
    }
}

fn user_of(certificate: &CertificateDer<'_>) -> Result<User, Refused> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| Refused::because(error.to_string()))?;
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().unwrap_or("").to_string();
    let name = parsed.subject().iter_common_name().next().map(text).unwrap_or_default();
    if name.is_empty() {
        return Err(Refused::because("the certificate has no common name"));
    }
    let groups = parsed.subject().iter_organization().map(text).collect();
    Ok(User { name, groups, ..User::default() })
}
