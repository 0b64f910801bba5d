//! `/healthz`, `/livez` and `/readyz`: is the server alive, and may traffic be sent to it?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use http::StatusCode;
use parking_lot::RwLock;

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

/// All checks, and which endpoint asks which.
#[derive(Clone, Default)]
pub struct Health {
    checks: Arc<RwLock<Vec<Registered>>>,
}

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
        if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
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
        all(endpoint, &asked, &excluded, query.iter().any(|(key, _)| key == "verbose")).await
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

async fn all(endpoint: Endpoint, checks: &[Arc<dyn Check>], excluded: &[&str], verbose: bool) -> (StatusCode, String) {
    let mut lines = String::new();
    let mut failed = false;
    let mut unmatched: Vec<&str> = excluded.to_vec();
    for check in checks {
        let name = check.name();
        if excluded.contains(&name) {
            unmatched.retain(|other| *other != name);
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        let group = check.group();
        if !group.is_empty() && excluded.contains(&group) {
            unmatched.retain(|other| *other != group);
            lines.push_str(&format!("[+]{name} excluded with {group}: ok\n"));
            continue;
        }
        match check.check().await {
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
        let names: Vec<String> = unmatched.iter().map(|name| object::quote(name)).collect();
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(", ")));
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
