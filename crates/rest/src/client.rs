//! [`Client`]: the API, called in process: the same verbs, bodies and answers as over the network, without the network.

mod target;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codec::Notes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use object::{Status, Value};
use request::{RequestInfo, User, Verb};

use crate::{Api, Body, Call, Chunks, Reply, ReplyBody};

pub use target::{Collection, Item};

const JSON: &str = "application/json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Lists and watches of this form carry metadata only.
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client of the server it lives in.
#[derive(Clone)]
pub struct Client {
    pub api: Arc<Api>,
    pub user: User,
    /// The user agent, which is the manager of the fields it writes.
    pub agent: &'static str,
}

/// How a call failed: the code and message of the Status.
#[derive(Debug)]
pub struct Failure {
    pub code: u16,
    pub message: String,
}

impl Failure {
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    pub fn is_conflict(&self) -> bool {
        self.code == 409
    }

    /// For the outcome of a creation: another server may have created the object first.
    pub fn unless_exists(self) -> Result<(), Failure> {
        if self.is_conflict() { Ok(()) } else { Err(self) }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl Client {
    pub fn new(api: Arc<Api>, agent: &'static str) -> Client {
        Client { api, user: User::loopback(), agent }
    }

    pub async fn get(&self, item: &Item) -> Result<Value, Failure> {
        self.send(Method::GET, item.info(Verb::Get), &[], JSON, JSON, None).await
    }

    /// A collection; only the metadata of its objects.
    pub async fn list(&self, of: &Collection) -> Result<Value, Failure> {
        self.send(Method::GET, of.info(Verb::List), &[], METADATA_LIST, JSON, None).await
    }

    /// A collection with its objects whole.
    pub async fn list_whole(&self, of: &Collection) -> Result<Value, Failure> {
        self.send(Method::GET, of.info(Verb::List), &[], JSON, JSON, None).await
    }

    pub async fn create(&self, within: &Collection, object: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, within.info(Verb::Create), &[], JSON, JSON, Some(object)).await
    }

    /// The object that would be created, with its defaults, if it would be: nothing is stored.
    pub async fn check(&self, within: &Collection, object: &Value) -> Result<Value, Failure> {
        let query = [("dryRun", "All"), ("fieldValidation", "Strict")];
        self.send(Method::POST, within.info(Verb::Create), &query, JSON, JSON, Some(object)).await
    }

    pub async fn replace(&self, item: &Item, object: &Value) -> Result<Value, Failure> {
        self.send(Method::PUT, item.info(Verb::Update), &[], JSON, JSON, Some(object)).await
    }

    pub async fn merge(&self, item: &Item, patch: &Value) -> Result<Value, Failure> {
        self.send(Method::PATCH, item.info(Verb::Patch), &[], METADATA, MERGE_PATCH, Some(patch)).await
    }

    /// Server-side apply with force.
    pub async fn apply(&self, item: &Item, manager: &str, config: &Value) -> Result<Value, Failure> {
        let query = [("fieldManager", manager), ("force", "true")];
        self.send(Method::PATCH, item.info(Verb::Patch), &query, JSON, APPLY_PATCH, Some(config)).await
    }

    pub async fn delete(&self, item: &Item, options: &Value) -> Result<(), Failure> {
        self.send(Method::DELETE, item.info(Verb::Delete), &[], JSON, JSON, Some(options)).await.map(|_| ())
    }

    /// Deletes all objects of a collection.
    pub async fn delete_all(&self, of: &Collection, options: &Value) -> Result<(), Failure> {
        let info = of.info(Verb::DeleteCollection);
        self.send(Method::DELETE, info, &[], JSON, JSON, Some(options)).await.map(|_| ())
    }

    fn send<'a>(
        &'a self,
        method: Method,
        info: Result<RequestInfo, Failure>,
        query: &'a [(&'a str, &'a str)],
        accept: &'static str,
        content: &'static str,
        body: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            let reply = self.call(method, info?, query, accept, content, body).await?;
            let status = reply.status;
            let bytes = match reply.body {
                ReplyBody::Ready(bytes) => bytes,
                ReplyBody::Stream { chunks, .. } => concat(chunks).await?,
                ReplyBody::Switch(_) => Bytes::new(),
            };
            let value = decode(&bytes)?;
            if status.is_success() { Ok(value) } else { Err(failure(status, &value)) }
        })
    }

    /// The events of a collection's metadata after a revision, one JSON document each.
    pub async fn watch(&self, of: &Collection, revision: &str) -> Result<BoxStream<'static, Bytes>, Failure> {
        let query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", revision)];
        let reply = self.call(Method::GET, of.info(Verb::Watch)?, &query, METADATA, JSON, None).await?;
        match reply.body {
            ReplyBody::Stream { chunks, .. } if reply.status.is_success() => Ok(lines(chunks)),
            ReplyBody::Ready(bytes) => Err(failure(reply.status, &decode(&bytes)?)),
            ReplyBody::Stream { .. } | ReplyBody::Switch(_) => {
                Err(Failure { code: reply.status.as_u16(), message: "no watch".into() })
            }
        }
    }

    async fn call(
        &self,
        method: Method,
        info: RequestInfo,
        query: &[(&str, &str)],
        accept: &'static str,
        content: &'static str,
        body: Option<&Value>,
    ) -> Result<Reply, Failure> {
        let selection = ("fieldSelector", info.field_selector.as_str());
        let query = query.iter().copied().chain((!info.field_selector.is_empty()).then_some(selection));
        let query: Vec<(String, String)> = query.map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(self.agent));
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content));
        let body = match body {
            None => Body::Empty,
            Some(value) => {
                let mut bytes = Vec::new();
                codec::json::encode(value, None, &mut bytes);
                Body::Ready(bytes.into())
            }
        };
        let user = self.user.clone();
        let uri = Default::default();
        let is_recorded = self.api.history.is_some() && !info.verb.is_read();
        let origin = is_recorded.then(|| {
            Arc::new(history::Origin {
                user: user.name.clone(),
                user_agent: self.agent.into(),
                verb: info.verb.as_str().into(),
                subresource: info.subresource.clone(),
                ..history::Origin::default()
            })
        });
        let call = Call {
            info,
            user,
            method,
            uri,
            headers,
            query,
            timeout: TIMEOUT,
            client: None,
            record: None,
            origin,
            only_visible: false,
            finish: None,
            parts: None,
            new_uid: None,
        };
        let call = authz::authorize(&*self.api.authorizer, Box::new(call))
            .await
            .map_err(|refused| from_status(refused.status()))?;
        Ok(crate::serve(&self.api, call, body).await)
    }
}

/// Reads a JSON document of the API.
pub fn decode(bytes: &[u8]) -> Result<Value, Failure> {
    codec::json::decode(bytes, None, &mut Notes::ignore())
        .map_err(|error| Failure { code: 500, message: error.to_string() })
}

fn failure(status: StatusCode, value: &Value) -> Failure {
    Failure { code: status.as_u16(), message: value.str_at(&["message"]).to_string() }
}

fn from_status(status: Status) -> Failure {
    Failure { code: status.code, message: status.message }
}

/// Cuts chunks into lines; a document never spans more than what arrives before its newline.
fn lines(chunks: Chunks) -> BoxStream<'static, Bytes> {
    stream::unfold((chunks, Bytes::new()), |(mut chunks, mut rest)| async move {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &rest) {
                let line = rest.split_to(at);
                let _newline = rest.split_to(1);
                return Some((line, (chunks, rest)));
            }
            let next = chunks.next().await?.ok()?;
            rest = if rest.is_empty() { next } else { Bytes::from([&rest[..], &next[..]].concat()) };
        }
    })
    .boxed()
}

/// Everything, in one piece.
async fn concat(mut chunks: Chunks) -> Result<Bytes, Failure> {
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|cut| Failure { code: 500, message: cut.to_string() })?;
        all.extend_from_slice(&chunk);
    }
    Ok(all.into())
}
