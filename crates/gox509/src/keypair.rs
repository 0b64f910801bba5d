//! [`KeyPair`]: a certificate chain and its private key, read as Go's `tls.X509KeyPair` reads them.

use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificate::Certificate;
use crate::key::PublicKey;
use crate::pem;

/// A chain, the leaf first, and the private key of the leaf.
#[derive(Debug)]
pub struct KeyPair {
    pub chain: Vec<CertificateDer<'static>>,
    pub leaf: Certificate,
    pub key: PrivateKeyDer<'static>,
}

impl KeyPair {
    /// Reads PEM texts. Err is what Go says.
    pub fn parse(certificate: &[u8], key: &[u8]) -> Result<KeyPair, String> {
        let chain = find_chain(certificate)?;
        let key = find_key(key)?;
        let leaf = Certificate::parse(chain.first().map_or(&[], |first| first))?;
        let private = PrivateKey::read(&key)?;
        let mismatch = "tls: private key does not match public key";
        let matches = match (&leaf.key, &private) {
            (Some(PublicKey::Rsa { .. }), PrivateKey::Rsa(pair)) => {
                subject_key_ends_with(&leaf, pair.public_key().as_ref())
            }
            (Some(PublicKey::Ec { point, .. }), PrivateKey::Ecdsa(pair)) => point == pair.public_key().as_ref(),
            (Some(PublicKey::Ed25519(bytes)), PrivateKey::Ed25519(pair)) => bytes == pair.public_key().as_ref(),
            (Some(PublicKey::Rsa { .. } | PublicKey::Ec { .. } | PublicKey::Ed25519(_)), _) => {
                return Err("tls: private key type does not match public key type".into());
            }
            _ => return Err("tls: unknown public key algorithm".into()),
        };
        if !matches {
            return Err(mismatch.into());
        }
        let key = PrivateKeyDer::try_from(key).map_err(|_| "tls: failed to parse private key")?;
        Ok(KeyPair { chain, leaf, key })
    }
}

/// Whether the key in the certificate is this RSAPublicKey, which is DER and so written in one way only.
fn subject_key_ends_with(leaf: &Certificate, public: &[u8]) -> bool {
    leaf.raw_key.ends_with(public)
}

fn find_chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let (mut chain, mut skipped) = (Vec::new(), Vec::new());
    for block in pem::blocks(text) {
        if block.label == "CERTIFICATE" {
            chain.push(CertificateDer::from(block.bytes));
        } else {
            skipped.push(block.label);
        }
    }
    if !chain.is_empty() {
        return Ok(chain);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".to_string(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
             have been switched"
                .to_string()
        }
        many => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            many.join(" ")
        ),
    })
}

fn find_key(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped = Vec::new();
    for block in pem::blocks(text) {
        if block.label == "PRIVATE KEY" || block.label.ends_with(" PRIVATE KEY") {
            return Ok(block.bytes);
        }
        skipped.push(block.label);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_string(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_string()
        }
        many => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            many.join(" ")
        ),
    })
}

enum PrivateKey {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    fn read(der: &[u8]) -> Result<PrivateKey, String> {
        let rsa = || RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)).ok().map(PrivateKey::Rsa);
        let ed25519 = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(PrivateKey::Ed25519);
        rsa().or_else(ed25519).or_else(|| ecdsa(der)).ok_or_else(|| "tls: failed to parse private key".to_string())
    }
}

fn ecdsa(der: &[u8]) -> Option<PrivateKey> {
    let curves = [
        &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
        &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
        &signature::ECDSA_P521_SHA512_ASN1_SIGNING,
    ];
    curves.into_iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok()).map(PrivateKey::Ecdsa)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair as Pair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};

    fn check(certificate: &str, key: &str) -> Result<(), String> {
        KeyPair::parse(certificate.as_bytes(), key.as_bytes()).map(drop)
    }

    fn pair(pair: &Pair) -> (String, String) {
        let certificate = CertificateParams::new(vec!["a".to_string()]).unwrap().self_signed(pair).unwrap();
        (certificate.pem(), pair.serialize_pem())
    }

    #[test]
    fn real_pairs_match_and_others_do_not() {
        let ec = pair(&Pair::generate().unwrap());
        let other = pair(&Pair::generate().unwrap());
        for algorithm in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519, &PKCS_RSA_SHA256] {
            let (certificate, key) = pair(&Pair::generate_for(algorithm).unwrap());
            assert_eq!(check(&certificate, &key), Ok(()));
            if *algorithm != PKCS_ECDSA_P384_SHA384 {
                assert_eq!(
                    check(&certificate, &ec.1),
                    Err("tls: private key type does not match public key type".into())
                );
            }
        }
        assert_eq!(check(&ec.0, &ec.1), Ok(()));
        assert_eq!(check(&ec.0, &other.1), Err("tls: private key does not match public key".into()));
    }

    #[test]
    fn what_is_missing_is_told() {
        let (certificate, key) = pair(&Pair::generate().unwrap());
        let junk = "-----BEGIN JUNK-----\nAAAA\n-----END JUNK-----\n";
        for (certificate, key, want) in [
            ("", "", "tls: failed to find any PEM data in certificate input"),
            (
                &*key,
                &*key,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ),
            (
                junk,
                &*key,
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [JUNK]",
            ),
            (&*certificate, "", "tls: failed to find any PEM data in key input"),
            (&*certificate, &*certificate, "tls: found a certificate rather than a key in the PEM for the private key"),
            (
                &*certificate,
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
                "tls: failed to parse private key",
            ),
        ] {
            assert_eq!(check(certificate, key), Err(want.to_string()));
        }
    }
}
