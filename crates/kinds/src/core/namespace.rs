//! Namespaces: a phase, finalizers in the spec that outlive a deletion, and a label with the name.

use object::{Cursor, Errors, Meta, Path, Value, names};
use registry::{Context, Deletion, Facts, FieldRefusal, Strategy, columns};

/// The finalizer that the namespace controller takes away once everything inside is gone.
const KUBERNETES: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// What may stand in a list of finalizers without a domain in front.
const STANDARD_FINALIZERS: [&str; 3] = [KUBERNETES, "orphan", "foregroundDeletion"];

pub struct Namespace;

const FACTS: Facts = Facts {
    is_namespace: true,
    name: names::name_is_dns_label,
    checks_updated_generate_name: true,
    other_resets: &[("finalize", &[&["status"]])],
    deletion: Deletion::Marked(|object| object.set(&["status", "phase"], "Terminating")),
    may_finish: |object| object.list_at(&["spec", "finalizers"]).is_empty(),
    precondition_words: Some("Precondition failed"),
    // Upstream's storage of this kind has none that could.
    deletes_unreadable: false,
    returns_deleted_object: true,
    selectable_fields: object::strs!["status.phase"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITH_STATUS
};

impl Strategy for Namespace {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        // A namespace whose name is still to be generated gets its label when it is stored.
        if !object.name().is_empty() {
            label_with_name(object);
        }
    }

    fn prepare_create(&self, _cx: &Context, object: &mut Value) {
        object.set(&["status", "phase"], "Active");
        let finalizers = object.slot(&["spec", "finalizers"]).make_list();
        if !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(KUBERNETES)) {
            finalizers.push(KUBERNETES.into());
        }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let finalizers = object.at(&["spec", "finalizers"]);
        for finalizer in finalizers.strs() {
            finalizer_name(finalizer, finalizers.path(), errors);
        }
    }

    fn canonicalize(&self, object: &mut Value) {
        label_with_name(object);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        new.keep(&["spec", "finalizers"], old);
    }

    /// Finalizers are written through `finalize`, the only subresource besides the status.
    fn prepare_subresource(&self, _cx: &Context, new: &mut Value, old: &Value) {
        new.keep(&["status"], old);
    }

    fn validate_subresource(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        for finalizer in new.at(&["spec", "finalizers"]).each() {
            finalizer_name(finalizer.str(), finalizer.path(), errors);
        }
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        let phase = new.at(&["status", "phase"]);
        // Upstream spells the field as its Go struct does.
        let path = Path::of("status.Phase");
        if !new.value().is_deleting() {
            if phase.str() != "Active" {
                errors.invalid(&path, phase.str(), "may only be 'Active' if `deletionTimestamp` is empty");
            }
        } else if phase.str() != "Terminating" {
            errors.invalid(&path, phase.str(), "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), object.str_at(&["status", "phase"]).into(), columns::age(cx, object)]
    }
}

fn label_with_name(object: &mut Value) {
    let name = object.name().to_string();
    object.set(&["metadata", "labels", NAME_LABEL], name);
}

fn finalizer_name(finalizer: &str, path: &Path, errors: &mut Errors) {
    for message in names::label_key(finalizer) {
        errors.invalid(path, finalizer, message);
    }
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        errors.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(Namespace, "{apiVersion: v1, kind: Namespace, metadata: {name: a}}")
    }

    const STORED: &str = "{metadata: {labels: {kubernetes.io/metadata.name: a}}, status: {phase: Active}}";

    #[test]
    fn new_namespaces_are_active_and_final() {
        check().stored(&[
            ("", &format!("{{{}, spec: {{finalizers: [kubernetes]}}}}", &STORED[1..STORED.len() - 1])),
            (
                "{spec: {finalizers: [a.b/c]}, status: {phase: Terminating}}",
                &format!("{{{}, spec: {{finalizers: [a.b/c, kubernetes]}}}}", &STORED[1..STORED.len() - 1]),
            ),
        ]);
    }

    #[test]
    fn finalizers_are_qualified_names() {
        let unknown = "name is neither a standard finalizer name nor is it fully qualified";
        check().create(&[
            ("spec: {finalizers: [orphan]}", ""),
            ("spec: {finalizers: [mine]}", &format!("spec.finalizers: Invalid value: \"mine\": {unknown}")),
        ]);
    }

    #[test]
    fn updates_keep_finalizers() {
        let stored = check().try_update("spec: {finalizers: [kubernetes]}", "spec: {finalizers: [a.b/c]}").unwrap();
        assert_eq!(stored.list_at(&["spec", "finalizers"]), [Value::from("kubernetes")]);
    }

    #[test]
    fn finalizers_are_written_through_their_subresource() {
        let check = check();
        let old = check.decoded("{spec: {finalizers: [kubernetes]}, status: {phase: Terminating}}");
        let mut new = check.decoded("{spec: {finalizers: [mine]}, status: {phase: Active}}");
        Namespace.prepare_subresource(&check.context("finalize"), &mut new, &old);
        assert_eq!(new.str_at(&["status", "phase"]), "Terminating");
        let mut errors = Errors::new();
        let (new, old) = (Cursor::root(&new), Cursor::root(&old));
        Namespace.validate_subresource(&check.context("finalize"), &new, &old, &mut errors);
        assert_eq!(
            errors.aggregate(),
            "spec.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified"
        );
    }

    #[test]
    fn the_phase_follows_the_deletion() {
        let deleted = "metadata: {deletionTimestamp: '2024-01-01T00:00:00Z'}";
        let terminating = "{metadata: {deletionTimestamp: '2024-01-01T00:00:00Z'}, status: {phase: Terminating}}";
        check().update_status(&[
            ("", "", ""),
            (
                "",
                "status: {phase: Gone}",
                "status.Phase: Invalid value: \"Gone\": may only be 'Active' if `deletionTimestamp` is empty",
            ),
            (terminating, terminating, ""),
            (
                terminating,
                deleted,
                "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty",
            ),
        ]);
    }

    #[test]
    fn a_deletion_marks_and_waits() {
        let mut namespace = check().object("spec: {finalizers: [kubernetes]}");
        let Deletion::Marked(mark) = FACTS.deletion else { panic!("namespaces are deleted in two steps") };
        mark(&mut namespace);
        assert_eq!(namespace.str_at(&["status", "phase"]), "Terminating");
        assert!(!(FACTS.may_finish)(&namespace));
        assert!((FACTS.may_finish)(&check().object("")));
    }
}
