//! Conversion by webhook: a ConversionReview is posted, and its answer checked as upstream checks it.
//!
//! Nothing waits for a webhook but [`Converter::prepare`], which is asynchronous and takes any number of objects. Results are
//! kept by what was converted and to which version, so an object that did not change is converted once.

mod meters;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use object::{Cursor, Errors, GroupVersion, Meta, Path, Str, Value, quote, value};
use outbound::{Client, Target, Webhooks};
use parking_lot::Mutex;
use registry::Prepared;
use sha2::{Digest, Sha256};
use spans::KeyValue;

pub use meters::ConversionMeters;

use crate::definition::ConversionWebhook;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Results that are kept for one definition, counted in bytes of JSON.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
const GROUP: &str = "apiextensions.k8s.io";

/// The webhook of one definition.
pub struct Converter {
    webhooks: Arc<Webhooks>,
    webhook: ConversionWebhook,
    meters: Arc<ConversionMeters>,
    results: Mutex<Results>,
}

/// What was converted: a hash of its JSON, and the version it was converted to.
type Question = ([u8; 32], Str);

/// Answers of the webhook. Those that requests hold are known; the latest are held here, up to a number of bytes.
#[derive(Default)]
struct Results {
    known: HashMap<Question, Weak<Value>>,
    /// The oldest first, with their sizes.
    kept: VecDeque<(Arc<Value>, usize)>,
    kept_bytes: usize,
    /// How many there were when those that are no longer in use were last removed.
    swept: usize,
}

impl Results {
    fn get(&self, question: &Question) -> Option<Arc<Value>> {
        self.known.get(question).and_then(Weak::upgrade)
    }

    fn keep(&mut self, question: Question, result: &Arc<Value>, size: usize) {
        if self.known.len() > 2 * self.swept + 1024 {
            self.known.retain(|_, result| result.strong_count() > 0);
            self.swept = self.known.len();
        }
        self.known.insert(question, Arc::downgrade(result));
        if size > KEPT_BYTES_MAX {
            return;
        }
        self.kept.push_back((result.clone(), size));
        self.kept_bytes += size;
        while self.kept_bytes > KEPT_BYTES_MAX
            && let Some((_, size)) = self.kept.pop_front()
        {
            self.kept_bytes -= size;
        }
    }
}

impl Converter {
    pub fn new(webhooks: Arc<Webhooks>, webhook: ConversionWebhook, meters: Arc<ConversionMeters>) -> Converter {
        Converter { webhooks, webhook, meters, results: Mutex::default() }
    }

    /// The object in another version, if that was prepared.
    pub fn converted(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        let known = self.results.lock().get(&question(object, to));
        known.map(|result| (*result).clone()).ok_or_else(|| {
            format!("conversion webhook for {} failed: it was not asked for {to} here", kind_text(object))
        })
    }

    /// Asks the webhook for what is not known yet, in one call, and holds on to all of it.
    pub async fn prepare(&self, mut objects: Vec<Value>, to: &GroupVersion) -> Result<Prepared, String> {
        let version = to.to_string();
        objects.retain(|object| object.api_version() != version);
        let mut held = Vec::with_capacity(objects.len());
        let mut missing = Vec::new();
        for object in objects {
            let question = question(&object, to);
            match self.results.lock().get(&question) {
                Some(result) => held.push(result),
                None => missing.push((object, question)),
            }
        }
        if !missing.is_empty() {
            let began = Instant::now();
            let (objects, questions): (Vec<Value>, Vec<Question>) = missing.into_iter().unzip();
            let converted = self.convert(&objects, to).await;
            let from = objects.first().map_or("", |object| object.api_version());
            let from = from.rsplit_once('/').map_or(from, |(_, version)| version);
            let outcome = converted.as_ref().map(|_| ()).map_err(|(failure, _)| *failure);
            self.meters.record(&self.webhook.definition, from, &to.version, outcome, began.elapsed());
            let converted = converted.map_err(|(_, message)| message)?;
            for (result, question) in converted.into_iter().zip(questions) {
                let (size, result) = (json_of(&result).len(), Arc::new(result));
                self.results.lock().keep(question, &result, size);
                held.push(result);
            }
        }
        Ok(Prepared::new(held))
    }

    /// Asks the webhook for objects that are not in the wanted version.
    async fn convert(&self, objects: &[Value], to: &GroupVersion) -> Result<Vec<Value>, (Failure, String)> {
        let first = objects.first().map(kind_text).unwrap_or_default();
        let failed = |failure: Failure| {
            let first = &first;
            move |why: String| (failure, format!("conversion webhook for {first} failed: {why}"))
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let version = self.review_version();
        let version = version.ok_or((Failure::Call, "no supported conversion review versions".to_string()))?;
        let review = value!({
            "kind": "ConversionReview",
            "apiVersion": (format!("{GROUP}/{version}")),
            "request": {
                "uid": (uid.as_str()),
                "desiredAPIVersion": (to.to_string()),
                "objects": (objects.to_vec()),
            },
        });
        let attributes = || {
            vec![
                KeyValue::text("custom-resource-definition", self.webhook.definition.as_str()),
                KeyValue::text("desired-api-version", to.to_string()),
                KeyValue::int("object-count", objects.len() as i64),
                KeyValue::text("UID", uid.as_str()),
            ]
        };
        let answer = spans::traced("Call conversion webhook", attributes, self.post(&review)).await;
        let answer = answer.map_err(failed(Failure::Call))?;
        let converted = converted_objects(&answer, version, &uid).map_err(failed(Failure::MalformedResponse))?;
        if converted.len() != objects.len() {
            let (got, expected) = (converted.len(), objects.len());
            let failure = if got == 0 { Failure::NoObjectsReturned } else { Failure::PartialResponse };
            let message = format!("conversion webhook for {first} returned {got} objects, expected {expected}");
            return Err((failure, message));
        }
        let checked = objects.iter().zip(converted).enumerate().map(|(at, (object, converted))| {
            checked(object, converted, to).map_err(|why| {
                let place =
                    if objects.len() == 1 { String::new() } else { format!("converted object at index {at}: ") };
                let message = format!("conversion webhook for {first} returned invalid {place}{why}");
                (Failure::InvalidConvertedObject, message)
            })
        });
        checked.collect()
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
}

/// What went wrong with a call, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Call,
    MalformedResponse,
    PartialResponse,
    InvalidConvertedObject,
    NoObjectsReturned,
}

impl Failure {
    fn as_str(self) -> &'static str {
        match self {
            Failure::Call => "conversion_webhook_call_failure",
            Failure::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Failure::PartialResponse => "conversion_webhook_partial_response_failure",
            Failure::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
            Failure::NoObjectsReturned => "conversion_webhook_no_objects_returned_failure",
        }
    }
}

fn question(object: &Value, to: &GroupVersion) -> Question {
    (Sha256::digest(json_of(object)).into(), to.version.clone())
}

fn json_of(object: &Value) -> Vec<u8> {
    let mut json = Vec::new();
    codec::json::encode(object, None, &mut json);
    json
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
