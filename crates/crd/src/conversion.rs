//! Conversion by webhook: a ConversionReview is posted, and its answer checked as upstream checks it.
//!
//! Results are kept by what was converted and to which version, so an object that did not change is converted once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use object::{Cursor, Errors, GroupVersion, Meta, Path, Str, Value, quote, value};
use outbound::{Client, Target, Webhooks};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::definition::ConversionWebhook;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Results that are kept for one definition, counted in bytes of JSON.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
const GROUP: &str = "apiextensions.k8s.io";

/// The webhook of one definition.
pub struct Converter {
    webhooks: Arc<Webhooks>,
    webhook: ConversionWebhook,
    kept: Mutex<Kept>,
}

/// What was converted: a hash of its JSON, and the version it was converted to.
type Question = ([u8; 32], Str);

#[derive(Default)]
struct Kept {
    results: HashMap<Question, Arc<Value>>,
    bytes: usize,
}

impl Converter {
    pub fn new(webhooks: Arc<Webhooks>, webhook: ConversionWebhook) -> Converter {
        Converter { webhooks, webhook, kept: Mutex::default() }
    }

    /// Converts one object where there is no time to await: codecs are not asynchronous. The thread is given back to the
    /// other tasks meanwhile. Objects that [`Converter::prepare`] has seen do not get here.
    pub fn convert_now(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        if let Some(kept) = self.kept(object, to) {
            return Ok(kept);
        }
        let converting = self.convert(vec![object.clone()], to);
        let converted = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(converting))?;
        converted.into_iter().next().ok_or_else(|| "no objects returned".to_string())
    }

    /// Converts what is not known yet in one call.
    pub async fn prepare(&self, objects: Vec<Value>, to: &GroupVersion) -> Result<(), String> {
        let mut missing: Vec<Value> = objects.into_iter().filter(|object| self.kept(object, to).is_none()).collect();
        let version = to.to_string();
        missing.retain(|object| object.api_version() != version);
        if missing.is_empty() { Ok(()) } else { self.convert(missing, to).await.map(|_| ()) }
    }

    fn kept(&self, object: &Value, to: &GroupVersion) -> Option<Value> {
        self.kept.lock().results.get(&question(object, to)).map(|value| (**value).clone())
    }

    async fn convert(&self, objects: Vec<Value>, to: &GroupVersion) -> Result<Vec<Value>, String> {
        let first = objects.first().map(kind_text).unwrap_or_default();
        let failed = |why: String| format!("conversion webhook for {first} failed: {why}");
        let uid = uuid::Uuid::new_v4().to_string();
        let version = self.review_version().ok_or("no supported conversion review versions")?;
        let review = value!({
            "kind": "ConversionReview",
            "apiVersion": (format!("{GROUP}/{version}")),
            "request": {
                "uid": (uid.as_str()),
                "desiredAPIVersion": (to.to_string()),
                "objects": (objects.clone()),
            },
        });
        let answer = self.post(&review).await.map_err(&failed)?;
        let converted = converted_objects(&answer, version, &uid).map_err(&failed)?;
        if converted.len() != objects.len() {
            let (got, expected) = (converted.len(), objects.len());
            return Err(format!("conversion webhook for {first} returned {got} objects, expected {expected}"));
        }
        let mut results = Vec::with_capacity(objects.len());
        for (at, (object, converted)) in objects.iter().zip(converted).enumerate() {
            let result = checked(object, converted, to).map_err(|why| {
                if objects.len() == 1 {
                    format!("conversion webhook for {first} returned invalid {why}")
                } else {
                    format!("conversion webhook for {first} returned invalid converted object at index {at}: {why}")
                }
            })?;
            self.keep(object, to, &result);
            results.push(result);
        }
        Ok(results)
    }

    fn review_version(&self) -> Option<&'static str> {
        let known = |version: &Str| ["v1", "v1beta1"].into_iter().find(|known| version == known);
        self.webhook.review_versions.iter().find_map(known)
    }

    async fn post(&self, review: &Value) -> Result<Value, String> {
        let target = Target::read(&self.webhook.client_config)?;
        let client: Arc<Client> = self.webhooks.client(&target)?;
        let mut body = Vec::new();
        codec::json::encode(review, None, &mut body);
        let called = self.webhooks.call(&client, &target, Bytes::from(body), (TIMEOUT, TIMEOUT)).await;
        let answer = called.map_err(|error| error.to_string())?;
        codec::json::decode(&answer, None, &mut codec::Notes::ignore()).map_err(|error| error.to_string())
    }

    fn keep(&self, object: &Value, to: &GroupVersion, result: &Value) {
        let mut size = Vec::new();
        codec::json::encode(result, None, &mut size);
        let mut kept = self.kept.lock();
        if kept.bytes + size.len() > KEPT_BYTES_MAX {
            *kept = Kept::default();
        }
        kept.bytes += size.len();
        kept.results.insert(question(object, to), Arc::new(result.clone()));
    }
}

fn question(object: &Value, to: &GroupVersion) -> Question {
    let mut json = Vec::new();
    codec::json::encode(object, None, &mut json);
    (Sha256::digest(&json).into(), to.version.clone())
}

/// `group/version, Kind=Kind`.
fn kind_text(object: &Value) -> String {
    format!("{}, Kind={}", object.api_version(), object.kind())
}

/// The objects of a review's response. Reviews of v1 must name their type and the request.
fn converted_objects(review: &Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    if version == "v1" && (review.api_version(), review.kind()) != ("apiextensions.k8s.io/v1", "ConversionReview") {
        let expected = format!("{GROUP}/v1, Kind=ConversionReview");
        return Err(format!("expected webhook response of {expected}, got {}", kind_text(review)));
    }
    let response = review.field("response");
    if response.is_null() {
        return Err("no response provided".to_string());
    }
    let answered = response.str_at(&["uid"]);
    if version == "v1" && answered != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(answered)));
    }
    let result = response.field("result");
    let status = result.str_at(&["status"]);
    if status != "Success" {
        let message = result.str_at(&["message"]);
        let why = || format!("response.result.status was '{status}', not 'Success'");
        return Err(if message.is_empty() { why() } else { message.to_string() });
    }
    Ok(response.list_at(&["convertedObjects"]).to_vec())
}

/// A converted object with the metadata it had before, but for labels and annotations.
fn checked(object: &Value, mut converted: Value, to: &GroupVersion) -> Result<Value, String> {
    let wanted = to.to_string();
    if converted.api_version() != wanted {
        let got = converted.api_version();
        return Err(format!("object at index 0: invalid groupVersion (expected {wanted}, received {got})"));
    }
    if converted.kind() != object.kind() {
        let (expected, got) = (object.kind(), converted.kind());
        return Err(format!("object at index 0: invalid kind (expected {expected}, received {got})"));
    }
    let same = [
        ("name", object.name(), converted.name()),
        ("namespace", object.namespace(), converted.namespace()),
        ("UID", object.uid(), converted.uid()),
    ];
    if let Some((what, before, after)) = same.into_iter().find(|(_, before, after)| before != after) {
        return Err(format!("object: must have the same {what}: {before} != {after}"));
    }
    let answered = converted.remove(&["metadata"]).ok_or("metadata: missing metadata in converted object")?;
    converted.set(&["metadata"], object.field("metadata").clone());
    for field in ["labels", "annotations"] {
        match answered.field(field) {
            Value::Null => drop(converted.metadata_mut().remove(field)),
            Value::Map(map) => {
                if let Some((key, _)) = map.iter().find(|(_, value)| value.as_str().is_none()) {
                    return Err(format!("metadata: metadata.{field}[{key}] must be a string in converted object"));
                }
                converted.metadata_mut().insert(field, Value::Map(map.clone()));
            }
            _ => return Err(format!("metadata: invalid metadata.{field} in converted object")),
        }
    }
    let mut errors = Errors::new();
    let changed = converted.field("metadata") != object.field("metadata");
    if changed {
        let check = |_: &str, _: bool| Vec::new();
        let cursor = Cursor::new(&converted, Path::root());
        registry::metadata::validate(&cursor, !object.namespace().is_empty(), &check, &mut errors);
    }
    if errors.is_empty() { Ok(converted) } else { Err(format!("metadata: {}", errors.aggregate())) }
}
