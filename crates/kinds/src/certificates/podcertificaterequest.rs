//! PodCertificateRequests: what a kubelet asks a signer for on behalf of a pod.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gox509::{CertificateRequest, Curve, PublicKey};
use object::{BadValue, Cursor, Errors, Meta, Value, labels, names};
use registry::{Context, Facts, FieldRefusal, Strategy};

use super::issued;
use super::possession::Possession;
use crate::common::checks::{Checks, IMMUTABLE};
use crate::common::pod_spec::projected::user_annotations;
use crate::common::{conditions, internal, metadata, signers, versioned};

const UID_MAX_BYTES: usize = 128;
const REQUEST_MAX_BYTES: usize = 10 * 1024;
const EXPIRATION_MIN: i64 = 60 * 60;
const EXPIRATION_MAX: i64 = 91 * 24 * 60 * 60;
const EXPIRATION_MAX_FOR_KUBERNETES: i64 = 24 * 60 * 60;
const STATUS: &str = "io.k8s.api.certificates.v1.PodCertificateRequestStatus";
const KNOWN: [&str; 3] = ["Issued", "Denied", "Failed"];

pub struct PodCertificateRequest;

const FACTS: Facts = Facts {
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    selects_by_namespace: false,
    selectable_fields: object::strs!["spec.signerName", "spec.podName", "spec.nodeName"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITH_STATUS
};

impl Strategy for PodCertificateRequest {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let spec = object.field("spec");
        signers::signer_name(&spec.field("signerName"), errors);
        user_annotations(&spec.field("unverifiedUserAnnotations"), errors);
        for (name, uid) in [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
        {
            spec.field(name).check_name(errors, names::name_is_dns_subdomain);
            let uid = spec.field(uid);
            if uid.is_empty() {
                uid.bad(errors, "must not be empty");
            }
            if uid.str().len() > UID_MAX_BYTES {
                errors.too_long(uid.path(), UID_MAX_BYTES);
            }
        }
        let expiration = spec.field("maxExpirationSeconds");
        let Some(seconds) = expiration.opt_int() else { return expiration.required(errors, "must be set") };
        let is_ours = signers::is_kubernetes_signer(spec.field("signerName").str());
        let max = if is_ours { EXPIRATION_MAX_FOR_KUBERNETES } else { EXPIRATION_MAX };
        if !(EXPIRATION_MIN..=max).contains(&seconds) {
            expiration.invalid(errors, format!("must be in the range [{EXPIRATION_MIN}, {max}]"));
        }
        validate_request(&spec, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let spec = new.field("spec");
        if !versioned::same(
            "io.k8s.api.certificates.v1.PodCertificateRequestSpec",
            spec.value(),
            old.field("spec").value(),
        ) {
            spec.invalid_as(errors, internal::shown("PodCertificateRequestSpec", spec.value()), IMMUTABLE);
        }
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        let before = errors.len();
        validate_conditions(&status.field("conditions"), errors);
        conditions::validate(&status.field("conditions"), errors);
        if errors.len() > before {
            return;
        }
        let has = |object: &Cursor, kinds: &[&str]| {
            object.at(&["status", "conditions"]).each().any(|c| kinds.contains(&c.field("type").str()))
        };
        let changed = !versioned::same(STATUS, status.value(), old.field("status").value());
        let (wrong, detail) = match () {
            () if has(old, &KNOWN) => (changed, "immutable after PodCertificateRequest is issued, denied, or failed"),
            () if has(new, &["Denied", "Failed"]) => (
                status.value().as_map().is_some_and(|map| map.len() > 1),
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest",
            ),
            () if has(new, &["Issued"]) => return issued::validate(cx.now, new, errors),
            () => (changed, r#"status is immutable unless transitioning to "Issued", "Denied", or "Failed""#),
        };
        if wrong {
            status.invalid_as(errors, BadValue::Omitted, detail);
        }
    }

    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        let mut types = object.list_at(&["status", "conditions"]).iter().map(|condition| condition.str_at(&["type"]));
        let state = types.rfind(|kind| KNOWN.contains(kind)).unwrap_or("Pending");
        let annotations = object.at(&["spec", "unverifiedUserAnnotations"]).as_map();
        let annotations = annotations.into_iter().flat_map(|map| map.iter());
        let annotations = labels::format_labels(annotations.map(|(key, value)| (key, value.as_str().unwrap_or(""))));
        let mut cells = vec![Value::from(object.name())];
        for field in ["podName", "serviceAccountName", "nodeName", "signerName"] {
            cells.push(object.str_at(&["spec", field]).into());
        }
        cells.extend([Value::from(state), Value::from(labels::cell(annotations))]);
        cells
    }
}

fn validate_request(spec: &Cursor, errors: &mut Errors) {
    let [stub, key, proof] = ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|field| spec.field(field));
    let decoded = |field: &Cursor| STANDARD.decode(field.str()).unwrap_or_default();
    match (stub.is_empty(), key.is_empty(), proof.is_empty()) {
        (false, true, true) => validate_stub(&stub, &decoded(&stub), errors),
        (true, false, false) => {
            for field in [&key, &proof] {
                if decoded(field).len() > REQUEST_MAX_BYTES {
                    return errors.too_long(field.path(), REQUEST_MAX_BYTES);
                }
            }
            let (key_bytes, proof_bytes) = (decoded(&key), decoded(&proof));
            let possession = Possession { key: &key_bytes, proof: &proof_bytes, uid: spec.field("podUID").str() };
            possession.validate(&key, &proof, errors);
        }
        _ => {
            let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            errors.invalid(spec.path(), BadValue::Omitted, detail);
        }
    }
}

fn validate_stub(stub: &Cursor, der: &[u8], errors: &mut Errors) {
    if der.len() > REQUEST_MAX_BYTES {
        return errors.too_long(stub.path(), REQUEST_MAX_BYTES);
    }
    let Ok(request) = CertificateRequest::parse(der) else {
        return stub.invalid_as(errors, BadValue::Omitted, "must be a valid PKCS#10 CSR");
    };
    match &request.key {
        Some(PublicKey::Rsa { modulus, .. }) if ![3072, 4096].contains(&(8 * modulus.len())) => {
            let detail = "RSA keys must have modulus size 3072 or 4096";
            return stub.invalid_as(errors, format!("{}-bit modulus", 8 * modulus.len()), detail);
        }
        Some(PublicKey::Ec { curve: Curve::P224, .. }) => {
            let detail = "elliptic public keys must use curve P256, P384, or P521";
            return stub.invalid_as(errors, "curve P-224", detail);
        }
        Some(PublicKey::Rsa { .. } | PublicKey::Ec { .. } | PublicKey::Ed25519(_)) => {}
        Some(PublicKey::X25519 | PublicKey::Dsa) | None => {
            let detail = "unknown public key type; supported types are Ed25519, ECDSA, and RSA";
            return stub.invalid_as(errors, BadValue::Omitted, detail);
        }
    }
    if request.check_signature().is_err() {
        stub.invalid_as(errors, BadValue::Omitted, "invalid signature");
    }
}

fn validate_conditions(conditions: &Cursor, errors: &mut Errors) {
    let mut known = 0;
    for (i, condition) in conditions.each().enumerate() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        // Upstream writes the index as if it were a field.
        let at = |field: &str| conditions.path().field(&format!("[{i}]")).field(field);
        if !KNOWN.contains(&kind.str()) {
            errors.not_supported(&at("type"), kind.str(), &KNOWN);
            continue;
        }
        known += 1;
        if known > 1 {
            let detail = r#"There may be at most one condition with type "Issued", "Denied", or "Failed""#;
            errors.invalid(&at("type"), kind.str(), detail);
        }
        if status.str() != "True" {
            errors.not_supported(&at("status"), status.str(), &["True"]);
        }
    }
}
