//! PodSecurity: pods must keep to the level that the labels of their namespace ask for.
//!
//! A pod that breaks the enforced level is refused. Pods and pod templates that break the level to warn about are let through
//! with a warning, and so is a namespace whose new level existing pods would break.

mod baseline;
mod checks;
mod policy;
mod restricted;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object::{GroupKind, Meta, Status, Value};

use self::checks::{Pod, Violations, evaluate};
use self::policy::{Level, LevelVersion, Policy};
use super::forbidden;
use crate::{Attributes, Operation, Plugin};

pub struct PodSecurity;

/// Subresources of pods that carry something other than a pod's spec.
const IGNORED_SUBRESOURCES: &[&str] =
    &["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// A namespace's label change waits for at most so many pods, and so long.
const MAX_PODS_TO_CHECK: usize = 3000;
const MAX_CHECK_TIME: Duration = Duration::from_secs(1);

#[async_trait]
impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
            ("", "namespaces") if attributes.subresource.is_empty() => namespace(attributes, object, old),
            ("", "pods") if !IGNORED_SUBRESOURCES.contains(&attributes.subresource) => pod(attributes, object, old),
            (group, resource) if attributes.subresource.is_empty() => match template(group, resource, object) {
                Some(template) => {
                    warn_about_template(attributes, template);
                    Ok(())
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The pod template of a workload, None for everything that has none.
fn template<'a>(group: &str, resource: &str, object: &'a Value) -> Option<&'a Value> {
    let template = match (group, resource) {
        ("", "podtemplates") => object.field("template"),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => object.at(&["spec", "template"]),
        ("batch", "cronjobs") => object.at(&["spec", "jobTemplate", "spec", "template"]),
        _ => return None,
    };
    (!template.is_null()).then_some(template)
}

fn pod(attributes: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    let name = attributes.cx.namespace;
    let namespace = attributes.cx.lookup.get("", "namespaces", "", name);
    let namespace = namespace.ok_or_else(|| Status::internal(format!("failed to lookup namespace {name:?}")))?;
    let (policy, errors) = Policy::of(&namespace);
    let unchanged = old.is_some_and(|old| !is_significant_update(object, old));
    if (errors.is_empty() && policy.is_privileged()) || unchanged {
        return Ok(());
    }
    let pod = Pod::of(object);
    let violations = evaluate(policy.enforce, pod);
    if !violations.is_empty() {
        return Err(forbidden(attributes, format!("violates PodSecurity \"{}\": {violations}", policy.enforce)));
    }
    warn(attributes, policy.warn, &evaluate(policy.warn, pod));
    Ok(())
}

fn warn_about_template(attributes: &Attributes<'_>, template: &Value) {
    if let Some(namespace) = attributes.cx.lookup.get("", "namespaces", "", attributes.cx.namespace) {
        let (policy, _) = Policy::of(&namespace);
        warn(attributes, policy.warn, &evaluate(policy.warn, Pod::of(template)));
    }
}

fn warn(attributes: &Attributes<'_>, level: LevelVersion, violations: &Violations) {
    if !violations.is_empty() {
        attributes.warn(format!("would violate PodSecurity \"{level}\": {violations}"));
    }
}

/// Of all that can change in a pod, only its images and new ephemeral containers matter.
fn is_significant_update(pod: &Value, old: &Value) -> bool {
    let image = |container: &Value| container.str_at(&["image"]).to_string();
    let changed = |field: &str| {
        let (new, old) = (pod.list_at(&["spec", field]), old.list_at(&["spec", field]));
        new.len() != old.len() || new.iter().zip(old).any(|(new, old)| image(new) != image(old))
    };
    let before = old.list_at(&["spec", "ephemeralContainers"]);
    let added = |container: &Value| {
        let same = before.iter().find(|old| old.str_at(&["name"]) == container.str_at(&["name"]));
        same.is_none_or(|old| image(old) != image(container))
    };
    changed("containers")
        || changed("initContainers")
        || pod.list_at(&["spec", "ephemeralContainers"]).iter().any(added)
}

fn namespace(attributes: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    let (policy, errors) = Policy::of(object);
    let (before, old_errors) = old.map(Policy::of).unwrap_or_default();
    // Labels that were broken before may stay so, or the namespace could not be changed in any other way.
    if !errors.is_empty() && errors != old_errors {
        let kind = GroupKind::new(attributes.kind.group.clone(), attributes.kind.kind.clone());
        return Err(Status::invalid(&kind, attributes.name, &errors));
    }
    let relaxed = policy.enforce.version == before.enforce.version && policy.enforce.level <= before.enforce.level;
    if old.is_none() || policy.enforce.level == Level::Privileged || relaxed {
        return Ok(());
    }
    for warning in existing_violations(attributes, object.name(), policy.enforce) {
        attributes.warn(warning);
    }
    Ok(())
}

/// What to tell about pods that are in the namespace already and would not be let in any more.
fn existing_violations(attributes: &Attributes<'_>, namespace: &str, enforce: LevelVersion) -> Vec<String> {
    let started = Instant::now();
    let pods = one_of_each_owner_first(attributes.cx.lookup.list("", "pods", namespace));
    let mut checked = 0;
    // By reasons: the first pod's name and how many there are.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in pods.iter().take(MAX_PODS_TO_CHECK) {
        checked += 1;
        let violations = evaluate(enforce, Pod::of(pod));
        if !violations.is_empty() {
            let (first, count) = found.entry(violations.reasons()).or_insert_with(|| (pod.name().to_string(), 0));
            *count += 1;
            if pod.name() < first.as_str() {
                *first = pod.name().to_string();
            }
        }
        if started.elapsed() > MAX_CHECK_TIME {
            break;
        }
    }
    let mut warnings = Vec::new();
    if checked < pods.len() {
        let total = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|(reasons, (first, count))| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            _ => format!("{first} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort();
    warnings.extend(lines);
    warnings
}

/// Replicas of one controller are alike, so the first of each says most about the namespace if time runs out.
fn one_of_each_owner_first(pods: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
    let mut seen = HashSet::new();
    let (mut first, more): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| {
        let owners = pod.list_at(&["metadata", "ownerReferences"]);
        let controller = owners.iter().find(|owner| owner.field("controller").as_bool() == Some(true));
        controller.is_none_or(|owner| seen.insert(owner.str_at(&["uid"]).to_string()))
    });
    first.extend(more);
    first
}
