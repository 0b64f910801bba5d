//! ImagePolicyWebhook: a webhook decides which images pods may run.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use codec::Notes;
use object::{Map, Status, Str, Value, value};
use outbound::{CallError, Client, Kubeconfig, Request};
use parking_lot::Mutex;

use super::forbidden;
use crate::{Attributes, Configuration, Plugin};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// A call that fails in a way that may pass is made this often, with waits that grow by half each time.
const ATTEMPTS_MAX: u32 = 5;
/// As many decisions are remembered.
const REMEMBERED_MAX: usize = 1024;
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
/// Annotations of pods that the webhook is told.
const ANNOTATION_PART: &str = ".image-policy.k8s.io/";

pub struct ImagePolicyWebhook {
    client: Client,
    url: String,
    settings: ImagePolicySettings,
    known: Mutex<HashMap<Vec<u8>, (Instant, Value)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ImagePolicySettings {
    allow_ttl: Duration,
    deny_ttl: Duration,
    retry_backoff: Duration,
    /// Whether pods are admitted while the webhook cannot be asked.
    default_allow: bool,
}

impl ImagePolicyWebhook {
    pub fn new(config: &Configuration) -> Result<ImagePolicyWebhook, String> {
        let wrong = |why: String| format!("failed to initialize admission plugin \"ImagePolicyWebhook\": {why}");
        let part = config.of("ImagePolicyWebhook").ok_or_else(|| wrong("no config specified".into()))?;
        let part = part.field("imagePolicy");
        let settings = ImagePolicySettings::read(part).map_err(wrong)?;
        let kubeconfig = Kubeconfig::read(Path::new(part.str_at(&["kubeConfigFile"]))).map_err(wrong)?;
        let (server, options) = kubeconfig.current().map_err(wrong)?;
        let client = Client::new(&options).map_err(|error| wrong(error.to_string()))?;
        let url = format!("{}?timeout={}s", server.trim_end_matches('/'), REQUEST_TIMEOUT.as_secs());
        Ok(ImagePolicyWebhook { client, url, settings, known: Mutex::default() })
    }

    /// The webhook's decision about these images, asked for or remembered.
    async fn review(&self, spec: &Value) -> Result<Value, String> {
        let mut key = Vec::new();
        codec::json::encode(spec, None, &mut key);
        if let Some((until, status)) = self.known.lock().get(&key)
            && *until > Instant::now()
        {
            return Ok(status.clone());
        }
        let bytes = self.ask(spec).await.map_err(|error| error.to_string())?;
        let answer = codec::json::decode(&bytes, None, &mut Notes::ignore()).map_err(|error| error.to_string())?;
        let status = answer.field("status").clone();
        let ttl = if is_allowed(&status) { self.settings.allow_ttl } else { self.settings.deny_ttl };
        self.remember(key, status.clone(), ttl);
        Ok(status)
    }

    async fn ask(&self, spec: &Value) -> Result<Bytes, CallError> {
        let review = value!({
            "kind": "ImageReview",
            "apiVersion": "imagepolicy.k8s.io/v1alpha1",
            "metadata": {},
            "spec": (spec.clone()),
            "status": {"allowed": false},
        });
        let mut body = Vec::new();
        codec::json::encode(&review, None, &mut body);
        let body = Bytes::from(body);
        let mut wait = self.settings.retry_backoff;
        for attempt in 1.. {
            let deadline = tokio::time::Instant::now() + REQUEST_TIMEOUT;
            let response_bytes_max = RESPONSE_BYTES_MAX;
            let request = Request { url: &self.url, address: None, body: body.clone(), deadline, response_bytes_max };
            match self.client.post(&request).await {
                Err(error) if attempt < ATTEMPTS_MAX && may_pass(&error) => {
                    tokio::time::sleep(wait).await;
                    wait = wait.mul_f64(1.5);
                }
                outcome => return outcome,
            }
        }
        Err(CallError::Response("webhook call failed".into()))
    }

    fn remember(&self, key: Vec<u8>, status: Value, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let (mut known, now) = (self.known.lock(), Instant::now());
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(key, (now + ttl, status));
    }
}

#[async_trait]
impl Plugin for ImagePolicyWebhook {
    fn name(&self) -> &'static str {
        "ImagePolicyWebhook"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let resource = attributes.resource;
        let is_pod = resource.group.is_empty() && resource.resource == "pods";
        let looked_at = is_pod && matches!(attributes.subresource, "" | "ephemeralcontainers");
        let Some(pod) = object.filter(|_| looked_at) else { return Ok(()) };
        let spec = review_spec(pod, attributes.subresource, attributes.cx.namespace);
        let status = match self.review(&spec).await {
            Ok(status) => status,
            Err(why) if self.settings.default_allow => {
                tracing::warn!(%why, "the image policy webhook failed; the pod is admitted without it");
                attributes.annotate(format!("{AUDIT_PREFIX}failed-open"), "true".into());
                return Ok(());
            }
            Err(why) => return Err(forbidden(attributes, why)),
        };
        for (key, value) in status.field("auditAnnotations").as_map().into_iter().flat_map(Map::iter) {
            attributes.annotate(format!("{AUDIT_PREFIX}{key}"), value.as_str().unwrap_or("").to_string());
        }
        match status.str_at(&["reason"]) {
            _ if is_allowed(&status) => Ok(()),
            "" => Err(forbidden(attributes, "one or more images rejected by webhook backend")),
            reason => {
                Err(forbidden(attributes, format!("image policy webhook backend denied one or more images: {reason}")))
            }
        }
    }
}

fn is_allowed(status: &Value) -> bool {
    status.field("allowed").as_bool() == Some(true)
}

fn review_spec(pod: &Value, subresource: &str, namespace: &str) -> Value {
    let fields: &[&str] =
        if subresource.is_empty() { &["containers", "initContainers"] } else { &["ephemeralContainers"] };
    let containers = fields.iter().flat_map(|field| pod.list_at(&["spec", field]));
    let images: Vec<Value> = containers.map(|container| value!({"image": (container.str_at(&["image"]))})).collect();
    let annotations = pod.at(&["metadata", "annotations"]).as_map().into_iter().flat_map(Map::iter);
    let told: Map = annotations
        .filter(|(key, _)| key.contains(ANNOTATION_PART))
        .map(|(key, value)| (Str::from(key), value.clone()))
        .collect();
    let mut spec = value!({"containers": images, "namespace": namespace});
    if !told.is_empty() {
        spec.set(&["annotations"], Value::Map(told));
    }
    spec
}

/// Whether the same call may succeed a moment later.
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Status(status) => status.code == 429 || status.code >= 500,
        other => other.to_string().contains("connection reset by peer"),
    }
}

impl ImagePolicySettings {
    fn read(part: &Value) -> Result<ImagePolicySettings, String> {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let millisecond = Duration::from_millis(1);
        Ok(ImagePolicySettings {
            retry_backoff: duration(
                part,
                "retryBackoff",
                millisecond,
                (Duration::from_nanos(1), 5 * minute),
                500 * millisecond,
            )?,
            allow_ttl: duration(part, "allowTTL", second, (second, 30 * minute), 5 * minute)?,
            deny_ttl: duration(part, "denyTTL", second, (second, 30 * minute), 30 * second)?,
            default_allow: part.field("defaultAllow").as_bool() == Some(true),
        })
    }
}

/// A number of `unit`s: 0 is the default, -1 is none at all.
fn duration(
    part: &Value,
    field: &str,
    unit: Duration,
    (least, most): (Duration, Duration),
    default: Duration,
) -> Result<Duration, String> {
    let count = match part.field(field).as_int() {
        None | Some(0) => return Ok(default),
        Some(-1) => return Ok(Duration::ZERO),
        Some(count) => count,
    };
    let value = u32::try_from(count).ok().and_then(|count| unit.checked_mul(count));
    value
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| format!("valid value is between {least:?} and {most:?}, got {count} x {unit:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_limits() {
        let read = |part: Value| ImagePolicySettings::read(&part);
        let default = read(value!({})).unwrap();
        assert_eq!((default.allow_ttl.as_secs(), default.deny_ttl.as_secs()), (300, 30));
        assert_eq!((default.retry_backoff.as_millis(), default.default_allow), (500, false));
        let given = read(value!({"allowTTL": 7, "denyTTL": (-1), "retryBackoff": 20, "defaultAllow": true})).unwrap();
        assert_eq!((given.allow_ttl.as_secs(), given.deny_ttl), (7, Duration::ZERO));
        assert_eq!((given.retry_backoff.as_millis(), given.default_allow), (20, true));
        assert!(read(value!({"allowTTL": 1801})).is_err());
        assert!(read(value!({"denyTTL": (-5)})).is_err());
    }

    #[test]
    fn the_webhook_is_told_images_and_its_own_annotations() {
        let pod = value!({
            "metadata": {"annotations": {"a.image-policy.k8s.io/x": "1", "other": "2"}},
            "spec": {
                "containers": [{"image": "a"}],
                "initContainers": [{"image": "b"}],
                "ephemeralContainers": [{"image": "c"}],
            },
        });
        let expected = value!({
            "annotations": {"a.image-policy.k8s.io/x": "1"},
            "containers": [{"image": "a"}, {"image": "b"}],
            "namespace": "ns",
        });
        assert_eq!(review_spec(&pod, "", "ns"), expected);
        let ephemeral = review_spec(&pod, "ephemeralcontainers", "ns");
        assert_eq!(ephemeral.list_at(&["containers"]), [value!({"image": "c"})]);
    }
}
