//! PodSecurity: pods must keep to the level that the labels of their namespace ask for.
//!
//! A pod that breaks the enforced level is refused. Pods and pod templates that break the level to warn about are let through
//! with a warning, and so is a namespace whose new level existing pods would break.

mod baseline;
mod checks;
mod meters;
mod policy;
mod restricted;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object::{Cursor, Errors, GroupKind, Meta, Status, Value, names};

use self::checks::{Pod, evaluate};
use self::meters::{Mode, PodSecurityMeters};
use self::policy::{Level, LevelVersion, Policy};
use super::forbidden;
use crate::{Attributes, Configuration, Plugin};

/// What namespaces that do not say are held to, and who is not held to anything.
#[derive(Default)]
pub struct PodSecurity {
    default: Policy,
    exempt_users: Vec<String>,
    exempt_namespaces: Vec<String>,
    exempt_runtime_classes: Vec<String>,
    meters: PodSecurityMeters,
}

/// What the keys of audit annotations begin with.
const ANNOTATION: &str = "pod-security.kubernetes.io/";

impl PodSecurity {
    /// Reads the plugin's PodSecurityConfiguration.
    pub fn new(config: &Configuration) -> Result<PodSecurity, String> {
        let own = config.of_kind("PodSecurity", "pod-security.admission.config.k8s.io", "PodSecurityConfiguration")?;
        let own = own.cloned().unwrap_or_default();
        let mut errors = Errors::new();
        let root = Cursor::root(&own);
        let default = Policy::configured(&root.field("defaults"), &mut errors);
        let exemptions = root.field("exemptions");
        let namespaces = exemptions.field("namespaces");
        let plugin = PodSecurity {
            default,
            exempt_namespaces: exempt(&namespaces, |name| names::name_is_dns_label(name, false), &mut errors),
            exempt_runtime_classes: exempt(
                &exemptions.field("runtimeClasses"),
                |name| names::name_is_dns_subdomain(name, false),
                &mut errors,
            ),
            exempt_users: exempt(
                &exemptions.field("usernames"),
                |name| if name.is_empty() { vec!["username must not be empty".into()] } else { Vec::new() },
                &mut errors,
            ),
            meters: PodSecurityMeters::default(),
        };
        if errors.is_empty() {
            return Ok(plugin);
        }
        Err(format!("failed to initialize admission plugin \"PodSecurity\": {}", errors.aggregate()))
    }

    /// Whether the request is exempt because of its namespace or user, which is noted.
    fn is_exempt(&self, attributes: &Attributes<'_>) -> bool {
        if self.exempt_namespaces.iter().any(|name| name == attributes.cx.namespace) {
            return self.note_exemption(attributes, "namespace");
        }
        self.exempt_users.contains(&attributes.cx.user.name) && self.note_exemption(attributes, "user")
    }

    fn is_exempt_class(&self, attributes: &Attributes<'_>, spec: &Value) -> bool {
        let class = spec.str_at(&["runtimeClassName"]);
        !class.is_empty()
            && self.exempt_runtime_classes.iter().any(|name| name == class)
            && self.note_exemption(attributes, "runtimeClass")
    }

    fn note_exemption(&self, attributes: &Attributes<'_>, reason: &str) -> bool {
        self.meters.exempted(attributes);
        annotate(attributes, "exempt", reason);
        true
    }
}

fn annotate(attributes: &Attributes<'_>, key: &str, value: impl ToString) {
    attributes.annotate(format!("{ANNOTATION}{key}"), value.to_string());
}

/// The names of a list of exemptions, each valid and once.
fn exempt(list: &Cursor, check: impl Fn(&str) -> Vec<String>, errors: &mut Errors) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for item in list.each() {
        let problems = check(item.str());
        if !problems.is_empty() {
            item.invalid_as(errors, item.str(), problems.join(", "));
        } else if names.iter().any(|name| name == item.str()) {
            item.duplicate(errors);
        } else {
            names.push(item.str().to_string());
        }
    }
    names
}

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

    fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        self.meters.write(out)
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
            ("", "namespaces") if attributes.subresource.is_empty() => self.namespace(attributes, object, old),
            ("", "pods") if !IGNORED_SUBRESOURCES.contains(&attributes.subresource) => {
                self.pod(attributes, object, old)
            }
            (group, resource) if attributes.subresource.is_empty() => match template(group, resource, object) {
                Some(template) => {
                    self.warn_about_template(attributes, template);
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

impl PodSecurity {
    fn pod(&self, attributes: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        if self.is_exempt(attributes) {
            return Ok(());
        }
        let name = attributes.cx.namespace;
        let Some(namespace) = attributes.cx.lookup.get("", "namespaces", "", name) else {
            self.meters.failed(attributes, true);
            return Err(Status::internal(format!("failed to lookup namespace {name:?}")));
        };
        let (policy, errors) = Policy::of(&namespace, &self.default);
        if errors.is_empty() && policy.is_privileged() {
            self.meters.evaluated(attributes, policy.enforce, Mode::Enforce, true);
            annotate(attributes, "enforce-policy", "privileged:latest");
            return Ok(());
        }
        if old.is_some_and(|old| !is_significant_update(object, old))
            || self.is_exempt_class(attributes, object.field("spec"))
        {
            return Ok(());
        }
        self.note_errors(attributes, &errors);
        annotate(attributes, "enforce-policy", policy.enforce);
        let pod = Pod::of(object);
        let violations = evaluate(policy.enforce, pod);
        self.meters.evaluated(attributes, policy.enforce, Mode::Enforce, violations.is_empty());
        self.audit(attributes, &policy, pod);
        if !violations.is_empty() {
            return Err(forbidden(attributes, format!("violates PodSecurity \"{}\": {violations}", policy.enforce)));
        }
        self.warn(attributes, &policy, pod);
        Ok(())
    }

    fn warn_about_template(&self, attributes: &Attributes<'_>, template: &Value) {
        if self.is_exempt(attributes) {
            return;
        }
        let name = attributes.cx.namespace;
        let Some(namespace) = attributes.cx.lookup.get("", "namespaces", "", name) else {
            self.meters.failed(attributes, true);
            let why = format!("namespaces {} not found", object::quote(name));
            return annotate(attributes, "error", format!("failed to lookup namespace {}: {why}", object::quote(name)));
        };
        let (policy, errors) = Policy::of(&namespace, &self.default);
        let is_privileged = [policy.warn, policy.audit].iter().all(|mode| mode.level == Level::Privileged);
        if (errors.is_empty() && is_privileged) || self.is_exempt_class(attributes, template.field("spec")) {
            return;
        }
        self.note_errors(attributes, &errors);
        let pod = Pod::of(template);
        self.audit(attributes, &policy, pod);
        self.warn(attributes, &policy, pod);
    }

    /// Notes labels of the namespace that cannot be read.
    fn note_errors(&self, attributes: &Attributes<'_>, errors: &Errors) {
        if !errors.is_empty() {
            self.meters.failed(attributes, false);
            annotate(attributes, "error", format!("Failed to parse policy: {}", errors.aggregate()));
        }
    }

    fn audit(&self, attributes: &Attributes<'_>, policy: &Policy, pod: Pod<'_>) {
        let violations = evaluate(policy.audit, pod);
        if !violations.is_empty() {
            self.meters.evaluated(attributes, policy.audit, Mode::Audit, false);
            let text = format!("would violate PodSecurity \"{}\": {violations}", policy.audit);
            annotate(attributes, "audit-violations", text);
        }
    }

    fn warn(&self, attributes: &Attributes<'_>, policy: &Policy, pod: Pod<'_>) {
        let violations = evaluate(policy.warn, pod);
        if !violations.is_empty() {
            self.meters.evaluated(attributes, policy.warn, Mode::Warn, false);
            attributes.warn(format!("would violate PodSecurity \"{}\": {violations}", policy.warn));
        }
    }

    fn namespace(&self, attributes: &Attributes<'_>, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        let (policy, errors) = Policy::of(object, &self.default);
        let (before, old_errors) = old.map(|old| Policy::of(old, &self.default)).unwrap_or_default();
        // Labels that were broken before may stay so, or the namespace could not be changed in any other way.
        if !errors.is_empty() && errors != old_errors {
            let kind = GroupKind::new(attributes.kind.group.clone(), attributes.kind.kind.clone());
            return Err(Status::invalid(&kind, attributes.name, &errors));
        }
        let relaxed = policy.enforce.version == before.enforce.version && policy.enforce.level <= before.enforce.level;
        if old.is_some() && (policy.enforce.level == Level::Privileged || relaxed) {
            return Ok(());
        }
        if self.exempt_namespaces.iter().any(|name| name == object.name()) {
            if !policy.is_privileged() && policy != self.default {
                let (name, ignored) = (object::quote(object.name()), policy.stated(object));
                attributes.warn(format!(
                    "namespace {name} is exempt from Pod Security, and the policy ({ignored}) will be ignored"
                ));
            }
            return Ok(());
        }
        if old.is_none() {
            return Ok(());
        }
        for warning in existing_violations(attributes, object.name(), policy.enforce) {
            attributes.warn(warning);
        }
        Ok(())
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
