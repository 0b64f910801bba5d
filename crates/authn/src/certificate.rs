//! Client certificates: the common name is the user, the organizations are the groups.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256, digest};
use gox509::{Certificate, ExtendedUsage, Options, Pool, VerifyError};
use request::User;
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;

use crate::cache::Recent;
use crate::{CREDENTIAL_ID, Credentials, Identity, Method, Refused};

/// More than the nodes and components of the largest clusters.
const KNOWN_MAX: usize = 8192;

/// How many chains that are not believed are known.
const REFUSED_MAX: usize = 1024;

/// How much of a key's identifier an error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// How much of the reason why a certificate is not believed is shown.
const SHOWN_REASON_BYTES_MAX: usize = 2048;

/// How long a certificate that was verified, or refused, is not verified again.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// The authorities that may vouch for clients, as of `--client-ca-file`. They can be replaced while connections are open:
/// certificates are judged anew with each request.
pub struct CertificateAuthority {
    roots: ArcSwap<Pool>,
    /// Whether certificates may say their holder's uid.
    reads_uid: bool,
    /// A certificate comes with every request of a connection, and is not verified every time.
    known: Mutex<Recent<CertificateDer<'static>, (i64, Identity)>>,
    /// Chains that are not believed, by the digest of all their certificates, so that requests with them cost little too.
    refused: Mutex<Recent<[u8; 32], (i64, Refused)>>,
}

impl CertificateAuthority {
    /// Trusts these certificates to have signed others, which may say their holder's uid if `reads_uid`.
    pub fn new(authorities: Vec<Certificate>, reads_uid: bool) -> CertificateAuthority {
        let roots = ArcSwap::from_pointee(Pool::new(authorities));
        CertificateAuthority {
            roots,
            reads_uid,
            known: Mutex::new(Recent::new(KNOWN_MAX)),
            refused: Mutex::new(Recent::new(REFUSED_MAX)),
        }
    }

    /// Trusts these instead, from the next request on.
    pub fn replace(&self, authorities: Vec<Certificate>) {
        self.roots.store(Arc::new(Pool::new(authorities)));
        self.known().clear();
        self.refused().clear();
    }

    /// The common name of a certificate that one of the authorities has signed.
    pub(crate) fn common_name(&self, credentials: &Credentials<'_>) -> Result<String, Refused> {
        let Some(leaf) = credentials.certificates.first() else { return Ok(String::new()) };
        let leaf = Certificate::parse(leaf).map_err(Refused::because)?;
        self.verify(&leaf, credentials).map_err(|why| Refused::because(shown(&why)))?;
        Ok(leaf.subject.common_name)
    }

    /// Looks for a chain to one of the authorities; answers until when it is good.
    fn verify(&self, leaf: &Certificate, credentials: &Credentials<'_>) -> Result<i64, VerifyError> {
        let intermediates = credentials.certificates.iter().skip(1);
        let options = Options {
            roots: &self.roots.load(),
            intermediates: &Pool::new(intermediates.filter_map(|der| Certificate::parse(der).ok())),
            now: credentials.now,
            usage: ExtendedUsage::ClientAuth,
            host: None,
        };
        let chains = leaf.verify(&options)?;
        let ends = |chain: &Vec<&Certificate>| chain.iter().map(|certificate| certificate.not_after.seconds).min();
        Ok(chains.iter().filter_map(ends).max().unwrap_or(credentials.now))
    }

    /// Whose certificate this is and until when it is good; None if it names no user.
    fn judged(&self, der: &[u8], credentials: &Credentials<'_>) -> Result<Option<(i64, Identity)>, Refused> {
        let leaf = Certificate::parse(der).map_err(Refused::because)?;
        let ends = self.verify(&leaf, credentials).map_err(|why| {
            Refused::because(format!("verifying certificate {} failed: {}", identifier(&leaf), shown(&why)))
        })?;
        Ok(holder(&leaf, self.reads_uid)?.map(|identity| (ends, identity)))
    }

    fn refused(&self) -> MutexGuard<'_, Recent<[u8; 32], (i64, Refused)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Recent<CertificateDer<'static>, (i64, Identity)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl Method for Arc<CertificateAuthority> {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Refused> {
        let Some(der) = credentials.certificates.first() else { return Ok(None) };
        let now = Instant::now();
        // The chain may end by the wall clock while it is known.
        let known = self.known().get(der, now).filter(|(ends, _)| credentials.now < *ends);
        if let Some((_, identity)) = known {
            return Ok(Some(identity));
        }
        let chain = digest_of(credentials.certificates);
        // A chain that was not good yet may be good by the wall clock of another moment.
        let refused = self.refused().get(&chain, now).filter(|(at, _)| *at == credentials.now);
        if let Some((_, refused)) = refused {
            return Err(refused);
        }
        match self.judged(der, credentials) {
            Ok(Some((ends, identity))) => {
                self.known().put(der.clone(), (ends, identity.clone()), now, KNOWN_FOR);
                Ok(Some(identity))
            }
            Ok(None) => Ok(None),
            Err(refused) => {
                self.refused().put(chain, (credentials.now, refused.clone()), now, KNOWN_FOR);
                Err(refused)
            }
        }
    }
}

/// A digest that tells chains apart.
fn digest_of(certificates: &[CertificateDer<'_>]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for certificate in certificates {
        context.update(&(certificate.len() as u64).to_be_bytes());
        context.update(certificate);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

/// How errors name a certificate: by its serial number and the identifiers of its keys. Numbers that are too long for any real
/// certificate are not written out: an error is logged, and this is what anybody can send.
fn identifier(certificate: &Certificate) -> String {
    let hex = |bytes: &[u8]| {
        let shown = bytes.iter().take(SHOWN_BYTES_MAX).map(|byte| format!("{byte:02X}"));
        shown.collect::<Vec<_>>().join(":")
    };
    let serial = certificate.serial();
    let subject = hex(&certificate.extensions.subject_key_id);
    let authority = hex(&certificate.extensions.authority_key_id);
    format!("SN={serial}, SKID={subject}, AKID={authority}")
}

/// What verification says, which can hold names of certificates that the client sent.
fn shown(why: &VerifyError) -> String {
    let mut text = why.to_string();
    text.truncate(text.floor_char_boundary(SHOWN_REASON_BYTES_MAX));
    text
}

/// Where a certificate's subject says the uid: the object identifier 1.3.6.1.4.1.57683.2.
const UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];

/// The user that a certificate names; None if it has no common name.
fn holder(certificate: &Certificate, reads_uid: bool) -> Result<Option<Identity>, Refused> {
    let subject = &certificate.subject;
    if subject.common_name.is_empty() {
        return Ok(None);
    }
    let uids = subject.attributes.iter().filter(|(kind, _)| reads_uid && kind == UID).map(|(_, uid)| uid.clone());
    let uid = one_uid(uids.collect())?;
    let fingerprint = digest(&SHA256, &certificate.raw);
    let fingerprint: String = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = vec![(CREDENTIAL_ID.to_string(), vec![format!("X509SHA256={fingerprint}")])];
    let user = User { name: subject.common_name.clone(), uid, groups: subject.organizations.clone(), extra };
    Ok(Some(Identity { user, certificate_ends: Some(certificate.not_after.seconds), ..Identity::default() }))
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
    const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

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
        let method =
            Arc::new(CertificateAuthority::new(vec![Certificate::parse(certificate.der()).unwrap()], reads_uid));
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
            self.method.identify(&Credentials { certificates, headers, path: "/", client: LOOPBACK, now }).await
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
    async fn a_refused_chain_is_believed_when_its_authority_is() {
        let (one, other) = (authority(false), authority(false));
        let certificate = other.issue(&[(DnType::CommonName, "ann")]);
        let refused = one.identify(&certificate, NOW).await.unwrap_err();
        assert_eq!(one.identify(&certificate, NOW).await.unwrap_err().to_string(), refused.to_string());
        one.method.replace(vec![Certificate::parse(&other.ca).unwrap()]);
        assert_eq!(one.identify(&certificate, NOW).await.unwrap().unwrap().user.name, "ann");
    }

    #[tokio::test]
    async fn a_subject_is_a_user() {
        let uid = || DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
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
        before.method.replace(vec![Certificate::parse(&after.ca).unwrap()]);
        assert!(before.identify(&certificate, NOW).await.is_err());
        assert!(before.identify(&newer, NOW).await.unwrap().is_some());
    }
}
