//! PKCS #10 requests: whether one can be read and is signed with the key in it, in the words of Go's `crypto/x509`.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry as oid;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

/// What is wrong with a DER-encoded request.
pub fn check_der(der: &[u8]) -> Result<(), String> {
    let (rest, request) = X509CertificationRequest::from_der(der).map_err(|error| go_error(der, &error))?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_string());
    }
    verify(&request)
}

/// The bits of an RSA key's modulus; None for other keys.
pub fn rsa_bits(der: &[u8]) -> Option<usize> {
    let (_, request) = X509CertificationRequest::from_der(der).ok()?;
    match request.certification_request_info.subject_pki.parsed().ok()? {
        PublicKey::RSA(key) => Some(key.key_size()),
        _ => None,
    }
}

fn go_error(der: &[u8], _error: &impl std::fmt::Debug) -> String {
    // The length an outer SEQUENCE announces, against what is there, is the one thing that Go tells apart early.
    match announced_length(der) {
        None if der.is_empty() || der.first() == Some(&0x30) => "asn1: syntax error: data truncated".to_string(),
        Some(length) if length > der.len() => "asn1: syntax error: data truncated".to_string(),
        Some(length) if length < der.len() => "asn1: syntax error: trailing data".to_string(),
        _ => "asn1: structure error: tags don't match".to_string(),
    }
}

/// Header and contents of the outer SEQUENCE.
fn announced_length(der: &[u8]) -> Option<usize> {
    let [0x30, first, rest @ ..] = der else { return None };
    if *first < 0x80 {
        return Some(2 + usize::from(*first));
    }
    let count = usize::from(*first & 0x7f);
    let bytes = rest.get(..count).filter(|bytes| bytes.len() <= 4)?;
    let length = bytes.iter().fold(0usize, |length, byte| (length << 8) | usize::from(*byte));
    Some(2 + count + length)
}

fn verify(request: &X509CertificationRequest) -> Result<(), String> {
    let info = &request.certification_request_info;
    let key = info.subject_pki.subject_public_key.data.as_ref();
    let (algorithm, failure): (&'static dyn VerificationAlgorithm, &str) = algorithm(request)?;
    let signature = request.signature_value.data.as_ref();
    UnparsedPublicKey::new(algorithm, key).verify(info.raw, signature).map_err(|_| failure.to_string())
}

fn algorithm(request: &X509CertificationRequest) -> Result<(&'static dyn VerificationAlgorithm, &'static str), String> {
    const RSA: &str = "crypto/rsa: verification error";
    const ECDSA: &str = "x509: ECDSA verification failure";
    let signature = &request.signature_algorithm.algorithm;
    let curve = request.certification_request_info.subject_pki.algorithm.parameters.as_ref();
    let curve = curve.and_then(|parameters| parameters.as_oid().ok());
    let is = |wanted: &oid::Oid| signature == wanted;
    let on = |wanted: &oid::Oid| curve.as_ref() == Some(wanted);
    let (p256, p384, p521) = (&oid::OID_EC_P256, &oid::OID_NIST_EC_P384, &oid::OID_NIST_EC_P521);
    // Old requests are small and hashed with SHA-1; upstream still takes them, because the signature only shows that the
    // key is at hand.
    let found: (&'static dyn VerificationAlgorithm, &'static str) = if is(&oid::OID_PKCS1_SHA1WITHRSA) {
        (&signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA)
    } else if is(&oid::OID_PKCS1_SHA256WITHRSA) {
        (&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA)
    } else if is(&oid::OID_PKCS1_SHA384WITHRSA) {
        (&signature::RSA_PKCS1_2048_8192_SHA384, RSA)
    } else if is(&oid::OID_PKCS1_SHA512WITHRSA) {
        (&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RSA)
    } else if is(&oid::OID_SIG_ED25519) {
        (&signature::ED25519, "x509: Ed25519 verification failure")
    } else if is(&oid::OID_SIG_ECDSA_WITH_SHA256) && on(p256) {
        (&signature::ECDSA_P256_SHA256_ASN1, ECDSA)
    } else if is(&oid::OID_SIG_ECDSA_WITH_SHA256) && on(p384) {
        (&signature::ECDSA_P384_SHA256_ASN1, ECDSA)
    } else if is(&oid::OID_SIG_ECDSA_WITH_SHA384) && on(p256) {
        (&signature::ECDSA_P256_SHA384_ASN1, ECDSA)
    } else if is(&oid::OID_SIG_ECDSA_WITH_SHA384) && on(p384) {
        (&signature::ECDSA_P384_SHA384_ASN1, ECDSA)
    } else if is(&oid::OID_SIG_ECDSA_WITH_SHA512) && on(p521) {
        (&signature::ECDSA_P521_SHA512_ASN1, ECDSA)
    } else {
        return Err("x509: cannot verify signature: algorithm unimplemented".to_string());
    };
    Ok(found)
}
