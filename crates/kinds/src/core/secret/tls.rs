//! Whether a certificate and a private key belong together, and if not, why, in the words of Go's `tls.X509KeyPair`.

use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::oid_registry as oid;
use x509_parser::prelude::{FromDer, X509Certificate};

pub fn mismatch(certificate: &[u8], key: &[u8]) -> Option<String> {
    check(&String::from_utf8_lossy(certificate), &String::from_utf8_lossy(key)).err()
}

fn check(certificate: &str, key: &str) -> Result<(), String> {
    let leaf = find_certificate(certificate)?;
    let key = find_key(key)?;
    let (_, leaf) = X509Certificate::from_der(&leaf).map_err(|_| "x509: malformed certificate".to_string())?;
    let public = leaf.public_key();
    let private = PrivateKey::read(&key)?;
    let algorithm = &public.algorithm.algorithm;
    let matches_type = match &private {
        PrivateKey::Rsa(_) => *algorithm == oid::OID_PKCS1_RSAENCRYPTION,
        PrivateKey::Ecdsa(_) => *algorithm == oid::OID_KEY_TYPE_EC_PUBLIC_KEY,
        PrivateKey::Ed25519(_) => *algorithm == oid::OID_SIG_ED25519,
    };
    let known = [oid::OID_PKCS1_RSAENCRYPTION, oid::OID_KEY_TYPE_EC_PUBLIC_KEY, oid::OID_SIG_ED25519];
    if !known.contains(algorithm) {
        return Err("tls: unknown public key algorithm".to_string());
    }
    if !matches_type {
        return Err("tls: private key type does not match public key type".to_string());
    }
    if private.public() != public.subject_public_key.data.as_ref() {
        return Err("tls: private key does not match public key".to_string());
    }
    Ok(())
}

fn find_certificate(text: &str) -> Result<Vec<u8>, String> {
    let blocks = pem_blocks(text);
    if let Some(block) = blocks.iter().find(|block| block.label == "CERTIFICATE") {
        return Ok(block.bytes.clone());
    }
    let labels: Vec<&str> = blocks.iter().map(|block| block.label.as_str()).collect();
    Err(match labels.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".to_string(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but \
                                                    did find a private key; PEM inputs may have been switched"
                .to_string()
        }
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            labels.join(" ")
        ),
    })
}

fn find_key(text: &str) -> Result<Vec<u8>, String> {
    let blocks = pem_blocks(text);
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    if let Some(block) = blocks.iter().find(|block| is_key(&block.label)) {
        return Ok(block.bytes.clone());
    }
    let labels: Vec<&str> = blocks.iter().map(|block| block.label.as_str()).collect();
    Err(match labels.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_string(),
        ["CERTIFICATE"] => "tls: found a certificate rather than a key in the PEM for the private key".to_string(),
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            labels.join(" ")
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

    /// As it stands in a certificate.
    fn public(&self) -> &[u8] {
        match self {
            PrivateKey::Rsa(key) => key.public_key().as_ref(),
            PrivateKey::Ecdsa(key) => key.public_key().as_ref(),
            PrivateKey::Ed25519(key) => key.public_key().as_ref(),
        }
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

struct Block {
    label: String,
    bytes: Vec<u8>,
}

/// The well-formed PEM blocks of a text; everything between them is skipped, as Go does.
fn pem_blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let label = line.trim_end().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        let Some(label) = label else { continue };
        let end = format!("-----END {label}-----");
        let rest = lines.clone();
        let body: String =
            rest.take_while(|line| line.trim_end() != end).filter(|line| !line.contains(':')).map(str::trim).collect();
        if let Ok(bytes) = STANDARD.decode(body) {
            blocks.push(Block { label: label.to_string(), bytes });
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair as Pair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};

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
