//! Whom TLS believes: servers are verified by the rules of Go's `crypto/tls`, clients only have to hold their key, because
//! authentication judges their certificates with each request.

use std::sync::Arc;

use aws_lc_rs::digest::{self, Algorithm};
use aws_lc_rs::signature::{self as aws, UnparsedPublicKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::certificate::Certificate;
use crate::extensions::ExtendedUsage;
use crate::key::{Curve, PublicKey};
use crate::pool::Pool;
use crate::signature::{check_rsa_key, verify_rsa};
use crate::verify::Options;

/// Go looks at no larger RSA keys in a handshake.
const RSA_BITS_MAX: usize = 8192;

/// The schemes of signatures in handshakes.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

/// The certificates that servers are verified against, as of now.
pub trait Roots: std::fmt::Debug + Send + Sync + 'static {
    fn current(&self) -> Arc<Pool>;
}

impl Roots for Arc<Pool> {
    fn current(&self) -> Arc<Pool> {
        self.clone()
    }
}

/// Verifies servers.
#[derive(Debug)]
pub struct ServerVerifier {
    /// None accepts every certificate that can be read.
    roots: Option<Box<dyn Roots>>,
}

impl ServerVerifier {
    pub fn new(roots: Option<Box<dyn Roots>>) -> Arc<ServerVerifier> {
        Arc::new(ServerVerifier { roots })
    }

    /// Err is what Go says.
    fn verify(&self, chain: &[&CertificateDer<'_>], host: &str, now: UnixTime) -> Result<(), String> {
        let mut certificates = Vec::with_capacity(chain.len());
        for der in chain {
            let parsed = Certificate::parse(der);
            let certificate = parsed.map_err(|why| format!("tls: failed to parse certificate from server: {why}"))?;
            if is_too_large(&certificate) {
                return Err(format!("tls: server sent certificate containing RSA key larger than {RSA_BITS_MAX} bits"));
            }
            certificates.push(certificate);
        }
        let mut certificates = certificates.into_iter();
        let Some(leaf) = certificates.next() else { return Err("tls: received empty certificates message".into()) };
        let Some(roots) = &self.roots else { return Ok(()) };
        let options = Options {
            roots: &roots.current(),
            intermediates: &Pool::new(certificates),
            now: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            usage: ExtendedUsage::ServerAuth,
            host: Some(host),
        };
        let verified = leaf.verify(&options).map(drop);
        verified.map_err(|why| format!("tls: failed to verify certificate: {why}"))
    }
}

/// The methods that rustls' verifiers of servers and of clients share.
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_signature(message, certificate, signature, TlsVersion::Tls12)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_signature(message, certificate, signature, TlsVersion::Tls13)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            SCHEMES.to_vec()
        }
    };
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain: Vec<&CertificateDer<'_>> = std::iter::once(leaf).chain(intermediates).collect();
        self.verify(&chain, &name.to_str(), now).map_err(Error::General)?;
        Ok(ServerCertVerified::assertion())
    }

    verify_signatures!();
}

/// Asks clients for a certificate that can be read and whose key they hold. Whether it is believed is authentication's business, so
/// a certificate of an unknown authority is a 401 and not a failed handshake.
#[derive(Debug)]
pub struct ClientAsker {
    authorities: Vec<DistinguishedName>,
}

impl ClientAsker {
    /// Names these authorities to clients that have several certificates.
    pub fn new(authorities: &[Certificate]) -> Arc<ClientAsker> {
        let pool = Pool::new(authorities.iter().cloned());
        let authorities = pool.subjects().map(|subject| DistinguishedName::from(subject.to_vec())).collect();
        Arc::new(ClientAsker { authorities })
    }
}

impl ClientCertVerifier for ClientAsker {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        for der in std::iter::once(leaf).chain(intermediates) {
            let certificate = Certificate::parse(der).map_err(|_| bad(CertificateError::BadEncoding))?;
            if is_too_large(&certificate) {
                return Err(bad(CertificateError::BadEncoding));
            }
        }
        Ok(ClientCertVerified::assertion())
    }

    verify_signatures!();
}

fn is_too_large(certificate: &Certificate) -> bool {
    certificate.key.as_ref().and_then(PublicKey::rsa_bits).is_some_and(|bits| bits > RSA_BITS_MAX)
}

fn bad(why: CertificateError) -> Error {
    Error::InvalidCertificate(why)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TlsVersion {
    Tls12,
    Tls13,
}

/// Checks a handshake's signature with the certificate's key. rustls' own function reads the certificate with webpki, which knows no
/// certificates without extensions and no RSA keys below 2,048 bits.
fn verify_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    version: TlsVersion,
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = Certificate::parse(certificate).map_err(|_| bad(CertificateError::BadEncoding))?;
    let key = certificate.key.ok_or_else(|| bad(CertificateError::BadSignature))?;
    if is_good(&key, message, signed, version) {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(bad(CertificateError::BadSignature))
    }
}

fn is_good(key: &PublicKey, message: &[u8], signed: &DigitallySignedStruct, version: TlsVersion) -> bool {
    use SignatureScheme as S;
    let (scheme, signature) = (signed.scheme, signed.signature());
    match key {
        PublicKey::Rsa { modulus, exponent } => {
            let (hash, is_pss): (&'static Algorithm, bool) = match scheme {
                S::RSA_PSS_SHA256 => (&digest::SHA256, true),
                S::RSA_PSS_SHA384 => (&digest::SHA384, true),
                S::RSA_PSS_SHA512 => (&digest::SHA512, true),
                S::RSA_PKCS1_SHA256 if version == TlsVersion::Tls12 => (&digest::SHA256, false),
                S::RSA_PKCS1_SHA384 if version == TlsVersion::Tls12 => (&digest::SHA384, false),
                S::RSA_PKCS1_SHA512 if version == TlsVersion::Tls12 => (&digest::SHA512, false),
                _ => return false,
            };
            let is_usable = check_rsa_key(modulus, *exponent).is_ok();
            is_usable && verify_rsa(modulus, *exponent, (hash, is_pss), message, signature)
        }
        PublicKey::Ec { curve, point } => {
            let way = match (*curve, scheme) {
                (Curve::P256, S::ECDSA_NISTP256_SHA256) => &aws::ECDSA_P256_SHA256_ASN1,
                (Curve::P384, S::ECDSA_NISTP384_SHA384) => &aws::ECDSA_P384_SHA384_ASN1,
                (Curve::P521, S::ECDSA_NISTP521_SHA512) => &aws::ECDSA_P521_SHA512_ASN1,
                // Before TLS 1.3 a scheme says the hash and not the curve.
                (Curve::P256, S::ECDSA_NISTP384_SHA384) if version == TlsVersion::Tls12 => &aws::ECDSA_P256_SHA384_ASN1,
                (Curve::P256, S::ECDSA_NISTP521_SHA512) if version == TlsVersion::Tls12 => &aws::ECDSA_P256_SHA512_ASN1,
                (Curve::P384, S::ECDSA_NISTP256_SHA256) if version == TlsVersion::Tls12 => &aws::ECDSA_P384_SHA256_ASN1,
                (Curve::P384, S::ECDSA_NISTP521_SHA512) if version == TlsVersion::Tls12 => &aws::ECDSA_P384_SHA512_ASN1,
                (Curve::P521, S::ECDSA_NISTP256_SHA256) if version == TlsVersion::Tls12 => &aws::ECDSA_P521_SHA256_ASN1,
                (Curve::P521, S::ECDSA_NISTP384_SHA384) if version == TlsVersion::Tls12 => &aws::ECDSA_P521_SHA384_ASN1,
                _ => return false,
            };
            UnparsedPublicKey::new(way, point).verify(message, signature).is_ok()
        }
        PublicKey::Ed25519(bytes) => {
            scheme == S::ED25519 && UnparsedPublicKey::new(&aws::ED25519, bytes).verify(message, signature).is_ok()
        }
        PublicKey::X25519 | PublicKey::Dsa => false,
    }
}
