//! GET and LIST of objects that are made when they are asked for.

use cache::Header;
use http::StatusCode;
use object::{GroupResource, Meta, Status, Value};
use registry::{Filter, Report, at_revision};
use request::RequestInfo;
use storage::Revision;

use crate::options::ListOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{get, list};

pub async fn get(scope: &Scope, report: &dyn Report) -> Result<Reply, Status> {
    let RequestInfo { namespace, name, .. } = &scope.call.info;
    // Read before the object is made, so that a watch from here on misses no change.
    let revision = revision(report);
    let object = report.object(&scope.call.user, namespace, name).await;
    let object = object.map(|object| shown_at(object, revision));
    // Upstream names it by its singular here.
    let missing = || Status::not_found(&GroupResource::new("", scope.resource.singular.clone()), name);
    get::respond(scope, StatusCode::OK, object.ok_or_else(missing)?)
}

pub async fn list(scope: &Scope, report: &dyn Report) -> Result<Reply, Status> {
    let options = ListOptions::parse(scope, false)?;
    let revision = revision(report);
    let objects = made(scope, report, &options.filter).await;
    let objects = objects.into_iter().map(|object| shown_at(object, revision)).collect();
    let list = match revision {
        Some(revision) => at_revision(Value::map(), revision),
        None => Value::map(),
    };
    list::respond_with(scope, objects, list)
}

/// The objects that the user sees and asked for.
pub async fn made(scope: &Scope, report: &dyn Report, filter: &Filter) -> Vec<Value> {
    let mut objects = report.objects(&scope.call.user, &scope.call.info.namespace).await;
    objects.retain(|object| filter.is_everything() || filter.matches(&header(object)));
    objects
}

fn revision(report: &dyn Report) -> Option<Revision> {
    report.changes().map(|changes| *changes.borrow())
}

fn shown_at(object: Value, revision: Option<Revision>) -> Value {
    match revision {
        Some(revision) => at_revision(object, revision),
        None => object,
    }
}

fn header(object: &Value) -> Header {
    let labels = object.at(&["metadata", "labels"]).as_map().into_iter().flat_map(|labels| labels.iter());
    let labels = labels.filter_map(|(key, value)| Some((key.into(), value.as_str()?.into()))).collect();
    Header { namespace: object.namespace().into(), name: object.name().into(), labels, ..Header::default() }
}
