//! Client certificates: the common name is the user, the organizations are the groups.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use object::asn1;
use request::User;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::cache::Recent;
use crate::{CREDENTIAL_ID, Credentials, Identity, Method, Refused};

/// More than the nodes and components of the largest clusters.
const KNOWN_MAX: usize = 8192;

/// How long a verified certificate is not verified again.
const KNOWN_SECONDS: i64 = 10;

/// The authorities that may vouch for clients, as of `--client-ca-file`. They can be replaced while connections are open:
/// certificates are judged anew with each request.
pub struct CertificateAuthority {
    verifier: ArcSwap<Arc<dyn ClientCertVerifier>>,
    /// Whether certificates may say their holder's uid.
    reads_uid: bool,
    /// A certificate comes with every request of a connection, and is not verified every time.
    known: Mutex<Recent<CertificateDer<'static>, Identity>>,
}

impl CertificateAuthority {
    /// Trusts these certificates to have signed others, which may say their holder's uid if `reads_uid`.
    pub fn new(authorities: Vec<CertificateDer<'static>>, reads_uid: bool) -> Result<CertificateAuthority, String> {
        let verifier = ArcSwap::from_pointee(verifier(authorities)?);
        Ok(CertificateAuthority { verifier, reads_uid, known: Mutex::new(Recent::new(KNOWN_MAX)) })
    }

    /// Trusts these instead, from the next request on.
    pub fn replace(&self, authorities: Vec<CertificateDer<'static>>) -> Result<(), String> {
        self.verifier.store(Arc::new(verifier(authorities)?));
        self.known().clear();
        Ok(())
    }

    /// The common name of a certificate that one of the authorities has signed.
    pub(crate) fn common_name(&self, credentials: &Credentials<'_>) -> Result<String, Refused> {
        let Some(leaf) = credentials.certificates.first() else { return Ok(String::new()) };
        self.verify(credentials).map_err(Refused::because)?;
        Ok(holder(leaf, false)?.map(|identity| identity.user.name).unwrap_or_default())
    }

    fn verify(&self, credentials: &Credentials<'_>) -> Result<(), String> {
        let Some((leaf, intermediates)) = credentials.certificates.split_first() else { return Ok(()) };
        let seconds = u64::try_from(credentials.now).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let verifier = self.verifier.load();
        verifier.verify_client_cert(leaf, intermediates, now).map(|_| ()).map_err(|error| error.to_string())
    }

    fn known(&self) -> MutexGuard<'_, Recent<CertificateDer<'static>, Identity>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn verifier(authorities: Vec<CertificateDer<'static>>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| format!("a client CA certificate cannot be used: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("no usable client CA certificate: {error}"))
}

#[async_trait::async_trait]
impl Method for Arc<CertificateAuthority> {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Refused> {
        let Some(leaf) = credentials.certificates.first() else { return Ok(None) };
        if let Some(identity) = self.known().get(leaf, credentials.now) {
            return Ok(Some(identity));
        }
        self.verify(credentials)
            .map_err(|why| Refused::because(format!("verifying certificate {} failed: {why}", identifier(leaf))))?;
        let Some(identity) = holder(leaf, self.reads_uid)? else { return Ok(None) };
        let until = (credentials.now + KNOWN_SECONDS).min(identity.certificate_ends.unwrap_or(i64::MAX));
        self.known().put(leaf.clone(), identity.clone(), credentials.now, until);
        Ok(Some(identity))
    }
}

/// How errors name a certificate: by its serial number and the identifiers of its keys.
fn identifier(certificate: &CertificateDer<'_>) -> String {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return "that cannot be read".to_string() };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":");
    let (mut subject, mut authority) = (String::new(), String::new());
    for extension in parsed.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => subject = hex(id.0),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                authority = id.key_identifier.as_ref().map(|id| hex(id.0)).unwrap_or_default();
            }
            _ => {}
        }
    }
    format!("SN={}, SKID={subject}, AKID={authority}", parsed.tbs_certificate.serial)
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
        ca: CertificateDer<'static>,
        method: Arc<CertificateAuthority>,
    }

    fn authority(reads_uid: bool) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let method = Arc::new(CertificateAuthority::new(vec![certificate.der().clone()], reads_uid).unwrap());
        Authority { ca: certificate.der().clone(), issuer: Issuer::new(params, key), method }
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
            let headers = &http::HeaderMap::new();
            self.method.identify(&Credentials { certificates, headers, path: "/", now }).await
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

    #[tokio::test]
    async fn replaced_authorities_end_what_is_remembered() {
        let (before, after) = (authority(false), authority(false));
        let certificate = before.issue(&[(DnType::CommonName, "ann")]);
        assert!(before.identify(&certificate, NOW).await.unwrap().is_some());
        let newer = after.issue(&[(DnType::CommonName, "bob")]);
        let refused = before.identify(&newer, NOW).await.unwrap_err().to_string();
        assert!(refused.starts_with("verifying certificate SN=") && refused.contains("AKID="), "{refused}");
        let own = after.ca.clone();
        before.method.replace(vec![own]).unwrap();
        assert!(before.identify(&certificate, NOW).await.is_err());
        assert!(before.identify(&newer, NOW).await.unwrap().is_some());
        assert!(before.method.replace(Vec::new()).is_err());
        assert!(
            before.identify(&newer, NOW).await.unwrap().is_some(),
            "a replacement that cannot be used changes nothing"
        );
    }
}
