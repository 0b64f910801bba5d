//! LimitRanges: the least, the most and the usual amount of resources in a namespace's pods, containers and claims.

use std::collections::{BTreeMap, BTreeSet};

use object::quantity::{Format, Quantity};
use object::timestamp::Time;
use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy};

use crate::common::checks::{Checks, report};
use crate::common::resources;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
/// Above this a quantity has no number of thousandths that fits 64 bits.
const MAX_WITH_MILLIS: i64 = i64::MAX / 1000;

pub struct LimitRange;

const FACTS: Facts =
    Facts { checks_updated_generate_name: true, allows_create_on_update: true, ..Facts::WITHOUT_STATUS };

impl Strategy for LimitRange {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        let limits = object.at_mut(&["spec", "limits"]).and_then(Value::as_list_mut);
        for limit in limits.into_iter().flatten() {
            if limit.str_at(&["type"]) == "Container" {
                fill(limit, "default", "max");
                fill(limit, "defaultRequest", "default");
                fill(limit, "defaultRequest", "min");
            }
        }
    }

    fn prepare_create(&self, _cx: &Context, object: &mut Value) {
        if object.name().is_empty() {
            let uid = object.uid().to_string();
            object.set_meta_str("name", &uid);
        }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let mut types = BTreeSet::new();
        for limit in object.at(&["spec", "limits"]).each() {
            let kind = limit.field("type");
            validate_type(&kind, errors);
            if !types.insert(kind.str()) {
                errors.duplicate(kind.path(), kind.str());
            }
            validate_limit(&limit, kind.str(), errors);
        }
    }

    fn canonicalize(&self, object: &mut Value) {
        // An empty list is none once it is stored, and is shown as null.
        if object.list_at(&["spec", "limits"]).is_empty() {
            object.remove(&["spec", "limits"]);
        }
    }

    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        let created = Time::parse(object.meta_str("creationTimestamp")).map(|time| time.to_string());
        vec![object.name().into(), created.unwrap_or_default().into()]
    }
}

/// Gives every resource of `from` that `to` lacks to `to`.
fn fill(limit: &mut Value, to: &str, from: &str) {
    let Some(source) = limit.field(from).as_map().cloned() else { return };
    let target = limit.make_map().entry(to).make_map();
    for (name, amount) in source {
        if !target.contains_key(&name) {
            target.insert(name, amount);
        }
    }
}

fn validate_type(kind: &Cursor, errors: &mut Errors) {
    let messages = names::label_key(kind.str());
    if !messages.is_empty() {
        report(errors, kind.path(), kind.str(), messages);
    } else if !kind.str().contains('/') && !TYPES.contains(&kind.str()) {
        kind.bad(errors, "must be a standard limit type or fully qualified");
    }
}

fn validate_limit(limit: &Cursor, kind: &str, errors: &mut Errors) {
    let mut amounts = Amounts::default();
    let (max, min) = (limit.field("max"), limit.field("min"));
    amounts.max = named(&max, kind, errors);
    amounts.min = named(&min, kind, errors);
    let (default, request) = (limit.field("default"), limit.field("defaultRequest"));
    if kind == "Pod" {
        for field in [&default, &request].into_iter().filter(|field| !field.is_empty()) {
            field.forbidden(errors, "may not be specified when `type` is 'Pod'");
        }
    } else {
        amounts.default = named(&default, kind, errors);
        amounts.request = named(&request, kind, errors);
    }
    if kind == "PersistentVolumeClaim" && !amounts.min.contains_key("storage") && !amounts.max.contains_key("storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        limit.field("limits").required(errors, detail);
    }
    amounts.ratio = named(&limit.field("maxLimitRequestRatio"), kind, errors);
    amounts.validate(errors);
}

type ByName<'a> = BTreeMap<&'a str, Cursor<'a>>;

/// The entries of a resource list, after a check of their names.
fn named<'a>(list: &Cursor<'a>, kind: &str, errors: &mut Errors) -> ByName<'a> {
    for (name, entry) in list.entries() {
        match kind {
            "Pod" | "Container" => resources::container_resource_name(name, entry.path(), errors),
            _ => resources::name(name, entry.path(), errors),
        }
    }
    list.entries().collect()
}

/// What one limit says about each resource.
#[derive(Default)]
struct Amounts<'a> {
    max: ByName<'a>,
    min: ByName<'a>,
    default: ByName<'a>,
    request: ByName<'a>,
    ratio: ByName<'a>,
}

impl Amounts<'_> {
    fn validate(&self, errors: &mut Errors) {
        let all = [&self.max, &self.min, &self.default, &self.request, &self.ratio];
        let names: BTreeSet<&str> = all.iter().flat_map(|list| list.keys().copied()).collect();
        for name in names {
            self.validate_order(name, errors);
            self.validate_ratio(name, errors);
            if let (Some(default), Some(request)) = (self.default.get(name), self.request.get(name))
                && !resources::is_overcommit_allowed(name)
                && default.quantity() != request.quantity()
            {
                let detail = format!(
                    "default value {} must equal to defaultRequest value {} in {name}",
                    default.quantity(),
                    request.quantity()
                );
                request.invalid(errors, detail);
            }
        }
    }

    /// min ≤ defaultRequest ≤ default ≤ max.
    fn validate_order(&self, name: &str, errors: &mut Errors) {
        // Where the error stands, whose amount it shows, the smaller, the greater, and what they are called.
        let (min, max) = (self.min.get(name), self.max.get(name));
        let (default, request) = (self.default.get(name), self.request.get(name));
        let rules = [
            (min, min, min, max, "min value", "max value"),
            (request, request, min, request, "min value", "default request value"),
            (request, request, request, max, "default request value", "max value"),
            (request, request, request, default, "default request value", "default limit value"),
            (default, min, min, default, "min value", "default value"),
            (default, max, default, max, "default value", "max value"),
        ];
        for (at, shown, small, great, small_name, great_name) in rules {
            let (Some(at), Some(shown), Some(small), Some(great)) = (at, shown, small, great) else { continue };
            let (small, great) = (small.quantity(), great.quantity());
            if small > great {
                let detail = format!("{small_name} {small} is greater than {great_name} {great}");
                at.invalid_as(errors, shown.value().clone(), detail);
            }
        }
    }

    fn validate_ratio(&self, name: &str, errors: &mut Errors) {
        let Some(at) = self.ratio.get(name) else { return };
        let ratio = at.quantity();
        if ratio < Quantity::new(1, Format::DecimalSi) {
            at.invalid(errors, format!("ratio {ratio} is less than 1"));
        }
        let (Some(min), Some(max)) = (self.min.get(name), self.max.get(name)) else { return };
        let (min, max) = (min.quantity(), max.quantity());
        let fine = [&ratio, &min, &max].iter().all(|q| q.value() < MAX_WITH_MILLIS);
        let (limit, value) = if fine {
            (max.milli_value() as f64 / min.milli_value() as f64, ratio.milli_value() as f64 / 1000.0)
        } else {
            (max.value() as f64 / min.value() as f64, ratio.value() as f64)
        };
        if value > limit {
            at.invalid(errors, format!("ratio {ratio} is greater than max/min = {limit:.6}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            LimitRange,
            "{apiVersion: v1, kind: LimitRange, metadata: {name: a}, spec: {limits: [{type: Pod, max: {cpu: '2'}}]}}",
        )
    }

    #[test]
    fn containers_get_defaults() {
        check().stored(&[
            ("", ""),
            (
                "spec: {limits: [{type: Container, max: {cpu: '2'}, min: {memory: 1Mi}, default: {memory: 2Mi}}]}",
                "spec: {limits: [{type: Container, max: {cpu: '2'}, min: {memory: 1Mi}, default: {cpu: '2', memory: 2Mi},
                 defaultRequest: {cpu: '2', memory: 2Mi}}]}",
            ),
        ]);
    }

    #[test]
    fn types_are_known_and_unique() {
        check().create(&[
            (
                "spec: {limits: [{type: Node}, {type: a.b/C}, {type: a.b/C}]}",
                "spec.limits[0].type: Invalid value: \"Node\": must be a standard limit type or fully qualified
                 spec.limits[2].type: Duplicate value: \"a.b/C\"",
            ),
            (
                "spec: {limits: [{type: PersistentVolumeClaim}]}",
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
            ),
            (
                "spec: {limits: [{type: Pod, default: {cpu: '1'}}]}",
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            ),
            (
                "spec: {limits: [{type: Container, max: {storage: '1'}}]}",
                "spec.limits[0].max[storage]: Invalid value: \"storage\": must be a standard resource for containers
                 spec.limits[0].default[storage]: Invalid value: \"storage\": must be a standard resource for containers
                 spec.limits[0].defaultRequest[storage]: Invalid value: \"storage\": must be a standard resource for containers",
            ),
        ]);
    }

    #[test]
    fn amounts_are_in_order() {
        check().create(&[
            (
                "spec: {limits: [{type: Pod, max: {cpu: '1'}, min: {cpu: 1500m}}]}",
                "spec.limits[0].min[cpu]: Invalid value: \"1500m\": min value 1500m is greater than max value 1",
            ),
            (
                "spec: {limits: [{type: Container, max: {cpu: '1'}, default: {cpu: '2'}, defaultRequest: {cpu: '3'}}]}",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"3\": default request value 3 is greater than max value 1
                 spec.limits[0].defaultRequest[cpu]: Invalid value: \"3\": default request value 3 is greater than default limit value 2
                 spec.limits[0].default[cpu]: Invalid value: \"1\": default value 2 is greater than max value 1",
            ),
            (
                "spec: {limits: [{type: Pod, maxLimitRequestRatio: {cpu: 500m}}]}",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
            ),
            (
                "spec: {limits: [{type: Pod, max: {cpu: '2'}, min: {cpu: '1'}, maxLimitRequestRatio: {cpu: '10'}}]}",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"10\": ratio 10 is greater than max/min = 2.000000",
            ),
            (
                "spec: {limits: [{type: Container, default: {a.b/gpu: '2'}, defaultRequest: {a.b/gpu: '1'}}]}",
                "spec.limits[0].defaultRequest[a.b/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in a.b/gpu",
            ),
        ]);
    }
}
