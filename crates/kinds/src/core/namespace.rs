//! Namespaces: a phase, finalizers in the spec that outlive a deletion, and a label with the name.

use object::{Cursor, Errors, GroupResource, Meta, Path, Str, Value, names};
use registry::{Context, Deletion, Error, FieldRefusal, Strategy, columns};

/// The finalizer that the namespace controller takes away once everything inside is gone.
const KUBERNETES: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// What may stand in a list of finalizers without a domain in front.
const STANDARD_FINALIZERS: [&str; 3] = [KUBERNETES, "orphan", "foregroundDeletion"];

pub struct Namespace;

impl Strategy for Namespace {
    /// Upstream's storage of this kind has none that could.
    fn deletes_unreadable(&self) -> bool {
        false
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

    fn validate_name(&self, name: &str, is_prefix: bool) -> Vec<String> {
        names::name_is_dns_label(name, is_prefix)
    }

    fn reset_fields(&self, subresource: &str) -> Vec<Vec<&'static str>> {
        match subresource {
            "status" => vec![vec!["spec"]],
            _ => vec![vec!["status"]],
        }
    }

    fn check_preconditions(&self, object: &Value, preconditions: &Value) -> Result<(), Error> {
        for (field, shown) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let found = object.meta_str(field);
            if let Some(wanted) = preconditions.field(field).as_str()
                && wanted != found
            {
                let why =
                    format!("Precondition failed: {shown} in precondition: {wanted}, {shown} in object meta: {found}");
                let resource = GroupResource::new("", "namespaces");
                return Err(Error::Conflict { resource, name: object.name().to_string(), why });
            }
        }
        Ok(())
    }

    fn is_namespace(&self) -> bool {
        true
    }

    fn deletes_gracefully(&self) -> bool {
        true
    }

    fn deletion(&self, _cx: &Context, _object: &Value, _options: &Value) -> Deletion {
        Deletion::Marked
    }

    fn mark_deleted(&self, object: &mut Value) {
        object.set(&["status", "phase"], "Terminating");
    }

    fn may_finish(&self, object: &Value) -> bool {
        object.list_at(&["spec", "finalizers"]).is_empty()
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &[Str] {
        object::strs!["status.phase"]
    }

    fn field_refusal(&self) -> FieldRefusal {
        FieldRefusal::Plain
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.name().into(), object.str_at(&["status", "phase"]).into(), columns::age(cx, object)]
    }

    fn checks_updated_generate_name(&self) -> bool {
        true
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
        Namespace.mark_deleted(&mut namespace);
        assert_eq!(namespace.str_at(&["status", "phase"]), "Terminating");
        assert!(!Namespace.may_finish(&namespace));
        assert!(Namespace.may_finish(&check().object("")));
    }
}
