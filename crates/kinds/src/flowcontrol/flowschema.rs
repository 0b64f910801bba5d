//! FlowSchemas: which priority level a request belongs to.

use object::{Cursor, Errors, Meta, Value, names, value};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::{internal, versioned};

const PRECEDENCE_MAX: i64 = 10_000;
const EXEMPT: &str = "exempt";
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub struct FlowSchema;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    generation: Some(|new, old| {
        !versioned::same("io.k8s.api.flowcontrol.v1.FlowSchemaSpec", new.field("spec"), old.field("spec"))
    }),
    status_resets: Facts::METADATA_AND_SPEC,
    row_order: Some(|object| object.at(&["spec", "matchingPrecedence"]).as_int().unwrap_or(0)),
    ..Facts::WITH_STATUS
};

impl Strategy for FlowSchema {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let (name, spec) = (object.value().name(), object.field("spec"));
        validate_spec(name, &spec, errors);
        if let Some(fixed) = mandatory(name)
            && !internal::same("FlowSchemaSpec", spec.value(), &fixed)
        {
            let shown = internal::shown("FlowSchemaSpec", spec.value());
            spec.invalid_as(errors, shown, format!("spec of '{name}' must equal the fixed value"));
        }
        super::validate_conditions(&object.at(&["status", "conditions"]), errors);
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        super::keep_metadata(new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        super::validate_conditions(&new.at(&["status", "conditions"]), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let spec = object.field("spec");
        let conditions = object.list_at(&["status", "conditions"]);
        let dangling = conditions.iter().find(|condition| condition.str_at(&["type"]) == "Dangling");
        vec![
            object.name().into(),
            spec.str_at(&["priorityLevelConfiguration", "name"]).into(),
            spec.field("matchingPrecedence").as_int().unwrap_or(0).into(),
            spec.at(&["distinguisherMethod", "type"]).as_str().unwrap_or("<none>").into(),
            columns::age(cx, object),
            dangling.map_or("?", |condition| condition.str_at(&["status"])).into(),
        ]
    }
}

/// The specs of schemas that every server needs as they are.
fn mandatory(name: &str) -> Option<Value> {
    let rules = |groups: &[&str]| {
        let subject = |name: &&str| value!({"kind": "Group", "group": {"name": (*name)}});
        let subjects: Vec<Value> = groups.iter().map(subject).collect();
        let resources =
            value!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
        let urls = value!({"verbs": ["*"], "nonResourceURLs": ["*"]});
        let mut rule = Value::map();
        rule.set(&["subjects"], subjects);
        rule.set(&["resourceRules"], vec![resources]);
        rule.set(&["nonResourceRules"], vec![urls]);
        vec![rule]
    };
    let mut spec = Value::map();
    spec.set(&["priorityLevelConfiguration", "name"], name);
    match name {
        EXEMPT => {
            spec.set(&["matchingPrecedence"], 1);
            spec.set(&["rules"], rules(&["system:masters"]));
        }
        "catch-all" => {
            spec.set(&["matchingPrecedence"], PRECEDENCE_MAX);
            spec.set(&["distinguisherMethod", "type"], "ByUser");
            spec.set(&["rules"], rules(&["system:unauthenticated", "system:authenticated"]));
        }
        _ => return None,
    }
    Some(spec)
}

fn validate_spec(name: &str, spec: &Cursor, errors: &mut Errors) {
    let precedence = spec.field("matchingPrecedence");
    if precedence.int() <= 0 {
        precedence.invalid_as(errors, precedence.int(), "must be a positive value");
    }
    if precedence.int() > PRECEDENCE_MAX {
        precedence.invalid(errors, format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence.int() == 1 && name != EXEMPT {
        precedence.invalid(errors, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    let method = spec.field("distinguisherMethod");
    if method.is_set() && !["ByNamespace", "ByUser"].contains(&method.field("type").str()) {
        // Upstream shows the whole method.
        let shown = internal::shown("FlowDistinguisherMethod", method.value());
        errors.push(object::FieldError::new(
            object::ErrorType::NotSupported,
            method.field("type").path(),
            shown,
            "supported values: \"ByNamespace\", \"ByUser\"",
        ));
    }
    let level = spec.at(&["priorityLevelConfiguration", "name"]);
    if level.is_empty() {
        level.required(errors, "must reference a priority level");
    } else {
        level.check_name(errors, names::name_is_dns_subdomain);
    }
    for rule in spec.field("rules").each() {
        validate_rule(&rule, errors);
    }
}

fn validate_rule(rule: &Cursor, errors: &mut Errors) {
    let subjects = rule.field("subjects");
    subjects.must_be_set(errors, "subjects must contain at least one value");
    for subject in subjects.each() {
        validate_subject(&subject, errors);
    }
    let (resources, urls) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        rule.required(errors, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for rule in resources.each() {
        validate_resource_rule(&rule, errors);
    }
    for rule in urls.each() {
        validate_verbs(&rule.field("verbs"), errors);
        validate_urls(&rule.field("nonResourceURLs"), errors);
    }
}

fn validate_subject(subject: &Cursor, errors: &mut Errors) {
    let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.field("kind");
    let Some((_, wanted)) = kinds.iter().find(|(name, _)| *name == kind.str()) else {
        return kind.not_supported(errors, &["Group", "ServiceAccount", "User"]);
    };
    let body = subject.field(wanted);
    if !body.is_set() {
        body.required(errors, format!("{wanted} is required when subject kind is '{}'", kind.str()));
    } else {
        let name = body.field("name");
        name.require(errors);
        if *wanted == "serviceAccount" {
            if !name.is_empty() && name.str() != "*" {
                name.check_name(errors, names::name_is_dns_subdomain);
            }
            let namespace = body.field("namespace");
            if namespace.is_empty() {
                namespace.required(errors, "must specify namespace for service account");
            } else {
                namespace.check_name(errors, names::name_is_dns_label);
            }
        }
    }
    let others = [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")];
    for (field, kind) in others.iter().filter(|(field, _)| field != wanted) {
        if subject.field(field).is_set() {
            subject.field(field).forbidden(errors, format!("{field} is forbidden when subject kind is not '{kind}'"));
        }
    }
}

fn has_star(items: &Cursor) -> bool {
    items.strs().any(|item| item == "*")
}

/// A star among other items makes them pointless.
fn alone(items: &Cursor, what: &str, errors: &mut Errors) {
    if items.len() > 1 && has_star(items) {
        items.invalid(errors, format!("if '*' is present, must not specify other {what}"));
    }
}

fn validate_verbs(verbs: &Cursor, errors: &mut Errors) {
    verbs.must_be_set(errors, "verbs must contain at least one value");
    alone(verbs, "verbs", errors);
    if !has_star(verbs) && verbs.strs().any(|verb| !VERBS.contains(&verb)) {
        errors.not_supported(verbs.path(), verbs.value().clone(), &VERBS);
    }
}

fn validate_resource_rule(rule: &Cursor, errors: &mut Errors) {
    validate_verbs(&rule.field("verbs"), errors);
    let (groups, resources, namespaces) = (rule.field("apiGroups"), rule.field("resources"), rule.field("namespaces"));
    groups.must_be_set(errors, "resource rules must supply at least one api group");
    alone(&groups, "api groups", errors);
    resources.must_be_set(errors, "resource rules must supply at least one resource");
    alone(&resources, "resources", errors);
    if namespaces.is_empty() && !rule.field("clusterScope").bool() {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        return namespaces.required(errors, detail);
    }
    alone(&namespaces, "namespaces", errors);
    if !has_star(&namespaces) {
        for namespace in namespaces.each() {
            for message in names::name_is_dns_label(namespace.str(), false) {
                let intro = "each member of this list must be '*' or a DNS-1123 label; ";
                namespace.bad(errors, format!("{intro}{message}"));
            }
        }
    }
}

fn validate_urls(urls: &Cursor, errors: &mut Errors) {
    urls.must_be_set(errors, "nonResourceURLs must contain at least one value");
    alone(urls, "non-resource URLs", errors);
    if has_star(urls) {
        return;
    }
    for url in urls.each() {
        let path = url.str();
        let stars = path.matches('*').count();
        let problem = match path {
            "" => "must not be empty",
            "/" => continue,
            _ if !path.starts_with('/') => "must start with slash",
            _ if path.contains(' ') => "must not contain white-space",
            _ if path.contains("//") => "must not contain double slash",
            _ if stars > 1 || (stars == 1 && !path.ends_with("/*")) => "wildcard can only do suffix matching",
            _ => continue,
        };
        url.bad(errors, problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn schemas_are_checked() {
        let base = "{metadata: {name: a}, spec: {matchingPrecedence: 9, priorityLevelConfiguration: {name: p}}}";
        let check = Check::new(FlowSchema, base);
        check.create(&[
            ("", ""),
            (
                "spec: {matchingPrecedence: 1, distinguisherMethod: {type: X}, rules: [{}, {subjects: [{kind: User, \
                 group: {}}], nonResourceRules: [{verbs: [x], nonResourceURLs: [a, '/*b']}]}]}",
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1
                 spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"X\"}: supported values: \"ByNamespace\", \
                 \"ByUser\"
                 spec.rules[0].subjects: Required value: subjects must contain at least one value
                 spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty
                 spec.rules[1].subjects[0].user: Required value: user is required when subject kind is 'User'
                 spec.rules[1].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'
                 spec.rules[1].nonResourceRules[0].verbs: Unsupported value: [\"x\"]: supported values: \"create\", \
                 \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"
                 spec.rules[1].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"a\": must start with slash
                 spec.rules[1].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"/*b\": wildcard can only do \
                 suffix matching",
            ),
        ]);
        check.cells(&[("", "a p 9 <none> <unknown> ?")]);
        let fixed = mandatory(EXEMPT).expect("a mandatory schema");
        assert!(mandatory("other").is_none() && fixed.list_at(&["rules"]).len() == 1);
    }
}
