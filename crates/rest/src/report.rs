//! GET and LIST of objects that are made when they are asked for.

use cache::Header;
use http::StatusCode;
use object::{GroupResource, Meta, Status, Value};
use registry::Report;
use request::RequestInfo;

use crate::options::ListOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{get, list};

pub async fn get(scope: &Scope, report: &dyn Report) -> Result<Reply, Status> {
    let RequestInfo { namespace, name, .. } = &scope.call.info;
    let object = report.object(&scope.call.user, namespace, name).await;
    // Upstream names it by its singular here.
    let missing = || Status::not_found(&GroupResource::new("", scope.resource.singular.clone()), name);
    get::respond(scope, StatusCode::OK, object.ok_or_else(missing)?)
}

pub async fn list(scope: &Scope, report: &dyn Report) -> Result<Reply, Status> {
    let options = ListOptions::parse(scope, false)?;
    let mut objects = report.objects(&scope.call.user, &scope.call.info.namespace).await;
    objects.retain(|object| options.filter.is_everything() || options.filter.matches(&header(object)));
    list::respond_with(scope, objects, Value::map())
}

fn header(object: &Value) -> Header {
    let labels = object.at(&["metadata", "labels"]).as_map().into_iter().flat_map(|labels| labels.iter());
    let labels = labels.filter_map(|(key, value)| Some((key.into(), value.as_str()?.into()))).collect();
    Header { namespace: object.namespace().into(), name: object.name().into(), labels, ..Header::default() }
}
