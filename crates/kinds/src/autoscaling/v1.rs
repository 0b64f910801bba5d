//! autoscaling/v1, which knows a target for CPU and nothing else: the rest of what is stored stands in annotations.
//!
//! Annotations that cannot be read are dropped, as upstream does: the object is then what its fields say.

use codec::Notes;
use object::{Map, Meta, Value, value};
use registry::Convert;
use schema::{Schema, builtin};

use super::annotations::{self, BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS};
use super::horizontalpodautoscaler::{DEFAULT_CPU_UTILIZATION, cpu_utilization};
use crate::common::internal;

/// Between autoscaling/v1 and what is stored, autoscaling/v2.
pub struct Autoscaling;

impl Convert for Autoscaling {
    fn to_storage(&self, mut object: Value) -> Result<Value, String> {
        let told = |key: &str| object.annotation(key).and_then(parse);
        let (others, behavior) = (told(METRICS), told(BEHAVIOR));
        let (current, conditions) = (told(CURRENT_METRICS), told(CONDITIONS));
        let cpu = take_number(&mut object, &["spec", "targetCPUUtilizationPercentage"]);
        let current_cpu = take_number(&mut object, &["status", "currentCPUUtilizationPercentage"]);

        let mut metrics = others.and_then(|list| metrics_from_v1(&list)).unwrap_or_default();
        metrics.extend(cpu.map(cpu_utilization));
        if metrics.is_empty() {
            metrics.push(cpu_utilization(DEFAULT_CPU_UTILIZATION));
        }
        object.set(&["spec", "metrics"], metrics);
        if let Some(behavior) = behavior.and_then(|behavior| behavior_from_internal(&behavior)) {
            object.set(&["spec", "behavior"], behavior);
        }
        let measured = current_cpu.map(|percent| {
            vec![value!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}})]
        });
        if let Some(current) = current.and_then(|list| statuses_from_v1(&list)).or(measured) {
            object.set(&["status", "currentMetrics"], current);
        }
        let as_stored = |list: Value| typed(value!({"status": {"conditions": list}}), &["status", "conditions"]);
        if let Some(conditions) = conditions.and_then(as_stored) {
            object.set(&["status", "conditions"], conditions);
        }
        annotations::drop(&mut object);
        object.set(&["apiVersion"], "autoscaling/v2");
        Ok(object)
    }

    fn from_storage(&self, mut object: Value) -> Result<Value, String> {
        annotations::drop(&mut object);
        let taken = |object: &mut Value, path: &[&str]| object.remove(path).filter(|value| !value.is_null());
        let metrics = taken(&mut object, &["spec", "metrics"]).unwrap_or_default();
        let metrics = metrics.as_list().unwrap_or(&[]);
        if let Some(percent) = metrics.iter().find_map(cpu_target) {
            object.set(&["spec", "targetCPUUtilizationPercentage"], percent);
        }
        let others: Vec<Value> = metrics.iter().filter(|m| cpu_target(m).is_none()).map(metric_to_v1).collect();
        annotate(&mut object, METRICS, "[]V1MetricSpec", others);

        let current = taken(&mut object, &["status", "currentMetrics"]).unwrap_or_default();
        let current = current.as_list().unwrap_or(&[]);
        if let Some(percent) = current.iter().rev().find_map(cpu_status) {
            object.set(&["status", "currentCPUUtilizationPercentage"], percent);
        }
        annotate(&mut object, CURRENT_METRICS, "[]V1MetricStatus", current.iter().map(status_to_v1).collect());

        if let Some(behavior) = taken(&mut object, &["spec", "behavior"]) {
            let text = internal::compact("HorizontalPodAutoscalerBehavior", &behavior);
            object.set_annotation(BEHAVIOR, &text);
        }
        let conditions = taken(&mut object, &["status", "conditions"]).unwrap_or_default();
        let conditions = conditions.as_list().unwrap_or(&[]).to_vec();
        annotate(&mut object, CONDITIONS, "[]V1HorizontalPodAutoscalerCondition", conditions);
        object.set(&["apiVersion"], "autoscaling/v1");
        Ok(object)
    }
}

fn take_number(object: &mut Value, path: &[&str]) -> Option<i64> {
    object.remove(path)?.as_int()
}

fn annotate(object: &mut Value, key: &str, type_name: &'static str, list: Vec<Value>) {
    if !list.is_empty() {
        let text = internal::compact(type_name, &Value::List(list));
        object.set_annotation(key, &text);
    }
}

/// The JSON in an annotation, if it is any.
fn parse(text: &str) -> Option<Value> {
    codec::json::decode(text.as_bytes(), None, &mut Notes::default()).ok()
}

/// The part of a v2 object at `path`, as decoding it would leave it; none if it could not be decoded.
fn typed(object: Value, path: &[&str]) -> Option<Value> {
    let kind = builtin().kind("autoscaling", "v2", "HorizontalPodAutoscaler")?;
    let schema = Schema::new(builtin().types(), &kind.node);
    let mut decoded = codec::json::coerce(&object, Some(schema), &mut Notes::default()).ok()?;
    decoded.remove(path)
}

/// The target for the use of CPU, if that is what the metric is.
fn cpu_target(metric: &Value) -> Option<i64> {
    let is_cpu = metric.str_at(&["type"]) == "Resource" && metric.str_at(&["resource", "name"]) == "cpu";
    metric.at(&["resource", "target", "averageUtilization"]).as_int().filter(|_| is_cpu)
}

fn cpu_status(metric: &Value) -> Option<i64> {
    let is_cpu = metric.str_at(&["type"]) == "Resource" && metric.str_at(&["resource", "name"]) == "cpu";
    metric.at(&["resource", "current", "averageUtilization"]).as_int().filter(|_| is_cpu)
}

/// A map of the fields that are there.
fn fields<const N: usize>(fields: [(&'static str, &Value); N]) -> Value {
    let set = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Map(set.map(|(name, value)| (name, value.clone())).collect::<Map>())
}

/// Each source of a metric, converted; the type and nothing else is kept of one that has none.
fn convert_sources(metric: &Value, convert: impl Fn(&str, &Value) -> Value) -> Value {
    let mut converted = fields([("type", metric.field("type"))]);
    for source in ["object", "pods", "resource", "containerResource", "external"] {
        let value = metric.field(source);
        if !value.is_null() {
            converted.set(&[source], convert(source, value));
        }
    }
    converted
}

fn metric_to_v1(metric: &Value) -> Value {
    convert_sources(metric, |source, m| {
        let target = m.field("target");
        let (value, average) = (target.field("value"), target.field("averageValue"));
        let (name, selector) = (m.at(&["metric", "name"]), m.at(&["metric", "selector"]));
        match source {
            "object" => fields([
                ("target", m.field("describedObject")),
                ("metricName", name),
                ("targetValue", value),
                ("selector", selector),
                ("averageValue", average),
            ]),
            "pods" => fields([("metricName", name), ("targetAverageValue", average), ("selector", selector)]),
            "external" => fields([
                ("metricName", name),
                ("metricSelector", selector),
                ("targetValue", value),
                ("targetAverageValue", average),
            ]),
            _ => fields([
                ("name", m.field("name")),
                ("container", m.field("container")),
                ("targetAverageUtilization", target.field("averageUtilization")),
                ("targetAverageValue", average),
            ]),
        }
    })
}

fn metrics_from_v1(list: &Value) -> Option<Vec<Value>> {
    let metrics: Vec<Value> = list.as_list()?.iter().map(metric_from_v1).collect();
    let metrics = typed(value!({"spec": {"metrics": metrics}}), &["spec", "metrics"])?;
    Some(metrics.as_list()?.to_vec())
}

fn metric_from_v1(metric: &Value) -> Value {
    let zero = Value::from("0");
    let or_zero = |value: &Value| if value.is_null() { zero.clone() } else { value.clone() };
    let metric_of =
        |m: &Value, selector: &str| fields([("name", m.field("metricName")), ("selector", m.field(selector))]);
    convert_sources(metric, |source, m| match source {
        "object" => {
            let (average, value) = (m.field("averageValue"), or_zero(m.field("targetValue")));
            let mut target = fields([("averageValue", average)]);
            target.set(&["type"], if average.is_null() { "Value" } else { "AverageValue" });
            // A target value of zero is what v1 prints when there is none.
            if average.is_null() || !crate::common::checks::quantity(&value).is_zero() {
                target.set(&["value"], value);
            }
            let described = m.field("target").clone();
            value!({"describedObject": described, "metric": (metric_of(m, "selector")), "target": target})
        }
        "pods" => {
            let average = or_zero(m.field("targetAverageValue"));
            let target = value!({"type": "AverageValue", "averageValue": average});
            value!({"metric": (metric_of(m, "selector")), "target": target})
        }
        "external" => {
            let value = m.field("targetValue");
            let mut target = fields([("value", value), ("averageValue", m.field("targetAverageValue"))]);
            target.set(&["type"], if value.is_null() { "AverageValue" } else { "Value" });
            value!({"metric": (metric_of(m, "metricSelector")), "target": target})
        }
        _ => {
            let utilization = m.field("targetAverageUtilization");
            let average = m.field("targetAverageValue");
            let mut target = fields([("averageUtilization", utilization), ("averageValue", average)]);
            target.set(&["type"], if utilization.is_null() { "AverageValue" } else { "Utilization" });
            let mut converted = fields([("name", m.field("name")), ("container", m.field("container"))]);
            converted.set(&["target"], target);
            converted
        }
    })
}

fn status_to_v1(metric: &Value) -> Value {
    convert_sources(metric, |source, m| {
        let current = m.field("current");
        let (value, average) = (current.field("value"), current.field("averageValue"));
        let (name, selector) = (m.at(&["metric", "name"]), m.at(&["metric", "selector"]));
        match source {
            "object" => fields([
                ("target", m.field("describedObject")),
                ("metricName", name),
                ("currentValue", value),
                ("selector", selector),
                ("averageValue", average),
            ]),
            "pods" => fields([("metricName", name), ("currentAverageValue", average), ("selector", selector)]),
            "external" => fields([
                ("metricName", name),
                ("metricSelector", selector),
                ("currentValue", value),
                ("currentAverageValue", average),
            ]),
            _ => fields([
                ("name", m.field("name")),
                ("container", m.field("container")),
                ("currentAverageUtilization", current.field("averageUtilization")),
                ("currentAverageValue", average),
            ]),
        }
    })
}

fn statuses_from_v1(list: &Value) -> Option<Vec<Value>> {
    let statuses: Vec<Value> = list.as_list()?.iter().map(status_from_v1).collect();
    let statuses = typed(value!({"status": {"currentMetrics": statuses}}), &["status", "currentMetrics"])?;
    Some(statuses.as_list()?.to_vec())
}

fn status_from_v1(metric: &Value) -> Value {
    let zero = Value::from("0");
    let or_zero = |value: &Value| if value.is_null() { zero.clone() } else { value.clone() };
    let metric_of =
        |m: &Value, selector: &str| fields([("name", m.field("metricName")), ("selector", m.field(selector))]);
    convert_sources(metric, |source, m| match source {
        "object" => {
            let value = or_zero(m.field("currentValue"));
            let current = fields([("value", &value), ("averageValue", m.field("averageValue"))]);
            let described = m.field("target").clone();
            value!({"describedObject": described, "metric": (metric_of(m, "selector")), "current": current})
        }
        "pods" => {
            let average = or_zero(m.field("currentAverageValue"));
            value!({"metric": (metric_of(m, "selector")), "current": {"averageValue": average}})
        }
        "external" => {
            let value = or_zero(m.field("currentValue"));
            let current = fields([("value", &value), ("averageValue", m.field("currentAverageValue"))]);
            value!({"metric": (metric_of(m, "metricSelector")), "current": current})
        }
        _ => {
            let average = or_zero(m.field("currentAverageValue"));
            let utilization = m.field("currentAverageUtilization");
            let mut converted = fields([("name", m.field("name")), ("container", m.field("container"))]);
            converted.set(&["current"], fields([("averageValue", &average), ("averageUtilization", utilization)]));
            converted
        }
    })
}

/// The annotation holds upstream's internal type, whose field names Go reads in any case.
fn behavior_from_internal(behavior: &Value) -> Option<Value> {
    const NAMES: [&str; 9] = [
        "scaleUp",
        "scaleDown",
        "stabilizationWindowSeconds",
        "selectPolicy",
        "policies",
        "tolerance",
        "type",
        "value",
        "periodSeconds",
    ];
    /// Rules, policies, and their fields: nothing is deeper.
    const DEPTH: usize = 4;
    fn rename(value: &Value, depth: usize) -> Value {
        match value {
            Value::Map(map) if depth > 0 => {
                let known = |key: &str| NAMES.into_iter().find(|name| name.eq_ignore_ascii_case(key));
                let renamed = map.iter().filter_map(|(key, value)| Some((known(key)?, rename(value, depth - 1))));
                Value::Map(renamed.filter(|(_, value)| !value.is_null()).collect())
            }
            Value::List(list) => Value::List(list.iter().map(|item| rename(item, depth)).collect()),
            other => other.clone(),
        }
    }
    let behavior = typed(value!({"spec": {"behavior": (rename(behavior, DEPTH))}}), &["spec", "behavior"])?;
    (!behavior.is_empty()).then_some(behavior)
}

#[cfg(test)]
mod tests;
