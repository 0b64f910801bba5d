//! Name constraints: for which names an authority may vouch.

mod address;
mod dns;
mod email;

use std::net::IpAddr;

use object::url::Url;

use self::address::Network;
use crate::certificate::Certificate;
use crate::der::{Reader, SEQUENCE, constructed, context};
use crate::mailbox::Mailbox;

/// What a nameConstraints extension says.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameConstraints {
    permitted: Subtrees,
    excluded: Subtrees,
}

#[derive(Clone, Debug, Default)]
struct Subtrees {
    dns: Vec<String>,
    networks: Vec<Network>,
    emails: Vec<String>,
    uris: Vec<String>,
}

impl NameConstraints {
    /// Reads the extension's value; answers as well whether there is a kind of name in it that is not understood.
    pub fn read(mut outer: Reader<'_>) -> Result<(NameConstraints, bool), String> {
        let read = |outer: &mut Reader<'_>| {
            let mut fields = outer.take(SEQUENCE).filter(|_| outer.is_empty())?;
            let permitted = fields.optional(constructed(0))?.map_or(&[][..], |list| list.rest());
            let excluded = fields.optional(constructed(1))?.map_or(&[][..], |list| list.rest());
            fields.is_empty().then(|| (permitted.to_vec(), excluded.to_vec()))
        };
        let (permitted, excluded) = read(&mut outer).ok_or("x509: invalid NameConstraints extension")?;
        if permitted.is_empty() && excluded.is_empty() {
            return Err("x509: empty name constraints extension".into());
        }
        let mut unhandled = false;
        let permitted = Subtrees::read(Reader::new(&permitted), &mut unhandled)?;
        let excluded = Subtrees::read(Reader::new(&excluded), &mut unhandled)?;
        Ok((NameConstraints { permitted, excluded }, unhandled))
    }
}

impl Subtrees {
    fn read(mut list: Reader<'_>, unhandled: &mut bool) -> Result<Subtrees, String> {
        const INVALID: &str = "x509: invalid NameConstraints extension";
        let mut found = Subtrees::default();
        while !list.is_empty() {
            let name = list.take(SEQUENCE).and_then(|mut subtree| subtree.any()).ok_or(INVALID)?;
            match name.tag {
                tag if tag == context(1) => found.emails.push(email(name.contents)?),
                tag if tag == context(2) => {
                    found.dns.push(domain(name.contents, |text| format!("dnsName constraint {text}"))?);
                }
                tag if tag == context(6) => found.uris.push(uri(name.contents)?),
                tag if tag == context(7) => found.networks.push(Network::read(name.contents)?),
                _ => *unhandled = true,
            }
        }
        Ok(found)
    }
}

fn ascii(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()).ok_or_else(|| {
        let shown = object::quote_bytes(bytes);
        format!("x509: invalid constraint value: x509: {shown} cannot be encoded as an IA5String")
    })
}

fn domain(bytes: &[u8], what: impl Fn(&str) -> String) -> Result<String, String> {
    let text = ascii(bytes)?;
    if is_valid_domain(text.as_bytes(), true) {
        return Ok(text.to_string());
    }
    Err(format!("x509: failed to parse {}", what(&object::quote(text))))
}

fn email(bytes: &[u8]) -> Result<String, String> {
    let text = ascii(bytes)?;
    if !text.contains('@') {
        return domain(bytes, |text| format!("rfc822Name constraint {text}"));
    }
    let failed = || format!("x509: failed to parse rfc822Name constraint {}", object::quote(text));
    Mailbox::parse(text).map(|_| text.to_string()).ok_or_else(failed)
}

fn uri(bytes: &[u8]) -> Result<String, String> {
    let text = ascii(bytes)?;
    if object::address::parse(text).is_ok_and(|address| !address.has_zone) {
        let shown = object::quote(text);
        return Err(format!("x509: failed to parse URI constraint {shown}: cannot be IP address"));
    }
    domain(bytes, |text| format!("URI constraint {text}"))
}

/// Whether a name may stand in a certificate, or in a constraint, which may begin with a dot.
pub(crate) fn is_valid_domain(name: &[u8], is_constraint: bool) -> bool {
    let name = if is_constraint && name.len() > 1 { name.strip_prefix(b".").unwrap_or(name) } else { name };
    let is_label = |label: &[u8]| !label.is_empty() && label.iter().all(|byte| (33..=126).contains(byte));
    name.is_empty() || name.split(|byte| *byte == b'.').all(is_label)
}

/// Whether it is the domain of a mailbox.
pub(crate) fn is_plain_domain(name: &str) -> bool {
    is_valid_domain(name.as_bytes(), false)
}

/// Checks the names of each certificate of a chain, the leaf first, against the constraints of those above it. Err is what Go
/// says.
pub(crate) fn check(chain: &[&Certificate]) -> Result<(), String> {
    let limits: Vec<(usize, ConstraintLimits<'_>)> = chain
        .iter()
        .enumerate()
        .filter(|(_, certificate)| certificate.extensions.has_name_constraints())
        .map(|(at, certificate)| (at, ConstraintLimits::new(&certificate.extensions.constraints)))
        .collect();
    for (at, certificate) in chain.iter().enumerate() {
        if certificate.extensions.alternative_names().is_none() {
            continue;
        }
        let above: Vec<&ConstraintLimits<'_>> =
            limits.iter().filter(|(place, _)| *place > at).map(|(_, limits)| limits).collect();
        if above.is_empty() {
            return Ok(());
        }
        let names = Names::of(certificate)?;
        for limits in above {
            limits.check(&names)?;
        }
    }
    Ok(())
}

/// The names of a certificate.
struct Names<'a> {
    addresses: &'a [IpAddr],
    dns: &'a [String],
    /// With the part that constraints are about.
    uris: Vec<(&'a Url, String)>,
    emails: Vec<Mailbox>,
}

impl Names<'_> {
    fn of(certificate: &Certificate) -> Result<Names<'_>, String> {
        let names = &certificate.extensions.names;
        let mut uris = Vec::new();
        for uri in &names.uris {
            uris.push((uri, domain_of(uri)?));
        }
        let mut emails = Vec::new();
        for email in &names.emails {
            let failed = || format!("cannot parse rfc822Name {}", object::quote(email));
            emails.push(Mailbox::parse(email).ok_or_else(failed)?);
        }
        Ok(Names { addresses: &names.addresses, dns: &names.dns, uris, emails })
    }
}

/// The host of a URI without its port.
fn domain_of(uri: &Url) -> Result<String, String> {
    let shown = || object::quote(&uri.to_string());
    let mut host = uri.host.to_lowercase();
    if host.is_empty() {
        return Err(format!("URI with empty host ({}) cannot be matched against constraints", shown()));
    }
    if host.contains(':') && !host.ends_with(']') {
        let (name, _) = uri.host.rsplit_once(':').unwrap_or((&uri.host, ""));
        if name.contains(':') && !name.ends_with(']') {
            let given = &uri.host;
            return Err(format!(
                "cannot parse URI host {}: address {given}: too many colons in address",
                object::quote(given)
            ));
        }
        host = name.trim_matches(['[', ']']).to_string();
    }
    let is_literal = host.starts_with('[') && host.ends_with(']');
    if is_literal || object::address::parse(&host).is_ok() {
        return Err(format!("URI with IP ({}) cannot be matched against constraints", shown()));
    }
    Ok(host)
}

/// Constraints of one certificate, ready to be asked.
struct ConstraintLimits<'a> {
    addresses: [Option<address::Set>; 2],
    dns: [Option<dns::Set<'a>>; 2],
    uris: [Option<dns::Set<'a>>; 2],
    emails: [Option<email::Set<'a>>; 2],
}

impl<'a> ConstraintLimits<'a> {
    fn new(constraints: &'a NameConstraints) -> ConstraintLimits<'a> {
        let NameConstraints { permitted, excluded } = constraints;
        ConstraintLimits {
            addresses: [&permitted.networks, &excluded.networks].map(|list| address::Set::new(list)),
            dns: [dns::Set::new(&permitted.dns, true), dns::Set::new(&excluded.dns, false)],
            uris: [dns::Set::new(&permitted.uris, true), dns::Set::new(&excluded.uris, false)],
            emails: [email::Set::new(&permitted.emails, true), email::Set::new(&excluded.emails, false)],
        }
    }

    fn check(&self, names: &Names<'_>) -> Result<(), String> {
        for ip in names.addresses {
            let find = |set: &address::Set| set.find(*ip).map(|network| network.to_string());
            decide("IP address", &address::shown(*ip), &self.addresses, find)?;
        }
        for name in names.dns {
            if !is_valid_domain(name.as_bytes(), false) {
                return Err(format!("x509: cannot parse dnsName {}", object::quote(name)));
            }
            decide("DNS name", name, &self.dns, |set| set.find(name))?;
        }
        for (uri, domain) in &names.uris {
            let shown = uri.to_string();
            if !is_valid_domain(domain.as_bytes(), false) {
                return Err(format!("x509: internal error: URI SAN {} failed to parse", object::quote(&shown)));
            }
            decide("URI", &shown, &self.uris, |set| set.find(domain))?;
        }
        for mailbox in &names.emails {
            decide("email address", &mailbox.to_string(), &self.emails, |set| set.find(mailbox))?;
        }
        Ok(())
    }
}

/// A name must be in the permitted set, if there is one, and not in the excluded one.
fn decide<S>(
    kind: &str,
    name: &str,
    [permitted, excluded]: &[Option<S>; 2],
    find: impl Fn(&S) -> Option<String>,
) -> Result<(), String> {
    let name = object::quote(name);
    if permitted.as_ref().is_some_and(|set| find(set).is_none()) {
        return Err(format!("{kind} {name} is not permitted by any constraint"));
    }
    if let Some(constraint) = excluded.as_ref().and_then(find) {
        return Err(format!("{kind} {name} is excluded by constraint {}", object::quote(&constraint)));
    }
    Ok(())
}

/// The place of a value in sorted constraints as Go looks for it: one that is equal, or the one before, or else the first.
fn nearest<T>(sorted: &[T], order: impl FnMut(&T) -> std::cmp::Ordering) -> Option<(&T, bool)> {
    match sorted.binary_search_by(order) {
        Ok(at) => sorted.get(at).map(|found| (found, true)),
        Err(at) => sorted.get(at.saturating_sub(1)).map(|found| (found, false)),
    }
}

/// Removes what is covered by the one that is kept before it.
fn prune<T>(sorted: Vec<T>, covers: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in sorted {
        if !kept.last().is_some_and(|last| covers(last, &item)) {
            kept.push(item);
        }
    }
    kept
}
