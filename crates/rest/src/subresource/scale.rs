//! The scale subresource.

use authz::Permit;
use object::Status;

use crate::reply::Reply;
use crate::scope::{Scope, method_not_allowed};

pub async fn serve(_scope: &mut Scope, _permit: Permit) -> Result<Reply, Status> {
    Err(method_not_allowed())
}
