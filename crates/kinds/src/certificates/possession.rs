//! Proof that the requester of a certificate has the private key: a signature over the pod's uid.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use object::{BadValue, Cursor, Errors};
use x509_parser::oid_registry as oid;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::{PublicKey, RSAPublicKey};
use x509_parser::x509::SubjectPublicKeyInfo;

use super::pss;

const UNVERIFIED: &str = "could not verify proof-of-possession signature";
const RSA_BITS: [usize; 2] = [3072, 4096];

/// What an asker sends, decoded, and the uid it signs.
pub struct Possession<'a> {
    pub key: &'a [u8],
    pub proof: &'a [u8],
    pub uid: &'a str,
}

impl Possession<'_> {
    /// Checks the key and the proof; errors are reported at the fields they come from.
    pub fn validate(&self, key: &Cursor, proof: &Cursor, errors: &mut Errors) {
        let Some(info) = SubjectPublicKeyInfo::from_der(self.key).ok().filter(|(rest, _)| rest.is_empty()) else {
            return key.invalid(errors, "must be a valid PKIX-serialized public key");
        };
        let (info, bytes) = (&info.1, info.1.subject_public_key.data.as_ref());
        let verified = match kind(info) {
            Kind::Signs(algorithm) => {
                UnparsedPublicKey::new(algorithm, bytes).verify(self.uid.as_bytes(), self.proof).is_ok()
            }
            Kind::Rsa(rsa) if !RSA_BITS.contains(&bits(&rsa)) => {
                let detail = "RSA keys must have modulus size 3072 or 4096";
                return key.invalid_as(errors, format!("{}-bit modulus", bits(&rsa)), detail);
            }
            Kind::Rsa(rsa) => {
                pss::PublicKey { modulus: rsa.modulus, exponent: rsa.exponent }.verify(self.uid.as_bytes(), self.proof)
            }
            Kind::OtherCurve(curve) => {
                let detail = "elliptic public keys must use curve P256 or P384";
                return key.invalid_as(errors, format!("curve {curve}"), detail);
            }
            Kind::Broken => return key.invalid(errors, "must be a valid PKIX-serialized public key"),
            Kind::Unknown => {
                return key.invalid(errors, "unknown public key type; supported types are Ed25519, ECDSA, and RSA");
            }
        };
        if !verified {
            proof.invalid_as(errors, BadValue::Omitted, UNVERIFIED);
        }
    }
}

/// As many bits as fill the modulus's bytes, which is how upstream counts.
fn bits(rsa: &RSAPublicKey) -> usize {
    8 * rsa.modulus.iter().skip_while(|byte| **byte == 0).count()
}

enum Kind<'a> {
    Signs(&'static dyn VerificationAlgorithm),
    Rsa(RSAPublicKey<'a>),
    OtherCurve(&'static str),
    Broken,
    Unknown,
}

fn kind<'a>(info: &'a SubjectPublicKeyInfo) -> Kind<'a> {
    let algorithm = &info.algorithm.algorithm;
    if *algorithm == oid::OID_SIG_ED25519 {
        return Kind::Signs(&signature::ED25519);
    }
    if *algorithm == oid::OID_KEY_TYPE_EC_PUBLIC_KEY {
        let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
        // All of them sign a SHA-256 hash here, whatever their length.
        return match curve.map(|curve| curve.to_id_string()).as_deref() {
            Some("1.2.840.10045.3.1.7") => Kind::Signs(&signature::ECDSA_P256_SHA256_ASN1),
            Some("1.3.132.0.34") => Kind::Signs(&signature::ECDSA_P384_SHA256_ASN1),
            Some("1.3.132.0.35") => Kind::Signs(&signature::ECDSA_P521_SHA256_ASN1),
            Some("1.3.132.0.33") => Kind::OtherCurve("P-224"),
            _ => Kind::Broken,
        };
    }
    if *algorithm == oid::OID_PKCS1_RSAENCRYPTION {
        return match info.parsed() {
            Ok(PublicKey::RSA(key)) => Kind::Rsa(key),
            _ => Kind::Broken,
        };
    }
    Kind::Unknown
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use base64::Engine;
    use object::value;

    use super::*;

    fn check(key: &[u8], proof: &[u8], uid: &str) -> String {
        let fields = value!({"pkixPublicKey": "a2V5"});
        let (root, mut errors) = (Cursor::root(&fields), Errors::new());
        Possession { key, proof, uid }.validate(&root.field("pkixPublicKey"), &root.field("proof"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_proof_is_for_one_pod() {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let key: PublicKeyX509Der = pair.public_key().as_der().expect("its public half");
        let proof = pair.sign(&random, b"uid-1").expect("a signature");
        assert_eq!(check(key.as_ref(), proof.as_ref(), "uid-1"), "");
        assert_eq!(check(key.as_ref(), proof.as_ref(), "uid-2"), format!("proof: Invalid value: {UNVERIFIED}"));
    }

    #[test]
    fn edwards_keys_prove_too() {
        let pair = Ed25519KeyPair::generate().expect("a key");
        let key: PublicKeyX509Der = pair.public_key().as_der().expect("its public half");
        assert_eq!(check(key.as_ref(), pair.sign(b"u").as_ref(), "u"), "");
        assert!(check(key.as_ref(), b"short", "u").contains(UNVERIFIED));
    }

    #[test]
    fn rsa_keys_prove_with_salts_of_any_length() {
        let lines = include_str!("../../data/signatures.txt").lines().filter(|line| !line.starts_with('#'));
        let decode = |text| base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
        let mut lines = lines.filter_map(|line| line.split_once(' ')).map(|(kind, text)| (kind, decode(text)));
        let (_, key) = lines.next().expect("the key comes first");
        let refused = format!("proof: Invalid value: {UNVERIFIED}");
        let mut seen = 0;
        for (kind, proof) in lines {
            seen += 1;
            assert_eq!(check(&key, &proof, "uid-1"), if kind == "pss" { "" } else { &refused });
            assert_eq!(check(&key, &proof, "uid-2"), refused);
            for (at, byte) in [(0, 0x80), (100, 1), (383, 1)] {
                let mut changed = proof.clone();
                changed[at] ^= byte;
                assert_eq!(check(&key, &changed, "uid-1"), refused, "bit changed in byte {at}");
            }
            assert_eq!(check(&key, &proof[1..], "uid-1"), refused);
        }
        assert_eq!(seen, 4);
        assert_eq!(check(&key, &[0; 384], "uid-1"), refused);
        assert_eq!(check(&key, &[0xff; 384], "uid-1"), refused);
    }

    #[test]
    fn what_is_no_key_is_told() {
        let want = r#"pkixPublicKey: Invalid value: "a2V5": must be a valid PKIX-serialized public key"#;
        assert_eq!(check(b"key", b"proof", "u"), want);
    }
}
