//! The health checks: `/healthz`, `/livez` and `/readyz`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

/// One condition of the server's health.
#[async_trait]
pub trait Check: Send + Sync + 'static {
    fn name(&self) -> &str;

    /// A name by which several checks can be excluded at once; "" if there is none.
    fn group(&self) -> &str {
        ""
    }

    /// Err says what is wrong.
    async fn check(&self) -> Result<(), String>;
}

/// A check that passes whenever the server can answer: `ping`, `log`.
pub struct Always(pub &'static str);

#[async_trait]
impl Check for Always {
    fn name(&self) -> &str {
        self.0
    }

    async fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A check that passes once a step after the start is done: `poststarthook/rbac/bootstrap-roles`.
pub struct Hook {
    name: &'static str,
    done: AtomicBool,
}

impl Hook {
    pub fn new(name: &'static str) -> Arc<Hook> {
        Arc::new(Hook { name, done: AtomicBool::new(false) })
    }

    pub fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }
}

#[async_trait]
impl Check for Hook {
    fn name(&self) -> &str {
        self.name
    }

    async fn check(&self) -> Result<(), String> {
        if self.done.load(Ordering::Acquire) { Ok(()) } else { Err("not finished".into()) }
    }
}

/// A check that passes, whatever it finds, until some time after the start: `--livez-grace-period`.
pub struct Delayed {
    check: Arc<dyn Check>,
    from: Instant,
}

impl Delayed {
    pub fn new(check: Arc<dyn Check>, delay: Duration) -> Arc<Delayed> {
        Arc::new(Delayed { check, from: Instant::now() + delay })
    }
}

#[async_trait]
impl Check for Delayed {
    fn name(&self) -> &str {
        self.check.name()
    }

    fn group(&self) -> &str {
        self.check.group()
    }

    async fn check(&self) -> Result<(), String> {
        if Instant::now() < self.from { Ok(()) } else { self.check.check().await }
    }
}

/// All checks, and which endpoints run them.
#[derive(Clone, Default)]
pub struct Health {
    checks: Arc<RwLock<Vec<Registered>>>,
    results: Arc<Mutex<Results>>,
}

/// By name and endpoint: how often the check passed and failed, and whether it passed last.
type Results = BTreeMap<(String, &'static str), (u64, u64, bool)>;

struct Registered {
    check: Arc<dyn Check>,
    endpoints: Vec<Endpoint>,
}

impl Registered {
    fn is_asked(&self, endpoint: Endpoint) -> bool {
        self.endpoints.contains(&endpoint)
    }
}

/// Which endpoint is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    pub const ALL: [Endpoint; 3] = [Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz];

    fn name(self) -> &'static str {
        match self {
            Endpoint::Healthz => "healthz",
            Endpoint::Livez => "livez",
            Endpoint::Readyz => "readyz",
        }
    }

    /// Which check a path asks for: "" for all of them, None if it is about something else.
    pub fn check_in(self, path: &str) -> Option<&str> {
        let rest = path.strip_prefix('/')?.strip_prefix(self.name())?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('/').filter(|name| !name.is_empty()) }
    }
}

impl Health {
    /// Adds a check that readiness asks, and liveness too if `live`.
    pub fn add(&self, check: Arc<dyn Check>, live: bool, ready: bool) {
        let live = live.then_some([Endpoint::Healthz, Endpoint::Livez]);
        let ready = ready.then_some(Endpoint::Readyz);
        let endpoints: Vec<Endpoint> = live.into_iter().flatten().chain(ready).collect();
        self.add_to(&endpoints, check);
    }

    /// Adds a check that these endpoints ask.
    pub fn add_to(&self, endpoints: &[Endpoint], check: Arc<dyn Check>) {
        self.checks.write().push(Registered { check, endpoints: endpoints.to_vec() });
    }

    /// The paths of all endpoints and of each of their checks.
    pub fn paths(&self) -> Vec<String> {
        let checks = self.checks.read();
        let of = |endpoint: Endpoint| {
            let asked = checks.iter().filter(move |registered| registered.is_asked(endpoint));
            let names = asked.map(move |registered| format!("/{}/{}", endpoint.name(), registered.check.name()));
            names.chain([format!("/{}", endpoint.name())])
        };
        Endpoint::ALL.into_iter().flat_map(of).collect()
    }

    /// Answers `/livez`, `/livez?verbose`, `/livez/<check>` and so on.
    pub async fn answer(&self, endpoint: Endpoint, name: &str, query: &[(String, String)]) -> (StatusCode, String) {
        let asked: Vec<Arc<dyn Check>> = {
            let checks = self.checks.read();
            let asked = checks.iter().filter(|registered| registered.is_asked(endpoint));
            asked.map(|registered| registered.check.clone()).collect()
        };
        if !name.is_empty() {
            return one(&asked, name).await;
        }
        let excluded: Vec<&str> =
            query.iter().filter(|(key, _)| key == "exclude").map(|(_, value)| value.as_str()).collect();
        let is_verbose = query.iter().any(|(key, _)| key == "verbose");
        all(endpoint, &asked, &excluded, is_verbose, |name, passed| {
            let mut results = self.results.lock();
            let (successes, errors, last) = results.entry((name.to_string(), endpoint.name())).or_default();
            *if passed { successes } else { errors } += 1;
            *last = passed;
        })
        .await
    }

    /// `/metrics/slis`: the results of the checks.
    pub fn slis(&self) -> String {
        let results = self.results.lock();
        let gauges = results.iter().map(|((name, kind), (_, _, last))| {
            format!("kubernetes_healthcheck{{name={},type=\"{kind}\"}} {}\n", object::quote(name), u8::from(*last))
        });
        let counters = results.iter().flat_map(|((name, kind), (successes, errors, _))| {
            let counts = [("error", *errors), ("success", *successes)].into_iter().filter(|(_, count)| *count > 0);
            counts.map(move |(status, count)| {
                let name = object::quote(name);
                format!("kubernetes_healthchecks_total{{name={name},status=\"{status}\",type=\"{kind}\"}} {count}\n")
            })
        });
        format!(
            "# HELP kubernetes_healthcheck The result of the last check.\n# TYPE kubernetes_healthcheck gauge\n{}\
             # HELP kubernetes_healthchecks_total The results of all checks.\n# TYPE kubernetes_healthchecks_total counter\n{}",
            gauges.collect::<String>(),
            counters.collect::<String>()
        )
    }
}

async fn one(checks: &[Arc<dyn Check>], name: &str) -> (StatusCode, String) {
    match checks.iter().find(|check| check.name() == name) {
        None => (StatusCode::NOT_FOUND, "404 page not found\n".into()),
        Some(check) => match check.check().await {
            Ok(()) => (StatusCode::OK, "ok".into()),
            Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        },
    }
}

async fn all(
    endpoint: Endpoint,
    checks: &[Arc<dyn Check>],
    excluded: &[&str],
    verbose: bool,
    note: impl Fn(&str, bool),
) -> (StatusCode, String) {
    let mut lines = String::new();
    let mut failed = false;
    let mut unmatched: BTreeSet<&str> = excluded.iter().copied().collect();
    for check in checks {
        let name = check.name();
        if excluded.contains(&name) {
            unmatched.remove(name);
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        let group = check.group();
        if !group.is_empty() && excluded.contains(&group) {
            unmatched.remove(group);
            lines.push_str(&format!("[+]{name} excluded with {group}: ok\n"));
            continue;
        }
        let outcome = check.check().await;
        note(name, outcome.is_ok());
        match outcome {
            Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
            Err(why) => {
                // The reason is for the log: health endpoints are open to anonymous users.
                tracing::warn!(check = name, why, "a health check failed");
                failed = true;
                lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
            }
        }
    }
    if !unmatched.is_empty() {
        let names: Vec<String> = unmatched.into_iter().map(object::quote).collect();
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(",")));
    }
    let endpoint = endpoint.name();
    match (failed, verbose) {
        (true, _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n")),
        (false, true) => (StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
        (false, false) => (StatusCode::OK, "ok".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_are_upstreams() {
        let health = Health::default();
        health.add(Arc::new(Always("ping")), true, true);
        let hook = Hook::new("hook");
        health.add(hook.clone(), false, true);
        let verbose = vec![("verbose".to_string(), String::new())];
        let exclude = vec![("exclude".to_string(), "hook".to_string())];
        let ask = async |endpoint, name, query: &[(String, String)]| {
            let (code, text) = health.answer(endpoint, name, query).await;
            (code.as_u16(), text)
        };
        assert_eq!(ask(Endpoint::Livez, "", &[]).await, (200, "ok".into()));
        assert_eq!(ask(Endpoint::Livez, "", &verbose).await, (200, "[+]ping ok\nlivez check passed\n".into()));
        assert_eq!(
            ask(Endpoint::Readyz, "", &[]).await,
            (500, "[+]ping ok\n[-]hook failed: reason withheld\nreadyz check failed\n".into())
        );
        assert_eq!(ask(Endpoint::Readyz, "", &exclude).await, (200, "ok".into()));
        assert_eq!(ask(Endpoint::Readyz, "nope", &[]).await.0, 404);
        hook.finish();
        assert_eq!(ask(Endpoint::Readyz, "hook", &[]).await, (200, "ok".into()));
        health.add(Arc::new(Grouped), false, true);
        for (excluded, want) in [
            ("all", "[+]ping ok\n[+]hook ok\n[+]one excluded with all: ok\nreadyz check passed\n"),
            ("one", "[+]ping ok\n[+]hook ok\n[+]one excluded: ok\nreadyz check passed\n"),
        ] {
            let query = [("exclude".to_string(), excluded.to_string()), verbose[0].clone()];
            assert_eq!(ask(Endpoint::Readyz, "", &query).await, (200, want.into()));
        }
        let unknown = ["two", "one", "three", "two"].map(|name| ("exclude".to_string(), name.to_string()));
        let query = [unknown.to_vec(), verbose].concat();
        let warning = "warn: some health checks cannot be excluded: no matches for \"three\",\"two\"\n";
        let (_, text) = ask(Endpoint::Readyz, "", &query).await;
        assert!(text.contains(warning), "{text}");
    }

    #[tokio::test]
    async fn results_are_counted() {
        let health = Health::default();
        health.add(Arc::new(Always("ping")), true, true);
        health.add(Arc::new(Grouped), false, true);
        health.answer(Endpoint::Livez, "", &[]).await;
        health.answer(Endpoint::Readyz, "", &[]).await;
        let series: Vec<String> = health.slis().lines().filter(|line| !line.starts_with('#')).map(Into::into).collect();
        assert_eq!(
            series,
            [
                "kubernetes_healthcheck{name=\"one\",type=\"readyz\"} 0",
                "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
                "kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1",
                "kubernetes_healthchecks_total{name=\"one\",status=\"error\",type=\"readyz\"} 1",
                "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 1",
                "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"readyz\"} 1",
            ]
        );
    }

    struct Grouped;

    #[async_trait]
    impl Check for Grouped {
        fn name(&self) -> &str {
            "one"
        }

        fn group(&self) -> &str {
            "all"
        }

        async fn check(&self) -> Result<(), String> {
            Err("fails".into())
        }
    }
}
