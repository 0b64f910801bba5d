//! GET and LIST of objects that are made when they are asked for.

use cache::Header;
use http::StatusCode;
use object::{GroupResource, Meta, Status, Value};
use registry::Report;

use crate::options::ListOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{get, list};

pub async fn get(scope: &Scope, report: &dyn Report) -> Result<Reply, Status> {
    let name = &scope.call.info.name;
    let object = report.object(name).await;
    // Upstream names it by its singular here.
    let missing = || Status::not_found(&GroupResource::new("", scope.resource.singular.clone()), name);
    get::respond(scope, StatusCode::OK, object.ok_or_else(missing)?)
}

pub async fn list(scope: &Scope, report: &dyn Report) -> Result<Reply, Status> {
    let options = ListOptions::parse(scope, false)?;
    let mut objects = report.objects().await;
    objects.retain(|object| options.filter.is_everything() || options.filter.matches(&header(object)));
    list::respond_with(scope, objects, Value::map())
}

fn header(object: &Value) -> Header {
    Header { name: object.name().into(), ..Header::default() }
}
