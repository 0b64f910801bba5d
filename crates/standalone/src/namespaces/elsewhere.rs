//! The part of a namespace that is kept by other API servers.

use std::time::Duration;

use aggregator::{Aggregator, Backend, Fetch};
use futures::future::join_all;
use http::{Method, StatusCode};
use object::{GroupResource, Meta, Value};
use request::{NoSegment, User};
use rest::client::decode;

use super::remains::Remains;

/// How long another server may take for one request. One that does not answer is not asked again in the same pass, so this is
/// also how long it delays what this server has in the namespace.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest list that is read, in bytes.
const LIST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Asks all other API servers at once to delete what they have in a namespace, and notes what is left.
pub async fn remove_all(aggregator: &Aggregator, namespace: &str, remains: &mut Remains) {
    let backends = aggregator.backends();
    let parts = join_all(backends.iter().map(|backend| remove(backend, namespace))).await;
    parts.into_iter().for_each(|part| remains.merge(part));
}

async fn remove(backend: &Backend, namespace: &str) -> Remains {
    let mut remains = Remains::default();
    let discovered = backend.discovered().filter(|discovered| discovered.current && backend.is_available());
    let Some(discovered) = discovered else {
        let version = &backend.version;
        remains.undiscovered.push(format!("{version}: stale GroupVersion discovery: {version}"));
        return remains;
    };
    let serves =
        |resource: &Value, verb: &str| resource.list_at(&["verbs"]).iter().any(|known| *known == Value::from(verb));
    for resource in &discovered.resources {
        let namespaced = resource.str_at(&["scope"]) == "Namespaced";
        if !namespaced || !serves(resource, "list") || !serves(resource, "delete") {
            continue;
        }
        let name = resource.str_at(&["resource"]);
        let at_once = serves(resource, "deletecollection");
        match remove_resource(backend, namespace, name, at_once).await {
            Ok(left) => remains.add(&GroupResource::new(backend.version.group.clone(), name), &left),
            Err(Failed::Refused(why)) => remains.failed.push(format!("{name}: {why}")),
            Err(Failed::Unreachable(why)) => {
                remains.failed.push(format!("{name}: {why}"));
                break;
            }
        }
    }
    remains
}

/// Why a request to another server failed.
enum Failed {
    /// It did not answer.
    Unreachable(String),
    /// It did, but not as it should.
    Refused(String),
}

impl From<NoSegment> for Failed {
    fn from(why: NoSegment) -> Failed {
        Failed::Refused(why.to_string())
    }
}

/// Deletes the objects of a collection and answers with what is still there.
async fn remove_resource(
    backend: &Backend,
    namespace: &str,
    resource: &str,
    at_once: bool,
) -> Result<Vec<Value>, Failed> {
    // What the other server calls its resources and objects may be anything.
    let names = request::path(["namespaces", namespace, resource])?;
    let collection = &(request::version_path(&backend.version)? + &names);
    let items = list(backend, collection).await?;
    if items.is_empty() {
        return Ok(items);
    }
    if at_once {
        ask(backend, Method::DELETE, collection).await?;
    } else {
        for object in &items {
            let item = request::path([object.name()])?;
            ask(backend, Method::DELETE, &(collection.clone() + &item)).await?;
        }
    }
    list(backend, collection).await
}

async fn list(backend: &Backend, collection: &str) -> Result<Vec<Value>, Failed> {
    let mut list = ask(backend, Method::GET, collection).await?;
    Ok(std::mem::take(list.slot(&["items"]).make_list()))
}

/// The other server's answer; an empty object for what is not there.
async fn ask(backend: &Backend, method: Method, path: &str) -> Result<Value, Failed> {
    let user = User {
        name: "system:serviceaccount:kube-system:namespace-controller".into(),
        groups: vec![User::MASTERS.into(), User::AUTHENTICATED.into()],
        ..User::default()
    };
    let (limit, timeout) = (LIST_BYTES_MAX, TIMEOUT);
    let fetch = Fetch { method, path, accept: "application/json", etag: "", limit, timeout, user };
    let fetched = backend.fetch(fetch).await.map_err(Failed::Unreachable)?;
    match fetched.status {
        StatusCode::NOT_FOUND => Ok(Value::map()),
        status if status.is_success() => decode(&fetched.body).map_err(|failure| Failed::Refused(failure.to_string())),
        status => Err(Failed::Refused(format!("{path}: {status}"))),
    }
}
