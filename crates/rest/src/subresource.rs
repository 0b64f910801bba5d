//! Subresources other than `status`: views on the object, actions on it, and its scale.

use authz::Permit;
use object::Status;
use registry::Resource;
use request::Verb;

use crate::reply::Reply;
use crate::scope::{Scope, method_not_allowed};
use crate::{action, get, patch, scale, update};

/// Whether this file serves a subresource; `status` and the object itself are plain verbs.
pub fn handles(resource: &Resource, name: &str) -> bool {
    resource.subresource(name).is_some() && !matches!(name, "" | "status")
}

pub async fn serve(scope: &mut Scope, permit: Permit) -> Result<Reply, Status> {
    let name = scope.call.info.subresource.clone();
    let resource = scope.resource.clone();
    let Some(subresource) = resource.subresource(&name) else { return Err(method_not_allowed()) };
    match scope.call.info.verb {
        _ if name == "scale" => scale::serve(scope, permit).await,
        Verb::Create if subresource.action.is_some() => action::act(scope, permit).await,
        Verb::Get => get::get(scope, permit).await,
        Verb::Update => update::update(scope, permit).await,
        Verb::Patch => patch::patch(scope, permit).await,
        _ => Err(method_not_allowed()),
    }
}
