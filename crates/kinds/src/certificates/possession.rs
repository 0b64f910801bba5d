//! Proof that the requester of a certificate has the private key: a signature over the pod's uid.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use gox509::rsa::{self, Salt};
use gox509::{Curve, PublicKey};
use object::{BadValue, Cursor, Errors};

const UNVERIFIED: &str = "could not verify proof-of-possession signature";
/// As many bits as fill the modulus's bytes, which is how upstream counts.
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
        let uid = self.uid.as_bytes();
        let Ok(parsed) = PublicKey::parse_pkix(self.key) else {
            return key.invalid(errors, "must be a valid PKIX-serialized public key");
        };
        let verified = match &parsed {
            PublicKey::Ed25519(bytes) => {
                UnparsedPublicKey::new(&signature::ED25519, bytes).verify(uid, self.proof).is_ok()
            }
            PublicKey::Ec { curve, point } => match way(*curve) {
                Some(way) => UnparsedPublicKey::new(way, point).verify(uid, self.proof).is_ok(),
                None => {
                    let detail = "elliptic public keys must use curve P256 or P384";
                    return key.invalid_as(errors, "curve P-224", detail);
                }
            },
            PublicKey::Rsa { modulus, .. } if !RSA_BITS.contains(&(8 * modulus.len())) => {
                let detail = "RSA keys must have modulus size 3072 or 4096";
                return key.invalid_as(errors, format!("{}-bit modulus", 8 * modulus.len()), detail);
            }
            PublicKey::Rsa { modulus, exponent } => {
                let rsa = rsa::Key { modulus, exponent: &exponent.to_be_bytes() };
                rsa.verifies_pss(rsa::SHA256, Salt::Any, uid, self.proof)
            }
            PublicKey::X25519 | PublicKey::Dsa => {
                return key.invalid(errors, "unknown public key type; supported types are Ed25519, ECDSA, and RSA");
            }
        };
        if !verified {
            proof.invalid_as(errors, BadValue::Omitted, UNVERIFIED);
        }
    }
}

/// All curves sign a SHA-256 hash here, whatever their length.
fn way(curve: Curve) -> Option<&'static dyn VerificationAlgorithm> {
    match curve {
        Curve::P224 => None,
        Curve::P256 => Some(&signature::ECDSA_P256_SHA256_ASN1),
        Curve::P384 => Some(&signature::ECDSA_P384_SHA256_ASN1),
        Curve::P521 => Some(&signature::ECDSA_P521_SHA256_ASN1),
    }
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
