//! [`AuthnMeters`]: metrics of authentication, under upstream's names.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use metrics::{Counter, Family, Gauge, Histogram};

const ATTEMPT_BUCKETS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];
const CACHE_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How a request's authentication ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<'a> {
    /// As this user.
    Success(&'a str),
    /// Without any credential that a method knows.
    Failure,
    Error,
}

/// Counts requests by how their authentication ended, and tokens by whether the cache knew them.
pub struct AuthnMeters {
    users: Family<Counter>,
    attempts: Family<Counter>,
    durations: Family<Histogram>,
    cache_requests: Family<Counter>,
    cache_durations: Family<Histogram>,
    fetches: Family<Counter>,
    active_fetches: Family<Gauge>,
    /// The series that nearly every request counts in.
    common: Common,
}

struct Common {
    other_user: Arc<Counter>,
    successes: Arc<Counter>,
    success_durations: Arc<Histogram>,
    hits: Arc<Counter>,
    hit_durations: Arc<Histogram>,
}

impl Default for AuthnMeters {
    fn default() -> AuthnMeters {
        let users = Family::new(
            "authenticated_user_requests",
            "Counter of authenticated requests broken out by username.",
            &["username"],
            Counter::default,
        );
        let attempts =
            Family::new("authentication_attempts", "Counter of authenticated attempts.", &["result"], Counter::default);
        let durations = Family::new(
            "authentication_duration_seconds",
            "Authentication duration in seconds broken out by result.",
            &["result"],
            || Histogram::new(ATTEMPT_BUCKETS),
        );
        let cache_requests = Family::new(
            "authentication_token_cache_request_total",
            "Tokens, by whether they were cached.",
            &["status"],
            Counter::default,
        );
        let cache_durations = Family::new(
            "authentication_token_cache_request_duration_seconds",
            "How long tokens took, by whether they were cached.",
            &["status"],
            || Histogram::new(CACHE_BUCKETS),
        );
        let common = Common {
            other_user: users.with(&["other"]),
            successes: attempts.with(&["success"]),
            success_durations: durations.with(&["success"]),
            hits: cache_requests.with(&["hit"]),
            hit_durations: cache_durations.with(&["hit"]),
        };
        let fetches = "Tokens that were not cached, by whether authentication failed.";
        let active = "Tokens that are being authenticated.";
        AuthnMeters {
            users,
            attempts,
            durations,
            cache_requests,
            cache_durations,
            fetches: Family::new("authentication_token_cache_fetch_total", fetches, &["status"], Counter::default),
            active_fetches: Family::new(
                "authentication_token_cache_active_fetch_count",
                active,
                &["status"],
                Gauge::default,
            ),
            common,
        }
    }
}

impl AuthnMeters {
    pub fn attempted(&self, attempt: Attempt<'_>, took: Duration) {
        let result = match attempt {
            Attempt::Success(user) => {
                match category(user) {
                    "other" => self.common.other_user.increment(),
                    known => self.users.with(&[known]).increment(),
                }
                self.common.successes.increment();
                return self.common.success_durations.observe(took.as_secs_f64());
            }
            Attempt::Failure => "failure",
            Attempt::Error => "error",
        };
        self.attempts.with(&[result]).increment();
        self.durations.with(&[result]).observe(took.as_secs_f64());
    }

    /// A token that the cache knew.
    pub fn cache_hit(&self, took: Duration) {
        self.common.hits.increment();
        self.common.hit_durations.observe(took.as_secs_f64());
    }

    /// A token that the cache does not know; what is returned is told how it went.
    pub fn fetch(&self) -> Fetch<'_> {
        self.active_fetches.with(&["in_flight"]).add(1.0);
        Fetch { meters: self, began: std::time::Instant::now(), succeeded: false }
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        self.users.write(out)?;
        self.attempts.write(out)?;
        self.durations.write(out)?;
        self.active_fetches.write(out)?;
        self.fetches.write(out)?;
        self.cache_durations.write(out)?;
        self.cache_requests.write(out)
    }
}

/// The authentication of a token; it is counted when it is dropped.
pub struct Fetch<'a> {
    meters: &'a AuthnMeters,
    began: std::time::Instant,
    pub succeeded: bool,
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let meters = self.meters;
        meters.active_fetches.with(&["in_flight"]).add(-1.0);
        meters.fetches.with(&[if self.succeeded { "ok" } else { "error" }]).increment();
        meters.cache_requests.with(&["miss"]).increment();
        meters.cache_durations.with(&["miss"]).observe(self.began.elapsed().as_secs_f64());
    }
}

/// Users as the metrics tell them apart: few, and without names of people.
fn category(user: &str) -> &str {
    match user {
        "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => user,
        email if email.contains('@') => "email_id",
        _ => "other",
    }
}

/// A hash as metrics show it; "" for nothing.
pub fn sha256(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    digest(&SHA256, data).as_ref().iter().fold("sha256:".to_string(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted() {
        let meters = AuthnMeters::default();
        for attempt in [Attempt::Success("ann@example.com"), Attempt::Success("x"), Attempt::Failure, Attempt::Error] {
            meters.attempted(attempt, Duration::from_millis(3));
        }
        meters.cache_hit(Duration::ZERO);
        meters.fetch().succeeded = true;
        drop(meters.fetch());
        let mut out = String::new();
        meters.write(&mut out).unwrap();
        for line in [
            "authenticated_user_requests{username=\"email_id\"} 1",
            "authenticated_user_requests{username=\"other\"} 1",
            "authentication_attempts{result=\"success\"} 2",
            "authentication_attempts{result=\"failure\"} 1",
            "authentication_duration_seconds_bucket{result=\"error\",le=\"0.004\"} 1",
            "authentication_token_cache_request_total{status=\"hit\"} 1",
            "authentication_token_cache_request_total{status=\"miss\"} 2",
            "authentication_token_cache_fetch_total{status=\"ok\"} 1",
            "authentication_token_cache_active_fetch_count{status=\"in_flight\"} 0",
        ] {
            assert!(out.contains(line), "{line}\n{out}");
        }
    }
}
