//! CustomResourceDefinitions as objects: their defaults, stored versions and cells. Whether names are accepted and when a
//! definition is established is for a controller to say.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Deletion, Facts, Strategy};

use super::demands::Demands;
use super::{approval, conversion_rules, v1, validate, warnings};
use crate::common::{conditions, versioned};

const SPEC: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec";
/// Holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub struct Definition;

const FACTS: Facts = Facts {
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    repeats_metadata_errors: true,
    generation: Some(|new, old| {
        let (new, old) = (v1::to_v1(new.clone()), v1::to_v1(old.clone()));
        !versioned::same(SPEC, new.field("spec"), old.field("spec"))
    }),
    allows_unconditional_update: false,
    deletion: Deletion::Marked(mark_deleted),
    precondition_words: Some("precondition failed"),
    ..Facts::WITH_STATUS
};

impl Strategy for Definition {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        let kind = object.str_at(&["spec", "names", "kind"]).to_string();
        if object.str_at(&["spec", "names", "singular"]).is_empty() && !kind.is_empty() {
            object.set(&["spec", "names", "singular"], kind.to_lowercase());
        }
        if object.str_at(&["spec", "names", "listKind"]).is_empty() && !kind.is_empty() {
            object.set(&["spec", "names", "listKind"], format!("{kind}List"));
        }
        if object.list_at(&["status", "storedVersions"]).is_empty() {
            store_version(object);
        }
    }

    fn prepare_create(&self, _cx: &Context, object: &mut Value) {
        store_version(object);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, _old: &Value) {
        store_version(new);
    }

    fn validate_name(&self, _cx: &Context, object: &Value, name: &str, is_prefix: bool) -> Vec<String> {
        let mut problems = names::name_is_dns_subdomain(name, is_prefix);
        let (plural, group) = (object.str_at(&["spec", "names", "plural"]), object.str_at(&["spec", "group"]));
        if name != format!("{plural}.{group}") {
            problems.push(r#"must be spec.names.plural+"."+spec.group"#.to_string());
        }
        problems
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        let stored = object.field("spec");
        // The rules look at each version by itself, as v1 has it.
        let object = v1::to_v1(object.value().clone());
        let object = Cursor::root(&object);
        let demands = Demands::creation(cx.version);
        validate::spec(&object.field("spec"), &stored, &demands, errors);
        validate::status(&object, errors);
        if cx.version != "v1beta1" {
            approval::validate(&object, None, errors);
        }
        conversion_rules::validate(&object, None, errors);
        preserve_unknown(&object.field("spec"), &demands, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let stored = new.field("spec");
        let (new, old) = (v1::to_v1(new.value().clone()), v1::to_v1(old.value().clone()));
        let (new, old) = (&Cursor::root(&new), &Cursor::root(&old));
        let (spec, old_spec) = (new.field("spec"), old.field("spec"));
        let established = is_established(old.value());
        let demands = Demands::update(cx.version, new, old, established);
        validate::spec(&spec, &stored, &demands, errors);
        validate::immutable_names(&spec, &old_spec, established, errors);
        validate::status(new, errors);
        if cx.version != "v1beta1" {
            approval::validate(new, Some(old), errors);
        }
        conversion_rules::validate(new, Some(old), errors);
        preserve_unknown(&spec, &demands, errors);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        validate::names(&new.at(&["status", "acceptedNames"]), errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of(&v1::to_v1(object.clone()), old.map(|old| v1::to_v1(old.clone())).as_ref())
    }

    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        let spec = object.field("spec");
        let is = |version: &Value, field: &str| version.field(field).as_bool() == Some(true);
        let served = spec.list_at(&["versions"]).iter().filter(|version| is(version, "served"));
        let shown = |version: &Value| {
            format!("{}{}", version.str_at(&["name"]), if is(version, "storage") { "(storage)" } else { "" })
        };
        let mut versions: Vec<String> = served.map(shown).collect();
        versions.sort();
        let short: Vec<&str> = spec.list_at(&["names", "shortNames"]).iter().filter_map(Value::as_str).collect();
        vec![
            object.name().into(),
            spec.str_at(&["scope"]).into(),
            versions.join(",").into(),
            object.meta_str("creationTimestamp").into(),
            spec.str_at(&["group"]).into(),
            spec.str_at(&["names", "kind"]).into(),
            short.join(",").into(),
            is_established(object).into(),
        ]
    }
}

/// The first deletion leaves the definition in place until its objects are gone.
fn mark_deleted(object: &mut Value) {
    let now = object.deletion_timestamp().to_string();
    if !object.finalizers().any(|held| held == CLEANUP) {
        object.metadata_mut().entry("finalizers").make_list().push(CLEANUP.into());
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let conditions = object.slot(&["status", "conditions"]).make_list();
    conditions.retain(|condition| condition.str_at(&["type"]) != "Terminating");
    conditions.push(object::value!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": message,
    }));
}

/// The version objects are stored in belongs to those that may be in the store.
fn store_version(object: &mut Value) {
    let storage = |version: &&Value| version.field("storage").as_bool() == Some(true);
    let Some(version) = object.list_at(&["spec", "versions"]).iter().find(storage) else { return };
    let name = Value::from(version.str_at(&["name"]));
    if !object.list_at(&["status", "storedVersions"]).contains(&name) {
        object.slot(&["status", "storedVersions"]).make_list().push(name);
    }
}

fn is_established(object: &Value) -> bool {
    let condition = conditions::find(object.list_at(&["status", "conditions"]), "Established");
    condition.is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// Stored definitions may go on keeping unknown fields, and those of v1beta1 may begin to.
fn preserve_unknown(spec: &Cursor, demands: &Demands, errors: &mut Errors) {
    let preserve = spec.field("preserveUnknownFields");
    if preserve.bool() && demands.prunes {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        preserve.invalid(errors, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        let mut check = Check::new(
            Definition,
            "{metadata: {name: as.g.io}, spec: {group: g.io, scope: Namespaced, conversion: {strategy: None}, \
             names: {plural: as, kind: A}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: \
             {type: object}}}]}}",
        );
        check.to_stored = v1::to_stored;
        check
    }

    #[test]
    fn names_are_filled_in() {
        let want = "{spec: {names: {singular: a, listKind: AList}}, status: {storedVersions: [v1]}}";
        check().stored(&[("", want)]);
    }

    #[test]
    fn definitions_are_checked() {
        let versions = |schema: &str| {
            format!(
                "spec: {{versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {schema}}}}}]}}"
            )
        };
        let at = "spec.validation.openAPIV3Schema";
        check().create(&[
            (&versions("{}"), &format!("{at}.type: Required value: must not be empty at the root")),
            (
                &versions("{type: object, properties: {a: {}, b: {type: array}, c: {type: array, items: {}}, d: {type: foo}}}"),
                &format!(
                    "{at}.properties[a].type: Required value: must not be empty for specified object fields
                     {at}.properties[b].items: Required value: must be specified
                     {at}.properties[c].items.type: Required value: must not be empty for specified array items
                     {at}.properties[d].type: Unsupported value: \"foo\": supported values: \"array\", \"boolean\", \
                     \"integer\", \"number\", \"object\", \"string\""
                ),
            ),
            (
                "spec: {versions: [{name: v1, served: true, storage: true}]}",
                "spec.versions[0].schema.openAPIV3Schema: Required value",
            ),
            (
                "{metadata: {name: x}, spec: null}",
                "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group
                 spec.group: Required value
                 spec.scope: Required value
                 spec.versions: Invalid value: null: must have exactly one version marked as storage version
                 spec.names.plural: Required value
                 spec.names.singular: Required value
                 spec.names.kind: Required value
                 spec.names.listKind: Required value
                 status.storedVersions: Invalid value: null: must have at least one stored version",
            ),
            (
                "spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {}}}}",
                "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
            ),
        ]);
        check().update(&[("", "spec: {group: h.io}", "spec.group: Invalid value: \"h.io\": field is immutable")]);
        check().cells(&[("", "as.g.io Namespaced v1(storage)  g.io A  false")]);
    }

    fn with_schema(schema: &str) -> String {
        format!(
            "spec: {{versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {schema}}}}}]}}"
        )
    }

    /// The type of a default is not checked where it may be an integer or a string; other rules are.
    #[test]
    fn defaults_of_integers_or_strings_are_of_any_type() {
        let with = |rest: &str| {
            with_schema(&format!("{{type: object, properties: {{a: {{x-kubernetes-int-or-string: true, {rest}}}}}}}"))
        };
        let place = "spec.validation.openAPIV3Schema.properties[a].default";
        check().create(&[
            (&with("default: true"), ""),
            (&with("default: [1]"), ""),
            (
                &with("default: true, enum: [1, a]"),
                &format!("{place}: Unsupported value: true: supported values: \"1\", \"a\""),
            ),
            (&with("default: {a: 1}"), &format!("{place}: Invalid value: {{\"a\":1}}: must not have unknown fields")),
        ]);
    }

    /// Below a schema without a type rules are accepted, unless they are in the scope of others.
    #[test]
    fn rules_need_a_type_in_their_scope() {
        let rules = "x-kubernetes-validations: [{rule: 'true'}]";
        let open = "x-kubernetes-preserve-unknown-fields: true";
        let below = format!("{{{open}, properties: {{b: {{type: string, {rules}}}}}}}");
        let untyped = "Internal error: internal error: failed to construct type information for \
            x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        let at = "spec.validation.openAPIV3Schema.properties[a]";
        check().create(&[
            (&with_schema(&format!("{{type: object, properties: {{a: {below}}}}}")), ""),
            (
                &with_schema(&format!("{{type: object, {rules}, properties: {{a: {below}}}}}")),
                &format!("{at}.properties[b].x-kubernetes-validations: {untyped}"),
            ),
            (
                &with_schema(&format!("{{type: object, properties: {{a: {{{open}, {rules}}}}}}}")),
                &format!("{at}.x-kubernetes-validations: {untyped}"),
            ),
        ]);
    }
}
