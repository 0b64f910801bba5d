//! `/healthz`, `/livez` and `/readyz`: is the server alive, and may traffic be sent to it?

use std::sync::Arc;

use http::StatusCode;
use parking_lot::RwLock;

/// One thing that can be wrong.
pub trait Check: Send + Sync + 'static {
    fn name(&self) -> String;
    /// Why it is not well.
    fn check(&self) -> Result<(), String>;
}

/// All checks, and which endpoint asks which.
#[derive(Clone, Default)]
pub struct Health {
    checks: Arc<RwLock<Vec<Registered>>>,
}

struct Registered {
    check: Arc<dyn Check>,
    live: bool,
    ready: bool,
}

impl Registered {
    fn is_asked(&self, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Healthz | Endpoint::Livez => self.live,
            Endpoint::Readyz => self.ready,
        }
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
    fn name(self) -> &'static str {
        match self {
            Endpoint::Healthz => "healthz",
            Endpoint::Livez => "livez",
            Endpoint::Readyz => "readyz",
        }
    }
}

impl Health {
    /// Adds a check that readiness asks, and liveness too if `live`.
    pub fn add(&self, check: Arc<dyn Check>, live: bool, ready: bool) {
        self.checks.write().push(Registered { check, live, ready });
    }

    /// The paths of all endpoints and of each of their checks.
    pub fn paths(&self) -> Vec<String> {
        let checks = self.checks.read();
        let of = |endpoint: Endpoint| {
            let asked = checks.iter().filter(move |registered| registered.is_asked(endpoint));
            let names = asked.map(move |registered| format!("/{}/{}", endpoint.name(), registered.check.name()));
            names.chain([format!("/{}", endpoint.name())])
        };
        [Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz].into_iter().flat_map(of).collect()
    }

    /// Answers `/livez`, `/livez?verbose`, `/livez/<check>` and so on.
    pub fn answer(&self, endpoint: Endpoint, name: &str, query: &[(String, String)]) -> (StatusCode, String) {
        let checks = self.checks.read();
        let asked = checks.iter().filter(|registered| registered.is_asked(endpoint));
        let asked: Vec<&Arc<dyn Check>> = asked.map(|registered| &registered.check).collect();
        if !name.is_empty() {
            return one(&asked, name);
        }
        let excluded: Vec<&str> =
            query.iter().filter(|(key, _)| key == "exclude").map(|(_, value)| value.as_str()).collect();
        all(endpoint, &asked, &excluded, query.iter().any(|(key, _)| key == "verbose"))
    }
}

fn one(checks: &[&Arc<dyn Check>], name: &str) -> (StatusCode, String) {
    match checks.iter().find(|check| check.name() == name) {
        None => (StatusCode::NOT_FOUND, "404 page not found\n".into()),
        Some(check) => match check.check() {
            Ok(()) => (StatusCode::OK, "ok".into()),
            Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        },
    }
}

fn all(endpoint: Endpoint, checks: &[&Arc<dyn Check>], excluded: &[&str], verbose: bool) -> (StatusCode, String) {
    let mut lines = String::new();
    let mut failed = false;
    let mut unmatched: Vec<&str> = excluded.to_vec();
    for check in checks {
        let name = check.name();
        if excluded.contains(&name.as_str()) {
            unmatched.retain(|other| *other != name);
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        match check.check() {
            Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
            Err(why) => {
                // The reason is for the log: health endpoints are open to anybody.
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

    struct Fixed(&'static str, Result<(), &'static str>);

    impl Check for Fixed {
        fn name(&self) -> String {
            self.0.into()
        }

        fn check(&self) -> Result<(), String> {
            self.1.map_err(str::to_string)
        }
    }

    #[test]
    fn answers_are_upstreams() {
        let health = Health::default();
        health.add(Arc::new(Fixed("ping", Ok(()))), true, true);
        health.add(Arc::new(Fixed("shutdown", Err("draining"))), false, true);
        let verbose = vec![("verbose".to_string(), String::new())];
        let exclude = vec![("exclude".to_string(), "shutdown".to_string())];
        let ask = |endpoint, name, query: &[(String, String)]| {
            let (code, text) = health.answer(endpoint, name, query);
            (code.as_u16(), text)
        };
        assert_eq!(ask(Endpoint::Livez, "", &[]), (200, "ok".into()));
        assert_eq!(ask(Endpoint::Livez, "", &verbose), (200, "[+]ping ok\nlivez check passed\n".into()));
        assert_eq!(
            ask(Endpoint::Readyz, "", &[]),
            (500, "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n".into())
        );
        assert_eq!(ask(Endpoint::Readyz, "", &exclude), (200, "ok".into()));
        assert_eq!(ask(Endpoint::Readyz, "nope", &[]).0, 404);
    }
}
