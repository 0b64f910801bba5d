//! Client certificates: the common name is the user, the organizations are the groups.

use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use object::asn1;
use request::User;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::cache::Good;
use crate::{CREDENTIAL_ID, Credentials, Identity, Method, Refused};

/// More than the nodes and components of the largest clusters.
const KNOWN_MAX: usize = 8192;

/// `--client-ca-file`: who may vouch for clients.
pub struct CertificateAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Whether certificates may say their holder's uid.
    reads_uid: bool,
    /// A certificate comes with every request of a connection, and is not verified every time.
    known: Mutex<Good<CertificateDer<'static>>>,
}

impl CertificateAuthority {
    /// Trusts these certificates to have signed others, which may say their holder's uid if `reads_uid`.
    pub fn new(authorities: Vec<CertificateDer<'static>>, reads_uid: bool) -> Result<CertificateAuthority, String> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| format!("a client CA certificate cannot be used: {error}"))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| format!("no usable client CA certificate: {error}"))?;
        Ok(CertificateAuthority { verifier, reads_uid, known: Mutex::new(Good::new(KNOWN_MAX)) })
    }
}

#[async_trait::async_trait]
impl Method for CertificateAuthority {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Refused> {
        let Some((leaf, intermediates)) = credentials.certificates.split_first() else { return Ok(None) };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = known().get(leaf, credentials.now) {
            return Ok(Some(identity));
        }
        let seconds = u64::try_from(credentials.now).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        self.verifier
            .verify_client_cert(leaf, intermediates, now)
            .map_err(|error| Refused::because(format!("verifying certificate failed: {error}")))?;
        let Some(identity) = holder(leaf, self.reads_uid)? else { return Ok(None) };
        known().put(leaf.clone(), &identity, credentials.now);
        Ok(Some(identity))
    }
}

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
/// Where a certificate's subject says the uid.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// The user that a certificate names; None if it has no common name.
fn holder(certificate: &CertificateDer<'_>, reads_uid: bool) -> Result<Option<Identity>, Refused> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| Refused::because(error.to_string()))?;
    let (mut name, mut groups, mut uids) = (String::new(), Vec::new(), Vec::new());
    for attribute in parsed.subject().iter_attributes() {
        let value = attribute.attr_value();
        let text = asn1::string(value.tag().0, value.data).map_err(unreadable)?;
        let text = text.ok_or_else(|| unreadable("unsupported string type"))?;
        match attribute.attr_type().iter().map(Iterator::collect::<Vec<u64>>).as_deref() {
            Some(COMMON_NAME) => name = text,
            Some(ORGANIZATION) => groups.push(text),
            Some(UID) if reads_uid => uids.push(text),
            _ => {}
        }
    }
    if name.is_empty() {
        return Ok(None);
    }
    let uid = one_uid(uids)?;
    let fingerprint = digest(&SHA256, certificate);
    let fingerprint: String = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = vec![(CREDENTIAL_ID.to_string(), vec![format!("X509SHA256={fingerprint}")])];
    let user = User { name, uid, groups, extra };
    let ends = parsed.validity().not_after.timestamp();
    Ok(Some(Identity { user, certificate_ends: Some(ends), ..Identity::default() }))
}

/// A part of the subject that cannot be read makes the whole certificate useless, as in Go.
fn unreadable(why: impl std::fmt::Display) -> Refused {
    Refused::because(format!("x509: invalid RDNSequence: invalid attribute value: {why}"))
}

fn one_uid(mut uids: Vec<String>) -> Result<String, Refused> {
    match uids.as_slice() {
        [] => Ok(String::new()),
        [uid] if uid.is_empty() => Err(Refused::because("UID cannot be an empty string")),
        [_] => Ok(uids.remove(0)),
        many => Err(Refused::because(format!("expected 1 UID, but found multiple: [{}]", many.join(" ")))),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString, UniversalString};
    use rcgen::{BasicConstraints, CertificateParams, DnType, DnValue, IsCa, Issuer, KeyPair};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        method: CertificateAuthority,
    }

    fn authority(reads_uid: bool) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let method = CertificateAuthority::new(vec![certificate.der().clone()], reads_uid).unwrap();
        Authority { issuer: Issuer::new(params, key), method }
    }

    impl Authority {
        fn issue<V: Clone + Into<DnValue>>(&self, subject: &[(DnType, V)]) -> CertificateDer<'static> {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            for (kind, value) in subject {
                params.distinguished_name.push(kind.clone(), value.clone());
            }
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            params.not_after = rcgen::date_time_ymd(2030, 1, 1);
            params.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap().der().clone()
        }

        async fn identify(&self, certificate: &CertificateDer<'static>, now: i64) -> Result<Option<Identity>, Refused> {
            let certificates = std::slice::from_ref(certificate);
            self.method.identify(&Credentials { certificates, headers: &http::HeaderMap::new(), now }).await
        }
    }

    /// A group counts however its name is encoded, and a certificate with a name that cannot be read is refused.
    #[tokio::test]
    async fn names_are_read_in_every_encoding() {
        let authority = authority(false);
        let group = "system:masters";
        for value in [
            DnValue::Utf8String(group.into()),
            DnValue::PrintableString(PrintableString::try_from(group).unwrap()),
            DnValue::Ia5String(Ia5String::try_from(group).unwrap()),
            DnValue::TeletexString(TeletexString::try_from(group).unwrap()),
            DnValue::BmpString(BmpString::try_from(group).unwrap()),
        ] {
            let subject = [(DnType::CommonName, "ann".into()), (DnType::OrganizationName, value.clone())];
            let identity = authority.identify(&authority.issue(&subject), NOW).await.unwrap().unwrap();
            assert_eq!(identity.user.groups, [group], "{value:?}");
        }
        let wide = DnValue::UniversalString(UniversalString::try_from(group).unwrap());
        let subject = [(DnType::CommonName, "ann".into()), (DnType::OrganizationName, wide)];
        assert!(authority.identify(&authority.issue(&subject), NOW).await.is_err());
    }

    #[tokio::test]
    async fn a_subject_is_a_user() {
        let uid = || DnType::CustomDnType(UID.to_vec());
        let (reading, other) = (authority(true), authority(false));
        let subject = [(DnType::CommonName, "ann"), (DnType::OrganizationName, "devs"), (uid(), "u-1")];
        let certificate = reading.issue(&subject);
        let identity = reading.identify(&certificate, NOW).await.unwrap().unwrap();
        assert_eq!((identity.user.name.as_str(), identity.user.uid.as_str()), ("ann", "u-1"));
        assert_eq!(identity.user.groups, ["devs"]);
        let (key, values) = &identity.user.extra[0];
        assert_eq!(key, CREDENTIAL_ID);
        assert!(values[0].starts_with("X509SHA256=") && values[0].len() == 11 + 64, "{values:?}");
        let ends = identity.certificate_ends.unwrap();
        assert_eq!(ends, 1_893_456_000);

        assert_eq!(other.identify(&other.issue(&subject), NOW).await.unwrap().unwrap().user.uid, "");
        let nameless = reading.issue(&[(DnType::OrganizationName, "devs")]);
        assert_eq!(reading.identify(&nameless, NOW).await.unwrap(), None);
        let empty = reading.issue(&[(DnType::CommonName, "ann"), (uid(), "")]);
        assert!(reading.identify(&empty, NOW).await.unwrap_err().to_string().contains("UID cannot be an empty string"));
        // Signed by another authority, and expired.
        assert!(other.identify(&certificate, NOW).await.is_err());
        assert!(reading.identify(&certificate, ends - 1).await.is_ok());
        assert!(
            reading.identify(&certificate, ends + 1).await.is_err(),
            "what is remembered ends with the certificate"
        );
    }
}
