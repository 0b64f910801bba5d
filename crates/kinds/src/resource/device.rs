//! A device in a slice: its attributes, what can be had of it, and where it is.

use object::{Cursor, Errors, Map, Value, names};

use super::claim::up_to;
use super::{capacity, devices};
use crate::common::checks::Checks;
use crate::common::pod_spec::affinity;
use crate::common::versioned;

const CAPACITY: &str = "io.k8s.api.resource.v1.DeviceCapacity";
const TAINT: &str = "io.k8s.api.resource.v1.DeviceTaint";

const ATTRIBUTES_MAX: usize = 32;
const ATTRIBUTE_VALUES_MAX: usize = 48;
const TAINTS_MAX: usize = 16;
const COUNTERS_MAX: usize = 32;
const CONSUMED_SETS_MAX: usize = 2;
const IDENTIFIER_MAX_BYTES: usize = 32;
const VALUE_MAX_BYTES: usize = 64;
/// A domain, a slash and an identifier.
const KEY_MAX_BYTES: usize = 63 + 1 + IDENTIFIER_MAX_BYTES;
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const ONE_PLACE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                         `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

/// Checks a device. `old` is the device of that name before an update; `placed` says that devices have places of their own.
pub fn validate(device: &Cursor, old: Option<&Value>, placed: bool, errors: &mut Errors) {
    device.field("name").check(errors, names::dns1123_label);
    let (attributes, capacities, taints) =
        (device.field("attributes"), device.field("capacity"), device.field("taints"));
    let count = attributes.len() + capacities.len();
    if count > ATTRIBUTES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        device.invalid_as(errors, count, detail);
    }
    let values: usize = attributes.entries().map(|(_, attribute)| value_count(&attribute)).sum();
    if values > ATTRIBUTE_VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}");
        device.invalid_as(errors, values, detail);
    }
    for (name, attribute) in attributes.entries() {
        qualified_name(&attributes, name, errors);
        validate_attribute(&at_short_key(&attributes, name, &attribute), errors);
    }
    if old.is_none_or(|old| !same_capacities(old.field("capacity"), capacities.value())) {
        let shared = device.field("allowMultipleAllocations").bool();
        for (name, entry) in capacities.entries() {
            qualified_name(&capacities, name, errors);
            capacity::validate(&at_short_key(&capacities, name, &entry), shared, errors);
        }
    }
    if old.is_none_or(|old| !versioned::same(TAINT, old.field("taints"), taints.value())) {
        if taints.len() > TAINTS_MAX {
            errors.too_many(taints.path(), taints.len(), TAINTS_MAX);
        }
        up_to(&taints, TAINTS_MAX).for_each(|taint| devices::taint(&taint, errors));
    }
    for consumed in up_to(&device.field("consumesCounters"), CONSUMED_SETS_MAX) {
        counters(&consumed.field("counters"), errors);
    }
    validate_place(device, placed, errors);
    devices::binding_conditions(device, errors);
}

/// Whether two maps of capacities are the same: an empty request policy is not a missing one.
fn same_capacities(old: &Value, new: &Value) -> bool {
    let count = |map: &Value| map.as_map().map_or(0, Map::len);
    let mut entries = new.as_map().into_iter().flat_map(Map::iter);
    count(old) == count(new) && entries.all(|(name, entry)| versioned::same(CAPACITY, old.field(name), entry))
}

/// A map of counters that is not too large.
pub fn counters(counters: &Cursor, errors: &mut Errors) {
    if counters.len() > COUNTERS_MAX {
        errors.too_many(counters.path(), counters.len(), COUNTERS_MAX);
    }
}

fn validate_place(device: &Cursor, placed: bool, errors: &mut Errors) {
    let [node, selector, all] = ["nodeName", "nodeSelector", "allNodes"].map(|field| device.field(field));
    if !placed {
        if node.is_set() || selector.is_set() || all.is_set() {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set \
                          to true in the ResourceSlice spec";
            device.invalid_as(errors, Value::Null, detail);
        }
        return;
    }
    let mut places = Vec::new();
    match node.opt_str() {
        None => {}
        Some("") => node.bad(errors, "must not be empty"),
        Some(_) => {
            places.push("`nodeName`");
            node.check_name(errors, names::name_is_dns_subdomain);
        }
    }
    if selector.is_set() {
        places.push("`nodeSelector`");
        affinity::node_selector(&selector, false, errors);
    }
    match all.opt_bool() {
        Some(true) => places.push("`allNodes`"),
        Some(false) => all.invalid(errors, "must be either unset or set to true"),
        None => {}
    }
    match places.len() {
        0 => device.required(errors, ONE_PLACE),
        1 => {}
        _ => device.invalid_as(errors, format!("{{{}}}", places.join(", ")), ONE_PLACE),
    }
}

/// How many values an attribute holds.
fn value_count(attribute: &Cursor) -> usize {
    let listed: usize = LISTS.iter().map(|list| attribute.field(list).len()).sum();
    listed.max(1)
}

fn validate_attribute(attribute: &Cursor, errors: &mut Errors) {
    let text = attribute.field("string");
    if text.str().len() > VALUE_MAX_BYTES {
        errors.too_long(text.path(), VALUE_MAX_BYTES);
    }
    if attribute.field("version").is_set() {
        validate_version(&attribute.field("version"), errors);
    }
    for list in LISTS.map(|list| attribute.field(list)) {
        if list.is_set() && list.is_empty() {
            list.invalid(errors, "must not be empty if specified");
        }
    }
    attribute.field("versions").each().for_each(|version| validate_version(&version, errors));
}

fn validate_version(version: &Cursor, errors: &mut Errors) {
    if !is_semantic(version.str()) {
        version.bad(errors, "must be a string compatible with semver.org spec 2.0.0");
    }
    if version.str().len() > VALUE_MAX_BYTES {
        errors.too_long(version.path(), VALUE_MAX_BYTES);
    }
}

/// Whether this is a version as semver.org has it: `1.2.3-alpha.1+build`.
fn is_semantic(version: &str) -> bool {
    let (version, build) = version.split_once('+').map_or((version, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = version.split_once('-').map_or((version, None), |(core, pre)| (core, Some(pre)));
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_number = |text: &str| is_digits(text) && (text == "0" || !text.starts_with('0'));
    let fine_pre = |text: &str| is_word(text) && (!is_digits(text) || is_number(text));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && pre.is_none_or(|pre| pre.split('.').all(fine_pre))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// The name of an attribute or capacity: an identifier, perhaps qualified by a domain.
fn qualified_name(map: &Cursor, name: &str, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [id] => identifier(map, id, errors),
        [domain, id] => {
            match *domain {
                "" => map.invalid_as(errors, "", "the domain must not be empty"),
                domain => devices::driver_domain(map, domain, errors),
            }
            match *id {
                "" => map.invalid_as(errors, "", "the name must not be empty"),
                id => identifier(map, id, errors),
            }
        }
        // Upstream lets more than one slash pass.
        _ => {}
    }
}

fn identifier(map: &Cursor, id: &str, errors: &mut Errors) {
    if id.len() > IDENTIFIER_MAX_BYTES {
        errors.too_long(map.path(), IDENTIFIER_MAX_BYTES);
    }
    for message in names::c_identifier(id) {
        map.invalid_as(errors, id, message);
    }
}

/// The entry under a key that messages show only the ends of, if it is too long.
fn at_short_key<'a>(map: &Cursor<'a>, key: &str, entry: &Cursor<'a>) -> Cursor<'a> {
    if key.len() <= KEY_MAX_BYTES {
        return entry.clone();
    }
    let left = KEY_MAX_BYTES - 3;
    let (start, end) = (left.div_ceil(2), key.len() - left / 2);
    let short = format!("{}...{}", key.get(..start).unwrap_or(""), key.get(end..).unwrap_or(""));
    Cursor::new(entry.value(), map.path().key(&short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for (version, fine) in [
            ("1.2.3", true),
            ("0.0.0-alpha.1+b.01", true),
            ("1.2.3-01", false),
            ("1.2.3-01a", true),
            ("01.2.3", false),
            ("1.2", false),
            ("1.2.3-", false),
            ("1.2.3+", false),
            ("v1.2.3", false),
        ] {
            assert_eq!(is_semantic(version), fine, "{version}");
        }
    }
}
