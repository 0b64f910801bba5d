//! The scale subresource: how many replicas an object asks for and has, whatever kind it is.

use std::sync::Arc;

use admission::{Attributes, Operation};
use http::StatusCode;
use object::{Cursor, Errors, GroupKind, GroupVersionKind, Map, Meta, Status, Str, Value, labels, quote};
use patch::apply::ScaleFields;
use registry::{Form, Resource, ScalePaths, UpdateOptions};

use crate::body::{self, Expected};
use crate::options::WriteOptions;
use crate::patch::Patch;
use crate::reply::Reply;
use crate::scope::{Scope, method_not_allowed};
use crate::update::check_identity;
use crate::{Body, Transform, managed, table};

pub async fn get(scope: &Scope) -> Result<Reply, Status> {
    let object = scope.storage()?.get(&scope.call.info.namespace, &scope.call.info.name).await?;
    if let Some(paths) = paths_of(&scope.resource).filter(|paths| is_unset(paths, &object)) {
        let path = quote(&ScalePaths::dotted(&paths.spec_replicas));
        return Err(Status::internal(format!("the spec replicas field {path} does not exist")));
    }
    respond(scope, StatusCode::OK, &scale_of(scope, &object)?)
}

pub async fn update(scope: &Scope) -> Result<Reply, Status> {
    let bytes = scope.read_body().await?;
    let options = WriteOptions::parse(&scope.call, "UpdateOptions", false)?;
    let media = body::input_media(scope, scope.call.header("content-type"))?;
    let expected = Expected { kind: &scale_kind(), form: &scale_form(scope)? };
    let decoded = body::decode(&bytes, media, &expected, options.field_validation).map_err(|status| {
        // Upstream's scheme of custom resources lacks the type that its message would name.
        let why =
            "no kind is registered for the type v1.Scale in scheme \"pkg/apiserver/customresource_handler.go:781\"";
        if scope.resource.is_custom() { Status::bad_request(why) } else { status }
    })?;
    scope.warn(decoded.warnings);
    scope.record_object(&decoded.object, expected.form.wire_schema());
    let mut wanted = decoded.object;
    check_identity(scope, &mut wanted)?;
    write(scope, &options, Rescale::To(wanted)).await
}

pub async fn patch(scope: &Scope) -> Result<Reply, Status> {
    let patch = Patch::read(scope).await?;
    let options = WriteOptions::parse(&scope.call, "PatchOptions", patch.is_apply())?;
    patch.check(&options)?;
    patch.record(scope);
    write(scope, &options, Rescale::Patch(patch)).await
}

enum Rescale {
    To(Value),
    Patch(Patch),
}

async fn write(scope: &Scope, options: &WriteOptions, wanted: Rescale) -> Result<Reply, Status> {
    let cx = scope.context(options.dry_run);
    let name = scope.call.info.name.as_str();
    let as_update = options.of_kind("UpdateOptions");
    let attributes = scope.admission(Operation::Update, name, cx, &as_update);
    let scaled = scaled_scope(scope)?;
    let mut write = scope.storage()?.begin(&cx, name, &UpdateOptions::OBJECT).await?;
    let outcome = loop {
        let existing = write.existing().await?;
        let mut old = scale_of(scope, &existing)?;
        if paths_of(&scope.resource).is_some_and(|paths| is_unset(paths, &existing)) {
            old.set(&["spec", "replicas"], UNSET);
        }
        let new = match &wanted {
            Rescale::To(scale) => Ok(managed::track_update(&scaled, &old, scale.clone(), &options.field_manager).await),
            Rescale::Patch(patch) => patch.patched(&scaled, options, &old, false).await,
        };
        scope.warn(scaled.warnings.take());
        let mut new = new?;
        scope.api.admission.mutate(&attributes, &mut new, Some(&old)).await?;
        if paths_of(&scope.resource).is_none() {
            validate(&new)?;
        }
        write.check_preconditions(Some(new.uid()).filter(|uid| !uid.is_empty()), None, &existing)?;
        check_version(scope, &mut new, &existing)?;
        let object = carry_back(scope, &existing, &new)?;
        scope.begin(&cx);
        let draft = write.check(object, Some(&existing)).await?;
        let admitted = admit(scope, &attributes, draft.object(), &existing).await;
        if let Some(outcome) = write.commit(draft, admitted).await? {
            break outcome;
        }
    };
    respond(scope, StatusCode::OK, &scale_of(scope, &outcome.object)?)
}

/// Validating admission sees the Scale, not the object that is scaled.
async fn admit(scope: &Scope, attributes: &Attributes<'_>, new: &Value, old: &Value) -> Result<(), Status> {
    let (new, old) = (scale_of(scope, new)?, scale_of(scope, old)?);
    scope.api.admission.validate(attributes, Some(&new), Some(&old)).await
}

/// A resourceVersion of the Scale must be that of the scaled object.
fn check_version(scope: &Scope, scale: &mut Value, existing: &Value) -> Result<(), Status> {
    registry::check_version_form(scale.resource_version())?;
    if scale.resource_version().is_empty() {
        scale.set_meta_str("resourceVersion", existing.resource_version());
    }
    if scale.resource_version() != existing.resource_version() {
        return Err(Status::conflict(&scope.group_resource(), existing.name(), registry::MODIFIED));
    }
    Ok(())
}

fn respond(scope: &Scope, status: StatusCode, scale: &Value) -> Result<Reply, Status> {
    // Who owns the replicas is told by the object itself.
    let mut shown = scale.clone();
    shown.metadata_mut().remove("managedFields");
    let (kind, shown) = match &scope.accept.transform {
        Transform::None => (scale_kind(), shown),
        Transform::Table(version) => {
            (GroupVersionKind::new("meta.k8s.io", "v1", "Table"), table::of_scale(scope, version, &shown)?)
        }
        Transform::Partial(version) => {
            let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
            (kind, table::partial(scope, &shown, version))
        }
        Transform::PartialList(_) => return Err(table::not_a_list(&table::go_type(scope, "Scale"))),
    };
    Ok(Reply::value(status, &scope.accept, &kind, &shown))
}

fn scale_kind() -> GroupVersionKind {
    GroupVersionKind::new("autoscaling", "v1", "Scale")
}

/// The scaled object: its replicas, and who owns them now.
fn carry_back(scope: &Scope, existing: &Value, scale: &Value) -> Result<Value, Status> {
    let mut object = existing.clone();
    let replicas = scale.at(&["spec", "replicas"]).as_int();
    match paths_of(&scope.resource) {
        Some(paths) => {
            let path: Vec<&str> = paths.spec_replicas.iter().map(Str::as_str).collect();
            if replicas.is_none_or(|replicas| replicas == UNSET) && is_unset(paths, existing) {
                let path = quote(&ScalePaths::dotted(&paths.spec_replicas));
                return Err(Status::bad_request(format!("the spec replicas field {path} cannot be empty")));
            }
            object.set(&path, replicas.unwrap_or(0));
        }
        None => object.set(&["spec", "replicas"], replicas.unwrap_or(0)),
    };
    let entries =
        scale_fields(scope).of_parent(existing, scale.at(&["metadata", "managedFields"])).map_err(Status::internal)?;
    if entries.is_empty() {
        object.metadata_mut().remove("managedFields");
    } else {
        object.metadata_mut().insert("managedFields", entries);
    }
    Ok(object)
}

/// What upstream takes an unset number of replicas for while a Scale is patched.
const UNSET: i64 = i32::MIN as i64;

fn is_unset(paths: &ScalePaths, object: &Value) -> bool {
    paths.spec_replicas(object) == Ok(None)
}

/// The same call, about the Scale as if it were a resource of its own: patches and ownership need nothing more.
fn scaled_scope(scope: &Scope) -> Result<Scope, Status> {
    let name = scope.resource.resource.clone();
    let resource = Resource::unstored(name, scale_kind(), scope.resource.namespaced, scale_form(scope)?);
    Ok(Scope::new(scope.api.clone(), Arc::new(resource), scope.call.clone(), Body::Empty))
}

fn scale_form(scope: &Scope) -> Result<Form, Status> {
    let scale = scope.resource.subresource("scale");
    scale.and_then(|scale| scale.form.clone()).ok_or_else(method_not_allowed)
}

fn validate(scale: &Value) -> Result<(), Status> {
    let mut errors = Errors::new();
    Cursor::root(scale).at(&["spec", "replicas"]).non_negative(&mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), scale.name(), &errors))
}

/// Where replicas are in this kind, in each of its versions.
fn scale_fields(scope: &Scope) -> ScaleFields {
    let resource = &scope.resource;
    let version = resource.kind.group_version().to_string();
    if paths_of(resource).is_none() {
        let path = vec!["spec".into(), "replicas".into()];
        return ScaleFields { version: version.as_str().into(), replicas: vec![(version.into(), Some(path))] };
    }
    let group = &resource.resource.group;
    let versions = scope.api.catalog.versions().iter().filter(|version| version.group == *group);
    let replicas = versions.filter_map(|version| {
        let found = scope.api.catalog.get(group, &version.version, &resource.resource.resource)?;
        let paths = paths_of(found).map(|paths| paths.spec_replicas.clone());
        Some((version.to_string().into(), paths))
    });
    ScaleFields { version: version.into(), replicas: replicas.collect() }
}

/// Where a custom resource has its numbers; those of built-in kinds are at the usual paths.
fn paths_of(resource: &Resource) -> Option<&ScalePaths> {
    resource.definition.as_ref().and_then(|definition| definition.scale.as_ref())
}

/// The Scale of an object.
fn scale_of(scope: &Scope, object: &Value) -> Result<Value, Status> {
    let mut scale = Value::map();
    scale.set_type(&scale_kind());
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        scale.set_meta_str(field, object.meta_str(field));
    }
    let entries = scale_fields(scope).of_scale(object).map_err(Status::internal)?;
    if !entries.is_empty() {
        scale.metadata_mut().insert("managedFields", entries);
    }
    let unknown = |why: String| Status::unknown(500, why);
    let (wanted, actual, selector) = match paths_of(&scope.resource) {
        Some(paths) => (
            paths.spec_replicas(object).map_err(unknown)?,
            paths.status_replicas(object).map_err(unknown)?,
            paths.selector(object).map_err(unknown)?.to_string(),
        ),
        None => {
            let replicas = |part: &str| object.at(&[part, "replicas"]).as_int();
            (replicas("spec"), replicas("status"), selector_of(object)?)
        }
    };
    match wanted.filter(|replicas| *replicas != 0) {
        Some(replicas) => scale.set(&["spec", "replicas"], replicas),
        None => scale.set(&["spec"], Value::map()),
    };
    scale.set(&["status", "replicas"], actual.unwrap_or(0));
    if !selector.is_empty() {
        scale.set(&["status", "selector"], selector);
    }
    Ok(scale)
}

/// The object's selector as text: a label selector, or the plain map that replication controllers have.
fn selector_of(object: &Value) -> Result<String, Status> {
    let selector = object.at(&["spec", "selector"]);
    let Some(map) = selector.as_map() else { return Ok(String::new()) };
    let pairs = |map: &Map| -> Vec<(String, String)> {
        map.iter().filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_string()))).collect()
    };
    if !map.contains_key("matchLabels") && !map.contains_key("matchExpressions") {
        let plain = pairs(map);
        return Ok(labels::Selector::from_set(plain.iter().map(|(k, v)| (k.as_str(), v.as_str()))).to_string());
    }
    let match_labels = selector.field("matchLabels").as_map().map(pairs).unwrap_or_default();
    let values: Vec<Vec<&str>> = selector
        .list_at(&["matchExpressions"])
        .iter()
        .map(|expression| expression.list_at(&["values"]).iter().filter_map(Value::as_str).collect())
        .collect();
    let expressions = selector.list_at(&["matchExpressions"]).iter().zip(values).map(|(expression, values)| {
        labels::Expression { key: expression.str_at(&["key"]), operator: expression.str_at(&["operator"]), values }
    });
    labels::Selector::from_parts(match_labels.iter().map(|(k, v)| (k.as_str(), v.as_str())), expressions)
        .map(|selector| selector.to_string())
        .map_err(|error| Status::bad_request(format!("invalid selector {}: {error}", quote(&error.to_string()))))
}
