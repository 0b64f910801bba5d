//! Resource claims of a pod.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Path, Value, names};

use super::annotations::MIRROR;
use crate::common::checks::Checks;
use crate::common::internal;

/// The names that containers can refer to.
pub fn names(spec: &Value) -> BTreeSet<&str> {
    let names = spec.list_at(&["resourceClaims"]).iter().map(|claim| claim.str_at(&["name"]));
    names.filter(|name| !name.is_empty()).collect()
}

pub fn validate(claims: &Cursor, pod: Option<&Cursor>, errors: &mut Errors) {
    let is_static = pod.is_some_and(|pod| pod.field("annotations").field(MIRROR).is_set());
    let mut seen = BTreeSet::new();
    for claim in claims.each() {
        if is_static {
            errors.forbidden(&Path::root().key(""), "static pods do not support resource claims");
        } else {
            validate_claim(&claim, &mut seen, errors);
        }
    }
}

fn validate_claim<'a>(claim: &Cursor<'a>, seen: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let name = claim.field("name");
    if !name.require(errors) {
    } else if !seen.insert(name.str()) {
        name.duplicate(errors);
    } else {
        name.check(errors, names::dns1123_label);
    }
    let (direct, template) = (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
    let shown = || internal::shown("PodResourceClaim", claim.value());
    match (direct.is_set(), template.is_set()) {
        (true, true) => claim.invalid_as(
            errors,
            shown(),
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        ),
        (false, false) => {
            claim.invalid_as(errors, shown(), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
        }
        _ => {}
    }
    for reference in [direct, template].iter().filter(|reference| reference.is_set()) {
        reference.check_name(errors, names::name_is_dns_subdomain);
    }
}
