//! Signatures of certificates and requests: which algorithms are accepted, and whether a signature is good.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{self as aws, UnparsedPublicKey, VerificationAlgorithm};

use crate::der::{INTEGER, Reader, SEQUENCE, constructed};
use crate::key::{Algorithm, Curve, PublicKey};
use crate::rsa;

/// How something was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureAlgorithm {
    /// One that Go does not know.
    Unknown,
    Known(&'static KnownAlgorithm),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownAlgorithm {
    name: &'static str,
    key: KeyKind,
    hash: Hash,
    is_pss: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    Rsa,
    Dsa,
    Ecdsa,
    Ed25519,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    /// The message itself is signed.
    None,
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

const fn known(name: &'static str, key: KeyKind, hash: Hash) -> KnownAlgorithm {
    KnownAlgorithm { name, key, hash, is_pss: false }
}

const fn pss(name: &'static str, hash: Hash) -> KnownAlgorithm {
    KnownAlgorithm { name, key: KeyKind::Rsa, hash, is_pss: true }
}

const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10];
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 8];

/// By the contents of their object identifiers.
static BY_ID: [(&[u8], KnownAlgorithm); 13] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4], known("MD5-RSA", KeyKind::Rsa, Hash::Md5)),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], known("SHA1-RSA", KeyKind::Rsa, Hash::Sha1)),
    (&[0x2b, 0x0e, 3, 2, 0x1d], known("SHA1-RSA", KeyKind::Rsa, Hash::Sha1)),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], known("SHA256-RSA", KeyKind::Rsa, Hash::Sha256)),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], known("SHA384-RSA", KeyKind::Rsa, Hash::Sha384)),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], known("SHA512-RSA", KeyKind::Rsa, Hash::Sha512)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 4, 3], known("DSA-SHA1", KeyKind::Dsa, Hash::Sha1)),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 2], known("DSA-SHA256", KeyKind::Dsa, Hash::Sha256)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], known("ECDSA-SHA1", KeyKind::Ecdsa, Hash::Sha1)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], known("ECDSA-SHA256", KeyKind::Ecdsa, Hash::Sha256)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], known("ECDSA-SHA384", KeyKind::Ecdsa, Hash::Sha384)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], known("ECDSA-SHA512", KeyKind::Ecdsa, Hash::Sha512)),
    (ED25519, known("Ed25519", KeyKind::Ed25519, Hash::None)),
];

static PSS: [(&[u8], i64, KnownAlgorithm); 3] = [
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1], 32, pss("SHA256-RSAPSS", Hash::Sha256)),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2], 48, pss("SHA384-RSAPSS", Hash::Sha384)),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3], 64, pss("SHA512-RSAPSS", Hash::Sha512)),
];

const UNIMPLEMENTED: &str = "x509: cannot verify signature: algorithm unimplemented";
const RSA_FAILURE: &str = "crypto/rsa: verification error";
const ECDSA_FAILURE: &str = "x509: ECDSA verification failure";
/// Go uses no smaller RSA keys.
const RSA_BITS_MIN: usize = 1024;

const INSECURE: &str = "x509: cannot verify signature: insecure algorithm";

/// Whether a chain was refused because of a signature with SHA-1.
pub fn is_insecure_sha1(why: &str) -> bool {
    why.split_once(INSECURE).is_some_and(|(_, algorithm)| algorithm.contains("SHA1"))
}

impl SignatureAlgorithm {
    pub fn of(algorithm: &Algorithm<'_>) -> SignatureAlgorithm {
        let known = match algorithm.id {
            ED25519 if !algorithm.parameters.is_empty() => None,
            RSA_PSS => pss_parameters(algorithm.parameters),
            id => BY_ID.iter().find(|(known, _)| *known == id).map(|(_, known)| known),
        };
        known.map_or(SignatureAlgorithm::Unknown, SignatureAlgorithm::Known)
    }

    /// Checks a signature; Err is what Go says. SHA-1 is allowed for certificate requests only, which prove no more than that
    /// the key is at hand.
    pub fn check(self, key: &PublicKey, message: &[u8], signature: &[u8], allow_sha1: bool) -> Result<(), String> {
        let SignatureAlgorithm::Known(known) = self else { return Err(UNIMPLEMENTED.into()) };
        if known.hash == Hash::Md5 || (known.hash == Hash::Sha1 && !allow_sha1) {
            return Err(format!("{INSECURE} {}", known.name));
        }
        let (kind, failure) = match key {
            PublicKey::Rsa { .. } => (KeyKind::Rsa, RSA_FAILURE),
            PublicKey::Ec { .. } => (KeyKind::Ecdsa, ECDSA_FAILURE),
            PublicKey::Ed25519(_) => (KeyKind::Ed25519, "x509: Ed25519 verification failure"),
            PublicKey::X25519 | PublicKey::Dsa => return Err(UNIMPLEMENTED.into()),
        };
        if kind != known.key {
            let wanted = match known.key {
                KeyKind::Rsa => "RSA",
                KeyKind::Dsa => "DSA",
                KeyKind::Ecdsa => "ECDSA",
                KeyKind::Ed25519 => "Ed25519",
            };
            let have = key.go_type();
            return Err(format!(
                "x509: signature algorithm specifies an {wanted} public key, but have public key of type {have}"
            ));
        }
        let good = match key {
            PublicKey::Rsa { modulus, exponent } => {
                check_rsa_key(modulus, *exponent)?;
                let scheme = (known.hash.algorithm(), known.is_pss);
                verify_rsa(modulus, *exponent, scheme, message, signature)
            }
            PublicKey::Ec { curve, point } => verify_ecdsa(*curve, known.hash, point, message, signature),
            PublicKey::Ed25519(bytes) => {
                UnparsedPublicKey::new(&aws::ED25519, bytes).verify(message, signature).is_ok()
            }
            PublicKey::X25519 | PublicKey::Dsa => false,
        };
        if good { Ok(()) } else { Err(failure.to_string()) }
    }
}

impl Hash {
    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Hash::None | Hash::Md5 | Hash::Sha256 => &digest::SHA256,
            Hash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha384 => &digest::SHA384,
            Hash::Sha512 => &digest::SHA512,
        }
    }
}

/// What Go's `crypto/rsa` asks of a key before it uses it.
pub(crate) fn check_rsa_key(modulus: &[u8], exponent: i64) -> Result<(), String> {
    let bits = rsa::bits(modulus);
    if bits < RSA_BITS_MIN {
        let see = "(see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)";
        return Err(format!("crypto/rsa: {bits}-bit keys are insecure {see}"));
    }
    let wrong = if modulus.last().is_none_or(|last| last & 1 == 0) {
        "public modulus is even"
    } else if exponent < 2 {
        "public exponent too small or negative"
    } else if exponent & 1 == 0 {
        "public exponent is even"
    } else if exponent > i64::from(i32::MAX) {
        "public exponent too large"
    } else {
        return Ok(());
    };
    Err(format!("crypto/rsa: {wrong}"))
}

/// Whether an RSA signature is good, by aws-lc where it takes such keys.
pub(crate) fn verify_rsa(
    modulus: &[u8],
    exponent: i64,
    (hash, is_pss): (&'static digest::Algorithm, bool),
    message: &[u8],
    signature: &[u8],
) -> bool {
    let bytes = exponent.to_be_bytes();
    let exponent_bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let way: Option<&'static aws::RsaParameters> = match (hash.output_len(), is_pss) {
        (32, false) => Some(&aws::RSA_PKCS1_2048_8192_SHA256),
        (48, false) => Some(&aws::RSA_PKCS1_2048_8192_SHA384),
        (64, false) => Some(&aws::RSA_PKCS1_2048_8192_SHA512),
        (32, true) => Some(&aws::RSA_PSS_2048_8192_SHA256),
        (48, true) => Some(&aws::RSA_PSS_2048_8192_SHA384),
        (64, true) => Some(&aws::RSA_PSS_2048_8192_SHA512),
        _ => None,
    };
    let is_usual = matches!(exponent, 3 | 65537) && (2048..=8192).contains(&rsa::bits(modulus));
    if let Some(way) = way.filter(|_| is_usual) {
        let key = aws::RsaPublicKeyComponents { n: modulus, e: exponent_bytes };
        return key.verify(way, message, signature).is_ok();
    }
    let key = rsa::Key { modulus, exponent: exponent_bytes };
    if is_pss {
        key.verifies_pss(hash, rsa::Salt::Hash, message, signature)
    } else {
        key.verifies_pkcs1(hash, message, signature)
    }
}

fn verify_ecdsa(curve: Curve, hash: Hash, point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let way: &'static dyn VerificationAlgorithm = match (curve, hash) {
        (Curve::P256, Hash::Sha1) => &aws::ECDSA_P256_SHA1_ASN1,
        (Curve::P256, Hash::Sha256) => &aws::ECDSA_P256_SHA256_ASN1,
        (Curve::P256, Hash::Sha384) => &aws::ECDSA_P256_SHA384_ASN1,
        (Curve::P256, Hash::Sha512) => &aws::ECDSA_P256_SHA512_ASN1,
        (Curve::P384, Hash::Sha256) => &aws::ECDSA_P384_SHA256_ASN1,
        (Curve::P384, Hash::Sha384) => &aws::ECDSA_P384_SHA384_ASN1,
        (Curve::P384, Hash::Sha512) => &aws::ECDSA_P384_SHA512_ASN1,
        (Curve::P521, Hash::Sha1) => &aws::ECDSA_P521_SHA1_ASN1,
        (Curve::P521, Hash::Sha256) => &aws::ECDSA_P521_SHA256_ASN1,
        (Curve::P521, Hash::Sha384) => &aws::ECDSA_P521_SHA384_ASN1,
        (Curve::P521, Hash::Sha512) => &aws::ECDSA_P521_SHA512_ASN1,
        // aws-lc has no signatures on the curve P-224, and none of P-384 with SHA-1.
        _ => return false,
    };
    UnparsedPublicKey::new(way, point).verify(message, signature).is_ok()
}

/// The PSS schemes that Go accepts: one hash for everything, a salt as long as it, and the usual trailer.
fn pss_parameters(der: &[u8]) -> Option<&'static KnownAlgorithm> {
    let mut fields = Reader::new(der).take(SEQUENCE)?;
    let hash = Algorithm::read(fields.take(constructed(0))?.take(SEQUENCE)?).ok()?;
    let mask = Algorithm::read(fields.take(constructed(1))?.take(SEQUENCE)?).ok()?;
    let salt = fields.take(constructed(2))?.int()?;
    let trailer = match fields.optional(constructed(3))? {
        Some(mut trailer) if trailer.next_is(INTEGER) => trailer.int()?,
        Some(_) => return None,
        None => 1,
    };
    let mask_hash = Algorithm::read(Reader::new(mask.parameters).take(SEQUENCE)?).ok()?;
    let is_plain = |algorithm: &Algorithm<'_>| algorithm.parameters.is_empty() || algorithm.parameters == [5, 0];
    if !is_plain(&hash) || !is_plain(&mask_hash) || mask.id != MGF1 || mask_hash.id != hash.id || trailer != 1 {
        return None;
    }
    PSS.iter().find(|(id, length, _)| *id == hash.id && *length == salt).map(|(.., known)| known)
}
