//! APIServices: which server answers for a group and version.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::timestamp::Time;
use object::{Cursor, Errors, Meta, Value, names, value};
use registry::{Context, Facts, Strategy, columns, metadata};

use crate::common::checks::Checks;
use crate::common::conditions;

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1000;

pub struct ApiService;

const FACTS: Facts = Facts {
    name: |name, _| names::path_segment_name(name),
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    repeats_metadata_errors: true,
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    ..Facts::WITH_STATUS
};

impl Strategy for ApiService {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        if object.at(&["spec", "service"]).is_null() {
            let mut condition = value!({"type": "Available", "status": "True", "reason": "Local"});
            condition.set(&["lastTransitionTime"], Time(cx.now).to_string());
            condition.set(&["message"], "Local APIServices are always available");
            object.set(&["status", "conditions"], vec![condition]);
        }
    }

    fn validate_name(&self, _cx: &Context, object: &Value, name: &str, _is_prefix: bool) -> Vec<String> {
        let (version, group) = (object.str_at(&["spec", "version"]), object.str_at(&["spec", "group"]));
        let mut problems = names::path_segment_name(name);
        let required = format!("{version}.{group}");
        if problems.is_empty() && name != required {
            problems.push(format!("must be `spec.version+\".\"+spec.group`: {}", object::quote(&required)));
        }
        problems
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let spec = object.field("spec");
        let (group, version) = (spec.field("group"), spec.field("version"));
        if !group.is_empty() {
            group.check(errors, names::dns1123_subdomain);
        } else if version.str() != "v1" {
            group.required(errors, "only v1 may have an empty group and it better be legacy kube");
        }
        version.check(errors, names::dns1035_label);
        for (field, max) in [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)] {
            let field = spec.field(field);
            if !(1..=max).contains(&field.int()) {
                field.invalid_as(errors, field.int(), format!("must be positive and less than {max}"));
            }
        }
        validate_backend(&spec, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        // As a new object, metadata included. The name follows from group and version, so neither of them can change.
        let check_name = |name: &str, is_prefix: bool| self.validate_name(cx, new.value(), name, is_prefix);
        metadata::validate(new, false, &check_name, errors);
        self.validate(cx, new, errors);
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            new.keep(&["metadata", field], old);
        }
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        for condition in new.at(&["status", "conditions"]).each() {
            condition.field("status").one_of(errors, &["True", "False", "Unknown"]);
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let service = object.at(&["spec", "service"]);
        let service = match service {
            Value::Null => "Local".to_string(),
            service => format!("{}/{}", service.str_at(&["namespace"]), service.str_at(&["name"])),
        };
        vec![object.name().into(), service.into(), available_cell(object).into(), columns::age(cx, object)]
    }
}

fn validate_backend(spec: &Cursor, errors: &mut Errors) {
    let (service, bundle, insecure) =
        (spec.field("service"), spec.field("caBundle"), spec.field("insecureSkipTLSVerify"));
    if !service.is_set() {
        if !bundle.is_empty() {
            let bytes = STANDARD.decode(bundle.str()).map_or(0, |bytes| bytes.len());
            bundle.invalid_as(errors, format!("{bytes} bytes"), "local APIServices may not have a caBundle");
        }
        if insecure.bool() {
            insecure.invalid(errors, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    service.field("namespace").require(errors);
    service.field("name").require(errors);
    let port = service.field("port");
    let messages = names::port_number(port.int());
    if !messages.is_empty() {
        port.invalid_as(errors, port.int(), format!("port is not valid: {}", messages.join(", ")));
    }
    if insecure.bool() && !bundle.is_empty() {
        insecure.invalid(errors, "may not be true if caBundle is present");
    }
}

fn available_cell(object: &Value) -> String {
    let Some(condition) = conditions::find(object.list_at(&["status", "conditions"]), "Available") else {
        return "Unknown".to_string();
    };
    let (status, reason) = (condition.str_at(&["status"]), condition.str_at(&["reason"]));
    if status == "True" || reason.is_empty() { status.to_string() } else { format!("{status} ({reason})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn services_are_checked() {
        let check = Check::new(
            ApiService,
            "{metadata: {name: v1.g.io}, spec: {group: g.io, version: v1, groupPriorityMinimum: 9, versionPriority: 9}}",
        );
        check.create(&[
            ("", ""),
            (
                "{metadata: {name: x}, spec: {versionPriority: 1001, service: {port: 0}}}",
                "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"v1.g.io\"
                 spec.versionPriority: Invalid value: 1001: must be positive and less than 1000
                 spec.service.namespace: Required value
                 spec.service.name: Required value
                 spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ),
            (
                "spec: {caBundle: YWI=, insecureSkipTLSVerify: true}",
                "spec.caBundle: Invalid value: \"2 bytes\": local APIServices may not have a caBundle
                 spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ),
        ]);
        check.update(&[(
            "",
            "spec: {version: v2}",
            "metadata.name: Invalid value: \"v1.g.io\": must be `spec.version+\".\"+spec.group`: \"v2.g.io\"",
        )]);
        check.cells(&[(
            "{spec: {service: {namespace: x, name: s}}, status: {conditions: [{type: Available, status: 'False', reason: R}]}}",
            "v1.g.io x/s False (R) <unknown>",
        )]);
    }
}
