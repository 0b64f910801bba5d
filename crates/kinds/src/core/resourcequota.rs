//! ResourceQuotas: how much a namespace may have in all.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Path, Value};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{IMMUTABLE, quantity};
use crate::common::{internal, resources};

const POD_RESOURCES: [&str; 7] =
    ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
/// Scopes that no pod can be in at once.
const CONFLICTING: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

pub struct ResourceQuota;

const FACTS: Facts = Facts { returns_deleted_object: true, ..Facts::WITH_STATUS };

impl Strategy for ResourceQuota {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_spec(&object.field("spec"), errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_spec(&new.field("spec"), errors);
        let scopes =
            |object: &Cursor| object.at(&["spec", "scopes"]).strs().map(str::to_string).collect::<BTreeSet<_>>();
        if scopes(new) != scopes(old) {
            new.at(&["spec", "scopes"]).invalid(errors, IMMUTABLE);
        }
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        if new.value().resource_version().is_empty() {
            errors.required(&Path::of("resourceVersion"), "");
        }
        validate_amounts(&new.at(&["status", "hard"]), errors);
        validate_amounts(&new.at(&["status", "used"]), errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = object.at(&["spec", "hard"]);
        ["cpu", "memory", "storage", "ephemeral-storage"]
            .iter()
            .filter_map(|name| request_above_limit(hard, name))
            .collect()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let used = object.at(&["status", "used"]);
        let hard = object.at(&["status", "hard"]).as_map();
        let (limits, requests): (Vec<_>, Vec<_>) =
            hard.into_iter().flat_map(|hard| hard.iter()).partition(|(name, _)| name.starts_with("limits."));
        let cell = |amounts: Vec<(&str, &Value)>| {
            let amounts = amounts.into_iter();
            let texts =
                amounts.map(|(name, hard)| format!("{name}: {}/{}", quantity(used.field(name)), quantity(hard)));
            Value::from(texts.collect::<Vec<_>>().join(", "))
        };
        vec![object.name().into(), cell(requests), cell(limits), columns::age(cx, object)]
    }
}

fn validate_spec(spec: &Cursor, errors: &mut Errors) {
    validate_amounts(&spec.field("hard"), errors);
    validate_scopes(spec, errors);
    validate_scope_selector(spec, errors);
}

fn validate_amounts(list: &Cursor, errors: &mut Errors) {
    for (name, amount) in list.entries() {
        resources::quota_resource_name(name, amount.path(), errors);
        resources::amount(name, &amount, errors);
    }
}

fn validate_scopes(spec: &Cursor, errors: &mut Errors) {
    let scopes = spec.field("scopes");
    for scope in scopes.strs() {
        if !is_known(scope) {
            scopes.invalid(errors, "unsupported scope");
        }
        for _ in misfits(scope, spec) {
            scopes.invalid(errors, "unsupported scope applied to resource");
        }
    }
    let all: Vec<&str> = scopes.strs().collect();
    for _ in conflicts(&all) {
        scopes.invalid(errors, "conflicting scopes");
    }
}

fn validate_scope_selector(spec: &Cursor, errors: &mut Errors) {
    let selector = spec.field("scopeSelector");
    let expressions = selector.field("matchExpressions");
    let mut all = Vec::new();
    for expression in expressions.each() {
        let scope = expression.field("scopeName").str();
        if !is_known(scope) {
            errors.invalid(&expressions.path().field("scopeName"), scope, "unsupported scope");
        }
        for _ in misfits(scope, spec) {
            // The error shows the whole selector, so those of very many expressions are not all made.
            if errors.is_full() {
                break;
            }
            expressions.invalid_as(
                errors,
                internal::shown("ScopeSelector", selector.value()),
                "unsupported scope applied to resource",
            );
        }
        validate_operator(&expression, scope, expressions.path(), errors);
        all.push(scope);
    }
    for _ in conflicts(&all) {
        // Upstream shows the other list of scopes here.
        expressions.invalid_as(errors, spec.field("scopes").value().clone(), "conflicting scopes");
    }
}

fn validate_operator(expression: &Cursor, scope: &str, path: &Path, errors: &mut Errors) {
    let (operator, values) = (expression.field("operator").str(), expression.field("values"));
    let is_yes_or_no = matches!(
        scope,
        "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
    );
    if is_yes_or_no && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                      ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                      ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(&path.field("operator"), operator, detail);
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(&path.field("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(&path.field("values"), values.value().clone(), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.invalid(&path.field("operator"), operator, "not a valid selector operator"),
    }
}

fn is_known(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

/// The resources of the quota that a scope cannot be asked about.
fn misfits<'a>(scope: &'a str, spec: &Cursor<'a>) -> impl Iterator<Item = &'a str> {
    let hard = spec.field("hard").value().as_map();
    let names =
        hard.into_iter().flat_map(|hard| hard.keys()).filter(|name| resources::is_standard_quota_resource(name));
    names.filter(move |name| match scope {
        "BestEffort" => *name != "pods",
        "VolumeAttributesClass" => !matches!(*name, "persistentvolumeclaims" | "requests.storage"),
        scope if is_known(scope) => !POD_RESOURCES.contains(name),
        _ => false,
    })
}

fn conflicts(scopes: &[&str]) -> impl Iterator<Item = [&'static str; 2]> {
    CONFLICTING.into_iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

fn request_above_limit(hard: &Value, name: &str) -> Option<String> {
    let mut request_name = format!("requests.{name}");
    let mut request = hard.get(&request_name);
    if request.is_none() && matches!(name, "cpu" | "memory") {
        request_name = name.to_string();
        request = hard.get(name);
    }
    let limit_name = format!("limits.{name}");
    let (request, limit) = (quantity(request?), quantity(hard.get(&limit_name)?));
    let above = request > limit;
    above.then(|| format!("ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            ResourceQuota,
            "{apiVersion: v1, kind: ResourceQuota, metadata: {name: a, resourceVersion: '1'}, spec: {hard: {pods: '10'}}}",
        )
    }

    #[test]
    fn resources_and_amounts() {
        check().create(&[
            ("", ""),
            ("spec: {hard: {count/widgets.a.b: '1', requests.nvidia.com/gpu: '1', requests.hugepages-2Mi: 2Mi}}", ""),
            (
                "spec: {hard: {pods: 1500m, cpu: '-1', storage: '1', bogus: '1'}}",
                "spec.hard[bogus]: Invalid value: \"bogus\": must be a standard resource type or fully qualified
                 spec.hard[bogus]: Invalid value: \"bogus\": must be a standard resource for quota
                 spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0
                 spec.hard[pods]: Invalid value: \"1500m\": must be an integer
                 spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            ),
        ]);
    }

    #[test]
    fn scopes_fit_their_resources() {
        check().create(&[
            ("spec: {scopes: [BestEffort]}", ""),
            (
                "spec: {hard: {cpu: '1'}, scopes: [BestEffort, NotBestEffort, Bogus]}",
                r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Bogus"]: unsupported scope applied to resource
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Bogus"]: unsupported scope
                spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Bogus"]: conflicting scopes"#,
            ),
            ("spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}", ""),
            (
                "spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}, {scopeName: X, operator: Odd},
                 {scopeName: Terminating, operator: NotIn, values: [a]}]}}",
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector
                 spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"X\": unsupported scope
                 spec.scopeSelector.matchExpressions.operator: Invalid value: \"Odd\": not a valid selector operator
                 spec.scopeSelector.matchExpressions.operator: Invalid value: \"NotIn\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            ),
        ]);
    }

    #[test]
    fn scopes_stay() {
        check().update(&[
            ("spec: {scopes: [Terminating, BestEffort]}", "spec: {scopes: [BestEffort, Terminating]}", ""),
            ("", "spec: {scopes: [BestEffort]}", r#"spec.scopes: Invalid value: ["BestEffort"]: field is immutable"#),
        ]);
        check().update_status(&[(
            "",
            "{metadata: {resourceVersion: null}, status: {used: {pods: '-1'}}}",
            "resourceVersion: Required value
             status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0",
        )]);
    }

    #[test]
    fn requests_above_limits_are_warned_about() {
        check().warnings(&[
            ("spec: {hard: {requests.cpu: '1', limits.cpu: '1'}}", &[]),
            (
                "spec: {hard: {cpu: '2', limits.cpu: '1'}}",
                &["ResourceQuota cpu (2) should be less than limits.cpu (1)"],
            ),
        ]);
    }

    #[test]
    fn cells_pair_used_and_hard() {
        check().cells(&[(
            "status: {hard: {pods: '10', limits.cpu: '2', cpu: '1'}, used: {pods: '3'}}",
            "a cpu: 0/1, pods: 3/10 limits.cpu: 0/2 <unknown>",
        )]);
    }
}
