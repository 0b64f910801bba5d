//! POST where it does not store: bindings, evictions, tokens, reviews.

use admission::Operation;
use http::StatusCode;
use object::{Meta, Status};
use registry::{Action, ActionCall};

use crate::body::{self, Expected};
use crate::options::WriteOptions;
use crate::reply::Reply;
use crate::scope::{Scope, method_not_allowed};
use crate::{Transform, managed, table};

/// Carries out a resource that is an action, or a subresource of one that is stored.
pub async fn act(scope: &Scope, action: &dyn Action) -> Result<Reply, Status> {
    let media = body::input_media(scope, scope.call.header("content-type"))?;
    let bytes = scope.read_body().await?;
    let options = WriteOptions::parse(&scope.call, "CreateOptions", false)?;
    let expected = match scope.resource.subresource(&scope.call.info.subresource) {
        None => Expected::of(&scope.resource),
        Some(subresource) => {
            let form = subresource.form.as_ref().ok_or_else(method_not_allowed)?;
            Expected { kind: &subresource.kind, form }
        }
    };
    let decoded = body::decode(&bytes, media, &expected, options.field_validation)?;
    scope.warn(decoded.warnings);
    scope.record_object(&decoded.object, expected.form.wire_schema());
    let mut object = decoded.object;
    // An action on an object may name the object's uid; elsewhere these fields are the server's.
    if scope.call.info.subresource.is_empty() {
        registry::wipe_system_fields(&mut object);
    }
    scope.settle_namespace(&mut object)?;
    let tracked = managed::ManagedKind {
        kind: expected.kind,
        form: expected.form,
        subresource: &scope.call.info.subresource,
        resets: &[],
    };
    let now = scope.api.clock.now();
    object = managed::track(&tracked, &object::Value::map(), object, &options.field_manager, now).await;
    let cx = scope.context(options.dry_run);
    let name = match scope.call.info.name.as_str() {
        "" => object.name().to_string(),
        name => name.to_string(),
    };
    let attributes = scope.admission(Operation::Create, &name, cx, &options.object);
    scope.api.admission.mutate(&attributes, &mut object, None).await?;
    let mut call = ActionCall { cx, name: &name, body: object, about: object::Value::Null, options: &options.object };
    action.check(&mut call).await?;
    scope.api.admission.validate(&attributes, Some(&call.body), None).await?;
    if action.writes() {
        scope.begin(&cx);
    }
    let result = action.create(call).await?;
    let kind = object::GroupVersion::parse(result.api_version()).map_err(Status::internal)?.with_kind(result.kind());
    match &scope.accept.transform {
        Transform::Partial(version) if kind.kind != "Status" => {
            let partial = table::partial(scope, &result, version);
            let kind = object::GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
            Ok(Reply::value(StatusCode::CREATED, &scope.accept, &kind, &partial))
        }
        Transform::PartialList(_) if kind.kind != "Status" => {
            let type_name = format!("*{}.{}", registry::go_package(&kind.group), kind.kind);
            Err(table::not_a_list(&type_name))
        }
        _ => {
            let accept = scope.accept.as_is();
            Ok(Reply::value(StatusCode::CREATED, &accept, &kind, &result))
        }
    }
}
