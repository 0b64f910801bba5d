//! StorageVersions: the version each server of a cluster stores a resource in.

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::metadata;

/// How many servers a table cell shows.
const SHOWN: usize = 3;

pub struct StorageVersion;

const FACTS: Facts = Facts {
    name: |name, _| group_and_resource(name),
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    ..Facts::WITH_STATUS
};

impl Strategy for StorageVersion {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_status(&object.field("status"), errors);
    }

    fn validate_update(&self, _cx: &Context, _new: &Cursor, _old: &Cursor, _errors: &mut Errors) {}

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        validate_status(&new.field("status"), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let common = object.at(&["status", "commonEncodingVersion"]).as_str().unwrap_or("<unset>");
        let servers = object.list_at(&["status", "storageVersions"]).iter();
        let servers: Vec<String> =
            servers.map(|s| format!("{}={}", s.str_at(&["apiServerID"]), s.str_at(&["encodingVersion"]))).collect();
        let shown = servers.get(..SHOWN).unwrap_or(&servers).join(",");
        let shown = match servers.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => format!("{shown} + {more} more..."),
            _ if shown.is_empty() => "<unset>".to_string(),
            _ => shown,
        };
        vec![object.name().into(), common.into(), shown.into(), columns::age(cx, object)]
    }
}

/// Refuses a name that is not a resource and its group.
fn group_and_resource(name: &str) -> Vec<String> {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".to_string()];
    };
    let group = names::dns1123_subdomain(group).into_iter().map(|message| format!("the group segment {message}"));
    let resource = names::dns1035_label(resource).into_iter();
    group.chain(resource.map(|message| format!("the resource segment {message}"))).collect()
}

fn validate_status(status: &Cursor, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for server in status.field("storageVersions").each() {
        let id = server.field("apiServerID");
        if !seen.insert(id.str()) {
            errors.duplicate(id.path(), id.str());
        }
        validate_server(&server, errors);
    }
    validate_common(status, errors);
    // Upstream leaves the name of the list out of the path.
    let mut types = BTreeMap::new();
    for (i, condition) in status.field("conditions").each().enumerate() {
        let at = Cursor::new(condition.value(), status.path().index(i));
        let kind = at.field("type");
        if let Some(first) = types.insert(kind.str(), i) {
            let detail = format!("the type of the condition is not unique, it also appears in conditions[{first}]");
            kind.bad(errors, detail);
        }
        kind.check(errors, names::label_key);
        at.field("status").check(errors, names::label_key);
        at.field("reason").require(errors);
        at.field("message").require(errors);
    }
}

fn validate_server(server: &Cursor, errors: &mut Errors) {
    server.field("apiServerID").check_name(errors, names::name_is_dns_subdomain);
    let (encoding, decodable) = (server.field("encodingVersion"), server.field("decodableVersions"));
    validate_version(&encoding, errors);
    for version in decodable.each() {
        validate_version(&version, errors);
    }
    let known: BTreeSet<&str> = decodable.strs().collect();
    let has = |wanted: &str| known.contains(wanted);
    if !has(encoding.str()) {
        let detail = format!("decodableVersions must include encodingVersion {}", encoding.str());
        decodable.invalid(errors, detail);
    }
    for version in server.field("servedVersions").each() {
        validate_version(&version, errors);
        if !has(version.str()) && !errors.is_full() {
            let all = decodable.strs().collect::<Vec<_>>().join(" ");
            let served = version.str();
            let detail =
                format!("individual served version : {served} must be included in decodableVersions : [{all}]");
            version.bad(errors, detail);
        }
    }
}

fn validate_version(version: &Cursor, errors: &mut Errors) {
    let messages = api_version(version.str());
    if !messages.is_empty() {
        version.bad(errors, messages.join(","));
    }
}

/// What is wrong with an apiVersion.
fn api_version(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let mut part = |name: &str, found: Vec<String>| {
        messages.extend(found.into_iter().map(|message| format!("{name} part: {message}")));
    };
    let version = match text.split('/').collect::<Vec<_>>().as_slice() {
        [version] => *version,
        [group, version] => {
            let found = if group.is_empty() { vec![names::empty_error()] } else { names::dns1123_subdomain(group) };
            part("group", found);
            *version
        }
        _ => {
            let rule = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an \
                        alphabetic character, and end with an alphanumeric character";
            let rule = names::regex_error(rule, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]);
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')";
            return vec![format!("an apiVersion is {rule} {optional}")];
        }
    };
    part("version", if version.is_empty() { vec![names::empty_error()] } else { names::dns1035_label(version) });
    messages
}

fn validate_common(status: &Cursor, errors: &mut Errors) {
    let versions: BTreeSet<&str> =
        status.field("storageVersions").each().map(|server| server.field("encodingVersion").str()).collect();
    let common = status.field("commonEncodingVersion");
    match (versions.first().filter(|_| versions.len() == 1), common.opt_str()) {
        (None, Some(_)) => common.bad(
            errors,
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the \
             supported versions yet",
        ),
        (Some(actual), None) => common.invalid(errors, format!("the common encoding version is {actual}")),
        (Some(actual), Some(given)) if *actual != given => {
            common.bad(errors, format!("the actual common encoding version is {actual}"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn versions_are_checked() {
        let check = Check::new(StorageVersion, "{metadata: {name: apps.deployments}}");
        check.update_status(&[
            ("", "status: {storageVersions: [{apiServerID: a, encodingVersion: v1, decodableVersions: [v1]}]}",
             "status.commonEncodingVersion: Invalid value: null: the common encoding version is v1"),
            ("", "status: {commonEncodingVersion: v1, storageVersions: [{apiServerID: a, encodingVersion: v1}]}",
             "status.storageVersions[0].decodableVersions: Invalid value: null: decodableVersions must include encodingVersion v1"),
        ]);
        assert_eq!(group_and_resource("a"), ["name must be in the form of <group>.<resource>"]);
    }
}
