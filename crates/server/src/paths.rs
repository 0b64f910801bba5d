//! Paths that are not resources: those of the server itself, and those of other crates, such as discovery, OpenAPI and keys.

use authz::Permitted;
use http::{HeaderMap, Method, StatusCode};
use object::{GroupResource, GroupVersionKind, Status};
use rest::{Accept, Body, Call, Reply, ReplyBody, failure};

use crate::Server;
use crate::health::Endpoint;

const JSON: &str = "application/json";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Answers what it knows; None falls through to the 404 at the end of the chain.
#[async_trait::async_trait]
pub trait Paths: Send + Sync + 'static {
    /// May take the body, and with it an upgrade of the connection, if it answers.
    async fn answer(&self, call: &Permitted<Call>, body: &mut Body) -> Option<Reply>;

    /// The paths to list under `/`.
    fn listed(&self) -> Vec<String>;
}

/// Pages that are the same for everyone and say nothing about the cluster, so that they are sent ahead of authentication.
pub trait PublicPages: Send + Sync + 'static {
    fn page(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Reply>;

    /// Whether a page that another server answers to this request could reach the pages' sessions: it has their origin.
    fn must_contain(&self, request: &HeaderMap) -> bool;

    /// Changes the headers of such an answer so that the browser gives it an origin of its own.
    fn contain(&self, answer: &mut HeaderMap);
}

impl Server {
    pub(crate) async fn path(&self, call: &Permitted<Call>, mut body: Body) -> Reply {
        if let Some(reply) = self.own_path(&call.info.path, call).await {
            return reply;
        }
        for paths in &self.paths {
            if let Some(reply) = paths.answer(call, &mut body).await {
                return reply;
            }
        }
        let path = call.info.path.trim_end_matches('/');
        let below_group = path.strip_prefix("/apis/").is_some_and(|rest| !rest.starts_with('/') && rest.contains('/'));
        if path.starts_with("/api/") || below_group {
            let readable = self.api.accept_of_status(call);
            return failure(&Status::generic(404, "", &GroupResource::default(), "", ""), &readable);
        }
        rest::page_not_found()
    }

    /// Paths the server itself answers. All but those behind upstream's router for resources are exactly these.
    async fn own_path(&self, path: &str, call: &Call) -> Option<Reply> {
        for endpoint in Endpoint::ALL {
            if let Some(name) = endpoint.check_in(path) {
                let (code, body) = self.health.answer(endpoint, name, &call.query).await;
                return Some(Reply::plain(code, body));
            }
        }
        match path {
            path if path.trim_end_matches('/') == "/version" => {
                Some(match rest::accept::check_route(call, &[JSON], &[JSON]) {
                    Ok(()) => Reply::new(StatusCode::OK, JSON, ReplyBody::Ready(self.version.to_json().into())),
                    Err(status) => failure(&status, &self.api.accept_of_status(call)),
                })
            }
            "/metrics/slis" => Some(Reply::new(StatusCode::OK, METRICS, ReplyBody::Ready(self.health.slis().into()))),
            "/metrics" => {
                let body = ReplyBody::Ready(self.metrics.render(self.seats.taken()).into());
                Some(Reply::new(StatusCode::OK, METRICS, body))
            }
            "/" | "/index.html" => Some(self.root()),
            _ => {
                let page = path.strip_prefix("/debug/api_priority_and_fairness/")?;
                self.seats.flow()?.dump(page).map(|body| Reply::plain(StatusCode::OK, body))
            }
        }
    }

    /// `/`: the list of paths.
    fn root(&self) -> Reply {
        let mut paths: Vec<String> = self.paths.iter().flat_map(|paths| paths.listed()).collect();
        paths.extend(self.health.paths());
        paths.extend(["/metrics", "/metrics/slis", "/version"].map(str::to_string));
        paths.sort();
        paths.dedup();
        let listing = object::value!({"paths": paths});
        let accept = Accept::indented();
        let listing = rest::encode_value(&accept, &GroupVersionKind::new("", "", "Paths"), &listing);
        Reply::new(StatusCode::OK, JSON, ReplyBody::Ready(listing))
    }
}
