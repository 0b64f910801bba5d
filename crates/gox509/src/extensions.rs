//! [`Extensions`]: what a certificate says beyond its names and its key.

use std::collections::HashSet;
use std::net::IpAddr;

use object::url::Url;

use crate::constraints::{NameConstraints, is_valid_domain};
use crate::der::{
    BOOLEAN, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, constructed, context, dotted, signed,
};

/// The first bytes of the identifiers of extensions that RFC 5280 defines.
const ID_CE: [u8; 2] = [0x55, 0x1d];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];
const AUTHORITY_INFORMATION_ACCESS: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendedUsage {
    Any,
    ServerAuth,
    ClientAuth,
    Other,
}

/// The extensions of a certificate; those that are not there have Go's zero values.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// Identifier, whether it is critical, and value, as they stand there.
    pub(crate) all: Vec<(Vec<u8>, bool, Vec<u8>)>,
    /// Whether one is critical that is not understood.
    pub(crate) has_unhandled_critical: bool,
    /// A bit for each usage; 0 where there is no such extension.
    pub(crate) key_usage: u16,
    pub basic_constraints: Option<BasicConstraints>,
    pub names: AlternativeNames,
    pub(crate) constraints: NameConstraints,
    pub subject_key_id: Vec<u8>,
    pub authority_key_id: Vec<u8>,
    pub extended_usages: Vec<ExtendedUsage>,
    pub(crate) policies: Policies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicConstraints {
    pub is_ca: bool,
    pub max_path_len: Option<i64>,
}

/// The names of a subjectAltName extension.
#[derive(Clone, Debug, Default)]
pub struct AlternativeNames {
    pub dns: Vec<String>,
    pub emails: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub(crate) uris: Vec<Url>,
}

impl AlternativeNames {
    fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.addresses.is_empty() && self.uris.is_empty()
    }
}

/// What is said about certificate policies. Numbers that are not there are None.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub policies: Vec<Vec<u8>>,
    /// From the issuer's policy to the subject's.
    pub mappings: Vec<(Vec<u8>, Vec<u8>)>,
    pub require_explicit: Option<i64>,
    pub inhibit_mapping: Option<i64>,
    pub inhibit_any: Option<i64>,
}

type ExtensionResult<T = ()> = Result<T, String>;

impl Extensions {
    /// Reads the value of the `[3]` in a certificate.
    pub(crate) fn read(mut wrapped: Reader<'_>) -> ExtensionResult<Extensions> {
        let mut found = Extensions::default();
        let mut ids: HashSet<&[u8]> = HashSet::new();
        let mut list = wrapped.take(SEQUENCE).ok_or("x509: malformed extensions")?;
        while !list.is_empty() {
            let mut extension = list.take(SEQUENCE).ok_or("x509: malformed extension")?;
            let id = extension.oid().ok_or("x509: malformed extension OID field")?;
            let mut critical = false;
            if extension.next_is(BOOLEAN) {
                critical = extension.boolean().ok_or("x509: malformed extension critical field")?;
            }
            let value = extension.take(OCTET_STRING).ok_or("x509: malformed extension value field")?;
            if !ids.insert(id) {
                let id = object::quote(&dotted(id));
                return Err(format!("x509: certificate contains duplicate extension with OID {id}"));
            }
            found.all.push((id.to_vec(), critical, value.rest().to_vec()));
        }
        for (id, critical, value) in found.all.clone() {
            if found.process(&id, critical, &value)? && critical {
                found.has_unhandled_critical = true;
            }
        }
        Ok(found)
    }

    fn get(&self, id: &[u8]) -> Option<&[u8]> {
        self.all.iter().find(|(known, ..)| known == id).map(|(.., value)| value.as_slice())
    }

    /// The value of the subjectAltName extension.
    pub(crate) fn alternative_names(&self) -> Option<&[u8]> {
        self.get(SUBJECT_ALTERNATIVE_NAME)
    }

    pub(crate) fn has_name_constraints(&self) -> bool {
        self.get(&[ID_CE[0], ID_CE[1], 30]).is_some()
    }

    /// Reads one extension; answers whether it is not understood.
    fn process(&mut self, id: &[u8], critical: bool, value: &[u8]) -> ExtensionResult<bool> {
        let reader = Reader::new(value);
        if id == AUTHORITY_INFORMATION_ACCESS {
            return information_access(reader, critical).map(|()| false);
        }
        let Some([number]) = id.strip_prefix(&ID_CE) else { return Ok(true) };
        match number {
            14 => self.subject_key_id = subject_key_id(reader, critical)?,
            15 => self.key_usage = key_usage(reader).ok_or("x509: invalid key usage")?,
            17 => {
                self.names = alternative_names(reader)?;
                return Ok(self.names.is_empty());
            }
            19 => self.basic_constraints = Some(basic_constraints(reader).ok_or("x509: invalid basic constraints")?),
            30 => {
                let (constraints, unhandled) = NameConstraints::read(reader)?;
                self.constraints = constraints;
                return Ok(unhandled);
            }
            31 => distribution_points(reader)?,
            32 => self.policies.policies = policies(reader).ok_or("x509: invalid certificate policies")?,
            33 => self.policies.mappings = mappings(reader).ok_or("x509: invalid policy mappings extension")?,
            35 => self.authority_key_id = authority_key_id(reader, critical)?,
            36 => {
                let (explicit, mapping) =
                    policy_constraints(reader).ok_or("x509: invalid policy constraints extension")?;
                (self.policies.require_explicit, self.policies.inhibit_mapping) = (explicit, mapping);
            }
            37 => self.extended_usages = extended_usages(reader).ok_or("x509: invalid extended key usages")?,
            54 => {
                let skip = { reader }.int().ok_or("x509: invalid inhibit any policy extension")?;
                self.policies.inhibit_any = Some(skip);
            }
            _ => return Ok(true),
        }
        Ok(false)
    }
}

fn subject_key_id(mut reader: Reader<'_>, critical: bool) -> ExtensionResult<Vec<u8>> {
    if critical {
        return Err("x509: subject key identifier incorrectly marked critical".into());
    }
    let id = reader.take(OCTET_STRING).ok_or("x509: invalid subject key identifier")?;
    Ok(id.rest().to_vec())
}

fn authority_key_id(mut reader: Reader<'_>, critical: bool) -> ExtensionResult<Vec<u8>> {
    if critical {
        return Err("x509: authority key identifier incorrectly marked critical".into());
    }
    let id = reader.take(SEQUENCE).and_then(|mut fields| fields.optional(context(0)));
    let id = id.ok_or("x509: invalid authority key identifier")?;
    Ok(id.map(|id| id.rest().to_vec()).unwrap_or_default())
}

fn key_usage(mut reader: Reader<'_>) -> Option<u16> {
    let (bytes, _) = reader.bits()?;
    let is_set = |bit: usize| bytes.get(bit / 8).is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0);
    Some((0..9).filter(|bit| is_set(*bit)).fold(0, |usage, bit| usage | 1 << bit))
}

fn basic_constraints(mut reader: Reader<'_>) -> Option<BasicConstraints> {
    let mut fields = reader.take(SEQUENCE)?;
    let is_ca = if fields.next_is(BOOLEAN) { fields.boolean()? } else { false };
    let max_path_len =
        if fields.next_is(INTEGER) { Some(signed(fields.integer()?).filter(|n| *n >= 0)?) } else { None };
    Some(BasicConstraints { is_ca, max_path_len })
}

/// The names of a subjectAltName extension, of a certificate or of a request.
pub(crate) fn alternative_names(mut reader: Reader<'_>) -> ExtensionResult<AlternativeNames> {
    let mut names = AlternativeNames::default();
    let mut list = reader.take(SEQUENCE).ok_or("x509: invalid subject alternative names")?;
    while !list.is_empty() {
        let name = list.any().ok_or("x509: invalid subject alternative name")?;
        let text = || std::str::from_utf8(name.contents).ok().filter(|text| text.is_ascii()).map(str::to_string);
        match name.tag ^ 0x80 {
            1 => names.emails.push(text().ok_or("x509: SAN rfc822Name is malformed")?),
            2 => names.dns.push(text().ok_or("x509: SAN dNSName is malformed")?),
            6 => names.uris.push(uri(&text().ok_or("x509: SAN uniformResourceIdentifier is malformed")?)?),
            7 => names.addresses.push(
                address(name.contents)
                    .ok_or_else(|| format!("x509: cannot parse IP address of length {}", name.contents.len()))?,
            ),
            _ => {}
        }
    }
    Ok(names)
}

fn uri(text: &str) -> ExtensionResult<Url> {
    let failed = |why: &str| format!("x509: cannot parse URI {}: {why}", object::quote(text));
    let url = Url::parse(text).map_err(|why| failed(&why))?;
    if is_valid_domain(url.host.as_bytes(), false) { Ok(url) } else { Err(failed("invalid domain")) }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn distribution_points(mut reader: Reader<'_>) -> ExtensionResult {
    let mut points = reader.take(SEQUENCE).ok_or("x509: invalid CRL distribution points")?;
    while !points.is_empty() {
        distribution_point(&mut points).ok_or("x509: invalid CRL distribution point")?;
    }
    Ok(())
}

fn distribution_point(points: &mut Reader<'_>) -> Option<()> {
    let mut point = points.take(SEQUENCE)?;
    let Some(mut name) = point.optional(constructed(0))? else { return Some(()) };
    let mut full = name.take(constructed(0))?;
    while full.next_is(context(6)) {
        full.take(context(6))?;
    }
    Some(())
}

fn policies(mut reader: Reader<'_>) -> Option<Vec<Vec<u8>>> {
    let (mut found, mut ids) = (Vec::new(), HashSet::new());
    let mut list = reader.take(SEQUENCE)?;
    while !list.is_empty() {
        let id = list.take(SEQUENCE)?.take(OBJECT_IDENTIFIER)?.rest();
        if !is_shortest(id) || !ids.insert(id) {
            return None;
        }
        found.push(id.to_vec());
    }
    Some(found)
}

/// Whether the numbers of an object identifier, of any size, are written as shortly as possible.
fn is_shortest(id: &[u8]) -> bool {
    let mut begins = true;
    for byte in id {
        if begins && *byte == 0x80 {
            return false;
        }
        begins = byte & 0x80 == 0;
    }
    begins && !id.is_empty()
}

fn mappings(mut reader: Reader<'_>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut list = reader.take(SEQUENCE)?;
    while !list.is_empty() {
        let mut mapping = list.take(SEQUENCE)?;
        let issuer = mapping.take(OBJECT_IDENTIFIER)?.rest().to_vec();
        found.push((issuer, mapping.take(OBJECT_IDENTIFIER)?.rest().to_vec()));
    }
    Some(found)
}

fn policy_constraints(mut reader: Reader<'_>) -> Option<(Option<i64>, Option<i64>)> {
    let mut fields = reader.take(SEQUENCE)?;
    let mut number = |tag: u8| {
        if fields.next_is(tag) { Some(Some(signed(fields.integer_with(tag)?)?)) } else { Some(None) }
    };
    Some((number(context(0))?, number(context(1))?))
}

fn extended_usages(mut reader: Reader<'_>) -> Option<Vec<ExtendedUsage>> {
    let mut found = Vec::new();
    let mut list = reader.take(SEQUENCE)?;
    while !list.is_empty() {
        found.push(match list.oid()? {
            [0x55, 0x1d, 0x25, 0] => ExtendedUsage::Any,
            [0x2b, 6, 1, 5, 5, 7, 3, 1] => ExtendedUsage::ServerAuth,
            [0x2b, 6, 1, 5, 5, 7, 3, 2] => ExtendedUsage::ClientAuth,
            _ => ExtendedUsage::Other,
        });
    }
    Some(found)
}

fn information_access(mut reader: Reader<'_>, critical: bool) -> ExtensionResult {
    if critical {
        return Err("x509: authority info access incorrectly marked critical".into());
    }
    let invalid = "x509: invalid authority info access";
    let mut list = reader.take(SEQUENCE).ok_or(invalid)?;
    while !list.is_empty() {
        let mut access = list.take(SEQUENCE).ok_or(invalid)?;
        access.oid().ok_or(invalid)?;
        access.optional(context(6)).ok_or(invalid)?;
    }
    Ok(())
}
