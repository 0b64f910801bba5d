//! A server without a listener, on the in-memory store.

#![allow(dead_code)] // Every test file uses a part of this.

pub mod cluster;

use std::sync::Arc;

use admission::{Chain, Plugin};
use authz::AlwaysAllow;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use object::{GroupVersionKind, Meta, Status, SystemClock, Value, value};
use registry::{Definition, Features, Form, LiveCatalog, Resource, Setup, Shape, StoredEncoding};
use request::{RequestInfo, User};
use rest::{Aborted, Api, Body, Call, Limits};
use storage::Store;
use storage::memory::MemoryStore;

pub type ResponseBody = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, Aborted>;

pub const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

pub struct Server(pub Arc<Api>);

impl Server {
    pub async fn new(plugins: Vec<Arc<dyn Plugin>>) -> Server {
        Server::with(plugins, &[], Limits::default()).await
    }

    /// A server with feature gates on.
    pub async fn with(plugins: Vec<Arc<dyn Plugin>>, gates: &[&str], limits: Limits) -> Server {
        Server::on(Arc::new(MemoryStore::new()), plugins, gates, limits).await
    }

    /// The same on a store that is given.
    pub async fn on(store: Arc<dyn Store>, plugins: Vec<Arc<dyn Plugin>>, gates: &[&str], limits: Limits) -> Server {
        Server::built(setup(store), plugins, gates, limits).await
    }

    /// The same with a catalog that is given.
    pub async fn built(setup: Setup, plugins: Vec<Arc<dyn Plugin>>, gates: &[&str], limits: Limits) -> Server {
        let gates: Vec<(String, bool)> = gates.iter().map(|gate| (gate.to_string(), true)).collect();
        let mut features = Features::default();
        features.set(&gates).unwrap();
        Server(Arc::new(Api {
            catalog: LiveCatalog::of(setup.catalog().await.unwrap()),
            admission: Chain::of(plugins),
            authorizer: Arc::new(AlwaysAllow),
            clock: Arc::new(SystemClock),
            randomness: Arc::new(object::ThreadRandomness),
            features: Arc::new(features),
            limits,
            describe_column: |_, _| "",
            meters: rest::WatchMeters::default(),
            dial: None,
            streams: Default::default(),
            recent: Arc::default(),
            answers: Arc::default(),
            definitions: None,
            history: None,
            writes: None,
        }))
    }

    pub async fn ask(&self, method: &str, url: &str, body: Value) -> (u16, Value) {
        ask(&self.0, method, url, body).await
    }
}

/// The resources of the core group, with generic strategies.
pub fn setup(store: Arc<dyn Store>) -> Setup {
    Setup {
        store,
        prefix: "/registry".into(),
        budget: cache::Budget::new(1 << 20),
        strategies: Default::default(),
        conversions: Default::default(),
        encoding: StoredEncoding::default(),
        names_unreadable: true,
        enabled: Box::new(|version, _| version.group.is_empty()),
        lifecycle: Default::default(),
    }
}

/// `method` may also be a kind of patch: MERGE, JSON, STRATEGIC, APPLY.
pub async fn ask(api: &Arc<Api>, method: &str, url: &str, body: Value) -> (u16, Value) {
    let (code, _, bytes) = ask_for(api, method, url, body, "").await;
    (code, decoded(&bytes))
}

/// The same with an Accept header; the answer's headers and body as they are.
pub async fn ask_for(
    api: &Arc<Api>,
    method: &str,
    url: &str,
    body: Value,
    accept: &str,
) -> (u16, HeaderMap, bytes::Bytes) {
    let mut json = Vec::new();
    codec::json::encode(&body, None, &mut json);
    let body = if body.is_null() { Body::Empty } else { Body::Ready(json.into()) };
    ask_with(api, method, url, body, accept).await
}

/// The same with any bytes as the body.
pub async fn ask_with(
    api: &Arc<Api>,
    method: &str,
    url: &str,
    body: Body,
    accept: &str,
) -> (u16, HeaderMap, bytes::Bytes) {
    let response = send(api, method, url, body, accept).await;
    let code = response.status().as_u16();
    let headers = response.headers().clone();
    (code, headers, response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default())
}

/// The response, whose body has not been read.
pub async fn send(api: &Arc<Api>, method: &str, url: &str, body: Body, accept: &str) -> http::Response<ResponseBody> {
    let call = call(User::default(), method, url, accept);
    let call = authz::authorize(&AlwaysAllow, call).await.map_err(|refused| refused.status()).unwrap();
    rest::serve(api, call, body).await.into_response()
}

/// The response to a GET of a user who is authorized by the server's authorizer; Err is the refusal.
pub async fn send_as(
    api: &Arc<Api>,
    user: &User,
    url: &str,
    accept: &str,
) -> Result<http::Response<ResponseBody>, Status> {
    let call = authz::authorize(&*api.authorizer, call(user.clone(), "GET", url, accept)).await;
    Ok(rest::serve(api, call.map_err(|refused| refused.status())?, Body::Empty).await.into_response())
}

fn call(user: User, method: &str, url: &str, accept: &str) -> Box<Call> {
    let (method, kind) = match method {
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "JSON" => ("PATCH", "application/json-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        method => (method, "application/json"),
    };
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query: Vec<(String, String)> = pairs.map(|(key, value)| (key.into(), value.into())).collect();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("test/1"));
    if !accept.is_empty() {
        headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
    }
    Box::new(Call {
        info: RequestInfo::parse(method, path, &query),
        user,
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        uri: Default::default(),
        client: None,
        headers,
        query,
        timeout: std::time::Duration::from_secs(10),
        record: None,
        origin: None,
        only_visible: false,
        finish: None,
        parts: None,
        new_uid: None,
    })
}

/// The first chunk of a body, which may be cut behind it.
pub async fn first_chunk(server: &Server, url: &str) -> (u16, bytes::Bytes) {
    let response = send(&server.0, "GET", url, Body::Empty, "").await;
    let code = response.status().as_u16();
    let frame = response.into_body().frame().await.unwrap().unwrap();
    (code, frame.into_data().unwrap())
}

/// A watch that is open.
pub struct Watch {
    body: ResponseBody,
    rest: Vec<u8>,
}

impl Watch {
    /// Opens a watch; the code and the Status if it is refused.
    pub async fn open(server: &Server, url: &str, accept: &str) -> Result<Watch, (u16, Value)> {
        Watch::of(send(&server.0, "GET", url, Body::Empty, accept).await).await
    }

    /// The watch of a response; the code and the Status if it is refused.
    pub async fn of(response: http::Response<ResponseBody>) -> Result<Watch, (u16, Value)> {
        let code = response.status().as_u16();
        let mut body = response.into_body();
        if code == 200 {
            return Ok(Watch { body, rest: Vec::new() });
        }
        let mut bytes = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            bytes.extend(frame.into_data().unwrap());
        }
        Err((code, decoded(&bytes)))
    }

    /// The type and the object of the next event; None at the end.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let event = decoded(&line);
                return Some((event.str_at(&["type"]).to_string(), event.field("object").clone()));
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend(frame.into_data().unwrap());
        }
    }

    /// The next events, each as its type and the object's name.
    pub async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            let (kind, object) = self.next().await.unwrap();
            names.push(format!("{kind} {}", object.name()));
        }
        names
    }
}

pub fn decoded(json: &[u8]) -> Value {
    codec::json::decode(json, None, &mut codec::Notes::ignore()).unwrap()
}

pub fn map(data: Value) -> Value {
    value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": (data)})
}

pub fn one(query: &str) -> String {
    format!("{MAPS}/m{query}")
}

/// Config maps served once more as a custom resource, which shares their storage.
pub fn widgets(maps: &Resource) -> Resource {
    let openapi = || {
        let size = value!({"type": "integer", "default": 3});
        value!({"type": "object", "properties": {"data": {"type": "object", "properties": {"size": (size)}}}})
    };
    let (types, node) = schema::from_openapi(&openapi(), false);
    let kind = GroupVersionKind::new("example.com", "v1", "Widget");
    let resource = kind.group_version().with_resource("widgets");
    let form = Form::unstructured(Shape::new(Arc::new(types), node));
    let definition = Definition {
        openapi: Box::new(openapi),
        preserve_unknown: false,
        terminating: Default::default(),
        scale: None,
    };
    Resource {
        verbs: maps.verbs.clone(),
        list_kind: "WidgetList".into(),
        storage: maps.storage.clone(),
        definition: Some(Arc::new(definition)),
        ..Resource::unstored(resource, kind, true, form)
    }
}

/// How a list can be asked for.
#[allow(dead_code)] // Not every test program asks in all forms.
pub const FORMS: [&str; 8] = [
    "application/json",
    "application/json;pretty=1",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
];
