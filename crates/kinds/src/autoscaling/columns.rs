//! The cells of an autoscaler's row.

use object::{Meta, Value};
use registry::{Context, columns};

const SHOWN_METRICS: usize = 2;

pub fn cells(cx: &Context, object: &Value) -> Vec<Value> {
    let target = object.at(&["spec", "scaleTargetRef"]);
    let min = object.at(&["spec", "minReplicas"]).as_int().map_or("<unset>".to_string(), |min| min.to_string());
    let number = |path: &[&str]| Value::from(object.at(path).as_int().unwrap_or(0));
    vec![
        object.name().into(),
        format!("{}/{}", target.str_at(&["kind"]), target.str_at(&["name"])).into(),
        targets(object).into(),
        min.into(),
        number(&["spec", "maxReplicas"]),
        number(&["status", "currentReplicas"]),
        columns::age(cx, object),
    ]
}

/// What is measured against what is aimed at, for the first metrics.
fn targets(object: &Value) -> String {
    let metrics = object.list_at(&["spec", "metrics"]);
    let current = object.list_at(&["status", "currentMetrics"]);
    if metrics.is_empty() {
        return "<none>".to_string();
    }
    let shown = metrics.iter().enumerate().take(SHOWN_METRICS);
    let shown: Vec<String> = shown.map(|(i, metric)| target(metric, current.get(i).unwrap_or(&Value::Null))).collect();
    match metrics.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} + {more} more...", shown.join(", ")),
    }
}

fn target(metric: &Value, status: &Value) -> String {
    match metric.str_at(&["type"]) {
        "External" => value_or_average(metric.field("external"), status.field("external")),
        "Object" => value_or_average(metric.field("object"), status.field("object")),
        "Pods" => {
            let aim = amount(metric.at(&["pods", "target", "averageValue"]));
            format!("{}/{aim}", measured(status.field("pods"), "averageValue"))
        }
        "Resource" => resource(metric.field("resource"), status.field("resource")),
        "ContainerResource" => resource(metric.field("containerResource"), status.field("containerResource")),
        _ => "<unknown type>".to_string(),
    }
}

fn value_or_average(source: &Value, status: &Value) -> String {
    let average = source.at(&["target", "averageValue"]);
    if average.is_null() {
        return format!("{}/{}", measured(status, "value"), amount(source.at(&["target", "value"])));
    }
    let current = match status.at(&["current", "averageValue"]) {
        Value::Null => "<unknown>".to_string(),
        value => amount(value),
    };
    format!("{current}/{} (avg)", amount(average))
}

fn resource(source: &Value, status: &Value) -> String {
    let (name, average) = (source.str_at(&["name"]), source.at(&["target", "averageValue"]));
    if !average.is_null() {
        return format!("{name}: {}/{}", measured(status, "averageValue"), amount(average));
    }
    let percent = |value: &Value, none: &str| value.as_int().map_or(none.to_string(), |percent| format!("{percent}%"));
    let current = percent(status.at(&["current", "averageUtilization"]), "<unknown>");
    format!("{name}: {current}/{}", percent(source.at(&["target", "averageUtilization"]), "<auto>"))
}

/// What the status says of a metric; a status without the number is shown as Go prints nothing.
fn measured(status: &Value, field: &str) -> String {
    if status.is_null() { "<unknown>".to_string() } else { amount(status.at(&["current", field])) }
}

fn amount(value: &Value) -> String {
    value.as_str().unwrap_or("<nil>").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[test]
    fn targets_are_shown_beside_what_is_measured() {
        let cpu = "{type: Resource, resource: {name: cpu, target: {averageUtilization: 80}}}";
        let cases = [
            ("{}".to_string(), "<none>"),
            (format!("{{spec: {{metrics: [{cpu}]}}}}"), "cpu: <unknown>/80%"),
            (
                format!("{{spec: {{metrics: [{cpu}]}}, status: {{currentMetrics: [{{type: Resource, resource: {{name: cpu, current: {{averageUtilization: 0}}}}}}]}}}}"),
                "cpu: 0%/80%",
            ),
            (format!("{{spec: {{metrics: [{cpu}, {cpu}, {cpu}]}}}}"), "cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more..."),
            (
                "{spec: {metrics: [{type: External, external: {target: {averageValue: '5'}}}, {type: Object, object: {target: {value: 10k}}}]}, \
                 status: {currentMetrics: [{external: {current: {averageValue: '3'}}}, {object: {current: {value: '2'}}}]}}"
                    .to_string(),
                "3/5 (avg), 2/10k",
            ),
            (
                "{spec: {metrics: [{type: Pods, pods: {target: {averageValue: 1}}}, {type: Odd}]}}".replace("averageValue: 1", "averageValue: '1'"),
                "<unknown>/1, <unknown type>",
            ),
        ];
        for (object, want) in cases {
            assert_eq!(targets(&yaml(&object)), want, "{object}");
        }
    }
}
