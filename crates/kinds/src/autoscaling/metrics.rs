//! What an autoscaler measures, and what it aims at.

use object::{Cursor, Errors, names};

use super::horizontalpodautoscaler::{Reference, validate_reference};
use crate::common::checks::Checks;
use crate::common::resources::container_resource_name;

const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
/// The field of each type, in the order upstream looks for them.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

/// Checks the metrics of an autoscaler. Pods themselves cannot be measured when there are none.
pub fn validate(metrics: &Cursor, min_replicas: Option<i64>, described: Reference, errors: &mut Errors) {
    for metric in metrics.each() {
        validate_metric(&metric, described, errors);
    }
    let outside = |metric: Cursor| matches!(metric.field("type").str(), "Object" | "External");
    if min_replicas == Some(0) && !metrics.each().any(outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        metrics.forbidden(errors, detail);
    }
}

fn validate_metric(metric: &Cursor, described: Reference, errors: &mut Errors) {
    let kind = metric.field("type");
    kind.must_be_set(errors, "must specify a metric source type");
    kind.one_of(errors, &TYPES);
    let present: Vec<&str> = SOURCES.iter().map(|(_, field)| *field).filter(|f| metric.field(f).is_set()).collect();
    if let Some(first) = present.first() {
        validate_source(&metric.field(first), first, described, errors);
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind.str()).map(|(_, field)| *field);
    match expected {
        Some(field) if !metric.field(field).is_set() => {
            metric.field(field).required(errors, "must populate information for the given metric source");
        }
        Some(_) => {}
        None => {
            kind.one_of(errors, &TYPES);
        }
    }
    if present.len() > 1 {
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            metric.field(field).forbidden(errors, "must populate the given metric source only");
        }
    }
}

fn validate_source(source: &Cursor, kind: &str, described: Reference, errors: &mut Errors) {
    let target = source.field("target");
    match kind {
        "object" => {
            validate_reference(&source.field("describedObject"), described, errors);
            validate_name(&source.at(&["metric", "name"]), errors);
        }
        "external" | "pods" => validate_name(&source.at(&["metric", "name"]), errors),
        _ => {
            let name = source.field("name");
            if name.must_be_set(errors, "must specify a resource name") && kind == "containerResource" {
                container_resource_name(name.str(), name.path(), errors);
            }
        }
    }
    if kind == "containerResource" {
        let container = source.field("container");
        if container.must_be_set(errors, "must specify a container") {
            container.check(errors, names::dns1123_label);
        }
    }
    validate_target(&target, errors);
    validate_aims(&target, kind, errors);
}

fn validate_name(name: &Cursor, errors: &mut Errors) {
    if name.must_be_set(errors, "must specify a metric name") {
        name.check(errors, names::path_segment_name);
    }
}

fn validate_target(target: &Cursor, errors: &mut Errors) {
    let kind = target.field("type");
    kind.must_be_set(errors, "must specify a metric target type");
    if !matches!(kind.str(), "Utilization" | "Value" | "AverageValue") {
        kind.bad(errors, "must be either Utilization, Value, or AverageValue");
    }
    for amount in [target.field("value"), target.field("averageValue")] {
        if amount.is_set() && amount.quantity().signum() != 1 {
            amount.invalid(errors, "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.opt_int().is_some_and(|percent| percent < 1) {
        utilization.invalid(errors, "must be greater than 0");
    }
}

/// Each source can be aimed at some of the three numbers, and at one of them at a time.
fn validate_aims(target: &Cursor, kind: &str, errors: &mut Errors) {
    let (value, average) = (target.field("value"), target.field("averageValue"));
    let utilization = target.field("averageUtilization");
    match kind {
        "object" if !value.is_set() && !average.is_set() => {
            average.required(errors, "must set either a target value or averageValue");
        }
        "external" if !value.is_set() && !average.is_set() => {
            average.required(errors, "must set either a target value for metric or a per-pod target");
        }
        "external" if value.is_set() && average.is_set() => {
            value.forbidden(errors, "may not set both a target value for metric and a per-pod target");
        }
        "pods" if !average.is_set() => {
            average.required(errors, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" => match (utilization.is_set(), average.is_set()) {
            (false, false) => {
                utilization.required(errors, "must set either a target raw value or a target utilization")
            }
            (true, true) => average.forbidden(errors, "may not set both a target raw value and a target utilization"),
            _ => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use object::{Path, Value};

    use super::*;
    use crate::check::yaml;

    #[track_caller]
    fn check(metric: &str, want: &[&str]) {
        let metrics = Value::List(vec![yaml(metric)]);
        let mut errors = Errors::new();
        validate(&Cursor::new(&metrics, Path::of("m")), Some(1), Reference::CoreToo, &mut errors);
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, want, "{metric}");
    }

    #[test]
    fn sources_fit_their_type() {
        let unsupported = r#"supported values: "ContainerResource", "External", "Object", "Pods", "Resource""#;
        check(
            "{}",
            &[
                "m[0].type: Required value: must specify a metric source type",
                &format!(r#"m[0].type: Unsupported value: "": {unsupported}"#),
                &format!(r#"m[0].type: Unsupported value: "": {unsupported}"#),
            ],
        );
        check(
            "{type: Pods, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}",
            &["m[0].pods: Required value: must populate information for the given metric source"],
        );
        check(
            "{type: Pods, pods: {metric: {name: x}, target: {type: AverageValue, averageValue: '1'}}, resource: {}}",
            &["m[0].resource: Forbidden: must populate the given metric source only"],
        );
    }

    #[test]
    fn targets_fit_their_source() {
        check(
            "{type: Resource, resource: {name: '', target: {type: Most, averageUtilization: 0, averageValue: '0'}}}",
            &[
                "m[0].resource.name: Required value: must specify a resource name",
                r#"m[0].resource.target.type: Invalid value: "Most": must be either Utilization, Value, or AverageValue"#,
                r#"m[0].resource.target.averageValue: Invalid value: "0": must be positive"#,
                "m[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "m[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
            ],
        );
        check(
            "{type: ContainerResource, containerResource: {name: cpu, target: {type: Utilization}}}",
            &[
                "m[0].containerResource.container: Required value: must specify a container",
                "m[0].containerResource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
            ],
        );
        check(
            "{type: External, external: {metric: {name: a%b}, target: {type: Value, value: '1', averageValue: '1'}}}",
            &[
                r#"m[0].external.metric.name: Invalid value: "a%b": may not contain '%'"#,
                "m[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target",
            ],
        );
        check(
            "{type: Object, object: {describedObject: {kind: K, name: x, apiVersion: v1}, metric: {name: y}, target: {type: Value}}}",
            &["m[0].object.target.averageValue: Required value: must set either a target value or averageValue"],
        );
        check(
            "{type: Pods, pods: {metric: {}, target: {type: AverageValue}}}",
            &[
                "m[0].pods.metric.name: Required value: must specify a metric name",
                "m[0].pods.target.averageValue: Required value: must specify a positive target averageValue",
            ],
        );
    }
}
