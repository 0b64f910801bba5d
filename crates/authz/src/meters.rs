//! Metrics of authorizers, under upstream's names.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Family, Histogram};

/// Prometheus' default buckets.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// From a tenth of a millisecond on, each twice the one before.
const GRAPH_SECONDS: &[f64] =
    &[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048];
const CONDITION_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
/// The type of all authorizers that have match conditions.
const WEBHOOK: &str = "Webhook";

pub struct AuthzMeters {
    pub(crate) decisions: Family<Counter>,
    evaluations: Family<Counter>,
    seconds: Family<Histogram>,
    failed_open: Family<Counter>,
    condition_errors: Family<Counter>,
    condition_exclusions: Family<Counter>,
    condition_seconds: Family<Histogram>,
    pub(crate) graph_seconds: Family<Histogram>,
}

impl Default for AuthzMeters {
    fn default() -> AuthzMeters {
        let webhook = &["name", "result"];
        let condition = &["type", "name"];
        AuthzMeters {
            decisions: Family::new(
                "apiserver_authorization_decisions_total",
                "[ALPHA] Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
                &["type", "name", "decision"],
                Counter::default,
            ),
            evaluations: Family::new(
                "apiserver_authorization_webhook_evaluations_total",
                "[ALPHA] Round-trips to authorization webhooks.",
                webhook,
                Counter::default,
            ),
            seconds: Family::new(
                "apiserver_authorization_webhook_duration_seconds",
                "[ALPHA] Request latency in seconds.",
                webhook,
                || Histogram::new(SECONDS),
            ),
            failed_open: Family::new(
                "apiserver_authorization_webhook_evaluations_fail_open_total",
                "[ALPHA] NoOpinion results due to webhook timeout or error.",
                webhook,
                Counter::default,
            ),
            condition_errors: Family::new(
                "apiserver_authorization_match_condition_evaluation_errors_total",
                "[ALPHA] Total number of errors when an authorization webhook encounters a match condition error split by \
                 authorizer type and name.",
                condition,
                Counter::default,
            ),
            condition_exclusions: Family::new(
                "apiserver_authorization_match_condition_exclusions_total",
                "[ALPHA] Total number of exclusions when an authorization webhook is skipped because match conditions \
                 exclude it.",
                condition,
                Counter::default,
            ),
            condition_seconds: Family::new(
                "apiserver_authorization_match_condition_evaluation_seconds",
                "[ALPHA] Authorization match condition evaluation time in seconds, split by authorizer type and name.",
                condition,
                || Histogram::new(CONDITION_SECONDS),
            ),
            graph_seconds: Family::new(
                "node_authorizer_graph_actions_duration_seconds",
                "[ALPHA] Histogram of duration of graph actions in node authorizer.",
                &["operation"],
                || Histogram::new(GRAPH_SECONDS),
            ),
        }
    }
}

impl AuthzMeters {
    pub(crate) fn called(&self, name: &str, result: &str, took: Duration) {
        self.evaluations.with(&[name, result]).increment();
        self.seconds.with(&[name, result]).observe(took.as_secs_f64());
    }

    pub(crate) fn failed_open(&self, name: &str, result: &str) {
        self.failed_open.with(&[name, result]).increment();
    }

    pub(crate) fn conditions(&self, name: &str, took: Duration, matched: &crate::conditions::Matched) {
        use crate::conditions::Matched;
        self.condition_seconds.with(&[WEBHOOK, name]).observe(took.as_secs_f64());
        match matched {
            Matched::Yes => {}
            Matched::No => self.condition_exclusions.with(&[WEBHOOK, name]).increment(),
            Matched::Failed(_) => self.condition_errors.with(&[WEBHOOK, name]).increment(),
        }
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        for family in
            [&self.decisions, &self.evaluations, &self.failed_open, &self.condition_errors, &self.condition_exclusions]
        {
            family.write(out)?;
        }
        self.seconds.write(out)?;
        self.condition_seconds.write(out)?;
        self.graph_seconds.write(out)
    }
}
