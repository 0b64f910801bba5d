//! DELETE and DELETECOLLECTION.

use std::sync::{Arc, OnceLock};

use admission::{Attributes, Operation};
use bytes::Bytes;
use cache::Object;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use object::{BadValue, Errors, GroupKind, GroupVersion, GroupVersionKind, Map, Meta, Path, Status, Value};
use registry::{Context, Deleted, Error, UNREADABLE};
use schema::{Node, Schema, Shape};

use crate::body;
use crate::list;
use crate::options::{ListOptions, delete_options};
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{Media, get, wire};

pub async fn delete(scope: &Scope) -> Result<Reply, Status> {
    let options = read_options(scope).await?;
    let dry_run = !options.list_at(&["dryRun"]).is_empty();
    if options.field(UNREADABLE).as_bool() == Some(true) {
        return delete_unreadable(scope, &options, dry_run).await;
    }
    registry::validate_options(&options)?;
    let warnings = deletion_warnings(scope, &options);
    scope.warn(warnings);
    let cx = scope.context(dry_run);
    let name = scope.call.info.name.as_str();
    let attributes = scope.admission(Operation::Delete, name, cx, &options);
    let deleted = remove(scope, &attributes, name).await?;
    let accepted = !deleted.gone && options.field("orphanDependents").as_bool() == Some(false);
    let status = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
    if deleted.show_object {
        return get::respond(scope, status, deleted.object);
    }
    Ok(Reply::value(status, &plain(scope), &status_kind(), &success(scope, &deleted.object)))
}

/// Deletes an object if admission lets it; what another write makes of it meanwhile is looked at again.
async fn remove(scope: &Scope, attributes: &Attributes<'_>, name: &str) -> Result<Deleted, Error> {
    let (cx, options) = (&attributes.cx, attributes.options);
    let mut removal = scope.storage()?.begin_removal(cx, name, options).await?;
    loop {
        let planned = removal.plan().await?;
        if let Some(current) = planned.asks_about() {
            scope.api.admission.admit_deletion(attributes, current).await?;
        }
        scope.begin(cx);
        if let Some(deleted) = removal.commit(planned).await? {
            return Ok(deleted);
        }
    }
}

/// Deletes an object that cannot be read, which needs a permission of its own.
async fn delete_unreadable(scope: &Scope, options: &Value, dry_run: bool) -> Result<Reply, Status> {
    registry::validate_options(options)?;
    let storage = scope.storage()?;
    if !storage.strategy.facts().deletes_unreadable {
        return Err(Status::internal(format_args!("no unsafe deleter provided, can not honor {UNREADABLE}")));
    }
    const VERB: &str = "unsafe-delete-ignore-read-errors";
    let info = &scope.call.info;
    if let Err(reason) = scope.api.authorizer.decide(&scope.access(VERB)).await.allowed() {
        let why = format!("not permitted to do {}, reason: {reason}", object::quote(VERB));
        return Err(Status::forbidden(&scope.group_resource(), &info.name, why));
    }
    let cx = scope.context(dry_run);
    scope.begin(&cx);
    storage.delete_unreadable(&cx, &info.name).await?;
    // The object is unknown, so the Status has other details than usual.
    let mut done = Value::map();
    done.set_type(&status_kind());
    done.metadata_mut();
    done.set(&["status"], "Success");
    done.set(&["details", "name"], info.name.as_str());
    done.set(&["details", "kind"], scope.resource.kind.kind.clone());
    done.set(&["code"], 200);
    Ok(Reply::value(StatusCode::OK, &plain(scope), &status_kind(), &done))
}

pub async fn delete_collection(scope: &Arc<Scope>) -> Result<Reply, Status> {
    let (list, options) = read_collection_options(scope).await?;
    let page = collect(scope, &list, &options).await?;
    list::respond(scope, page).await
}

/// The options of DELETECOLLECTION: list options and DeleteOptions.
async fn read_collection_options(scope: &Scope) -> Result<(ListOptions, Value), Status> {
    let list = ListOptions::parse(scope, false)?;
    let options = read_options(scope).await?;
    registry::validate_options(&options)?;
    if options.field(UNREADABLE).as_bool() == Some(true) {
        let mut errors = Errors::new();
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        errors.invalid(&Path::of(UNREADABLE), BadValue::from(true), why);
        return Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors));
    }
    let warnings = deletion_warnings(scope, &options);
    scope.warn(warnings);
    Ok((list, options))
}

async fn collect(scope: &Scope, list_options: &ListOptions, options: &Value) -> Result<list::Page, Status> {
    let dry_run = !options.list_at(&["dryRun"]).is_empty();
    let mut page = list::page(scope, list_options).await?;
    page.read_all().await?;
    list::check_readable(scope, &page.objects).await?;
    let mut deleting = FuturesUnordered::new();
    for object in &page.objects {
        // Deletions that were begun are finished; without a client no others are.
        if scope.is_abandoned() {
            break;
        }
        if deleting.len() >= scope.api.limits.delete_collection_workers {
            deleting.next().await.transpose()?;
        }
        deleting.push(delete_one(scope, object, options, dry_run));
    }
    while let Some(deleted) = deleting.next().await {
        deleted?;
    }
    drop(deleting);
    if scope.is_abandoned() {
        return Err(Status::timeout("request did not complete within requested timeout", 0));
    }
    Ok(page)
}

/// Deletes an object of a collection, unless that was done in the meantime.
async fn delete_one(scope: &Scope, object: &Object, options: &Value, dry_run: bool) -> Result<(), Status> {
    let storage = scope.storage()?;
    let header = object.header(storage.cache.describe());
    let cx = Context { namespace: &header.namespace, ..scope.context(dry_run) };
    let attributes = scope.admission(Operation::Delete, "", cx, options);
    match remove(scope, &attributes, &header.name).await {
        Err(error) if error.reason() != object::Reason::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// DeleteOptions from the body, or from the query if there is none.
async fn read_options(scope: &Scope) -> Result<Value, Status> {
    let bytes = scope.read_body().await?;
    let mut options = if bytes.is_empty() {
        delete_options(&scope.call)?
    } else {
        let media = body::input_media(scope, scope.call.header("content-type"))?;
        check_kind(&bytes, media).map_err(Status::bad_request)?;
        let decoded = wire::decode(&bytes, media, options_schema(), &mut codec::Notes::ignore());
        let options = decoded.map_err(Status::bad_request)?;
        // kube-apiserver records the options in its internal version.
        let mut recorded = options.clone();
        recorded.set(&["apiVersion"], "meta.k8s.io/__internal");
        scope.record_object(&recorded, options_schema());
        options
    };
    if !scope.api.features.enabled("AllowUnsafeMalformedObjectDeletion")
        && let Some(map) = options.as_map_mut()
    {
        map.remove(UNREADABLE);
    }
    options.set_type(&GroupVersionKind::new("meta.k8s.io", "v1", "DeleteOptions"));
    Ok(options)
}

/// Options may be of any version, even one that is not served, but their kind must be DeleteOptions.
fn check_kind(bytes: &Bytes, media: Media) -> Result<(), String> {
    let (api_version, kind) = wire::type_of(bytes, media)?;
    GroupVersion::parse(&api_version)?;
    match kind.as_str() {
        "" | "DeleteOptions" => Ok(()),
        "CreateOptions" | "UpdateOptions" | "PatchOptions" | "GetOptions" | "ListOptions"
            if api_version == "meta.k8s.io/v1" =>
        {
            Err(format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion"))
        }
        _ => Err(format!(
            "no kind {} is registered for version {} in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\"",
            object::quote(&kind),
            object::quote(&api_version)
        )),
    }
}

/// DeleteOptions are no kind of the table, only a type in it.
fn options_schema() -> Option<Schema<'static>> {
    static NODE: OnceLock<Option<Node>> = OnceLock::new();
    let types = schema::builtin().types();
    let node = NODE.get_or_init(|| {
        let id = types.find("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")?;
        Some(Node { shape: Shape::Struct(id), ..Node::default() })
    });
    node.as_ref().map(|node| Schema::new(types, node))
}

/// The kind's warnings about such a deletion, which are sent whether it succeeds or not.
fn deletion_warnings(scope: &Scope, options: &Value) -> Vec<String> {
    let storage = scope.resource.storage.as_ref();
    let warning = storage.and_then(|storage| storage.strategy.facts().deletion_warning(options));
    warning.map(String::from).into_iter().collect()
}

fn status_kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Status")
}

/// A Status is never shown as a table.
fn plain(scope: &Scope) -> crate::Accept {
    scope.accept.as_is()
}

/// What clients learn about an object that is gone.
fn success(scope: &Scope, object: &Value) -> Value {
    let resource = scope.group_resource();
    let mut details = Map::new();
    details.insert("name", object.name());
    if !resource.group.is_empty() {
        details.insert("group", resource.group.clone());
    }
    details.insert("kind", resource.resource.clone());
    if !object.uid().is_empty() {
        details.insert("uid", object.uid());
    }
    let mut status = Map::new();
    status.insert("kind", "Status");
    status.insert("apiVersion", "v1");
    status.insert("metadata", Value::map());
    status.insert("status", "Success");
    status.insert("details", details);
    Value::Map(status)
}
