//! [`Client`]: sends requests to the server in this process, and notes them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ferrokube::{InProcess, ResponseBody};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use object::{Randomness, SeededRandomness};
use serde_json::Value;

use crate::model::{Begun, Model};
use crate::store::FaultyStore;

/// Longer than anything takes in this store, so that what does not come is an error.
const PATIENCE: Duration = Duration::from_secs(90);

/// One client, with a random sequence of its own.
pub struct Client {
    pub name: String,
    service: InProcess,
    pub model: Arc<Mutex<Model>>,
    pub store: Arc<FaultyStore>,
    pub randomness: SeededRandomness,
}

/// An answer, and what was known before it was asked for.
#[derive(Debug)]
pub struct Answered {
    pub code: u16,
    pub body: Value,
    pub begun: Begun,
}

impl Client {
    pub fn new(
        name: String,
        service: InProcess,
        model: Arc<Mutex<Model>>,
        store: Arc<FaultyStore>,
        seed: u64,
    ) -> Client {
        Client { name, service, model, store, randomness: SeededRandomness::new(seed) }
    }

    pub fn happens(&self, chance: usize) -> bool {
        self.randomness.below(100) < chance
    }

    pub fn pick<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[self.randomness.below(all.len())]
    }

    pub async fn pause(&self, longest_millis: usize) {
        let pause = self.randomness.below(longest_millis) as u64;
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Sends a request. None: the client went away before the answer, or the store was in trouble and the server said so, and what became
    /// of the request is not known.
    pub async fn ask(&self, method: Method, path: &str, media: &str, body: Option<&Value>) -> Option<Answered> {
        let calm = self.store.calm();
        let begun = self.model.lock().unwrap().begin();
        let what = format!("{method} {path}");
        self.note(&what);
        let sending = self.send(method, path, media, body);
        let answer = match self.happens(5) {
            true => match tokio::time::timeout(Duration::from_millis(self.randomness.below(200) as u64), sending).await
            {
                Ok(answer) => answer,
                Err(_) => {
                    self.note(&format!("{what}: went away"));
                    return None;
                }
            },
            false => self.soon(&what, sending).await,
        };
        let (code, body) = answer;
        let shown = match code {
            200..300 => body["metadata"]["resourceVersion"].to_string(),
            _ => body["message"].to_string(),
        };
        self.note(&format!("{what} -> {code} {shown}"));
        let mut model = self.model.lock().unwrap();
        model.count(|totals| totals.requests += 1);
        if code >= 500 || code == 429 {
            model.count(|totals| totals.failed += 1);
            let is_excused = calm.is_none() || calm != self.store.calm();
            assert!(is_excused, "{}: {what} failed in good weather: {code} {body}", self.name);
            return None;
        }
        Some(Answered { code, body, begun })
    }

    async fn send(&self, method: Method, path: &str, media: &str, body: Option<&Value>) -> (u16, Value) {
        let bytes = body.map(Value::to_string).unwrap_or_default();
        let response = self.open(method, path, media, bytes).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map(|body| body.to_bytes());
        // An answer that is cut off tells no more than one that failed.
        let Ok(bytes) = bytes else { return (500, Value::Null) };
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Sends a request; its answer is not read.
    pub async fn open(&self, method: Method, path: &str, media: &str, body: String) -> http::Response<ResponseBody> {
        let request = Request::builder().method(method).uri(path).header("accept", "application/json");
        let request = match media {
            "" => request,
            media => request.header("content-type", media),
        };
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        self.service.send(request).await.unwrap()
    }

    /// Waits for what must come.
    pub async fn soon<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let came = tokio::time::timeout(PATIENCE, future).await;
        came.unwrap_or_else(|_| panic!("{}: {what} was not answered", self.name))
    }

    pub fn note(&self, line: &str) {
        self.model.lock().unwrap().note(&self.name, line);
    }
}
