//! RoleBindings and ClusterRoleBindings: who has a role.

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use super::GROUP;
use crate::common::checks::{Checks, IMMUTABLE, same};

pub struct Binding {
    /// Whether this is a RoleBinding rather than a ClusterRoleBinding.
    pub namespaced: bool,
}

const FACTS: Facts = Facts {
    name: |name, _| names::path_segment_name(name),
    allows_create_on_update: true,
    // Upstream's storage of this kind has none that could.
    deletes_unreadable: false,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for Binding {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn default(&self, object: &mut Value) {
        if object.str_at(&["roleRef", "apiGroup"]).is_empty() {
            object.set(&["roleRef", "apiGroup"], GROUP);
        }
        for subject in object.get_mut("subjects").and_then(Value::as_list_mut).into_iter().flatten() {
            let is_ours = matches!(subject.str_at(&["kind"]), "User" | "Group");
            if is_ours && subject.str_at(&["apiGroup"]).is_empty() {
                subject.set(&["apiGroup"], GROUP);
            }
        }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        self.validate_written(object, errors);
        validate_declared(object, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate_written(new, errors);
        new.at(&["roleRef", "name"]).require(errors);
        let role = new.field("roleRef");
        if !same(role.value(), old.field("roleRef").value()) {
            role.invalid_as(errors, crate::common::internal::shown("RoleRef", role.value()), IMMUTABLE);
        }
        validate_declared(new, errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let role = object.field("roleRef");
        let role = format!("{}/{}", role.str_at(&["kind"]), role.str_at(&["name"]));
        let subjects = |kind: &str| {
            let subjects = object.list_at(&["subjects"]).iter().filter(|subject| subject.str_at(&["kind"]) == kind);
            let names = subjects.map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", subject.str_at(&["namespace"]), subject.str_at(&["name"])),
                _ => subject.str_at(&["name"]).to_string(),
            });
            Value::from(names.collect::<Vec<_>>().join(", "))
        };
        vec![
            object.name().into(),
            role.into(),
            columns::age(cx, object),
            subjects("User"),
            subjects("Group"),
            subjects("ServiceAccount"),
        ]
    }
}

impl Binding {
    fn validate_written(&self, object: &Cursor, errors: &mut Errors) {
        let role = object.field("roleRef");
        role.field("apiGroup").one_of(errors, &[GROUP]);
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        role.field("kind").one_of(errors, kinds);
        role.field("name").check(errors, names::path_segment_name);
        for subject in object.field("subjects").each() {
            self.validate_subject(&subject, errors);
        }
    }

    fn validate_subject(&self, subject: &Cursor, errors: &mut Errors) {
        let (kind, name, group) = (subject.field("kind"), subject.field("name"), subject.field("apiGroup"));
        match kind.str() {
            "ServiceAccount" => {
                if !name.is_empty() {
                    name.check_name(errors, names::name_is_dns_subdomain);
                }
                if !group.is_empty() {
                    group.not_supported(errors, &[""]);
                }
                if !self.namespaced {
                    subject.field("namespace").require(errors);
                }
            }
            "User" | "Group" => {
                group.one_of(errors, &[GROUP]);
            }
            _ => kind.not_supported(errors, &["ServiceAccount", "User", "Group"]),
        }
    }
}

/// Rules upstream declares on the types; it runs them after all others.
fn validate_declared(object: &Cursor, errors: &mut Errors) {
    for subject in object.field("subjects").each() {
        subject.field("name").require(errors);
    }
    object.at(&["roleRef", "name"]).require(errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    const BASE: &str =
        "{metadata: {name: a}, roleRef: {kind: ClusterRole, name: b}, subjects: [{kind: User, name: u}]}";

    #[test]
    fn groups_are_filled_in() {
        let group = "rbac.authorization.k8s.io";
        Check::new(Binding { namespaced: true }, BASE).stored(&[(
            "",
            &format!("{{roleRef: {{apiGroup: {group}}}, subjects: [{{kind: User, name: u, apiGroup: {group}}}]}}"),
        )]);
    }

    #[test]
    fn subjects_are_checked() {
        Check::new(Binding { namespaced: true }, BASE).create(&[(
            "{roleRef: {kind: X, name: null}, subjects: [{kind: User}]}",
            "roleRef.kind: Unsupported value: \"X\": supported values: \"Role\", \"ClusterRole\"
             subjects[0].name: Required value
             roleRef.name: Required value",
        )]);
        let check = Check::new(Binding { namespaced: false }, BASE);
        check.create(&[(
            "subjects: [{kind: ServiceAccount, name: s, apiGroup: x}, {kind: Z, name: z}]",
            "subjects[0].apiGroup: Unsupported value: \"x\": supported values: \"\"
             subjects[0].namespace: Required value
             subjects[1].kind: Unsupported value: \"Z\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
        )]);
        check.update(&[(
            "",
            "roleRef: {name: c}",
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"c\"}: \
             field is immutable",
        )]);
        check.cells(&[(
            "subjects: [{kind: User, name: u}, {kind: ServiceAccount, name: s, namespace: x}]",
            "a ClusterRole/b <unknown> u  x/s",
        )]);
    }
}
