//! EventRateLimit: so many events a second for the whole server, or each namespace, user, or source and object.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use object::{Cursor, Errors, Status, Timestamp, Value};

use crate::{Attributes, Configuration, Plugin};

const CACHE_SIZE: usize = 4096;
const TYPES: &[&str] = &["Server", "Namespace", "User", "SourceAndObject"];

pub struct EventRateLimit {
    limits: Vec<Limit>,
}

/// One limit, and what is left of it for each key.
struct Limit {
    kind: String,
    per_second: f64,
    burst: f64,
    cache_size: usize,
    buckets: Mutex<HashMap<String, Bucket>>,
}

/// Fills up with time and gives one event at a time.
#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Timestamp,
}

impl EventRateLimit {
    pub fn new(config: &Configuration) -> Result<EventRateLimit, String> {
        let failed = |why: String| format!("failed to initialize admission plugin \"EventRateLimit\": {why}");
        let own = config.of_kind("EventRateLimit", "eventratelimit.admission.k8s.io", "Configuration")?;
        let own = own.cloned().unwrap_or_default();
        let errors = errors_in(&Cursor::root(&own));
        if !errors.is_empty() {
            return Err(failed(errors.aggregate()));
        }
        let limit = |limit: &Value| {
            let number = |field: &str| limit.field(field).as_int().unwrap_or(0);
            let size = usize::try_from(number("cacheSize")).unwrap_or(0);
            Limit {
                kind: limit.str_at(&["type"]).to_string(),
                per_second: number("qps") as f64,
                burst: number("burst") as f64,
                cache_size: if size == 0 { CACHE_SIZE } else { size },
                buckets: Mutex::default(),
            }
        };
        Ok(EventRateLimit { limits: own.list_at(&["limits"]).iter().map(limit).collect() })
    }
}

fn errors_in(config: &Cursor) -> Errors {
    let mut errors = Errors::new();
    let limits = config.field("limits");
    if limits.is_empty() {
        limits.invalid(&mut errors, "must not be empty");
    }
    for limit in limits.each() {
        limit.field("type").one_of(&mut errors, TYPES);
        for field in ["burst", "qps"] {
            if limit.field(field).int() <= 0 {
                limit.field(field).invalid_as(&mut errors, limit.field(field).int(), "must be positive");
            }
        }
        if limit.field("type").str() != "Server" && limit.field("cacheSize").int() < 0 {
            limit.field("cacheSize").invalid(&mut errors, "must not be negative");
        }
    }
    errors
}

#[async_trait]
impl Plugin for EventRateLimit {
    fn name(&self) -> &'static str {
        "EventRateLimit"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let is_event = attributes.kind.group.is_empty() && attributes.kind.kind == "Event";
        let Some(event) = object.filter(|_| is_event && !attributes.cx.dry_run) else { return Ok(()) };
        let reached: Vec<String> = self.limits.iter().filter_map(|limit| limit.reached(attributes, event)).collect();
        if reached.is_empty() {
            return Ok(());
        }
        let message = format!("Too many requests: {}", object::aggregate(reached));
        Err(Status { details: None, ..Status::too_many_requests(message, 0) })
    }
}

impl Limit {
    fn reached(&self, attributes: &Attributes<'_>, event: &Value) -> Option<String> {
        let key = self.key(attributes, event);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = attributes.cx.now;
        if buckets.len() >= self.cache_size && !buckets.contains_key(&key) {
            // The bucket that was idle for longest is full, so dropping it loses nothing.
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(key, _)| key.clone());
            oldest.and_then(|key| buckets.remove(&key));
        }
        let bucket = buckets.entry(key.clone()).or_insert(Bucket { left: self.burst, at: now });
        let seconds = (now.since(bucket.at).0.max(0)) as f64 / 1e9;
        bucket.left = (bucket.left + seconds * self.per_second).min(self.burst);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return None;
        }
        Some(format!("limit reached on type {} for key {key}", self.kind))
    }

    fn key(&self, attributes: &Attributes<'_>, event: &Value) -> String {
        match self.kind.as_str() {
            "Namespace" => attributes.cx.namespace.to_string(),
            "User" => attributes.cx.user.name.clone(),
            "SourceAndObject" => [
                event.str_at(&["source", "component"]),
                event.str_at(&["source", "host"]),
                event.str_at(&["involvedObject", "kind"]),
                event.str_at(&["involvedObject", "namespace"]),
                event.str_at(&["involvedObject", "name"]),
                event.str_at(&["involvedObject", "uid"]),
                event.str_at(&["involvedObject", "apiVersion"]),
            ]
            .concat(),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{World, create};

    fn plugin(limits: &str) -> Result<EventRateLimit, String> {
        let text = format!(
            "{{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{{name: EventRateLimit, \
             configuration: {{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: {limits}}}}}]}}"
        );
        EventRateLimit::new(&Configuration::parse(text.as_bytes(), |_| Ok(Vec::new()))?)
    }

    #[test]
    fn events_are_counted() {
        let plugin = plugin("[{type: Namespace, qps: 1, burst: 2}]").unwrap();
        let event = || create(&plugin, &World::default(), "events", value!({"metadata": {"name": "e"}}));
        assert!(event().is_ok() && event().is_ok());
        assert_eq!(
            event().map(|_| ()),
            Err("Too many requests: limit reached on type Namespace for key ns".to_string())
        );
    }

    #[test]
    fn limits_are_checked() {
        for (limits, want) in [
            ("[]", "must not be empty"),
            ("[{type: X, qps: 1, burst: 1}]", "Unsupported value"),
            ("[{type: Server, qps: 0, burst: 1}]", "must be positive"),
        ] {
            let error = plugin(limits).err().unwrap();
            assert!(error.contains(want), "{error}");
        }
    }
}
