//! The requests that a restore is made of.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use history::CommonStep;
use http::{HeaderMap, HeaderValue, Method, header};
use object::{GroupVersionResource, Meta, Status, Value};
use registry::Resource;
use request::{Access, RequestInfo, Verb};
use storage::Revision;

use super::options::RestoreOptions;
use super::plan::{PlannedChange, RestorePlan, Todo};
use crate::client::{Collection, METADATA};
use crate::parts::CarryOut;
use crate::reply::{Reply, ReplyBody};
use crate::scope::Scope;
use crate::{Body, Call, view};

/// How many objects a list has at once.
const PAGE: &str = "500";
/// How many bytes of JSON a restore reads.
const BYTES_MAX: usize = 32 << 20;

/// Sends requests of the user who restores.
pub struct PartRequests {
    parts: Arc<dyn CarryOut>,
    scope: Arc<Scope>,
    field_manager: String,
    /// How many bytes were read for this plan.
    read: AtomicUsize,
}

impl PartRequests {
    pub fn of(scope: &Arc<Scope>, options: &RestoreOptions) -> Result<PartRequests, Status> {
        let unable = || Status::bad_request("this server restores nothing for a request of this kind");
        let parts = scope.call.parts.clone().ok_or_else(unable)?;
        let field_manager = options.field_manager.clone();
        Ok(PartRequests { parts, scope: scope.clone(), field_manager, read: AtomicUsize::new(0) })
    }

    /// Counts anew, since what was read for an earlier plan is not in memory any more.
    pub fn begin_plan(&self) {
        self.read.store(0, Ordering::Relaxed);
    }

    /// Refuses a user who may not see the past of a resource's objects.
    pub async fn check_history_of(&self, resource: &Resource, namespace: &str) -> Result<(), Status> {
        let info = collection(resource, namespace).info(Verb::Get).map_err(refused)?;
        let access = Access { subresource: super::super::SUBRESOURCE, ..Access::of(&info, &self.scope.call.user) };
        authz::check(&*self.scope.api.authorizer, &access).await
    }

    /// The objects of a resource in a namespace, at a revision or now.
    pub async fn list(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        at: Option<Revision>,
        selector: &str,
    ) -> Result<Vec<Value>, Status> {
        let info = collection(resource, namespace).info(Verb::List).map_err(refused)?;
        let (mut items, mut token) = (Vec::new(), String::new());
        loop {
            let revision = at.map(|at| at.to_string()).unwrap_or_default();
            let exact = if at.is_some() { "Exact" } else { "" };
            let query = match token.is_empty() {
                true => vec![("resourceVersion", revision.as_str()), ("resourceVersionMatch", exact)],
                false => vec![("continue", token.as_str())],
            };
            let query = [query, vec![("limit", PAGE), ("labelSelector", selector)]].concat();
            let reply = self.send(Method::GET, info.clone(), &query, JSON, None, "").await;
            let (read, page) = answer(reply).await?;
            let read = self.read.fetch_add(read, Ordering::Relaxed) + read;
            items.extend(page.list_at(&["items"]).iter().cloned().map(|mut item| {
                item.set_type(&resource.kind);
                item
            }));
            if let Some(redacted) = items.iter().find(|item| view::was_redacted(item)) {
                return Err(redacted_secret(resource, redacted.name()));
            }
            if read > BYTES_MAX {
                return Err(Status::request_too_large(
                    "a restore of so much has to be made in parts: name `resources`",
                ));
            }
            token = page.str_at(&["metadata", "continue"]).to_string();
            if token.is_empty() {
                return Ok(items);
            }
        }
    }

    /// An object at a revision or now; None if there is none.
    pub async fn get(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        at: Option<Revision>,
    ) -> Result<Option<Value>, Status> {
        let info = collection(resource, namespace).item(name).info(Verb::Get).map_err(refused)?;
        let revision = at.map(|at| at.to_string()).unwrap_or_default();
        let exact = if at.is_some() { "Exact" } else { "" };
        let query = [("resourceVersion", revision.as_str()), ("resourceVersionMatch", exact)];
        match answer(self.send(Method::GET, info, &query, JSON, None, "").await).await {
            Ok((_, object)) if view::was_redacted(&object) => Err(redacted_secret(resource, name)),
            Ok((_, mut object)) => {
                object.set_type(&resource.kind);
                Ok(Some(object))
            }
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Asks the server about each change without making it.
    pub async fn try_out(&self, plan: RestorePlan) -> RestorePlan {
        let RestorePlan { steps, mut done } = plan;
        let creates = |planned: &PlannedChange| {
            planned.todo == Todo::Create && planned.resource.resource.resource == "namespaces"
        };
        let no_namespace = steps.iter().flatten().any(creates);
        for mut planned in steps.into_iter().flatten() {
            // Nothing can be tried in a namespace that is not there.
            if no_namespace && planned.resource.namespaced {
                planned.notes.push("not tried, because its namespace is not there yet".into());
            } else {
                let reply = self.write(&planned, true).await;
                planned.failure = answer(reply).await.err();
            }
            done.push(planned);
        }
        RestorePlan { steps: Vec::new(), done }
    }

    /// Makes the changes of a step, all or none.
    pub async fn make(&self, planned: Vec<PlannedChange>) -> Vec<PlannedChange> {
        let step = CommonStep::of(planned.len());
        let begun: Vec<_> = planned
            .into_iter()
            .map(|mut planned| {
                let key = planned.key.clone();
                let request = self.write(&planned, false);
                let in_step = step.clone().run(key, request, |reply| reply.status.is_success());
                // Tasks go on if this request ends: a step that has begun is not left half done.
                tokio::spawn(async move {
                    match answer(in_step.await).await {
                        Ok((_, stored)) => {
                            planned.stored_version = stored.resource_version().to_string();
                            planned.uid = stored.uid().to_string();
                        }
                        Err(status) => planned.failure = Some(status),
                    }
                    planned
                })
            })
            .collect();
        let mut made = Vec::with_capacity(begun.len());
        for task in begun {
            match task.await {
                Ok(planned) => made.push(planned),
                // A panic was logged, and its request was dropped, so that nothing was written.
                Err(error) => tracing::error!(%error, "a part of a restore ended early"),
            }
        }
        made
    }

    fn write(&self, planned: &PlannedChange, dry_run: bool) -> impl Future<Output = Reply> + Send + 'static + use<> {
        let of = collection(&planned.resource, &planned.namespace);
        let (method, info, uid) = match planned.todo {
            Todo::Create => (Method::POST, of.info(Verb::Create), planned.uid.as_str()),
            Todo::Update | Todo::Nothing => (Method::PUT, of.item(&planned.name).info(Verb::Update), ""),
        };
        let query = [("dryRun", if dry_run { "All" } else { "" }), ("fieldManager", self.field_manager.as_str())];
        match info {
            Ok(info) => {
                futures::future::Either::Left(self.send(method, info, &query, METADATA, Some(&planned.wanted), uid))
            }
            Err(why) => {
                let reply = crate::failure(&refused(why), &crate::Accept::json());
                futures::future::Either::Right(std::future::ready(reply))
            }
        }
    }

    fn send(
        &self,
        method: Method,
        info: RequestInfo,
        query: &[(&str, &str)],
        accept: &'static str,
        body: Option<&Value>,
        uid: &str,
    ) -> impl Future<Output = Reply> + Send + 'static + use<> {
        let own = &self.scope.call;
        let mut headers = HeaderMap::new();
        if let Some(agent) = own.headers.get(header::USER_AGENT) {
            headers.insert(header::USER_AGENT, agent.clone());
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        let query: Vec<(String, String)> =
            query.iter().filter(|(_, value)| !value.is_empty()).map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let body = body.map_or(Body::Empty, |value| {
            let mut bytes = Vec::new();
            codec::json::encode(value, None, &mut bytes);
            Body::Ready(bytes.into())
        });
        let call = Call {
            uri: uri(&info, &query),
            info,
            user: own.user.clone(),
            method,
            headers,
            query,
            timeout: own.timeout,
            client: own.client,
            record: None,
            origin: None,
            only_visible: false,
            finish: None,
            parts: None,
            new_uid: (!uid.is_empty()).then(|| uid.into()),
        };
        self.parts.carry_out(Box::new(call), body)
    }
}

const JSON: &str = "application/json";

fn collection(resource: &Resource, namespace: &str) -> Collection {
    let of = Collection::of(&resource.resource);
    if resource.namespaced { of.within(namespace) } else { of }
}

/// The URL of the request over the network, for the audit log.
fn uri(info: &RequestInfo, query: &[(String, String)]) -> http::Uri {
    let mut segments = vec![info.prefix.as_str(), &info.group, &info.version];
    segments.retain(|segment| !segment.is_empty());
    if info.in_namespace {
        segments.extend(["namespaces", &info.namespace]);
    }
    segments.extend(info.parts.iter().map(String::as_str));
    // The names were checked when the request was made of them.
    let mut path = request::path(segments).unwrap_or_default();
    for (at, (name, value)) in query.iter().enumerate() {
        path.push(if at == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        object::percent_encode(value, object::is_unreserved, &mut path);
    }
    path.parse().unwrap_or_default()
}

/// The refusal of a user who would bring back a Secret without its values.
fn redacted_secret(resource: &Resource, name: &str) -> Status {
    let why = "you see Secrets without their values, so you cannot bring them back";
    Status::forbidden(&resource.resource.group_resource(), name, why)
}

fn refused(why: crate::client::Failure) -> Status {
    Status::bad_request(why.message)
}

/// How many bytes an answer has, and the object that it is.
async fn answer(reply: Reply) -> Result<(usize, Value), Status> {
    if let Some(status) = reply.failure {
        return Err(*status);
    }
    let bytes = match reply.body {
        ReplyBody::Ready(bytes) => bytes,
        ReplyBody::Stream { mut chunks, .. } => {
            let mut all = Vec::new();
            while let Some(chunk) = chunks.next().await {
                all.extend_from_slice(&chunk.map_err(|cut| Status::internal(cut.to_string()))?);
                if all.len() > BYTES_MAX {
                    return Err(Status::request_too_large("the objects of a restore are too large together"));
                }
            }
            Bytes::from(all)
        }
        ReplyBody::Switch(_) => Bytes::new(),
    };
    let decoded = crate::client::decode(&bytes);
    let value = decoded.map_err(|_| Status::internal(String::from_utf8_lossy(&bytes[..bytes.len().min(200)])))?;
    match reply.status.is_success() {
        true => Ok((bytes.len(), value)),
        false => Err(Status { code: reply.status.as_u16(), ..Status::internal(value.str_at(&["message"])) }),
    }
}

/// Finds out which objects there are now.
pub struct KnownOwners<'a> {
    requests: &'a PartRequests,
    /// The uid of each object that was asked for; "" if it is not there.
    uids: HashMap<(GroupVersionResource, String, String), String>,
}

impl<'a> KnownOwners<'a> {
    pub fn of(requests: &'a PartRequests) -> KnownOwners<'a> {
        KnownOwners { requests, uids: HashMap::new() }
    }

    pub async fn uid(&mut self, resource: &Arc<Resource>, namespace: &str, name: &str) -> Result<String, Status> {
        let key = (resource.resource.clone(), namespace.to_string(), name.to_string());
        if let Some(uid) = self.uids.get(&key) {
            return Ok(uid.clone());
        }
        let found = self.requests.get(resource, namespace, name, None).await?;
        let uid = found.as_ref().filter(|owner| !owner.is_deleting()).map_or("", |owner| owner.uid()).to_string();
        self.uids.insert(key, uid.clone());
        Ok(uid)
    }
}
