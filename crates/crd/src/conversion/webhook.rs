//! Conversion by webhook: a ConversionReview is posted, and its answer checked as upstream checks it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use object::{GroupVersion, Meta, Randomness, Str, Value, quote, value};
use outbound::{Client, WebhookTarget, Webhooks};
use spans::KeyValue;

use super::{Conversion, ConversionMeters, checked, kind_text};
use crate::definition::ConversionWebhook;

const TIMEOUT: Duration = Duration::from_secs(30);
const GROUP: &str = "apiextensions.k8s.io";
pub(super) const NO_OBJECTS: &str = "the conversion webhook returned no objects";

/// The webhook of one definition.
pub struct ConvertingWebhook {
    pub webhooks: Arc<Webhooks>,
    pub webhook: ConversionWebhook,
    pub meters: Arc<ConversionMeters>,
    pub randomness: Arc<dyn Randomness>,
}

impl ConvertingWebhook {
    /// What becomes of each object. If the webhook answers for all of them with an error, it is asked for each alone, as one that
    /// cannot be converted makes no other unreadable.
    pub async fn convert(&self, objects: &[Value], to: &GroupVersion) -> Vec<Conversion> {
        match self.measured(objects, to).await {
            Ok(converted) => converted.into_iter().map(Ok).collect(),
            Err((Failure::Call, message)) => vec![Err(message); objects.len()],
            Err((_, message)) if objects.len() == 1 => vec![Err(message)],
            Err(_) => {
                let mut conversions = Vec::with_capacity(objects.len());
                for object in objects {
                    let converted = self.measured(std::slice::from_ref(object), to).await;
                    conversions.push(
                        converted
                            .map_err(|(_, message)| message)
                            .and_then(|mut converted| converted.pop().ok_or_else(|| NO_OBJECTS.to_string())),
                    );
                }
                conversions
            }
        }
    }

    /// One call, counted in the metrics.
    async fn measured(&self, objects: &[Value], to: &GroupVersion) -> Result<Vec<Value>, (Failure, String)> {
        let began = Instant::now();
        let converted = self.ask(objects, to).await;
        let from = objects.first().map_or("", |object| object.api_version());
        let from = from.rsplit_once('/').map_or(from, |(_, version)| version);
        let outcome = converted.as_ref().map(|_| ()).map_err(|(failure, _)| *failure);
        self.meters.record(&self.webhook.definition, from, &to.version, outcome, began.elapsed());
        converted
    }

    /// Asks the webhook for objects that are not in the wanted version.
    async fn ask(&self, objects: &[Value], to: &GroupVersion) -> Result<Vec<Value>, (Failure, String)> {
        let first = objects.first().map(kind_text).unwrap_or_default();
        let failed = |failure: Failure| {
            let first = &first;
            move |why: String| (failure, format!("conversion webhook for {first} failed: {why}"))
        };
        let uid = self.randomness.uuid();
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
        let target = WebhookTarget::read(&self.webhook.client_config)?;
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
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::Call => "conversion_webhook_call_failure",
            Failure::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Failure::PartialResponse => "conversion_webhook_partial_response_failure",
            Failure::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
            Failure::NoObjectsReturned => "conversion_webhook_no_objects_returned_failure",
        }
    }
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
