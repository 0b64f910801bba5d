//! Paths of the program that are not resources.

use std::sync::Arc;

use async_trait::async_trait;
use authz::Permitted;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use request::User;
use rest::{Accept, Body, Call, Reply, ReplyBody, failure};

/// The largest body that a path takes.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A request for a path of the program. Its user was authenticated, and is allowed the verb on the path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathRequest {
    /// Who asks.
    pub user: User,
    /// The method.
    pub method: Method,
    /// The path, decoded.
    pub path: String,
    /// The query's keys and values, decoded.
    pub query: Vec<(String, String)>,
    /// The headers, without credentials.
    pub headers: HeaderMap,
    /// The body, of up to 3 MiB.
    pub body: Bytes,
}

/// What a path answers.
#[derive(Clone, Debug)]
pub struct PathResponse {
    /// The status code.
    pub code: StatusCode,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The body.
    pub body: Bytes,
}

impl PathResponse {
    /// Plain text.
    pub fn text(body: impl Into<String>) -> PathResponse {
        let media_type = "text/plain; charset=utf-8";
        PathResponse { code: StatusCode::OK, media_type, body: body.into().into() }
    }

    /// JSON.
    pub fn json(body: &impl serde::Serialize) -> PathResponse {
        match serde_json::to_vec(body) {
            Ok(body) => PathResponse { code: StatusCode::OK, media_type: "application/json", body: body.into() },
            Err(error) => {
                PathResponse { code: StatusCode::INTERNAL_SERVER_ERROR, ..PathResponse::text(error.to_string()) }
            }
        }
    }
}

type Answer = Arc<dyn Fn(PathRequest) -> BoxFuture<'static, PathResponse> + Send + Sync>;

/// One path and what answers it.
pub(crate) struct Route {
    path: String,
    answer: Answer,
}

impl Route {
    pub fn new<F, A>(path: &str, answer: F) -> Route
    where
        F: Fn(PathRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PathResponse> + Send + 'static,
    {
        let path = path.trim_end_matches('/').to_string();
        Route { path, answer: Arc::new(move |request| answer(request).boxed()) }
    }

    fn has(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[async_trait]
impl server::Paths for Route {
    async fn answer(&self, call: &Permitted<Call>, body: &mut Body) -> Option<Reply> {
        let path = &call.info.path;
        if !self.has(path) {
            return None;
        }
        let body = match std::mem::take(body).read(BODY_BYTES_MAX).await {
            Ok(body) => body,
            Err(status) => return Some(failure(&status, &Accept::json())),
        };
        let request = PathRequest {
            user: call.user.clone(),
            method: call.method.clone(),
            path: path.clone(),
            query: call.query.clone(),
            headers: call.headers.clone(),
            body,
        };
        let PathResponse { code, media_type, body } = (self.answer)(request).await;
        let mut reply = Reply::new(code, media_type, ReplyBody::Ready(body));
        reply.headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Some(reply)
    }

    fn listed(&self) -> Vec<String> {
        vec![self.path.clone()]
    }
}
