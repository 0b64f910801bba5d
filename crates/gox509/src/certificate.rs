//! [`Certificate`]: an X.509 certificate, read as Go's `x509.ParseCertificate` reads it.

use crate::der::{Reader, SEQUENCE, constructed, context, right_aligned};
use crate::extensions::Extensions;
use crate::key::{Algorithm, PublicKey};
use crate::name::Name;
use crate::signature::SignatureAlgorithm;
use crate::times::Time;

/// RFC 5280 allows 20.
const SHOWN_SERIAL_BYTES_MAX: usize = 64;

/// A certificate that can be read; nothing in it is believed yet.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub raw: Vec<u8>,
    /// What the signature is over.
    pub(crate) signed: Vec<u8>,
    pub(crate) signature_algorithm: SignatureAlgorithm,
    pub(crate) signature: Vec<u8>,
    /// 1, 2 or 3.
    pub(crate) version: i64,
    /// The number's bytes; it is not negative.
    pub serial: Vec<u8>,
    pub issuer: Name,
    pub(crate) raw_issuer: Vec<u8>,
    pub subject: Name,
    pub raw_subject: Vec<u8>,
    pub not_before: Time,
    pub not_after: Time,
    /// None for a key of a kind that Go does not know.
    pub key: Option<PublicKey>,
    /// The SubjectPublicKeyInfo.
    pub raw_key: Vec<u8>,
    pub extensions: Extensions,
}

impl Certificate {
    /// Err is what Go says.
    pub fn parse(der: &[u8]) -> Result<Certificate, String> {
        let (certificate, rest) = parse_first(der)?;
        if rest.is_empty() { Ok(certificate) } else { Err("x509: trailing data".into()) }
    }

    /// Any number of certificates without anything between them.
    pub fn parse_all(mut der: &[u8]) -> Result<Vec<Certificate>, String> {
        let mut certificates = Vec::new();
        while !der.is_empty() {
            let (certificate, rest) = parse_first(der)?;
            certificates.push(certificate);
            der = rest;
        }
        Ok(certificates)
    }

    /// The serial number as Go prints it, unless it is longer than that of any real certificate: writing it out takes long.
    pub fn serial(&self) -> String {
        if self.serial.len() > SHOWN_SERIAL_BYTES_MAX {
            return format!("(a number of {} bytes)", self.serial.len());
        }
        num_bigint::BigUint::from_bytes_be(&self.serial).to_string()
    }

    /// Whether it says that it is an authority's.
    pub fn is_ca(&self) -> bool {
        self.extensions.basic_constraints.is_some_and(|constraints| constraints.is_ca)
    }
}

fn parse_first(der: &[u8]) -> Result<(Certificate, &[u8]), String> {
    const TBS: &str = "x509: malformed tbs certificate";
    let mut input = Reader::new(der);
    let raw = input.whole(SEQUENCE).ok_or("x509: malformed certificate")?;
    let mut outer = Reader::new(raw).take(SEQUENCE).ok_or("x509: malformed certificate")?;
    let signed = outer.whole(SEQUENCE).ok_or(TBS)?;
    let mut tbs = Reader::new(signed).take(SEQUENCE).ok_or(TBS)?;
    let version = version(&mut tbs)?;
    let serial = tbs.integer().ok_or("x509: malformed serial number")?;
    if serial.first().is_some_and(|byte| *byte >= 0x80) {
        return Err("x509: negative serial number".into());
    }
    let inner = tbs.take(SEQUENCE).ok_or("x509: malformed signature algorithm identifier")?;
    let algorithm = outer.take(SEQUENCE).ok_or("x509: malformed algorithm identifier")?;
    if inner.rest() != algorithm.rest() {
        return Err("x509: inner and outer signature algorithm identifiers don't match".into());
    }
    let signature_algorithm = SignatureAlgorithm::of(&Algorithm::read(inner)?);
    let raw_issuer = tbs.whole(SEQUENCE).ok_or("x509: malformed issuer")?;
    let issuer = Name::read(raw_issuer)?;
    let mut validity = tbs.take(SEQUENCE).ok_or("x509: malformed validity")?;
    let (not_before, not_after) = (Time::read(&mut validity)?, Time::read(&mut validity)?);
    let raw_subject = tbs.whole(SEQUENCE).ok_or("x509: malformed issuer")?;
    let subject = Name::read(raw_subject)?;
    let raw_key = tbs.whole(SEQUENCE).ok_or("x509: malformed spki")?;
    let key = key(raw_key)?;
    let extensions = extensions(&mut tbs, version)?;
    let signature = right_aligned(outer.bits().ok_or("x509: malformed signature")?);
    let certificate = Certificate {
        raw: raw.to_vec(),
        signed: signed.to_vec(),
        signature_algorithm,
        signature,
        version,
        serial: serial.to_vec(),
        issuer,
        raw_issuer: raw_issuer.to_vec(),
        subject,
        raw_subject: raw_subject.to_vec(),
        not_before,
        not_after,
        key,
        raw_key: raw_key.to_vec(),
        extensions,
    };
    Ok((certificate, input.rest()))
}

fn version(tbs: &mut Reader<'_>) -> Result<i64, &'static str> {
    const MALFORMED: &str = "x509: malformed version";
    let number = match tbs.optional(constructed(0)).ok_or(MALFORMED)? {
        None => 0,
        Some(mut explicit) => {
            let number = explicit.int().filter(|number| *number >= 0).ok_or(MALFORMED)?;
            if !explicit.is_empty() {
                return Err(MALFORMED);
            }
            number
        }
    };
    if number < 3 { Ok(number + 1) } else { Err("x509: invalid version") }
}

/// Reads a SubjectPublicKeyInfo in a certificate or a request. None: of a kind that Go does not look at there.
pub(crate) fn key(spki: &[u8]) -> Result<Option<PublicKey>, String> {
    let (algorithm, bits) = key_parts(spki)?;
    if algorithm.is_for_agreement() { Ok(None) } else { PublicKey::read(&algorithm, &bits) }
}

/// The algorithm and the bits of a SubjectPublicKeyInfo.
pub(crate) fn key_parts(spki: &[u8]) -> Result<(Algorithm<'_>, Vec<u8>), String> {
    let mut fields = Reader::new(spki).take(SEQUENCE).ok_or("x509: malformed spki")?;
    let algorithm = fields.take(SEQUENCE).ok_or("x509: malformed public key algorithm identifier")?;
    let algorithm = Algorithm::read(algorithm)?;
    Ok((algorithm, right_aligned(fields.bits().ok_or("x509: malformed subjectPublicKey")?)))
}

fn extensions(tbs: &mut Reader<'_>, version: i64) -> Result<Extensions, String> {
    if version == 1 {
        return Ok(Extensions::default());
    }
    tbs.optional(context(1)).ok_or("x509: malformed issuerUniqueID")?;
    tbs.optional(context(2)).ok_or("x509: malformed subjectUniqueID")?;
    if version == 2 {
        return Ok(Extensions::default());
    }
    match tbs.optional(constructed(3)).ok_or("x509: malformed extensions")? {
        Some(list) => Extensions::read(list),
        None => Ok(Extensions::default()),
    }
}
