//! IngressClasses: which controller serves an Ingress.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{Checks, immutable_text};
use crate::common::{problems, versioned};

const CONTROLLER_MAX_BYTES: usize = 250;
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

pub struct IngressClass;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    generation: Some(|new, old| {
        !versioned::same("io.k8s.api.networking.v1.IngressClassSpec", new.field("spec"), old.field("spec"))
    }),
    ..Facts::WITHOUT_STATUS
};

impl Strategy for IngressClass {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let controller = object.at(&["spec", "controller"]);
        if controller.str().len() > CONTROLLER_MAX_BYTES {
            errors.too_long(controller.path(), CONTROLLER_MAX_BYTES);
        }
        problems::report(&controller, names::domain_prefixed_path(controller.str()), errors);
        let parameters = object.at(&["spec", "parameters"]);
        if parameters.is_set() {
            validate_parameters(&parameters, errors);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        immutable_text(&new.at(&["spec", "controller"]), &old.at(&["spec", "controller"]), errors);
        self.validate(cx, new, errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let default = if object.annotation(IS_DEFAULT) == Some("true") { " (default)" } else { "" };
        let name = format!("{}{default}", object.name());
        let controller = object.str_at(&["spec", "controller"]);
        vec![name.into(), controller.into(), parameters_cell(object).into(), columns::age(cx, object)]
    }
}

fn validate_parameters(parameters: &Cursor, errors: &mut Errors) {
    let (kind, name) = (parameters.field("kind"), parameters.field("name"));
    if parameters.field("apiGroup").is_set() {
        parameters.field("apiGroup").check(errors, names::dns1123_subdomain);
    }
    kind.check(errors, names::path_segment_name);
    name.check(errors, names::path_segment_name);
    validate_scope(parameters, errors);
    kind.require(errors);
    name.require(errors);
}

fn validate_scope(parameters: &Cursor, errors: &mut Errors) {
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.opt_str() {
        None => scope.required(errors, ""),
        Some("Namespace") if !namespace.is_set() => {
            namespace.required(errors, "`parameters.scope` is set to 'Namespace'");
        }
        Some("Namespace") => namespace.check_name(errors, names::name_is_dns_label),
        Some("Cluster") if namespace.is_set() => {
            namespace.forbidden(errors, "`parameters.scope` is set to 'Cluster'");
        }
        Some("Cluster") => {}
        Some(_) => scope.not_supported(errors, &["Cluster", "Namespace"]),
    }
}

fn parameters_cell(object: &Value) -> String {
    let parameters = object.at(&["spec", "parameters"]);
    if parameters.is_null() {
        return "<none>".to_string();
    }
    let group = parameters.field("apiGroup").as_str().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", parameters.str_at(&["kind"]), parameters.str_at(&["name"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn parameters_are_checked() {
        let check = Check::new(IngressClass, "{metadata: {name: a}, spec: {controller: example.com/c}}");
        check.create(&[
            ("", ""),
            ("spec: {controller: null}", "spec.controller: Required value"),
            (
                "spec: {parameters: {scope: Cluster, namespace: a}}",
                "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'
                 spec.parameters.kind: Required value
                 spec.parameters.name: Required value",
            ),
        ]);
        check.update(&[(
            "",
            "spec: {controller: example.com/d}",
            "spec.controller: Invalid value: \"example.com/d\": field is immutable",
        )]);
        check.cells(&[("spec: {parameters: {apiGroup: g, kind: K, name: x}}", "a example.com/c K.g/x <unknown>")]);
    }
}
