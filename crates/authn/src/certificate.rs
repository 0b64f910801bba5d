//! Client certificates: the common name is the user, the organizations are the groups.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use request::User;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Credentials, Identity, Method, Refused};

/// How long a good certificate is not verified again: it comes with every request of a connection.
const GOOD_FOR_SECONDS: i64 = 10;
/// More than the nodes and components of the largest clusters.
const KNOWN_MAX: usize = 8192;

/// `--client-ca-file`: who may vouch for clients.
pub struct CertificateAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
    known: Mutex<HashMap<CertificateDer<'static>, Known>>,
}

/// A certificate that was good a moment ago.
struct Known {
    identity: Identity,
    until: i64,
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
        Ok(CertificateAuthority { verifier, known: Mutex::default() })
    }

    fn remembered(&self, leaf: &CertificateDer<'_>, now: i64) -> Option<Identity> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(leaf).filter(|known| now < known.until).map(|known| known.identity.clone())
    }

    fn remember(&self, leaf: &CertificateDer<'_>, identity: &Identity, now: i64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.retain(|_, known| now < known.until);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        let until = (now + GOOD_FOR_SECONDS).min(identity.certificate_ends.unwrap_or(i64::MAX));
        known.insert(leaf.clone().into_owned(), Known { identity: identity.clone(), until });
    }
}

#[async_trait::async_trait]
impl Method for CertificateAuthority {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Refused> {
        let Some((leaf, intermediates)) = credentials.certificates.split_first() else { return Ok(None) };
        if let Some(identity) = self.remembered(leaf, credentials.now) {
            return Ok(Some(identity));
        }
        let seconds = u64::try_from(credentials.now).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        self.verifier
            .verify_client_cert(leaf, intermediates, now)
            .map_err(|error| Refused::because(format!("verifying certificate failed: {error}")))?;
        let identity = holder(leaf)?;
        self.remember(leaf, &identity, credentials.now);
        Ok(Some(identity))
    }
}

fn holder(certificate: &CertificateDer<'_>) -> Result<Identity, Refused> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| Refused::because(error.to_string()))?;
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().unwrap_or("").to_string();
    let name = parsed.subject().iter_common_name().next().map(text).unwrap_or_default();
    if name.is_empty() {
        return Err(Refused::because("the certificate has no common name"));
    }
    let groups = parsed.subject().iter_organization().map(text).collect();
    let user = User { name, groups, ..User::default() };
    Ok(Identity { user, certificate_ends: Some(parsed.validity().not_after.timestamp()), ..Identity::default() })
}
