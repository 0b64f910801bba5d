//! Keys that sign tokens and keys that check them, RSA and ECDSA, from PEM and from and to JSON web key sets.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaKeyPair, VerificationAlgorithm};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gox509::pem::{self, Block};
use gox509::{Certificate, Curve, PublicKey as Parsed};
use object::Value;
use serde::Serialize;

use crate::jws::Jws;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("data does not contain a valid RSA or ECDSA private key")]
    NoPrivateKey,
    #[error("data does not contain any valid RSA or ECDSA public keys")]
    NoPublicKey,
    #[error("the key cannot be used: {0}")]
    Unusable(String),
    #[error("cannot sign: {0}")]
    Sign(String),
    #[error("{0}")]
    External(String),
}

/// How a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
    Es384,
    Es512,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
        }
    }
}

/// A private key and its public half.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
}

const CURVES: [&EcdsaSigningAlgorithm; 3] = [
    &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
    &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
    &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
];

impl SigningKey {
    /// A new RSA key as PEM, the way `openssl genpkey` writes it: some services that verify tokens know RS256 only.
    pub fn generate() -> Result<String, KeyError> {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(unusable)?;
        let der: Pkcs8V1Der<'static> = AsDer::<Pkcs8V1Der<'static>>::as_der(&pair).map_err(unusable)?;
        Ok(pkcs8_pem(der.as_ref()))
    }

    /// The first private key in a PEM file.
    pub fn parse(pem: &[u8]) -> Result<SigningKey, KeyError> {
        pem::blocks(pem).find_map(|block| private(&block)).unwrap_or(Err(KeyError::NoPrivateKey))
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        let failed = |_| KeyError::Sign("the key does not sign".into());
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Pair::Ecdsa(pair) => Ok(pair.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
        }
    }
}

fn pkcs8_pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem
}

/// The private key of a PEM block; None if it is something else.
fn private(block: &Block) -> Option<Result<SigningKey, KeyError>> {
    let der = block.bytes.as_slice();
    match block.label.as_str() {
        "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).ok().map(of_rsa),
        "EC PRIVATE KEY" => sec1(der).map(of_ecdsa),
        "PRIVATE KEY" => RsaKeyPair::from_pkcs8(der)
            .ok()
            .map(of_rsa)
            .or_else(|| CURVES.iter().find_map(|curve| EcdsaKeyPair::from_pkcs8(curve, der).ok()).map(of_ecdsa)),
        _ => None,
    }
}

fn sec1(der: &[u8]) -> Option<EcdsaKeyPair> {
    CURVES.iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok())
}

fn of_rsa(pair: RsaKeyPair) -> Result<SigningKey, KeyError> {
    let public = AsDer::<PublicKeyX509Der<'static>>::as_der(pair.public_key());
    signing_key(Pair::Rsa(Box::new(pair)), public.map_err(unusable))
}

fn of_ecdsa(pair: EcdsaKeyPair) -> Result<SigningKey, KeyError> {
    let public = AsDer::<PublicKeyX509Der<'static>>::as_der(pair.public_key());
    signing_key(Pair::Ecdsa(Box::new(pair)), public.map_err(unusable))
}

fn signing_key(pair: Pair, public: Result<PublicKeyX509Der<'static>, KeyError>) -> Result<SigningKey, KeyError> {
    Ok(SigningKey { pair, public: PublicKey::parse(public?.as_ref())? })
}

fn unusable(why: impl std::fmt::Display) -> KeyError {
    KeyError::Unusable(why.to_string())
}

/// A key that checks signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// A DER-encoded SubjectPublicKeyInfo; for keys from a JSON web key set an RSAPublicKey or a curve's point.
    der: Vec<u8>,
    id: String,
    algorithm: Algorithm,
    numbers: Numbers,
}

/// What the key is made of, without leading zeros where they do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Point { curve: &'static str, x: Vec<u8>, y: Vec<u8> },
}

/// All public keys in a PEM file, those of certificates and private keys too. As upstream, it is the data that says what a block is and
/// not its label, and blocks that are something else are passed over.
pub fn read_public_keys(pem: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
    let mut keys = Vec::new();
    for block in pem::blocks(pem) {
        let der = block.bytes.as_slice();
        let rsa = RsaKeyPair::from_der(der).or_else(|_| RsaKeyPair::from_pkcs8(der));
        if let Ok(pair) = rsa {
            keys.push(of_rsa(pair)?.public);
        } else if let Some(public) = public(der) {
            keys.push(PublicKey::parse(&public)?);
        } else if let Some(pair) = sec1(der) {
            keys.push(of_ecdsa(pair)?.public);
        }
    }
    if keys.is_empty() { Err(KeyError::NoPublicKey) } else { Ok(keys) }
}

/// The SubjectPublicKeyInfo in the data, by itself or in a certificate, if its key can sign tokens.
fn public(der: &[u8]) -> Option<Vec<u8>> {
    let signs = |key: &Parsed| matches!(key, Parsed::Rsa { .. } | Parsed::Ec { .. });
    if let Ok(key) = Parsed::parse_pkix(der) {
        return signs(&key).then(|| der.to_vec());
    }
    let certificate = Certificate::parse(der).ok()?;
    certificate.key.as_ref().is_some_and(signs).then_some(certificate.raw_key)
}

impl PublicKey {
    /// Reads a DER-encoded SubjectPublicKeyInfo, which tokens call `id`.
    pub fn from_pkix(der: &[u8], id: &str) -> Result<PublicKey, KeyError> {
        Ok(PublicKey { id: id.to_string(), ..PublicKey::parse(der)? })
    }

    fn parse(der: &[u8]) -> Result<PublicKey, KeyError> {
        let (algorithm, numbers) = match Parsed::parse_pkix(der).map_err(unusable)? {
            Parsed::Rsa { modulus, exponent } => {
                (Algorithm::Rs256, Numbers::Rsa { modulus, exponent: significant(&exponent.to_be_bytes()) })
            }
            Parsed::Ec { curve, point } => {
                let (algorithm, curve) = match curve {
                    Curve::P256 => (Algorithm::Es256, "P-256"),
                    Curve::P384 => (Algorithm::Es384, "P-384"),
                    Curve::P521 => (Algorithm::Es512, "P-521"),
                    Curve::P224 => return Err(unusable("unknown private key curve, must be 256, 384, or 521")),
                };
                let (x, y) = point[1..].split_at(point.len() / 2);
                (algorithm, Numbers::Point { curve, x: x.to_vec(), y: y.to_vec() })
            }
            _ => return Err(unusable("unknown public key type, must be RSA or ECDSA")),
        };
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
        Ok(PublicKey { der: der.to_vec(), id: URL_SAFE_NO_PAD.encode(hash), algorithm, numbers })
    }

    /// Reads a JSON web key. None: a key that cannot check any signature we accept. Err is what go-jose says.
    pub fn from_jwk(jwk: &Value) -> Result<Option<PublicKey>, String> {
        let id = jwk.str_at(&["kid"]).to_string();
        let number = |field: &str| {
            let decoded = URL_SAFE_NO_PAD.decode(jwk.str_at(&[field]).trim_end_matches('='));
            decoded.map_err(|_| format!("illegal base64 data in JWK field {field}"))
        };
        match jwk.str_at(&["kty"]) {
            "RSA" => {
                let (modulus, exponent) = (significant(&number("n")?), significant(&number("e")?));
                if modulus.is_empty() || exponent.is_empty() {
                    return Err("go-jose/go-jose: invalid RSA key, missing n/e values".into());
                }
                let der = rsa_der(&modulus, &exponent);
                Ok(Some(PublicKey {
                    der,
                    id,
                    algorithm: Algorithm::Rs256,
                    numbers: Numbers::Rsa { modulus, exponent },
                }))
            }
            "EC" => {
                let (algorithm, curve, size) = match jwk.str_at(&["crv"]) {
                    "P-256" => (Algorithm::Es256, "P-256", 32),
                    "P-384" => (Algorithm::Es384, "P-384", 48),
                    "P-521" => (Algorithm::Es512, "P-521", 66),
                    other => return Err(format!("go-jose/go-jose: unsupported elliptic curve '{other}'")),
                };
                let (x, y) = (number("x")?, number("y")?);
                if x.len() != size || y.len() != size {
                    return Err("go-jose/go-jose: invalid EC public key, wrong length for x or y".into());
                }
                let der = [&[4][..], &x, &y].concat();
                Ok(Some(PublicKey { der, id, algorithm, numbers: Numbers::Point { curve, x, y } }))
            }
            "oct" => Ok(None),
            "OKP" if jwk.str_at(&["crv"]) == "Ed25519" => Ok(None),
            "OKP" => Err(format!("go-jose/go-jose: unknown curve {}'", jwk.str_at(&["crv"]))),
            other => Err(format!("go-jose/go-jose: unknown json web key type '{other}'")),
        }
    }

    #[cfg(test)]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The name by which tokens say which key signed them: of our own keys their hash.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether a token was signed by this key.
    pub fn signed(&self, token: &Jws) -> bool {
        token.is_understood && self.verifies(&token.algorithm, &token.message, &token.signature)
    }

    /// Whether a signature over a message, made the way `algorithm` says, is by this key.
    fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let way: &'static dyn VerificationAlgorithm = match (self.algorithm, algorithm) {
            (Algorithm::Rs256, "RS256") => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Algorithm::Rs256, "RS384") => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Algorithm::Rs256, "RS512") => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Algorithm::Rs256, "PS256") => &signature::RSA_PSS_2048_8192_SHA256,
            (Algorithm::Rs256, "PS384") => &signature::RSA_PSS_2048_8192_SHA384,
            (Algorithm::Rs256, "PS512") => &signature::RSA_PSS_2048_8192_SHA512,
            (Algorithm::Es256, "ES256") => &signature::ECDSA_P256_SHA256_FIXED,
            (Algorithm::Es384, "ES384") => &signature::ECDSA_P384_SHA384_FIXED,
            (Algorithm::Es512, "ES512") => &signature::ECDSA_P521_SHA512_FIXED,
            _ => return false,
        };
        signature::UnparsedPublicKey::new(way, &self.der).verify(message, signature).is_ok()
    }
}

/// An RSAPublicKey: a sequence of two integers.
fn rsa_der(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let integer = |number: &[u8]| {
        let sign: &[u8] = if number.first().is_some_and(|byte| *byte >= 0x80) { &[0] } else { &[] };
        tagged(0x02, &[sign, number].concat())
    };
    tagged(0x30, &[integer(modulus), integer(exponent)].concat())
}

/// DER: a tag, the length and the contents.
fn tagged(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = contents.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    match length.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(0));
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(contents);
    out
}

fn significant(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// The keys as a JSON web key set: who has it can check tokens.
pub fn key_set(keys: &[PublicKey]) -> String {
    #[derive(Serialize)]
    struct Set {
        keys: Vec<Jwk>,
    }
    let set = Set { keys: keys.iter().map(Jwk::of).collect() };
    serde_json::to_string(&set).unwrap_or_default()
}

/// A key in a set, with its fields in upstream's order.
#[derive(Serialize)]
struct Jwk {
    #[serde(rename = "use")]
    purpose: &'static str,
    kty: &'static str,
    kid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

impl Jwk {
    fn of(key: &PublicKey) -> Jwk {
        let text = |number: &[u8]| Some(URL_SAFE_NO_PAD.encode(number));
        let alg = key.algorithm.name();
        let empty =
            Jwk { purpose: "sig", kty: "RSA", kid: key.id.clone(), crv: None, alg, x: None, y: None, n: None, e: None };
        match &key.numbers {
            Numbers::Rsa { modulus, exponent } => Jwk { n: text(modulus), e: text(exponent), ..empty },
            Numbers::Point { curve, x, y } => Jwk { kty: "EC", crv: Some(curve), x: text(x), y: text(y), ..empty },
        }
    }
}
