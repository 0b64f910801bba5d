//! Subresources that are objects of their own: scale, binding, eviction, token, approval, finalize.

use authz::Permit;
use object::Status;
use registry::Resource;

use crate::reply::Reply;
use crate::scope::{Scope, method_not_allowed};

mod scale;

/// Whether this file serves a subresource; `status` and the object itself are plain verbs.
pub fn handles(resource: &Resource, name: &str) -> bool {
    resource.subresource(name).is_some() && !matches!(name, "" | "status")
}

pub async fn serve(scope: &mut Scope, permit: Permit) -> Result<Reply, Status> {
    match scope.call.info.subresource.as_str() {
        "scale" => scale::serve(scope, permit).await,
        _ => Err(method_not_allowed()),
    }
}
