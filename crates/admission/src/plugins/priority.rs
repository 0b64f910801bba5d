//! Priority: a pod's priority is that of its class, and there is one default class at most.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Meta, Status, Value};

use super::forbidden;
use crate::{Attributes, Operation, Plugin};

pub struct Priority;

const GROUP: &str = "scheduling.k8s.io";
const RESOURCE: &str = "priorityclasses";
const DEFAULT_POLICY: &str = "PreemptLowerPriority";

#[async_trait]
impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        match old {
            Some(old) => {
                for field in ["priority", "preemptionPolicy"] {
                    if object.at(&["spec", field]).is_null() {
                        object.keep(&["spec", field], old);
                    }
                }
                Ok(())
            }
            None => settle(attributes, object),
        }
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(class) = object.filter(|_| attributes.is(GROUP, RESOURCE)) else { return Ok(()) };
        if class.field("globalDefault").as_bool() != Some(true) {
            return Ok(());
        }
        match default_class(attributes) {
            Some(other) if attributes.operation == Operation::Create || other.name() != class.name() => {
                let why =
                    format!("PriorityClass {} is already marked as default. Only one default can exist", other.name());
                Err(forbidden(attributes, why))
            }
            _ => Ok(()),
        }
    }
}

fn settle(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
    let named = pod.str_at(&["spec", "priorityClassName"]).to_string();
    let class = if named.is_empty() {
        default_class(attributes)
    } else {
        let found = attributes.cx.lookup.get(GROUP, RESOURCE, "", &named);
        Some(found.ok_or_else(|| forbidden(attributes, format!("no PriorityClass with name {named} was found")))?)
    };
    let (priority, policy) = match &class {
        Some(class) => {
            pod.set(&["spec", "priorityClassName"], class.name());
            let policy = class.field("preemptionPolicy").as_str().unwrap_or(DEFAULT_POLICY);
            (class.field("value").as_int().unwrap_or(0), policy.to_string())
        }
        None => (0, DEFAULT_POLICY.to_string()),
    };
    if let Some(given) = pod.at(&["spec", "priority"]).as_int().filter(|given| *given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(attributes, why));
    }
    pod.set(&["spec", "priority"], priority);
    if let Some(given) = pod.at(&["spec", "preemptionPolicy"]).as_str().filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(attributes, why));
    }
    pod.set(&["spec", "preemptionPolicy"], policy);
    Ok(())
}

/// The class of pods that name none: of several marked as default, the one with the lowest value.
fn default_class(attributes: &Attributes<'_>) -> Option<Arc<Value>> {
    let classes = attributes.cx.lookup.list(GROUP, RESOURCE, "");
    classes
        .into_iter()
        .filter(|class| class.field("globalDefault").as_bool() == Some(true))
        .min_by_key(|class| class.field("value").as_int().unwrap_or(0))
}
