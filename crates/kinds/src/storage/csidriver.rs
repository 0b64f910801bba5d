//! CSI drivers: what a storage driver can do and wants from Kubernetes.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, Strategy, columns};

use super::require_flag;
use crate::common::checks::{Checks, IMMUTABLE, same};
use crate::common::versioned;

const SPEC: &str = "io.k8s.api.storage.v1.CSIDriverSpec";
const TOKEN_MIN_SECONDS: i64 = 10 * 60;
const TOKEN_MAX_SECONDS: i64 = 1 << 32;
const UPDATE_PERIOD_MIN_SECONDS: i64 = 10;
/// Fields with the features they need.
const GATED: [(&str, &str); 4] = [
    ("seLinuxMount", "SELinuxMountReadWriteOncePod"),
    ("nodeAllocatableUpdatePeriodSeconds", "MutableCSINodeAllocatableCount"),
    ("serviceAccountTokenInSecrets", "CSIServiceAccountTokenSecrets"),
    ("preventPodSchedulingIfMissing", "VolumeLimitScaling"),
];
const TOKENS_IN_SECRETS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true \
                                 to prevent possible logging of tokens in volume attributes";

pub struct CsiDriver;

const FACTS: Facts =
    Facts { allows_unconditional_update: false, returns_deleted_object: true, ..Facts::WITHOUT_STATUS };

impl Strategy for CsiDriver {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        if object.list_at(&["spec", "volumeLifecycleModes"]).is_empty() {
            object.set(&["spec", "volumeLifecycleModes"], vec!["Persistent"]);
        }
        // It goes again when its feature is off.
        object.set_default(&["spec", "preventPodSchedulingIfMissing"], false);
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        drop_disabled(cx, object, &Value::Null);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(cx, new, old);
        // Drivers start without a generation, and the first change makes it 1.
        if !versioned::same(SPEC, new.field("spec"), old.field("spec")) {
            new.set_generation(old.generation() + 1);
        }
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(cx, &object.field("spec"), errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (spec, old) = (new.field("spec"), old.field("spec"));
        validate_spec(cx, &spec, errors);
        let attach = spec.field("attachRequired");
        if attach.value() != old.field("attachRequired").value() {
            errors.invalid(&spec.path().field("attachedRequired"), attach.value().clone(), IMMUTABLE);
        }
        let modes = spec.field("volumeLifecycleModes");
        if !same(modes.value(), old.field("volumeLifecycleModes").value()) {
            modes.invalid(errors, IMMUTABLE);
        }
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let tokens = |object: &Value| object.at(&["spec", "tokenRequests"]).clone();
        let new = tokens(object);
        let recommend = cx.features.enabled("CSIServiceAccountTokenSecrets")
            && new.as_list().is_some_and(|list| !list.is_empty())
            && object.at(&["spec", "serviceAccountTokenInSecrets"]).is_null()
            && old.is_none_or(|old| !same(&new, &tokens(old)));
        if recommend { vec![TOKENS_IN_SECRETS.to_string()] } else { Vec::new() }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let flag = |field, default| Value::from(object.at(&["spec", field]).as_bool().unwrap_or(default));
        let join = |texts: Vec<&str>| texts.join(",");
        let modes = join(object.list_at(&["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str).collect());
        let audiences = match object.at(&["spec", "tokenRequests"]).as_list() {
            None | Some([]) => "<unset>".to_string(),
            Some(requests) => join(requests.iter().map(|request| request.str_at(&["audience"])).collect()),
        };
        vec![
            object.name().into(),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            audiences.into(),
            flag("requiresRepublish", false),
            if modes.is_empty() { "<none>".into() } else { modes.into() },
            columns::age(cx, object),
        ]
    }
}

fn drop_disabled(cx: &Context, new: &mut Value, old: &Value) {
    for (field, feature) in GATED {
        if !cx.features.enabled(feature) && old.at(&["spec", field]).is_null() {
            new.remove(&["spec", field]);
        }
    }
}

fn validate_spec(cx: &Context, spec: &Cursor, errors: &mut Errors) {
    require_flag(spec, "attachRequired", "attachedRequired", errors);
    require_flag(spec, "podInfoOnMount", "podInfoOnMount", errors);
    require_flag(spec, "storageCapacity", "storageCapacity", errors);
    spec.field("fsGroupPolicy").optional_one_of(errors, &["File", "None", "ReadWriteOnceWithFSType"]);
    validate_token_requests(&spec.field("tokenRequests"), errors);
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.strs().filter(|mode| !matches!(*mode, "Persistent" | "Ephemeral")) {
        errors.not_supported(modes.path(), mode, &["Persistent", "Ephemeral"]);
    }
    if cx.features.enabled("SELinuxMountReadWriteOncePod") {
        require_flag(spec, "seLinuxMount", "seLinuxMount", errors);
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.opt_int().is_some_and(|seconds| seconds < UPDATE_PERIOD_MIN_SECONDS) {
        period.invalid(errors, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && spec.field("tokenRequests").is_empty() {
        in_secrets.invalid(errors, "serviceAccountTokenInSecrets is set but no tokenRequests are specified");
    }
    if cx.features.enabled("VolumeLimitScaling") {
        require_flag(spec, "preventPodSchedulingIfMissing", "preventPodSchedulingIfMissing", errors);
    }
}

/// One token for each audience, and one without.
fn validate_token_requests(requests: &Cursor, errors: &mut Errors) {
    let mut audiences = BTreeSet::new();
    for request in requests.each() {
        let (audience, expiration) = (request.field("audience"), request.field("expirationSeconds"));
        if !audiences.insert(audience.str()) {
            errors.duplicate(audience.path(), audience.str());
            continue;
        }
        let Some(seconds) = expiration.opt_int() else { continue };
        if seconds < TOKEN_MIN_SECONDS {
            expiration.invalid(errors, "may not specify a duration less than 10 minutes");
        }
        if seconds > TOKEN_MAX_SECONDS {
            expiration.invalid(errors, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            CsiDriver,
            "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: a}, spec: {attachRequired: true, \
             podInfoOnMount: false, storageCapacity: false, seLinuxMount: false, fsGroupPolicy: File}}",
        )
    }

    #[test]
    fn specs_are_checked() {
        check().create(&[
            ("", ""),
            (
                "spec: {fsGroupPolicy: Some}",
                r#"spec.fsGroupPolicy: Unsupported value: "Some": supported values: "File", "None", "ReadWriteOnceWithFSType""#,
            ),
            (
                "spec: {tokenRequests: [{audience: a, expirationSeconds: 599}, {audience: a, expirationSeconds: 1}, {audience: '', expirationSeconds: 4294967297}]}",
                r#"spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes
                   spec.tokenRequests[1].audience: Duplicate value: "a"
                   spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"#,
            ),
            (
                "spec: {volumeLifecycleModes: [Persistent, Forever], nodeAllocatableUpdatePeriodSeconds: 9, serviceAccountTokenInSecrets: true}",
                r#"spec.volumeLifecycleModes: Unsupported value: "Forever": supported values: "Persistent", "Ephemeral"
                   spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds
                   spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified"#,
            ),
        ]);
    }

    #[test]
    fn attachment_and_lifecycle_stay() {
        check().update(&[
            ("", "spec: {podInfoOnMount: true}", ""),
            (
                "",
                "spec: {attachRequired: false, volumeLifecycleModes: [Persistent, Ephemeral]}",
                r#"spec.attachedRequired: Invalid value: false: field is immutable
                   spec.volumeLifecycleModes: Invalid value: ["Persistent","Ephemeral"]: field is immutable"#,
            ),
        ]);
    }

    #[test]
    fn generations_count_changes_from_none() {
        let changed = check().try_update("", "spec: {podInfoOnMount: true}").unwrap();
        assert_eq!(changed.generation(), 1);
        assert_eq!(check().try_update("", "metadata: {labels: {a: b}}").unwrap().generation(), 0);
    }

    #[test]
    fn tokens_in_volume_context_are_warned_about() {
        check().warnings(&[
            ("", &[]),
            ("spec: {tokenRequests: [{audience: a}]}", &[TOKENS_IN_SECRETS]),
            ("spec: {tokenRequests: [{audience: a}], serviceAccountTokenInSecrets: false}", &[]),
        ]);
    }

    #[test]
    fn cells_show_what_it_can_do() {
        check().cells(&[
            ("", "a true false false <unset> false Persistent <unknown>"),
            (
                "spec: {tokenRequests: [{audience: a}, {audience: b}]}",
                "a true false false a,b false Persistent <unknown>",
            ),
        ]);
    }
}
