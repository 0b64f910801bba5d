//! [`AdmissionMeters`]: the metrics of admission, under upstream's names.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Family, Histogram};

use crate::{chain, manifests, policy, webhook};

/// Seconds that match conditions took.
const CONDITION_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// All metrics of admission.
pub struct AdmissionMeters {
    pub plugins: chain::ChainMeters,
    pub webhooks: webhook::WebhookMeters,
    pub policies: policy::PolicyMeters,
    pub conditions: ConditionMeters,
    pub manifests: manifests::ManifestMeters,
}

impl AdmissionMeters {
    /// `server` is the identity of this API server, the name of its lease.
    pub fn new(server: &str) -> AdmissionMeters {
        AdmissionMeters {
            plugins: chain::ChainMeters::default(),
            webhooks: webhook::WebhookMeters::default(),
            policies: policy::PolicyMeters::default(),
            conditions: ConditionMeters::default(),
            manifests: manifests::ManifestMeters::new(server),
        }
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.plugins.write(out)?;
        self.webhooks.write(out)?;
        self.policies.write(out)?;
        self.conditions.write(out)?;
        self.manifests.write(out)
    }
}

/// Metrics of the match conditions of webhooks and policies.
pub struct ConditionMeters {
    seconds: Family<Histogram>,
    exclusions: Family<Counter>,
    errors: Family<Counter>,
}

/// Whose match conditions are evaluated: the labels `name`, `kind` and `type`.
#[derive(Clone, Debug)]
pub struct ConditionLabels {
    pub name: object::Str,
    /// `webhook` or `policy`.
    pub kind: &'static str,
    pub step: &'static str,
}

impl Default for ConditionMeters {
    fn default() -> ConditionMeters {
        const LABELS: &[&str] = &["name", "kind", "type", "operation"];
        ConditionMeters {
            seconds: Family::new(
                "apiserver_admission_match_condition_evaluation_seconds",
                "[ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each \
                 kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
                LABELS,
                || Histogram::new(CONDITION_SECONDS),
            ),
            exclusions: Family::new(
                "apiserver_admission_match_condition_exclusions_total",
                "[ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing \
                 the match condition and broken out for each kind containing matchConditions (webhook or policy), \
                 operation and admission type (validate or admit).",
                LABELS,
                Counter::default,
            ),
            errors: Family::new(
                "apiserver_admission_match_condition_evaluation_errors_total",
                "[ALPHA] Admission match condition evaluation errors count, identified by name of resource containing \
                 the match condition and broken out for each kind containing matchConditions (webhook or policy), \
                 operation and admission type (validate or admit).",
                LABELS,
                Counter::default,
            ),
        }
    }
}

impl ConditionMeters {
    /// Conditions were evaluated to their end, false or not; `errors` of them could not be.
    pub fn evaluated(&self, of: &ConditionLabels, operation: &str, took: Duration, errors: usize) {
        let labels = [of.name.as_str(), of.kind, of.step, operation];
        self.seconds.with(&labels).observe(took.as_secs_f64());
        if errors > 0 {
            self.errors.with(&labels).add(errors as u64);
        }
    }

    /// A webhook is not called because of its conditions.
    pub fn excluded(&self, of: &ConditionLabels, operation: &str) {
        self.exclusions.with(&[of.name.as_str(), of.kind, of.step, operation]).increment();
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        self.seconds.write(out)?;
        self.exclusions.write(out)?;
        self.errors.write(out)
    }
}
