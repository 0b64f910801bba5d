//! Projected volumes: several sources in one directory.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Path, names};

use super::PodValidationOptions;
use super::volumes::{downward_file, file_mode, file_user, key_to_path};
use crate::common::checks::{Checks, report};
use crate::common::{internal, metadata, paths, selector, signers};

const TOKEN_MIN_SECONDS: i64 = 10 * 60;
const TOKEN_MAX_SECONDS: i64 = 1 << 32;
const CERTIFICATE_MIN_SECONDS: i64 = 60 * 60;
const CERTIFICATE_MAX_SECONDS: i64 = 91 * 24 * 60 * 60;
const KUBERNETES_CERTIFICATE_MAX_SECONDS: i64 = 24 * 60 * 60;
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

pub fn validate(volume: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    file_mode(&volume.field("defaultMode"), errors);
    file_user(&volume.field("defaultUser"), errors);
    let mut files = Files { volume: volume.path().clone(), taken: BTreeSet::new() };
    for source in volume.field("sources").each() {
        validate_source(&source, &mut files, options, errors);
    }
}

/// The files that sources have taken so far.
struct Files {
    volume: Path,
    taken: BTreeSet<String>,
}

impl Files {
    /// Takes a file's path; `shown` is what upstream shows when the path is taken, and it reports at the volume.
    fn take(&mut self, path: &str, shown: &str, errors: &mut Errors) {
        if !self.taken.insert(path.to_string()) {
            errors.invalid(&self.volume, shown, "conflicting duplicate paths");
        }
    }
}

fn validate_source(source: &Cursor, files: &mut Files, options: &PodValidationOptions, errors: &mut Errors) {
    type Rule = fn(&Cursor, &mut Files, &PodValidationOptions, &mut Errors);
    const KINDS: [(&str, Rule); 6] = [
        ("secret", keys),
        ("configMap", keys),
        ("downwardAPI", downward_api),
        ("serviceAccountToken", token),
        ("clusterTrustBundle", trust_bundle),
        ("podCertificate", certificate),
    ];
    let mut count = 0;
    for (field, rule) in KINDS {
        let projection = source.field(field);
        if projection.is_set() {
            count += 1;
            rule(&projection, files, options, errors);
        }
    }
    if count > 1 {
        source.forbidden(errors, "may not specify more than 1 volume type per source");
    }
}

fn keys(projection: &Cursor, files: &mut Files, _: &PodValidationOptions, errors: &mut Errors) {
    let name = projection.field("name");
    name.require(errors);
    for item in projection.field("items").each() {
        key_to_path(&item, errors);
        let path = item.field("path").str();
        if !path.is_empty() {
            files.take(path, name.str(), errors);
        }
    }
}

fn downward_api(projection: &Cursor, files: &mut Files, _: &PodValidationOptions, errors: &mut Errors) {
    for file in projection.field("items").each() {
        // Upstream reports what is wrong with a file at the projection.
        downward_file(&Cursor::new(file.value(), projection.path().clone()), errors);
        let path = file.field("path").str();
        if !path.is_empty() {
            files.take(path, path, errors);
        }
    }
}

fn token(token: &Cursor, files: &mut Files, options: &PodValidationOptions, errors: &mut Errors) {
    let (expiry, path) = (token.field("expirationSeconds"), token.field("path").str());
    match expiry.opt_int() {
        None => expiry.required(errors, ""),
        Some(seconds) if seconds < TOKEN_MIN_SECONDS => {
            expiry.invalid(errors, "may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > TOKEN_MAX_SECONDS => {
            expiry.invalid(errors, "may not specify a duration larger than 2^32 seconds");
        }
        Some(_) => {}
    }
    // Upstream reports the path at the volume.
    let at = files.volume.field("path");
    if path.is_empty() {
        errors.required(&at, "");
    } else if !options.allow_any_token_path {
        paths::local_non_reserved(path, &at, errors);
    }
    file_user(&token.field("user"), errors);
}

fn trust_bundle(bundle: &Cursor, files: &mut Files, _: &PodValidationOptions, errors: &mut Errors) {
    let (name, signer) = (bundle.field("name"), bundle.field("signerName"));
    let labels = bundle.field("labelSelector");
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            let shown = internal::shown("ClusterTrustBundleProjection", bundle.value());
            bundle.invalid_as(errors, shown, "only one of name and signerName may be used");
        }
        (true, false) => {
            if name.str().is_empty() {
                name.required(errors, "must be a valid object name");
            }
            let owner = signers::signer_of_trust_bundle(name.str());
            for message in signers::trust_bundle_name(name.str(), &owner, false) {
                name.bad(errors, format!("not a valid clustertrustbundlename: {message}"));
            }
            if labels.is_set() {
                let shown = internal::shown("LabelSelector", labels.value());
                labels.invalid_as(errors, shown, "labelSelector must be unset if name is specified");
            }
        }
        (false, true) => {
            if signer.str().is_empty() {
                signer.required(errors, "must be a valid signer name");
            }
            signers::signer_name(&signer, errors);
            selector::validate(&labels, selector::LabelSelectorValidationOptions::default(), errors);
        }
        (false, false) => bundle.required(errors, "either name or signerName must be specified"),
    }
    let path = bundle.field("path");
    path.require(errors);
    file_user(&bundle.field("user"), errors);
    paths::local_non_reserved(path.str(), path.path(), errors);
    files.take(path.str(), path.str(), errors);
}

fn certificate(certificate: &Cursor, files: &mut Files, _: &PodValidationOptions, errors: &mut Errors) {
    let signer = certificate.field("signerName");
    signers::signer_name(&signer, errors);
    user_annotations(&certificate.field("userAnnotations"), errors);
    file_user(&certificate.field("user"), errors);
    certificate.field("keyType").one_of(errors, &KEY_TYPES);
    let expiry = certificate.field("maxExpirationSeconds");
    if let Some(seconds) = expiry.opt_int() {
        let most = match signers::is_kubernetes_signer(signer.str()) {
            true => KUBERNETES_CERTIFICATE_MAX_SECONDS,
            false => CERTIFICATE_MAX_SECONDS,
        };
        if seconds < CERTIFICATE_MIN_SECONDS {
            expiry.invalid(errors, format!("if provided, maxExpirationSeconds must be >= {CERTIFICATE_MIN_SECONDS}"));
        }
        if seconds > most {
            expiry.invalid(errors, format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let mut count = 0;
    for path in ["credentialBundlePath", "keyPath", "certificateChainPath"].map(|field| certificate.field(field)) {
        if !path.str().is_empty() {
            count += 1;
            paths::local_non_reserved(path.str(), path.path(), errors);
            files.take(path.str(), path.str(), errors);
        }
    }
    if count == 0 {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        certificate.required(errors, detail);
    }
}

/// Annotations that a signer gets to see: their keys must have a domain.
pub fn user_annotations(annotations: &Cursor, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        let lowercase = key.to_lowercase();
        for problem in names::domain_prefixed_key(&lowercase) {
            match problem {
                names::Problem::Required => errors.required(annotations.path(), ""),
                names::Problem::TooLong { max_bytes } => errors.too_long(annotations.path(), max_bytes),
                names::Problem::Invalid { value, detail } => report(errors, annotations.path(), &value, vec![detail]),
            }
        }
        size += key.len() + value.str().len();
    }
    if size > metadata::ANNOTATIONS_MAX_BYTES {
        errors.too_long(annotations.path(), metadata::ANNOTATIONS_MAX_BYTES);
    }
}
