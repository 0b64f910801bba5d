//! Names of certificate signers and trust bundles.

use object::{Cursor, Errors, names, quote};

use super::checks::Checks;

const DOMAIN_MAX_BYTES: usize = 253;
/// A domain, a slash, and a namespace, a dot and a name.
const SIGNER_MAX_BYTES: usize = DOMAIN_MAX_BYTES + 1 + 63 + 1 + 253;

/// Whether the signer's name is reserved for Kubernetes.
pub fn is_kubernetes_signer(name: &str) -> bool {
    let host = name.split_once('/').map_or(name, |(host, _)| host);
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// A signer's name: `example.com/signer-name`.
pub fn signer_name(name: &Cursor, errors: &mut Errors) {
    if !name.require(errors) {
        return;
    }
    let mut segments = name.str().split('/');
    let (Some(domain), Some(path), None) = (segments.next(), segments.next(), segments.next()) else {
        return name.bad(errors, "must be a fully qualified domain and path of the form 'example.com/signer-name'");
    };
    if domain.len() > DOMAIN_MAX_BYTES {
        errors.too_long(name.path(), DOMAIN_MAX_BYTES);
    }
    labels(name, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        name.invalid_as(errors, domain, "should be a domain with at least two segments separated by dots");
    }
    labels(name, path, names::dns1123_subdomain, errors);
    if name.str().len() > SIGNER_MAX_BYTES {
        errors.too_long(name.path(), SIGNER_MAX_BYTES);
    }
}

/// Checks the parts between dots, up to the first that is wrong.
fn labels(name: &Cursor, segment: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let first = segment.split('.').map(|label| (label, rule(label))).find(|(_, messages)| !messages.is_empty());
    if let Some((label, messages)) = first {
        for message in messages {
            name.invalid_as(errors, segment, format!("validating label {}: {message}", quote(label)));
        }
    }
}

/// What is wrong with a ClusterTrustBundle's name: one that belongs to a signer starts with the signer's name.
pub fn trust_bundle_name(name: &str, signer: &str, is_prefix: bool) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            return vec![r#"ClusterTrustBundle without signer name must not have ":" in its name"#.to_string()];
        }
        return names::name_is_dns_subdomain(name, is_prefix);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => names::name_is_dns_subdomain(rest, is_prefix),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")],
    }
}

/// The signer that a trust bundle's name says it belongs to, "" if it says none.
pub fn signer_of_trust_bundle(name: &str) -> String {
    name.rfind(':').and_then(|end| name.get(..end)).map(|signer| signer.replace(':', "/")).unwrap_or_default()
}
