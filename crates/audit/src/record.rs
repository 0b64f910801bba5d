//! [`Record`]: what is collected about one request while it is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object::{Clock, Meta, Status, Value};
use parking_lot::Mutex;
use request::User;

use crate::auditor::Sink;
use crate::event::{Event, ObjectRef, ResponseStatus, Stage};
use crate::policy::{Decision, Level};

/// The record of a request that is audited. Shared by everything that has something to say about the request.
pub struct Record {
    decision: Decision,
    sink: Arc<Sink>,
    clock: Arc<dyn Clock>,
    event: Mutex<Event>,
    /// How long parts of the server took, by the names of upstream's annotations.
    layers: Mutex<Vec<(&'static str, Duration)>>,
    is_handed_over: AtomicBool,
}

/// Requests that take longer have annotations that say where the time went.
const SLOW: Duration = Duration::from_millis(500);

impl Record {
    pub(crate) fn new(decision: Decision, sink: Arc<Sink>, clock: Arc<dyn Clock>, event: Event) -> Record {
        Record {
            decision,
            sink,
            clock,
            event: Mutex::new(event),
            layers: Mutex::default(),
            is_handed_over: AtomicBool::new(false),
        }
    }

    /// Whether the request's object belongs into the record.
    pub fn wants_request(&self) -> bool {
        self.decision.level >= Level::Request
    }

    /// Whether the response's object belongs into the record.
    pub fn wants_response(&self) -> bool {
        self.decision.level >= Level::RequestResponse
    }

    /// Sets an annotation; the first value of a key stays.
    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        self.event.lock().annotate(key, value.into());
    }

    /// Notes how long a part of the server took for the request.
    pub fn took(&self, layer: &'static str, time: Duration) {
        self.layers.lock().push((layer, time));
    }

    /// Says of a slow request where the time went.
    fn explain_slowness(&self) {
        let mut event = self.event.lock();
        let layers = std::mem::take(&mut *self.layers.lock());
        let passed = self.clock.now().since(event.received).0;
        if layers.is_empty() || passed <= nanos(SLOW) {
            return;
        }
        let mut annotate = |layer: &str, nanos: i64| {
            let time = object::duration::Duration(nanos).to_string();
            event.annotate(&format!("apiserver.latency.k8s.io/{layer}"), time);
        };
        for (layer, time) in layers {
            annotate(layer, nanos(time));
        }
        annotate("total", passed);
    }

    pub fn impersonated(&self, user: &User, constraint: &str) {
        let mut event = self.event.lock();
        event.impersonated_user = Some(user.clone());
        event.impersonation_constraint = constraint.into();
    }

    /// Notes the object that was sent; `encode` is called if the policy asks for the object itself.
    pub fn request_object(&self, object: &Value, encode: impl FnOnce(&Value) -> Vec<u8>) {
        let json = self.wants_request().then(|| self.encode(object, encode));
        let mut event = self.event.lock();
        event.object_ref.get_or_insert_default().complete(object);
        event.request_object = json.or(event.request_object.take());
    }

    /// Notes the patch that was sent, which is JSON or was converted to it.
    pub fn request_patch(&self, patch: &[u8]) {
        if self.wants_request() {
            self.event.lock().request_object = Some(on_one_line(&Bytes::copy_from_slice(patch)));
        }
    }

    /// Notes the object that is sent back.
    pub fn response_object(&self, object: &Value, encode: impl FnOnce(&Value) -> Vec<u8>) {
        if self.wants_response() {
            let json = self.encode(object, encode);
            self.event.lock().response_object = Some(json);
        }
    }

    /// Notes that the answer is a Status.
    pub fn response_status(&self, status: Value) {
        let json = self.wants_response().then(|| self.encode(&status, encode_json));
        let mut event = self.event.lock();
        event.response_status = Some(ResponseStatus::of(status));
        event.response_object = json.or(event.response_object.take());
    }

    fn encode(&self, object: &Value, encode: impl FnOnce(&Value) -> Vec<u8>) -> Bytes {
        if !self.decision.omit_managed_fields {
            return encode(object).into();
        }
        let mut object = object.clone();
        omit_managed_fields(&mut object);
        encode(&object).into()
    }

    /// The request was read and its sender is known. False if the request must fail because the event could not be stored
    /// and a backend is strict about that.
    pub async fn received(&self) -> bool {
        let Some(event) = self.at(Stage::RequestReceived, |event| event.received) else { return true };
        let stored = self.sink.process_and_wait(event).await;
        if !stored {
            self.sink.request_rejected();
        }
        stored
    }

    /// The headers of a long-running request's answer are about to be sent.
    pub fn response_started(&self, code: u16) {
        self.set_code(code);
        self.emit(Stage::ResponseStarted);
    }

    /// The request's write goes on without the request, and completes the record with [`Record::response_stored`].
    pub fn hand_over(&self) {
        self.is_handed_over.store(true, Ordering::Relaxed);
    }

    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::Relaxed)
    }

    /// The answer was sent, or its client went away.
    pub fn response_complete(&self, code: u16) {
        if self.is_handed_over() {
            return;
        }
        self.set_code(code);
        self.explain_slowness();
        self.emit(Stage::ResponseComplete);
    }

    /// The same before the answer is sent: returns when the backends that block have stored the event, so that a client
    /// which has its answer finds the event.
    pub async fn response_stored(&self, code: u16) {
        self.set_code(code);
        self.explain_slowness();
        if let Some(event) = self.at(Stage::ResponseComplete, |_| self.clock.now()) {
            self.sink.process_and_wait(event).await;
        }
    }

    /// Notes the JSON that is sent back, which is no Status.
    pub fn response_json(&self, json: &Bytes) {
        if !self.wants_response() {
            return;
        }
        let decoded = match self.decision.omit_managed_fields {
            true => codec::json::decode(json, None, &mut codec::Notes::ignore()).ok(),
            false => None,
        };
        match decoded {
            Some(object) => self.response_object(&object, encode_json),
            None => self.event.lock().response_object = Some(on_one_line(json)),
        }
    }

    /// The request's credentials were refused: the only event is that of the response.
    pub fn refused(&self, status: &Status) {
        self.response_status(status.to_value());
        self.emit(Stage::ResponseStarted);
    }

    /// Serving the request panicked.
    pub fn panicked(&self, message: &str) {
        let status = Status { message: format!("APIServer panic'd: {message}"), ..Status::internal("") };
        self.event.lock().response_status = Some(ResponseStatus::of(status.to_value()));
        self.emit(Stage::Panic);
    }

    fn set_code(&self, code: u16) {
        self.event.lock().response_status.get_or_insert_default().code = code;
    }

    fn emit(&self, stage: Stage) {
        if let Some(event) = self.at(stage, |_| self.clock.now()) {
            self.sink.process(event);
        }
    }

    /// A copy of the event at this stage; None if the policy leaves the stage out.
    fn at(&self, stage: Stage, time: impl FnOnce(&Event) -> object::Timestamp) -> Option<Event> {
        if self.decision.omit_stages.contains(stage) {
            return None;
        }
        let mut event = self.event.lock();
        event.stage = stage;
        event.stage_time = time(&event);
        Some(event.clone())
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl ObjectRef {
    /// Fills in what the path did not tell.
    fn complete(&mut self, object: &Value) {
        for (field, value) in [
            (&mut self.namespace, object.namespace()),
            (&mut self.name, object.name()),
            (&mut self.uid, object.meta_str("uid")),
            (&mut self.resource_version, object.meta_str("resourceVersion")),
        ] {
            if field.is_empty() {
                *field = value.into();
            }
        }
    }
}

/// JSON without line breaks: an event is one line of the log. Strings cannot contain raw line breaks.
fn on_one_line(json: &Bytes) -> Bytes {
    if !json.trim_ascii_end().iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return json.clone();
    }
    match codec::json::decode_exact(json, &mut codec::Notes::ignore()) {
        Ok(value) => encode_json(&value).into(),
        Err(_) => Bytes::from_static(b"null"),
    }
}

fn encode_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    codec::json::encode(value, None, &mut out);
    out
}

/// Removes managedFields of an object, of the items of a list and of the objects in a table's rows.
fn omit_managed_fields(object: &mut Value) {
    object.remove(&["metadata", "managedFields"]);
    for (list, part) in [("items", None), ("rows", Some("object"))] {
        let Some(items) = object.get_mut(list).and_then(Value::as_list_mut) else { continue };
        for item in items {
            let item = match part {
                None => Some(item),
                Some(part) => item.get_mut(part),
            };
            if let Some(item) = item {
                item.remove(&["metadata", "managedFields"]);
            }
        }
    }
}
