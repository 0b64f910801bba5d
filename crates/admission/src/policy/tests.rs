//! Policies as data: a policy, a binding, an object, and what the request is answered.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Status, Value, value};

use super::definition::{Binding, Definition};
use super::{Bindings, Hook, Hooks, mutating, validating};
use crate::plugins::testing::{Closed, World, create};
use crate::{AdmissionMeters, Attributes, Plugin};

/// A plugin with policies that are not stored anywhere.
struct Fixed {
    hooks: Vec<Hook>,
    host: Closed,
    meters: AdmissionMeters,
}

#[async_trait]
impl Plugin for Fixed {
    fn name(&self) -> &'static str {
        "Fixed"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if self.hooks.iter().all(|hook| hook.policy.mutations.is_empty()) {
            return Ok(());
        }
        let hooks: Vec<&Hook> = self.hooks.iter().collect();
        mutating::dispatch(&hooks, (&self.host, &self.meters), attributes, object, old).await
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let hooks: Vec<&Hook> = self.hooks.iter().collect();
        let (host, meters) = (&self.host, &self.meters);
        let (answers, subjects, namespace) = Default::default();
        validating::Request { attributes, host, meters, object, old, answers, subjects, namespace }
            .dispatch(&hooks)
            .await
    }
}

/// What comes of creating an object under a policy with this spec: the object's labels, then warnings, or the refusal.
fn play(mut spec: Value, actions: Value, object: Value) -> String {
    let rule = value!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]});
    let constraints = value!({"resourceRules": [(rule)], "namespaceSelector": {}, "objectSelector": {}});
    spec.set(&["matchConstraints"], constraints);
    let policy = value!({"metadata": {"name": "p"}, "spec": (spec)});
    let binding = value!({
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": (actions), "paramRef": {"name": "missing", "parameterNotFoundAction": "Allow"}},
    });
    let hook = Hook {
        policy: Arc::new(Definition::compile(&policy, &Arc::default())),
        bindings: Arc::new(vec![Arc::new(Binding::compile(&binding))]),
    };
    let plugin = Fixed { hooks: vec![hook], host: Closed { allowed: "get allowed" }, meters: AdmissionMeters::new("") };
    let world = World::default().with("", "namespaces", value!({"metadata": {"name": "ns", "labels": {"team": "a"}}}));
    match create(&plugin, &world, "nodes", object) {
        Ok(admitted) => {
            let mut labels = Vec::new();
            codec::json::encode(admitted.object.at(&["metadata", "labels"]), None, &mut labels);
            format!("{} {}", String::from_utf8(labels).unwrap(), admitted.warnings.join("; "))
        }
        Err(refusal) => refusal,
    }
}

fn check(cases: &[(Value, Value, &str)]) {
    for (spec, actions, want) in cases {
        let object = value!({"metadata": {"name": "n", "labels": {"a": "1"}}, "spec": {"size": 3}});
        assert_eq!(play(spec.clone(), actions.clone(), object), *want, "{spec:?}");
    }
}

fn validation(expression: &str) -> Value {
    value!({"validations": [{"expression": (expression)}]})
}

#[test]
fn validations_decide() {
    let deny = value!(["Deny"]);
    let denied = "nodes \"n\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    let refused = |why: &str| -> &'static str { Box::leak(format!("{denied}{why}").into_boxed_str()) };
    let lazily = value!({
        "variables": [
            {"name": "bad", "expression": "1 / (object.spec.size - 3)"},
            {"name": "size", "expression": "object.spec.size"},
            {"name": "double", "expression": "variables.size * 2"},
        ],
        "validations": [{"expression": "variables.double == 6"}, {"expression": "variables.bad == 1"}],
    });
    let with_message = value!({"validations": [
        {"expression": "false", "message": "fixed", "messageExpression": "'size ' + string(object.spec.size)"}]});
    let skipped = value!({"matchConditions": [{"name": "c", "expression": "object.spec.size > 5"}],
        "validations": [{"expression": "false"}]});
    let failing = value!({"failurePolicy": "Ignore", "validations": [{"expression": "object.spec.none > 1"}]});
    let costly = "[0,1,2,3,4,5,6,7,8,9]";
    let costly = format!(
        "{costly}.all(a, {costly}.all(b, {costly}.all(c, {costly}.all(d, {costly}.all(e, {costly}.all(f, true))))))"
    );
    check(&[
        (
            validation("object.spec.size == 3 && request.operation == 'CREATE' && oldObject == null"),
            deny.clone(),
            "{\"a\":\"1\"} ",
        ),
        (validation("namespaceObject.metadata.labels.team == 'a'"), deny.clone(), "{\"a\":\"1\"} "),
        (validation("object.spec.size > 5"), deny.clone(), refused("failed expression: object.spec.size > 5")),
        (
            validation("object.spec.none > 5"),
            deny.clone(),
            refused("expression 'object.spec.none > 5' resulted in error: no such key: none"),
        ),
        (
            validation("authorizer.group('').resource('nodes').name('allowed').check('get').allowed()"),
            deny.clone(),
            "{\"a\":\"1\"} ",
        ),
        (
            validation("authorizer.group('').resource('nodes').name('other').check('get').allowed()"),
            deny.clone(),
            refused("failed expression: authorizer.group('').resource('nodes').name('other').check('get').allowed()"),
        ),
        (
            validation("false"),
            value!(["Warn"]),
            "{\"a\":\"1\"} Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false",
        ),
        (validation("false"), value!(["Audit"]), "{\"a\":\"1\"} "),
        (
            lazily,
            deny.clone(),
            refused(
                "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: division by zero",
            ),
        ),
        (with_message, deny.clone(), refused("size 3")),
        (skipped, deny.clone(), "{\"a\":\"1\"} "),
        (failing, deny.clone(), "{\"a\":\"1\"} "),
        (
            validation(&costly),
            deny.clone(),
            refused(&format!(
                "expression '{costly}' resulted in error: operation cancelled: actual cost limit exceeded"
            )),
        ),
        (
            value!({"paramKind": {"apiVersion": "v1", "kind": "Nope"}, "validations": [{"expression": "true"}]}),
            deny,
            "nodes \"n\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: '/v1, Kind=Nope'",
        ),
    ]);
}

#[test]
fn mutations_change_the_object() {
    let mutation = |kind: &str, field: &str, expression: &str| {
        let mut mutation = value!({"patchType": (kind)});
        mutation.set(&[field, "expression"], Value::from(expression));
        value!({"mutations": [(mutation)], "reinvocationPolicy": "Never"})
    };
    let patch = |expression: &str| mutation("JSONPatch", "jsonPatch", expression);
    let none = value!([]);
    check(&[
        (
            patch("[JSONPatch{op: 'add', path: '/metadata/labels/b', value: string(object.spec.size)}]"),
            none.clone(),
            "{\"a\":\"1\",\"b\":\"3\"} ",
        ),
        (
            patch(
                "[JSONPatch{op: 'test', path: '/metadata/labels/a', value: '2'}, JSONPatch{op: 'remove', path: '/metadata/labels/a'}]",
            ),
            none.clone(),
            "{\"a\":\"1\"} ",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/metadata/labels/none'}]"),
            none.clone(),
            "policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/metadata/labels/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            mutation("ApplyConfiguration", "applyConfiguration", "Object{metadata: Object.wrong{}}"),
            none,
            "policy 'p' with binding 'b' denied request: type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field name path from root Object type",
        ),
    ]);
}

#[test]
fn many_policies_share_expressions_and_are_found_by_resource() {
    let pool = Arc::new(cel::Pool::default());
    let policy = |number: usize| {
        let resource = format!("r{}", number % 10);
        let rule = value!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]});
        let expressions: Vec<Value> =
            (0..5).map(|n| value!({"expression": (format!("object.spec.size > {n}"))})).collect();
        value!({
            "metadata": {"name": (format!("p{number:04}"))},
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": expressions},
        })
    };
    let policies: Vec<Arc<Definition>> =
        (0..1000).map(|number| Arc::new(Definition::compile(&policy(number), &pool))).collect();
    assert_eq!(pool.count(), cel::Count { expressions: 5, uses: 5000 });
    let anything = value!({
        "metadata": {"name": "all"},
        "spec": {"matchConstraints": {"resourceRules": [
            {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}},
    });
    let all: Vec<Arc<Definition>> =
        [Arc::new(Definition::compile(&anything, &pool))].into_iter().chain(policies).collect();
    let binding = |number: usize, of_policy: usize| {
        let name = match number {
            1000 => "all".to_string(),
            number => format!("p{number:04}"),
        };
        let own = format!("b{of_policy}");
        Arc::new(Binding::compile(&value!({"metadata": {"name": own}, "spec": {"policyName": name}})))
    };
    let mut bindings = Bindings::default();
    for number in 0..=1000 {
        [2, 0, 3, 1].iter().for_each(|of_policy| bindings.add(&binding(number, *of_policy)));
        bindings.remove(&binding(number, 2));
    }
    let hooks = Hooks::join(all.iter(), &bindings);
    let about = |resource: &str| hooks.about(resource).map(|hook| hook.policy.name.to_string()).collect::<Vec<_>>();
    assert_eq!(about("unknown"), ["all"]);
    assert_eq!(about("r7").len(), 101);
    assert_eq!(about("r7")[..3], ["all", "p0007", "p0017"]);
    let names = |hook: &Hook| hook.bindings.iter().map(|binding| binding.name.to_string()).collect::<Vec<_>>();
    assert!(hooks.about("r7").all(|hook| names(hook) == ["b0", "b1", "b3"]));
}
