//! GET: one object.

use bytes::BytesMut;
use http::StatusCode;
use object::{GroupVersionKind, Status, Value};

use crate::large::aside;
use crate::media::{Media, Transform};
use crate::options::{flag, not_a_revision, parse_revision};
use crate::reply::{Reply, ReplyBody};
use crate::scope::Scope;
use crate::{render, table};

/// Answers with the bytes that are cached; nothing is decoded for a representation that was asked for before.
pub async fn get(scope: &Scope) -> Result<Reply, Status> {
    let storage = scope.storage()?;
    if flag(&scope.call, "export") == Some(true) {
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(why));
    }
    let name = &scope.call.info.name;
    let given = scope.call.query("resourceVersion").unwrap_or("");
    let is_cached = scope.api.limits.watch_cache.has(&storage.resource);
    let revision = parse_revision(given).map_err(|status| if is_cached { not_a_revision(status) } else { status })?;
    let key = storage.key(&scope.call.info.namespace, name);
    let found = match revision {
        None => storage.cache.current(&key).await,
        Some(revision) => storage.cache.wait_for(revision).await.map(|()| storage.cache.get(&key)),
    };
    let found = found.map_err(|error| {
        let mut status = Status::from(storage.read_failed(error, "get"));
        // Without a watch cache upstream does not say when to try again.
        if let Some(details) = status.details.as_mut().filter(|_| !is_cached) {
            details.retry_after_seconds = 0;
        }
        status
    })?;
    let object = found.ok_or_else(|| storage.not_found(name))?;
    let object = storage.prepare([object]).await;
    let object = object.only();
    let accept = &scope.accept;
    let plain = accept.transform == Transform::None && !accept.pretty && accept.media != Media::Yaml;
    if plain {
        let body = render::projected_body(scope, object, object.revision(), accept.media)?;
        let mut out = BytesMut::with_capacity(body.len() + 64);
        render::with_type(&scope.resource, &body, accept.media, &mut out);
        if accept.media == Media::Json {
            out.extend_from_slice(b"\n");
        }
        let body = ReplyBody::Ready(out.freeze());
        return Ok(Reply::new(StatusCode::OK, accept.media.content_type(), body));
    }
    aside(object.value().len(), || respond(scope, StatusCode::OK, storage.decode(object)?))
}

/// Answers with an object in the storage version, however the client wants it.
pub fn respond(scope: &Scope, status: StatusCode, stored: Value) -> Result<Reply, Status> {
    spans::event("About to write a response");
    match &scope.accept.transform {
        Transform::Table(version) => {
            let table = table::of_object(scope, version, &stored)?;
            Ok(Reply::value(status, &scope.accept, &GroupVersionKind::new("meta.k8s.io", "v1", "Table"), &table))
        }
        Transform::Partial(version) => {
            let partial = table::partial(scope, &stored, version);
            let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
            Ok(Reply::value(status, &scope.accept, &kind, &partial))
        }
        Transform::PartialList(_) if scope.resource.is_custom() => Err(Status::unknown(500, "content is not a list")),
        Transform::PartialList(_) => Err(table::not_a_list(&table::go_type(scope, &scope.resource.kind.kind))),
        Transform::None => {
            let mut shown = scope.from_storage(stored)?;
            scope.project(&mut shown);
            Ok(Reply::encoded(status, &scope.accept, scope.resource.form.wire_schema(), &shown))
        }
    }
}
