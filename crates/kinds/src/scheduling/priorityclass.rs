//! Priority classes: names for how important pods are.

use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{Checks, immutable};

/// Values above this are the system's.
pub const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
pub const SYSTEM_CRITICAL_PRIORITY: i64 = 2 * HIGHEST_USER_PRIORITY;
pub const SYSTEM_PREFIX: &str = "system-";
/// The classes that every cluster has, by name and value. None of them is the default.
pub const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", SYSTEM_CRITICAL_PRIORITY + 1000), ("system-cluster-critical", SYSTEM_CRITICAL_PRIORITY)];

pub struct PriorityClass;

const FACTS: Facts = Facts {
    // What could change without breaking pods does not count: the generation is always 1.
    generation: Some(|_, _| false),
    protected: Some((
        &[SYSTEM_CLASSES[0].0, SYSTEM_CLASSES[1].0],
        "this is a system priority class and cannot be deleted",
    )),
    ..Facts::WITHOUT_STATUS
};

impl Strategy for PriorityClass {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let (name, value) = (object.at(&["metadata", "name"]), object.field("value"));
        if name.str().starts_with(SYSTEM_PREFIX) {
            if let Err(why) = check_system_class(name.str(), value.int(), object.field("globalDefault").bool()) {
                let detail = "priority class names with 'system-' prefix are reserved for system use only. error: ";
                name.forbidden(errors, format!("{detail}{why}"));
            }
        } else if value.int() > HIGHEST_USER_PRIORITY {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
            value.forbidden(errors, detail);
        }
        let preemption = object.field("preemptionPolicy");
        if preemption.is_set() {
            preemption.require_one_of(errors, &["PreemptLowerPriority", "Never"]);
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        if new.field("value").int() != old.field("value").int() {
            new.field("value").forbidden(errors, "may not be changed in an update.");
        }
        immutable(&new.field("preemptionPolicy"), &old.field("preemptionPolicy"), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![
            object.name().into(),
            object.field("value").as_int().unwrap_or(0).into(),
            object.field("globalDefault").as_bool().unwrap_or(false).into(),
            columns::age(cx, object),
            object.str_at(&["preemptionPolicy"]).into(),
        ]
    }
}

fn check_system_class(name: &str, value: i64, global_default: bool) -> Result<(), String> {
    match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
        None => Err(format!("{name} is not a known system priority class")),
        Some((_, wanted)) if *wanted != value => Err(format!("value of {name} PriorityClass must be {wanted}")),
        Some(_) if global_default => Err(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            PriorityClass,
            "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 10}",
        )
    }

    #[test]
    fn high_values_and_system_names_are_reserved() {
        let reserved = "priority class names with 'system-' prefix are reserved for system use only. error:";
        check().create(&[
            ("value: 1000000000", ""),
            (
                "value: 1000000001",
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            ),
            ("{metadata: {name: system-node-critical}, value: 2000001000}", ""),
            (
                "metadata: {name: system-mine}",
                &format!("metadata.name: Forbidden: {reserved} system-mine is not a known system priority class"),
            ),
            (
                "{metadata: {name: system-node-critical}}",
                &format!("metadata.name: Forbidden: {reserved} value of system-node-critical PriorityClass must be 2000001000"),
            ),
            (
                "{metadata: {name: system-cluster-critical}, value: 2000000000, globalDefault: true}",
                &format!("metadata.name: Forbidden: {reserved} globalDefault of system-cluster-critical PriorityClass must be false"),
            ),
            (
                "preemptionPolicy: Maybe",
                r#"preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never""#,
            ),
        ]);
    }

    #[test]
    fn value_and_preemption_stay() {
        check().update(&[
            ("", "{globalDefault: true, description: d}", ""),
            (
                "",
                "{value: 11, preemptionPolicy: Never}",
                r#"value: Forbidden: may not be changed in an update.
                   preemptionPolicy: Invalid value: "Never": field is immutable"#,
            ),
        ]);
    }
}
