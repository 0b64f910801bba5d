//! How many pods were evaluated by which policy, and with which outcome.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use super::policy::{Level, LevelVersion, Version};
use crate::{Attributes, Operation};

/// The newest minor release whose policies are known.
const NEWEST_MINOR: u32 = 37;

/// Counters by their labels as text.
pub struct PodSecurityMeters {
    evaluations: Mutex<BTreeMap<String, u64>>,
    exemptions: Mutex<BTreeMap<String, u64>>,
    errors: Mutex<BTreeMap<String, u64>>,
}

/// The most frequent series are shown from the start, as upstream has it.
impl Default for PodSecurityMeters {
    fn default() -> PodSecurityMeters {
        let request = |operation: &str, resource: &str| {
            format!("request_operation=\"{operation}\",resource=\"{resource}\",subresource=\"\"")
        };
        let policy = "decision=\"allow\",mode=\"enforce\",policy_level=\"privileged\",policy_version=\"latest\"";
        let (mut evaluations, mut exemptions) = (BTreeMap::new(), BTreeMap::new());
        for operation in ["create", "update"] {
            evaluations.insert(format!("{policy},{}", request(operation, "pod")), 0);
            for resource in ["pod", "controller"] {
                exemptions.insert(request(operation, resource), 0);
            }
        }
        PodSecurityMeters {
            evaluations: Mutex::new(evaluations),
            exemptions: Mutex::new(exemptions),
            errors: Mutex::default(),
        }
    }
}

/// What a policy is evaluated for.
#[derive(Clone, Copy)]
pub enum Mode {
    Enforce,
    Audit,
    Warn,
}

impl PodSecurityMeters {
    pub fn evaluated(&self, attributes: &Attributes<'_>, policy: LevelVersion, mode: Mode, allowed: bool) {
        let level = policy.to_string();
        let level = level.split(':').next().unwrap_or("");
        let version = match policy.version {
            Version::Minor(minor) if policy.level != Level::Privileged && minor > NEWEST_MINOR => "future".to_string(),
            Version::Minor(minor) if policy.level != Level::Privileged => format!("v1.{minor}"),
            _ => "latest".to_string(),
        };
        let decision = if allowed { "allow" } else { "deny" };
        let mode = match mode {
            Mode::Enforce => "enforce",
            Mode::Audit => "audit",
            Mode::Warn => "warn",
        };
        let (operation, resource, subresource) = labels(attributes);
        let text = format!(
            "decision=\"{decision}\",mode=\"{mode}\",policy_level=\"{level}\",policy_version=\"{version}\",\
             request_operation=\"{operation}\",resource=\"{resource}\",subresource=\"{subresource}\""
        );
        increment(&self.evaluations, text);
    }

    pub fn exempted(&self, attributes: &Attributes<'_>) {
        let (operation, resource, subresource) = labels(attributes);
        increment(
            &self.exemptions,
            format!("request_operation=\"{operation}\",resource=\"{resource}\",subresource=\"{subresource}\""),
        );
    }

    /// `fatal` errors keep the request from being evaluated at all.
    pub fn failed(&self, attributes: &Attributes<'_>, fatal: bool) {
        let (operation, resource, subresource) = labels(attributes);
        increment(
            &self.errors,
            format!(
                "fatal=\"{fatal}\",request_operation=\"{operation}\",resource=\"{resource}\",subresource=\"{subresource}\""
            ),
        );
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        for (name, help, counts) in [
            ("pod_security_evaluations_total", "Pods and templates that were evaluated.", &self.evaluations),
            ("pod_security_exemptions_total", "Requests that were exempt.", &self.exemptions),
            ("pod_security_errors_total", "Errors that kept requests from normal evaluation.", &self.errors),
        ] {
            writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter")?;
            for (labels, count) in counts.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                writeln!(out, "{name}{{{labels}}} {count}")?;
            }
        }
        Ok(())
    }
}

fn increment(counts: &Mutex<BTreeMap<String, u64>>, labels: String) {
    *counts.lock().unwrap_or_else(PoisonError::into_inner).entry(labels).or_default() += 1;
}

/// Operation, resource and subresource. Whatever is neither a pod nor a namespace has a pod template.
fn labels<'a>(attributes: &Attributes<'a>) -> (&'static str, &'static str, &'a str) {
    let operation = if attributes.operation == Operation::Create { "create" } else { "update" };
    let resource = match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
        ("", "pods") => "pod",
        ("", "namespaces") => "namespace",
        _ => "controller",
    };
    (operation, resource, attributes.subresource)
}
