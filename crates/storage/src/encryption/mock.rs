//! A key management plugin for tests, of both versions, with messages of its own: it checks the protocol too. It hides nothing.

// Test code that other crates compile as a library: a failed assumption is a failed test.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use prost::Message;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// A key management plugin that hides nothing.
pub struct MockPlugin {
    /// Its answers, and how often it was asked.
    pub state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

/// What the plugin says, and how often it was asked.
pub struct State {
    /// The id of the key that it says it uses.
    pub key_id: String,
    /// The version of the protocol that it says it speaks.
    pub version: String,
    /// Its health, `ok` for a healthy one.
    pub healthz: String,
    /// Whether every request fails.
    pub broken: bool,
    /// How many values it encrypted.
    pub encrypted: usize,
    /// How many values it decrypted.
    pub decrypted: usize,
}

impl MockPlugin {
    /// Answers on this socket until it is dropped.
    pub fn start(socket: &Path) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new(Mutex::new(State {
            key_id: "key-1".into(),
            version: "v2".into(),
            healthz: "ok".into(),
            broken: false,
            encrypted: 0,
            decrypted: 0,
        }));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                let service = service_fn(move |request| answer(state.clone(), request));
                tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
            }
        });
        MockPlugin { state, task }
    }
}

impl Drop for MockPlugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type MockFrames = futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::convert::Infallible>>>;

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<StreamBody<MockFrames>>, std::convert::Infallible> {
    assert_eq!(request.uri().authority().map(|authority| authority.as_str()), Some("localhost"));
    let path = request.uri().path().to_string();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let outcome = state.lock().handle(&path, &body[5..]);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(if outcome.is_ok() { "0" } else { "13" }));
    let mut frames = Vec::new();
    match outcome {
        Ok(message) => {
            let mut data = BytesMut::new();
            data.put_u8(0);
            data.put_u32(message.len() as u32);
            data.put_slice(&message);
            frames.push(Ok(Frame::data(data.freeze())));
        }
        Err(error) => drop(trailers.insert("grpc-message", HeaderValue::from_static(error))),
    }
    frames.push(Ok(Frame::trailers(trailers)));
    let body = StreamBody::new(futures::stream::iter(frames));
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}

impl State {
    fn handle(&mut self, path: &str, body: &[u8]) -> Result<Vec<u8>, &'static str> {
        if self.broken {
            return Err("the plugin is broken");
        }
        match path {
            "/v2.KeyManagementService/Status" => {
                Ok(Status { version: self.version.clone(), healthz: self.healthz.clone(), key_id: self.key_id.clone() }
                    .encode_to_vec())
            }
            "/v2.KeyManagementService/Encrypt" => {
                self.encrypted += 1;
                let request = Encrypt::decode(body).unwrap();
                assert_eq!(request.uid.len(), 36);
                let annotations = [("mock.example.com".to_string(), b"note".to_vec())].into();
                let ciphertext = mask(&request.plaintext);
                Ok(Encrypted { ciphertext, key_id: self.key_id.clone(), annotations }.encode_to_vec())
            }
            "/v2.KeyManagementService/Decrypt" => {
                self.decrypted += 1;
                let request = Decrypt::decode(body).unwrap();
                assert_eq!(request.annotations["mock.example.com"], b"note");
                Ok(Decrypted { plaintext: mask(&request.ciphertext) }.encode_to_vec())
            }
            "/v1beta1.KeyManagementService/Version" => {
                Ok(V1 { text: "v1beta1".into(), bytes: Vec::new() }.encode_to_vec())
            }
            "/v1beta1.KeyManagementService/Encrypt" => {
                self.encrypted += 1;
                Ok(V1::answer(body))
            }
            "/v1beta1.KeyManagementService/Decrypt" => {
                self.decrypted += 1;
                Ok(V1::answer(body))
            }
            _ => Err("no such method"),
        }
    }
}

fn mask(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x5a).collect()
}

/// Requests of version 1, and its answer to the question for the version.
#[derive(Clone, PartialEq, Message)]
struct V1 {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(bytes = "vec", tag = "2")]
    bytes: Vec<u8>,
}

impl V1 {
    fn answer(request: &[u8]) -> Vec<u8> {
        let request = V1::decode(request).unwrap();
        assert_eq!(request.text, "v1beta1");
        Decrypted { plaintext: mask(&request.bytes) }.encode_to_vec()
    }
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Encrypt {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

#[derive(Clone, PartialEq, Message)]
struct Encrypted {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Decrypt {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Decrypted {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}
