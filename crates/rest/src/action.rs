//! POST where it does not store: bindings, evictions, tokens, reviews.

use std::sync::Arc;

use admission::Operation;
use authz::Permit;
use http::StatusCode;
use object::{Meta, Status};
use registry::{Action, ActionCall};

use crate::body::{self, Expected};
use crate::create::{Admission, ensure_namespace, wipe_system_fields};
use crate::options::WriteOptions;
use crate::reply::Reply;
use crate::scope::{Scope, method_not_allowed};
use crate::{Transform, managed, table};

/// Carries out a resource that is an action, or a subresource of one that is stored.
pub async fn act(scope: &mut Scope, _permit: Permit) -> Result<Reply, Status> {
    let media = body::input_media(scope, scope.call.header("content-type"))?;
    let bytes = scope.call.read_body(scope.api.limits.body_bytes).await?;
    let options = WriteOptions::parse(&scope.call, "CreateOptions", false)?;
    let resource = scope.resource.clone();
    let subresource = resource.subresource(&scope.call.info.subresource);
    let (action, expected) = match subresource {
        None => (resource.action.clone(), Expected::of(&resource)),
        Some(subresource) => {
            let shape = subresource.shape.as_ref().ok_or_else(method_not_allowed)?;
            (subresource.action.clone(), Expected { kind: &subresource.kind, shape, custom: false })
        }
    };
    let action: Arc<dyn Action> = action.ok_or_else(method_not_allowed)?;
    let decoded = body::decode(&bytes, media, &expected, options.field_validation)?;
    scope.warnings.extend(decoded.warnings);
    let mut object = decoded.object;
    // What is done to an object may say by its uid which one is meant; elsewhere clients have no say in these fields.
    if scope.call.info.subresource.is_empty() {
        wipe_system_fields(&mut object);
    }
    ensure_namespace(scope, &mut object)?;
    let tracked = managed::Tracked {
        kind: expected.kind,
        shape: expected.shape,
        subresource: &scope.call.info.subresource,
        resets: Vec::new(),
    };
    let now = scope.api.clock.now();
    object = managed::track(&tracked, &object::Value::map(), object, &options.field_manager, now);
    let (result, warnings) = {
        let shared: &Scope = scope;
        let cx = shared.context(options.dry_run);
        let name = match shared.call.info.name.as_str() {
            "" => object.name().to_string(),
            name => name.to_string(),
        };
        let attributes = shared.admission(Operation::Create, &name, cx, &options.object);
        let mutated = shared.api.admission.mutate(&attributes, &mut object, None).await;
        let admit = Admission { scope: shared, attributes: &attributes };
        let catalog = shared.api.catalog.load_full();
        let options = &options.object;
        let call = ActionCall { cx, catalog: &catalog, name: &name, body: object, options, admit: &admit };
        let result = match mutated {
            Ok(()) => action.create(call).await,
            Err(status) => Err(status),
        };
        (result, attributes.take_warnings())
    };
    scope.warnings.extend(warnings);
    let result = result?;
    let kind = object::GroupVersion::parse(result.api_version()).map_err(Status::internal)?.with_kind(result.kind());
    match &scope.accept.transform {
        Transform::Partial(version) if kind.kind != "Status" => {
            let partial = table::partial(scope, &result, version);
            let kind = object::GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
            Ok(Reply::value(StatusCode::CREATED, &scope.accept, &kind, &partial))
        }
        Transform::PartialList(_) if kind.kind != "Status" => {
            let type_name = format!("*{}.{}", table::go_package(&kind.group), kind.kind);
            Err(table::not_a_list(&type_name))
        }
        _ => {
            let accept = scope.accept.as_is();
            Ok(Reply::value(StatusCode::CREATED, &accept, &kind, &result))
        }
    }
}
