//! Name resolution and host names of a pod.

use object::{Cursor, Errors, names};

use super::PodValidationOptions;
use crate::common::checks::{Checks, report};

// What libc's resolver on Linux can take.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const MAX_SEARCH_LIST_CHARS: usize = 2048;
const HOSTNAME_OVERRIDE_MAX_BYTES: usize = 64;

pub fn config(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").str() == "None" {
        if !config.is_set() {
            return config.required(errors, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            return servers.required(errors, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        servers.invalid(errors, format!("must not have more than {MAX_NAMESERVERS} nameservers"));
    }
    for server in servers.each() {
        address(&server, options, errors);
    }
    searches(&config.field("searches"), errors);
    for option in config.field("options").each() {
        if option.field("name").str().is_empty() {
            option.required(errors, "must not be empty");
        }
    }
}

fn searches(searches: &Cursor, errors: &mut Errors) {
    if searches.len() > MAX_SEARCH_PATHS {
        searches.invalid(errors, format!("must not have more than {MAX_SEARCH_PATHS} search paths"));
    }
    let with_spaces = searches.strs().map(|search| search.len() + 1).sum::<usize>().saturating_sub(1);
    if with_spaces > MAX_SEARCH_LIST_CHARS {
        let detail =
            format!("must not have more than {MAX_SEARCH_LIST_CHARS} characters (including spaces) in the search list");
        searches.invalid(errors, detail);
    }
    for search in searches.each().filter(|search| search.str() != ".") {
        let name = search.str().strip_suffix('.').unwrap_or(search.str());
        report(errors, search.path(), name, names::dns1123_subdomain_with_underscore(name));
    }
}

/// An IP address; stored ones may be in forms that are refused now.
fn address(address: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    for message in names::ip_for_legacy_field(address.str(), options.strict_addresses) {
        address.bad(errors, message);
    }
}

pub fn host_aliases(aliases: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    for alias in aliases.each() {
        address(&alias.field("ip"), options, errors);
        for hostname in alias.field("hostnames").each() {
            hostname.check(errors, names::dns1123_subdomain);
        }
    }
}

pub fn hostname_override(spec: &Cursor, errors: &mut Errors) {
    let name = spec.field("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.field("setHostnameAsFQDN").bool() {
        name.forbidden(errors, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.field("hostNetwork").bool() {
        name.forbidden(errors, "may not be specified when hostNetwork is true");
    }
    if name.str().len() > HOSTNAME_OVERRIDE_MAX_BYTES {
        errors.too_long(name.path(), HOSTNAME_OVERRIDE_MAX_BYTES);
    }
    name.check(errors, names::dns1123_subdomain);
}
