//! [`PublicKey`]: the key that a certificate is for.

use num_bigint::BigUint;

use crate::certificate::key_parts;
use crate::der::{Reader, SEQUENCE};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const X25519: &[u8] = &[0x2b, 0x65, 0x6e];
const DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1];

const NULL: &[u8] = &[5, 0];
const SHORT_KEY_BYTES: usize = 32;

/// A key that can check signatures, or one that Go reads and does not check with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// Modulus without leading zeros, and exponent.
    Rsa {
        modulus: Vec<u8>,
        exponent: i64,
    },
    /// A point, uncompressed.
    Ec {
        curve: Curve,
        point: Vec<u8>,
    },
    Ed25519(Vec<u8>),
    X25519,
    Dsa,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    P224,
    P256,
    P384,
    P521,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo and nothing behind it, as Go's `ParsePKIXPublicKey` does.
    pub fn parse_pkix(der: &[u8]) -> Result<PublicKey, String> {
        let mut input = Reader::new(der);
        let whole = input.whole(SEQUENCE).ok_or("asn1: structure error: tags don't match")?;
        if !input.is_empty() {
            return Err("x509: trailing data after ASN.1 of public-key".into());
        }
        let (algorithm, bits) = key_parts(whole)?;
        PublicKey::read(&algorithm, &bits)?.ok_or_else(|| "x509: unknown public key algorithm".into())
    }

    /// Reads a key. None: of a kind that Go does not know.
    pub(crate) fn read(algorithm: &Algorithm<'_>, data: &[u8]) -> Result<Option<PublicKey>, String> {
        let parameters = algorithm.parameters;
        Ok(Some(match algorithm.id {
            RSA if parameters != NULL => return Err("x509: RSA key missing NULL parameters".into()),
            RSA => rsa(data)?,
            EC => ec(parameters, data)?,
            ED25519 if !parameters.is_empty() => {
                return Err("x509: Ed25519 key encoded with illegal parameters".into());
            }
            ED25519 if data.len() != SHORT_KEY_BYTES => return Err("x509: wrong Ed25519 public key size".into()),
            ED25519 => PublicKey::Ed25519(data.to_vec()),
            X25519 if !parameters.is_empty() => {
                return Err("x509: X25519 key encoded with illegal parameters".into());
            }
            X25519 if data.len() != SHORT_KEY_BYTES => return Err("crypto/ecdh: invalid public key".into()),
            X25519 => PublicKey::X25519,
            DSA => dsa(parameters, data)?,
            _ => return Ok(None),
        }))
    }

    /// What Go calls the type.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            PublicKey::Rsa { .. } => "*rsa.PublicKey",
            PublicKey::Ec { .. } => "*ecdsa.PublicKey",
            PublicKey::Ed25519(_) => "ed25519.PublicKey",
            PublicKey::X25519 => "*ecdh.PublicKey",
            PublicKey::Dsa => "*dsa.PublicKey",
        }
    }

    /// The bits of an RSA key's modulus; None for other keys.
    pub fn rsa_bits(&self) -> Option<usize> {
        match self {
            PublicKey::Rsa { modulus, .. } => Some(crate::rsa::bits(modulus)),
            _ => None,
        }
    }
}

/// An AlgorithmIdentifier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Algorithm<'a> {
    pub id: &'a [u8],
    /// With tag and length; empty where there are none.
    pub parameters: &'a [u8],
}

impl<'a> Algorithm<'a> {
    pub fn read(mut reader: Reader<'a>) -> Result<Algorithm<'a>, &'static str> {
        let id = reader.oid().ok_or("x509: malformed OID")?;
        if reader.is_empty() {
            return Ok(Algorithm { id, parameters: &[] });
        }
        let parameters = reader.any().ok_or("x509: malformed parameters")?.whole;
        Ok(Algorithm { id, parameters })
    }

    /// Whether keys of this kind agree on secrets, and sign nothing.
    pub fn is_for_agreement(&self) -> bool {
        self.id == X25519
    }
}

fn rsa(data: &[u8]) -> Result<PublicKey, String> {
    let mut fields = Reader::new(data).take(SEQUENCE).ok_or("x509: invalid RSA public key")?;
    let modulus = fields.integer().ok_or("x509: invalid RSA modulus")?;
    let exponent = fields.int().ok_or("x509: invalid RSA public exponent")?;
    if !is_positive(modulus) {
        return Err("x509: RSA modulus is not a positive number".into());
    }
    if exponent <= 0 {
        return Err("x509: RSA public exponent is not a positive number".into());
    }
    let modulus = modulus.iter().copied().skip_while(|byte| *byte == 0).collect();
    Ok(PublicKey::Rsa { modulus, exponent })
}

/// Whether a number in two's complement is greater than 0.
fn is_positive(number: &[u8]) -> bool {
    number.first().is_some_and(|byte| *byte < 0x80) && number.iter().any(|byte| *byte != 0)
}

fn dsa(parameters: &[u8], data: &[u8]) -> Result<PublicKey, String> {
    let y = Reader::new(data).integer().ok_or("x509: invalid DSA public key")?;
    let mut fields = Reader::new(parameters).take(SEQUENCE).ok_or("x509: invalid DSA parameters")?;
    let mut all = vec![y];
    for _ in 0..3 {
        all.push(fields.integer().ok_or("x509: invalid DSA parameters")?);
    }
    if !all.into_iter().all(is_positive) {
        return Err("x509: zero or negative DSA parameter".into());
    }
    Ok(PublicKey::Dsa)
}

fn ec(parameters: &[u8], data: &[u8]) -> Result<PublicKey, String> {
    let curve = Reader::new(parameters).oid().ok_or("x509: invalid ECDSA parameters")?;
    let curve = match curve {
        [0x2b, 0x81, 4, 0, 0x21] => Curve::P224,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7] => Curve::P256,
        [0x2b, 0x81, 4, 0, 0x22] => Curve::P384,
        [0x2b, 0x81, 4, 0, 0x23] => Curve::P521,
        _ => return Err("x509: unsupported elliptic curve".into()),
    };
    let equation = curve.equation();
    if data.first() != Some(&4) {
        return Err("ecdsa: invalid uncompressed public key".into());
    }
    let name = equation.name;
    if data.len() != 1 + 2 * equation.bytes {
        return Err(format!("invalid {name} point encoding"));
    }
    let (x, y) = data[1..].split_at(equation.bytes);
    let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
    let (p, b) = (hex(equation.p), hex(equation.b));
    if x >= p || y >= p {
        return Err(format!("invalid {name} element encoding"));
    }
    // y² = x³ - 3x + b
    let three = BigUint::from(3u8);
    let right = (&x * &x * &x + (&p - (&three * &x) % &p) + b) % &p;
    if (&y * &y) % &p != right {
        return Err(format!("{name} point not on curve"));
    }
    Ok(PublicKey::Ec { curve, point: data.to_vec() })
}

struct Equation {
    name: &'static str,
    bytes: usize,
    p: &'static str,
    b: &'static str,
}

impl Curve {
    fn equation(self) -> Equation {
        match self {
            Curve::P224 => Equation {
                name: "P224",
                bytes: 28,
                p: "ffffffffffffffffffffffffffffffff000000000000000000000001",
                b: "b4050a850c04b3abf54132565044b0b7d7bfd8ba270b39432355ffb4",
            },
            Curve::P256 => Equation {
                name: "P256",
                bytes: 32,
                p: "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
                b: "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
            },
            Curve::P384 => Equation {
                name: "P384",
                bytes: 48,
                p: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
                b: "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
            },
            Curve::P521 => Equation {
                name: "P521",
                bytes: 66,
                p: "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
                b: "0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
            },
        }
    }
}

fn hex(digits: &str) -> BigUint {
    BigUint::parse_bytes(digits.as_bytes(), 16).unwrap_or_default()
}
