//! Volume sources, as pods and persistent volumes have them in common. Each rule checks the source at its place.

use object::{Cursor, Errors, names, quote};

use super::checks::Checks;
use super::paths;

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const CSI_DRIVER_NAME_MAX_BYTES: usize = 63;
/// A volume's name and the portal together, when the initiator has a name.
const ISCSI_NAME_MAX_BYTES: usize = 64;
const QUOBYTE_TENANT_MAX_BYTES: usize = 64;
const PARTITION_RANGE: &str = "must be between 1 and 255, inclusive";

pub fn host_path(source: &Cursor, errors: &mut Errors) {
    let path = source.field("path");
    if path.require(errors) {
        paths::no_backsteps(path.str(), path.path(), errors);
        source.field("type").optional_one_of(errors, &HOST_PATH_TYPES);
    }
}

/// The directory of a local volume.
pub fn local(source: &Cursor, errors: &mut Errors) {
    let path = source.field("path");
    if path.require(errors) {
        paths::no_backsteps(path.str(), path.path(), errors);
    }
}

pub fn git_repo(source: &Cursor, errors: &mut Errors) {
    source.field("repository").require(errors);
    let directory = source.field("directory");
    paths::local_descending(directory.str(), directory.path(), errors);
}

/// The iSCSI target of a pod's volume. Upstream words a bad scheme differently for pods than for persistent volumes.
pub fn iscsi(source: &Cursor, errors: &mut Errors) {
    source.field("targetPortal").require(errors);
    iscsi_target(source, "must be valid format starting with iqn, eui, or naa", errors);
    iscsi_initiator(source, "must be valid format starting with iqn, eui, or naa", errors);
}

pub fn iscsi_persistent(source: &Cursor, volume_name: &str, errors: &mut Errors) {
    let portal = source.field("targetPortal");
    portal.require(errors);
    if is_iscsi_name_too_long(source, volume_name) {
        errors.invalid(&source.path().field("targetportal"), portal.str(), ISCSI_NAME_TOO_LONG);
    }
    iscsi_target(source, "must be valid format", errors);
    let secret = source.field("secretRef");
    if secret.is_set() {
        secret.field("name").require(errors);
    }
    iscsi_initiator(source, "must be valid format", errors);
}

pub const ISCSI_NAME_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                                       characters if iscsi.initiatorName is specified.";

pub fn is_iscsi_name_too_long(source: &Cursor, volume_name: &str) -> bool {
    source.field("initiatorName").is_set()
        && volume_name.len() + 1 + source.field("targetPortal").str().len() > ISCSI_NAME_MAX_BYTES
}

fn iscsi_target(source: &Cursor, bad_scheme: &str, errors: &mut Errors) {
    let iqn = source.field("iqn");
    if iqn.require(errors)
        && let Some(problem) = iscsi_name_problem(iqn.str(), bad_scheme)
    {
        iqn.bad(errors, problem);
    }
    let lun = source.field("lun");
    if !(0..=255).contains(&lun.int()) {
        lun.invalid(errors, names::inclusive_range_error(0, 255));
    }
    let authenticates = source.field("chapAuthDiscovery").bool() || source.field("chapAuthSession").bool();
    let secret = source.field("secretRef");
    if authenticates && !secret.is_set() {
        secret.required(errors, "");
    }
}

fn iscsi_initiator(source: &Cursor, bad_scheme: &str, errors: &mut Errors) {
    if let Some(initiator) = source.field("initiatorName").opt_str()
        && let Some(problem) = iscsi_name_problem(initiator, bad_scheme)
    {
        errors.invalid(&source.path().field("initiatorname"), initiator, problem);
    }
}

/// What is wrong with the name of an iSCSI node, which follows one of three schemes.
fn iscsi_name_problem<'a>(name: &str, bad_scheme: &'a str) -> Option<&'a str> {
    let fine = match name.get(..3) {
        Some("iqn") => name.match_indices("iqn.").any(|(start, _)| is_iqn(&name[start..])),
        Some("eui") => is_tagged(name, 16),
        Some("naa") => is_tagged(name, 32),
        _ => return Some(bad_scheme),
    };
    (!fine).then_some("must be valid format")
}

/// `iqn.2001-04.com.example:anything`.
fn is_iqn(name: &str) -> bool {
    let date_and_rest = name.strip_prefix("iqn.").and_then(|rest| rest.split_at_checked(8));
    let Some((date, rest)) = date_and_rest else { return false };
    let is_date = date.bytes().enumerate().all(|(i, b)| match i {
        4 => b == b'-',
        7 => b == b'.',
        _ => b.is_ascii_digit(),
    });
    let Some((authority, target)) = rest.split_once(':') else { return false };
    let forbidden = |c| matches!(c, ',' | ';' | '*' | '&' | '$' | '|' | '\t' | '\n' | '\u{c}' | '\r' | ' ');
    is_date
        && !authority.is_empty()
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
        && !target.is_empty()
        && !target.contains(forbidden)
}

/// Three letters, any character, and so many letters or digits.
fn is_tagged(name: &str, length: usize) -> bool {
    let mut rest = name.chars().skip(3);
    let separator = rest.next();
    let digits: Vec<char> = rest.collect();
    separator.is_some_and(|c| c != '\n') && digits.len() == length && digits.iter().all(char::is_ascii_alphanumeric)
}

pub fn fibre_channel(source: &Cursor, errors: &mut Errors) {
    let (targets, wwids, lun) = (source.field("targetWWNs"), source.field("wwids"), source.field("lun"));
    if targets.is_empty() && wwids.is_empty() {
        targets.required(errors, "must specify either targetWWNs or wwids, but not both");
    }
    if !targets.is_empty() && !wwids.is_empty() {
        targets.invalid(errors, "targetWWNs and wwids can not be specified simultaneously");
    }
    if !targets.is_empty() {
        match lun.opt_int() {
            None => lun.required(errors, "lun is required if targetWWNs is specified"),
            Some(_) => lun.in_range(errors, 0, 255),
        }
    }
}

pub fn gce_persistent_disk(source: &Cursor, errors: &mut Errors) {
    source.field("pdName").require(errors);
    partition(&source.field("partition"), errors);
}

pub fn aws_elastic_block_store(source: &Cursor, errors: &mut Errors) {
    source.field("volumeID").require(errors);
    partition(&source.field("partition"), errors);
}

/// Zero means none; the message leaves that out.
fn partition(partition: &Cursor, errors: &mut Errors) {
    if !(0..=255).contains(&partition.int()) {
        partition.invalid(errors, PARTITION_RANGE);
    }
}

pub fn nfs(source: &Cursor, errors: &mut Errors) {
    source.field("server").require(errors);
    let path = source.field("path");
    path.require(errors);
    if !path.str().starts_with('/') {
        path.bad(errors, "must be an absolute path");
    }
}

pub fn quobyte(source: &Cursor, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.field("registry"), source.field("tenant"));
    if registry.str().is_empty() {
        registry.required(errors, PAIRS);
    } else if tenant.str().len() > QUOBYTE_TENANT_MAX_BYTES {
        tenant.required(errors, "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.str().split(',').filter(|pair| !is_host_port(pair)) {
            registry.bad(errors, PAIRS);
        }
    }
    source.field("volume").require(errors);
}

/// Whether Go would split the text into a host and a port; either may be empty.
fn is_host_port(text: &str) -> bool {
    let Some(colon) = text.rfind(':') else { return false };
    let (mut after_open, mut after_close) = (0, 0);
    if text.starts_with('[') {
        match text.find(']') {
            Some(close) if close + 1 == colon => (after_open, after_close) = (1, close + 1),
            _ => return false,
        }
    } else if text[..colon].contains(':') {
        return false;
    }
    !text[after_open..].contains('[') && !text[after_close..].contains(']')
}

pub fn glusterfs(source: &Cursor, errors: &mut Errors) {
    source.field("endpoints").require(errors);
    source.field("path").require(errors);
}

pub fn flocker(source: &Cursor, errors: &mut Errors) {
    let (name, uuid) = (source.field("datasetName"), source.field("datasetUUID"));
    if name.str().is_empty() && uuid.str().is_empty() {
        source.required(errors, "one of datasetName and datasetUUID is required");
    }
    if !name.str().is_empty() && !uuid.str().is_empty() {
        source.invalid_as(errors, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.str().contains('/') {
        name.bad(errors, "must not contain '/'");
    }
}

pub fn persistent_volume_claim(source: &Cursor, errors: &mut Errors) {
    source.field("claimName").require(errors);
}

pub fn rbd(source: &Cursor, errors: &mut Errors) {
    source.field("monitors").must_be_set(errors, "");
    source.field("image").require(errors);
}

pub fn cinder(source: &Cursor, errors: &mut Errors) {
    source.field("volumeID").require(errors);
    named_secret(source, errors);
}

/// The secret, if there is one, must be named.
fn named_secret(source: &Cursor, errors: &mut Errors) {
    let secret = source.field("secretRef");
    if secret.is_set() {
        secret.field("name").require(errors);
    }
}

pub fn cephfs(source: &Cursor, errors: &mut Errors) {
    source.field("monitors").must_be_set(errors, "");
}

pub fn flex(source: &Cursor, errors: &mut Errors) {
    source.field("driver").require(errors);
    for (key, option) in source.field("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            option.invalid_as(errors, key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub fn azure_file(source: &Cursor, errors: &mut Errors) {
    source.field("secretName").require(errors);
    source.field("shareName").require(errors);
}

pub fn azure_disk(source: &Cursor, errors: &mut Errors) {
    let uri = source.field("diskURI");
    source.field("diskName").require(errors);
    uri.require(errors);
    source.field("cachingMode").optional_one_of(errors, &["None", "ReadOnly", "ReadWrite"]);
    let kind = source.field("kind");
    kind.optional_one_of(errors, &["Dedicated", "Managed", "Shared"]);
    match kind.opt_str() {
        Some("Managed") if !uri.str().starts_with("/subscriptions/") => uri.not_supported(
            errors,
            &["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"],
        ),
        Some(other) if other != "Managed" && !uri.str().starts_with("https://") => uri
            .not_supported(errors, &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"]),
        _ => {}
    }
}

pub fn vsphere(source: &Cursor, errors: &mut Errors) {
    source.field("volumePath").require(errors);
}

pub fn photon_persistent_disk(source: &Cursor, errors: &mut Errors) {
    source.field("pdID").require(errors);
}

pub fn portworx(source: &Cursor, errors: &mut Errors) {
    source.field("volumeID").require(errors);
}

pub fn scale_io(source: &Cursor, errors: &mut Errors) {
    for field in ["gateway", "system", "volumeName"] {
        source.field(field).require(errors);
    }
}

pub fn storage_os(source: &Cursor, errors: &mut Errors) {
    let (name, namespace) = (source.field("volumeName"), source.field("volumeNamespace"));
    if name.require(errors) {
        name.check(errors, names::dns1123_label);
    }
    if !namespace.str().is_empty() {
        namespace.check(errors, names::dns1123_label);
    }
    named_secret(source, errors);
}

/// A CSI driver's name: a DNS subdomain in any case, no longer than a label.
pub fn csi_driver_name(driver: &Cursor, errors: &mut Errors) {
    if !driver.require(errors) {
        return;
    }
    if driver.str().len() > CSI_DRIVER_NAME_MAX_BYTES {
        errors.too_long(driver.path(), CSI_DRIVER_NAME_MAX_BYTES);
    }
    for message in names::dns1123_subdomain(&driver.str().to_lowercase()) {
        driver.bad(errors, message);
    }
}

/// What upstream says about the name of a claim that will be made for a volume.
pub fn claim_name_problems(claim: &str) -> Vec<String> {
    let messages = names::name_is_dns_subdomain(claim, false);
    messages.into_iter().map(|message| format!("PVC name {}: {message}", quote(claim))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iscsi_names_follow_a_scheme() {
        for (name, fine) in [
            ("iqn.2015-02.example.com:test", true),
            ("iqn.2015-02.example.com:a:b", true),
            ("iqniqn.2015-02.example.com:test", true),
            ("iqn.2015-02.example.com", false),
            ("iqn.2015-02.:test", false),
            ("iqn.2015-02.example.com:te st", false),
            ("eui.0123456789ABCDEF", true),
            ("eui.0123456789ABCDE", false),
            ("naa.62004567BA64678D0123456789ABCDEF", true),
            ("naa.1", false),
            ("nqn", false),
            ("é", false),
        ] {
            assert_eq!(iscsi_name_problem(name, "bad").is_none(), fine, "{name}");
        }
    }

    #[test]
    fn hosts_have_ports() {
        for (text, fine) in [
            ("a:1", true),
            (":", true),
            ("[::1]:80", true),
            ("a", false),
            ("a:b:1", false),
            ("[::1]", false),
            ("[::1]80:1", false),
            ("a]:1", false),
        ] {
            assert_eq!(is_host_port(text), fine, "{text}");
        }
    }
}
