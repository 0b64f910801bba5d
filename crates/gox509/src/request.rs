//! [`CertificateRequest`]: a PKCS #10 request, read as Go's `x509.ParseCertificateRequest` reads it.

use crate::certificate;
use crate::der::{OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, SET, constructed, right_aligned};
use crate::extensions::alternative_names;
use crate::key::{Algorithm, PublicKey};
use crate::name::Name;
use crate::pem;
use crate::signature::SignatureAlgorithm;
use std::collections::HashSet;

const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];

/// A request for a certificate that can be read.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    pub subject: Name,
    pub key: Option<PublicKey>,
    /// The SubjectPublicKeyInfo.
    pub raw_key: Vec<u8>,
    signed: Vec<u8>,
    algorithm: SignatureAlgorithm,
    signature: Vec<u8>,
}

impl CertificateRequest {
    /// The request in a CertificateSigningRequest, whose first PEM block it must be.
    pub fn parse_pem(text: &[u8]) -> Result<CertificateRequest, String> {
        match pem::decode(text) {
            Some((block, _)) if block.label == "CERTIFICATE REQUEST" => CertificateRequest::parse(&block.bytes),
            _ => Err("PEM block type must be CERTIFICATE REQUEST".into()),
        }
    }

    /// Err is what Go says, as far as it does not print its own types.
    pub fn parse(der: &[u8]) -> Result<CertificateRequest, String> {
        let parts = RequestParts::read(der).ok_or_else(|| malformed(der))?;
        let key = certificate::key(parts.key)?;
        let subject = Name::read_of_request(parts.subject)?;
        check_extensions(parts.attributes)?;
        Ok(CertificateRequest {
            subject,
            key,
            raw_key: parts.key.to_vec(),
            signed: parts.signed.to_vec(),
            algorithm: SignatureAlgorithm::of(&parts.algorithm),
            signature: parts.signature,
        })
    }

    /// Whether it is signed with the key in it.
    pub fn check_signature(&self) -> Result<(), String> {
        let key = self.key.as_ref().ok_or("x509: cannot verify signature: algorithm unimplemented")?;
        self.algorithm.check(key, &self.signed, &self.signature, true)
    }
}

struct RequestParts<'a> {
    signed: &'a [u8],
    subject: &'a [u8],
    key: &'a [u8],
    attributes: Reader<'a>,
    algorithm: Algorithm<'a>,
    signature: Vec<u8>,
}

impl<'a> RequestParts<'a> {
    fn read(der: &'a [u8]) -> Option<RequestParts<'a>> {
        let mut input = Reader::new(der);
        let mut outer = input.take(SEQUENCE).filter(|_| input.is_empty())?;
        let signed = outer.whole(SEQUENCE)?;
        let mut info = Reader::new(signed).take(SEQUENCE)?;
        info.int()?;
        let subject = info.any()?.whole;
        let key = info.whole(SEQUENCE)?;
        let attributes = info.take(constructed(0))?;
        let algorithm = Algorithm::read(outer.take(SEQUENCE)?).ok()?;
        let signature = right_aligned(outer.bits()?);
        Some(RequestParts { signed, subject, key, attributes, algorithm, signature })
    }
}

/// The extensions that are asked for must be readable, as far as Go looks at them. Attributes that are something else count for
/// nothing.
fn check_extensions(mut attributes: Reader<'_>) -> Result<(), String> {
    let mut seen: HashSet<&[u8]> = HashSet::new();
    while !attributes.is_empty() {
        let attribute = attributes.any().ok_or("asn1: syntax error: data truncated")?;
        let Some(mut list) = extensions(attribute.whole) else { continue };
        while !list.is_empty() {
            let (id, value) = extension(&mut list).ok_or("asn1: structure error: tags don't match")?;
            if !seen.insert(id) {
                return Err("x509: certificate request contains duplicate requested extensions".into());
            }
            if id == SUBJECT_ALTERNATIVE_NAME {
                alternative_names(Reader::new(value))?;
            }
        }
    }
    Ok(())
}

/// The list of extensions in an attribute that asks for some.
fn extensions(attribute: &[u8]) -> Option<Reader<'_>> {
    let mut fields = Reader::new(attribute).take(SEQUENCE)?;
    let id = fields.take(OBJECT_IDENTIFIER)?.rest();
    let mut values = fields.take(SET)?;
    (id == EXTENSION_REQUEST).then_some(())?;
    values.take(SEQUENCE)
}

fn extension<'a>(list: &mut Reader<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let mut fields = list.take(SEQUENCE)?;
    let id = fields.oid()?;
    if fields.next_is(crate::der::BOOLEAN) {
        fields.boolean()?;
    }
    Some((id, fields.take(OCTET_STRING)?.rest()))
}

fn malformed(der: &[u8]) -> String {
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
