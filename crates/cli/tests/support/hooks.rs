//! A webhook server for tests: each path is a webhook with an answer of its own.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object::{Value, value};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::Client;

/// What a webhook answers.
#[derive(Clone)]
#[allow(dead_code)] // Each test program uses some of it.
pub enum Answer {
    Allow,
    Deny(Value),
    Patch(&'static str),
    /// Members of the response besides uid and allowed.
    With(Value),
    /// A body as it is.
    Body(u16, Vec<u8>),
    Redirect,
    Hang,
    /// Converts custom resources: what v1 calls `spec.size` is `spec.width` in v2.
    Convert,
}

/// A webhook server: each path is a webhook with an answer of its own.
#[derive(Clone)]
pub struct Hooks {
    pub port: u16,
    pub bundle: String,
    answers: Arc<Mutex<Vec<(String, Answer)>>>,
    /// The path and the request of every review.
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    /// The `traceparent` header of every review that had one.
    traces: Arc<Mutex<Vec<String>>>,
}

impl Hooks {
    pub async fn start() -> Hooks {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hooks = Hooks {
            port: listener.local_addr().unwrap().port(),
            bundle: STANDARD.encode(certificate.pem()),
            answers: Arc::default(),
            seen: Arc::default(),
            traces: Arc::default(),
        };
        let (acceptor, serving) = (TlsAcceptor::from(Arc::new(config)), hooks.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, serving) = (acceptor.clone(), serving.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| serving.clone().serve(request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        hooks
    }

    async fn serve(self, request: http::Request<Incoming>) -> Result<http::Response<Full<Bytes>>, std::io::Error> {
        let path = request.uri().path().to_string();
        if let Some(trace) = request.headers().get("traceparent") {
            self.traces.lock().unwrap().push(trace.to_str().unwrap().to_string());
        }
        let bytes = request.into_body().collect().await.unwrap().to_bytes();
        let review = codec::json::decode(&bytes, None, &mut codec::Notes::ignore()).unwrap();
        let uid = review.str_at(&["request", "uid"]).to_string();
        self.seen.lock().unwrap().push((path.clone(), review.field("request").clone()));
        let found = self.answers.lock().unwrap().iter().rev().find(|(known, _)| *known == path).cloned();
        let version = review.str_at(&["apiVersion"]).to_string();
        let respond = |members: Value| {
            let mut response = members;
            response.set(&["uid"], uid.as_str());
            let review = value!({"apiVersion": (version.as_str()), "kind": "AdmissionReview", "response": response});
            let mut json = Vec::new();
            codec::json::encode(&review, None, &mut json);
            Ok(http::Response::new(Full::new(Bytes::from(json))))
        };
        match found.map_or(Answer::Allow, |(_, answer)| answer) {
            Answer::Allow => respond(value!({"allowed": true})),
            Answer::Deny(status) => respond(value!({"allowed": false, "status": status})),
            Answer::Patch(patch) => {
                let patch = STANDARD.encode(patch);
                respond(value!({"allowed": true, "patchType": "JSONPatch", "patch": (patch.as_str())}))
            }
            Answer::With(members) => respond(members),
            Answer::Body(code, body) => {
                Ok(http::Response::builder().status(code).body(Full::new(Bytes::from(body))).unwrap())
            }
            Answer::Redirect => {
                let response = http::Response::builder().status(302).header("location", "https://127.0.0.1:1/");
                Ok(response.body(Full::new(Bytes::new())).unwrap())
            }
            Answer::Hang => std::future::pending().await,
            Answer::Convert => Ok(http::Response::new(Full::new(Bytes::from(convert(&review))))),
        }
    }

    pub fn answer(&self, path: &str, answer: Answer) {
        self.answers.lock().unwrap().push((path.to_string(), answer));
    }

    /// The reviews that a path got since the last time, but for those of what the server itself keeps up to date.
    pub fn take_seen(&self, path: &str) -> Vec<Value> {
        let mut seen = self.seen.lock().unwrap();
        seen.retain(|(_, review)| review.str_at(&["resource", "group"]) != "flowcontrol.apiserver.k8s.io");
        let taken = seen.iter().filter(|(known, _)| known == path).map(|(_, review)| review.clone()).collect();
        seen.retain(|(known, _)| known != path);
        taken
    }

    /// The path and the request of every review.
    pub fn all_seen(&self) -> Vec<(String, Value)> {
        self.seen.lock().unwrap().clone()
    }

    /// The `traceparent` header of every review that had one.
    pub fn traces(&self) -> Vec<String> {
        self.traces.lock().unwrap().clone()
    }

    /// A webhook with this name at the path of the same name, and other fields.
    pub fn hook(&self, name: &str, rule: Value, fields: &[(&'static str, Value)]) -> Value {
        let url = format!("https://localhost:{}/{name}", self.port);
        let mut hook = value!({
            "name": (format!("{name}.hooks.example")),
            "clientConfig": {"url": (url), "caBundle": (self.bundle.as_str())},
            "admissionReviewVersions": ["v1", "v1beta1"],
            "sideEffects": "None",
            "rules": [rule],
        });
        for (field, value) in fields {
            hook.set(&[field], value.clone());
        }
        hook
    }
}

pub const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

pub async fn configure(client: &mut Client, mutating: bool, name: &str, hooks: Vec<Value>) {
    let (kind, resource) = if mutating {
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
    } else {
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
    };
    let configuration = value!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": hooks,
    });
    let (status, answer) = client.ask("POST", &format!("{CONFIGURATIONS}/{resource}"), &configuration).await;
    assert_eq!(status, 201, "{answer:?}");
}

pub fn rule(group: &str, versions: &[&str], resources: &[&str], operations: &[&str]) -> Value {
    let list = |items: &[&str]| Value::from(items.iter().map(|item| Value::from(*item)).collect::<Vec<_>>());
    value!({
        "apiGroups": [group],
        "apiVersions": (list(versions)),
        "resources": (list(resources)),
        "operations": (list(operations)),
    })
}

pub fn config_map(name: &str) -> Value {
    value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// The answer to a ConversionReview.
fn convert(review: &Value) -> Vec<u8> {
    let desired = review.str_at(&["request", "desiredAPIVersion"]);
    let (from, to) = if desired.ends_with("/v2") { ("size", "width") } else { ("width", "size") };
    let converted = review.list_at(&["request", "objects"]).iter().map(|object| {
        let mut object = object.clone();
        let number = object.at(&["spec", from]).clone();
        object.set(&["spec"], Value::map());
        object.set(&["spec", to], number);
        object.set(&["apiVersion"], desired);
        object
    });
    let converted: Vec<Value> = converted.collect();
    let answer = value!({
        "apiVersion": (review.str_at(&["apiVersion"])), "kind": "ConversionReview",
        "response": {
            "uid": (review.str_at(&["request", "uid"])), "result": {"status": "Success"}, "convertedObjects": converted,
        },
    });
    let mut json = Vec::new();
    codec::json::encode(&answer, None, &mut json);
    json
}
