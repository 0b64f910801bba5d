//! Controller revisions: states of a controller's template, kept to go back to.

use object::{Cursor, Errors, GroupVersion, Meta, Value};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::IMMUTABLE;

pub struct ControllerRevision;

const FACTS: Facts = Facts { checks_updated_generate_name: true, ..Facts::WITHOUT_STATUS };

impl Strategy for ControllerRevision {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        object.field("revision").non_negative(errors);
        let data = object.field("data");
        match data.value() {
            Value::Raw(raw) if raw.is_object() => {}
            Value::Null => data.required(errors, "data is mandatory"),
            _ => data.required(errors, "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        new.field("revision").non_negative(errors);
        let data = new.field("data");
        if data.value() != old.field("data").value() {
            data.invalid(errors, IMMUTABLE);
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let revision = object.field("revision").as_int().unwrap_or(0);
        vec![object.name().into(), controller(object).into(), revision.into(), columns::age(cx, object)]
    }
}

/// The controller that the revision belongs to: `daemonset.apps/agent`.
fn controller(object: &Value) -> String {
    let Some(owner) = object.owner_references().iter().find(|owner| owner.field("controller").as_bool() == Some(true))
    else {
        return "<none>".to_string();
    };
    let (kind, name) = (owner.str_at(&["kind"]).to_lowercase(), owner.str_at(&["name"]));
    match GroupVersion::parse(owner.str_at(&["apiVersion"])) {
        Ok(version) if !version.group.is_empty() => format!("{kind}.{}/{name}", version.group),
        _ => format!("{kind}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use object::{Raw, value};

    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            ControllerRevision,
            "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: a}, revision: 1, data: {spec: {a: 1}}}",
        )
    }

    #[test]
    fn data_is_an_object() {
        check().create(&[
            ("", ""),
            ("{data: {}}", ""),
            (
                "{revision: -1, data: null}",
                "revision: Invalid value: -1: must be greater than or equal to 0
                 data: Required value: data is mandatory",
            ),
            ("data: text", "data: Required value: data must be a valid JSON object"),
        ]);
    }

    #[test]
    fn data_stays() {
        check().update(&[
            ("", "revision: 2", ""),
            ("", "data: {spec: {a: 2}}", r#"data: Invalid value: {"spec":{"a":2}}: field is immutable"#),
        ]);
    }

    #[test]
    fn how_data_is_spelled_counts() {
        let data = |text: &str| value!({"metadata": {"name": "a"}, "data": (Raw::new(text))});
        let check = check();
        let cx = check.context("");
        for (old, new, want) in [
            (r#"{"b":1,"a":2}"#, r#"{"b":1,"a":2}"#, ""),
            (r#"{"b":1,"a":2}"#, r#"{"a":2, "b":1}"#, r#"data: Invalid value: {"a":2,"b":1}: field is immutable"#),
            (r#"{"a":1.0}"#, r#"{"a":1}"#, r#"data: Invalid value: {"a":1}: field is immutable"#),
        ] {
            let (old, new) = (data(old), data(new));
            let mut errors = Errors::new();
            ControllerRevision.validate_update(&cx, &Cursor::root(&new), &Cursor::root(&old), &mut errors);
            let got: Vec<String> = errors.iter().map(|error| error.to_string()).collect();
            assert_eq!(got.join("\n"), want);
        }
    }

    #[test]
    fn cells_show_the_controller() {
        check().cells(&[
            ("", "a <none> 1 <unknown>"),
            (
                "metadata: {ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: x, controller: true}]}",
                "a daemonset.apps/x 1 <unknown>",
            ),
        ]);
    }
}
