//! From a path to a verb: the one table of what the server can do with a resource.

use std::sync::Arc;

use authz::Permit;
use http::Method;
use object::{GroupResource, Status};
use registry::Resource;
use request::Verb;

use crate::reply::Reply;
use crate::scope::{Scope, method_not_allowed};
use crate::{
    Accept, Api, Call, action, connect, create, delete, failure, get, list, patch, report, subresource, update, watch,
};

/// Answers a resource request. Everything that goes wrong becomes a Status here and nowhere else.
pub async fn serve(api: Arc<Api>, permit: Permit, call: Call) -> Reply {
    let mut catalog = api.catalog.load_full();
    let info = &call.info;
    // A definition that another server has just established may not be in this server's catalog yet.
    if let Some(definitions) = api.definitions.get()
        && catalog.get(&info.group, &info.version, &info.resource).is_none()
    {
        definitions.caught_up().await;
        catalog = api.catalog.load_full();
    }
    let found = catalog.get(&info.group, &info.version, &info.resource).cloned();
    let Some(resource) = found.filter(|resource| scope_fits(resource, &call)) else {
        return failure(&no_such_resource(), &Accept::of_status(&call.headers, &call.query));
    };
    let mut scope = Scope::new(api, resource, call);
    if let Err(refused) = scope.negotiate() {
        return refused.reply(&scope.warnings);
    }
    dispatch(scope, permit).await
}

/// Whether the resource exists where the path looks for it: namespaced resources below a namespace, others never.
fn scope_fits(resource: &Resource, call: &Call) -> bool {
    let info = &call.info;
    // Only a proxy has a path below its subresource.
    if info.parts.len() > 3 && info.subresource != "proxy" {
        return false;
    }
    match (resource.namespaced, info.in_namespace) {
        (true, true) | (false, false) => true,
        (false, true) => false,
        // The collection across all namespaces can be listed and watched.
        (true, false) => info.parts.len() == 1 && resource.serves("list"),
    }
}

async fn dispatch(scope: Scope, permit: Permit) -> Reply {
    let info = &scope.call.info;
    let method = scope.call.method.clone();
    let subresource = info.subresource.clone();
    // What can be listed answers for itself that it cannot be watched.
    if info.verb == Verb::Watch && scope.resource.serves("list") && !scope.resource.serves("watch") {
        let status = Status::method_not_supported(&scope.group_resource(), "watch");
        return failure(&status, &scope.accept).warn(&scope.warnings);
    }
    if let Err(status) = check_served(&scope, &method, &subresource) {
        return failure(&status, &scope.accept);
    }
    match (info.verb, subresource.as_str()) {
        (Verb::List | Verb::Get, "") if scope.resource.report.is_some() => {
            let result = reported(&scope, permit).await;
            finish(scope, result)
        }
        (Verb::List, "") => shared(scope, async |scope| list::list(scope, permit).await).await,
        (Verb::Watch, _) => shared(scope, async |scope| watch::watch(scope, permit).await).await,
        (Verb::DeleteCollection, "") => {
            let mut scope = scope;
            match delete::read_collection_options(&mut scope).await {
                Err(status) => failure(&status, &scope.accept).warn(&scope.warnings),
                Ok((list, options)) => {
                    shared(scope, async |scope| delete::delete_collection(scope, &list, &options, permit).await).await
                }
            }
        }
        (Verb::Get, "" | "status") => {
            let result = get::get(&scope, permit).await;
            finish(scope, result)
        }
        (verb, name) => {
            let mut scope = scope;
            // Boxed: writes hold much more than reads, and reads should not be as large as they are.
            let result = match (verb, name) {
                (_, name) if connect::handles(name) => Box::pin(connect::connect(&mut scope, permit)).await,
                (_, name) if subresource::handles(&scope.resource, name) => {
                    Box::pin(subresource::serve(&mut scope, permit)).await
                }
                (Verb::Create, "") if scope.resource.action.is_some() => {
                    Box::pin(action::act(&mut scope, permit)).await
                }
                (Verb::Create, "") => Box::pin(create::create(&mut scope, permit)).await,
                (Verb::Update, "" | "status") => Box::pin(update::update(&mut scope, permit)).await,
                (Verb::Patch, "" | "status") => Box::pin(patch::patch(&mut scope, permit)).await,
                (Verb::Delete, "") => Box::pin(delete::delete(&mut scope, permit)).await,
                _ => Err(method_not_allowed()),
            };
            finish(scope, result)
        }
    }
}

async fn reported(scope: &Scope, permit: Permit) -> Result<Reply, Status> {
    let report = scope.resource.report.as_deref().ok_or_else(method_not_allowed)?;
    match scope.call.info.verb {
        Verb::List => report::list(scope, report, permit).await,
        _ => report::get(scope, report, permit).await,
    }
}

/// Whether the resource has this verb at all. HEAD is not a verb of the API, whatever HTTP says.
fn check_served(scope: &Scope, method: &Method, subresource: &str) -> Result<(), Status> {
    let info = &scope.call.info;
    let resource = &scope.resource;
    if info.verb == Verb::Proxy {
        return Err(no_such_resource());
    }
    if info.is_watch_path && (method != Method::GET || !subresource.is_empty()) {
        return Err(no_such_resource());
    }
    if connect::handles(subresource) && resource.subresource(subresource).is_some() {
        return Ok(());
    }
    let collection = info.parts.len() < 2;
    let verb = match (method.as_str(), collection) {
        ("GET", true) if info.verb == Verb::Watch => "watch",
        ("GET", true) => "list",
        ("GET", false) if info.verb == Verb::Watch => "watch",
        ("GET", false) => "get",
        ("POST", _) => "create",
        ("PUT", false) => "update",
        ("PATCH", false) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        _ => return Err(method_not_allowed()),
    };
    // All namespaces at once can be read, never written: nobody empties a cluster with one request.
    let everywhere = resource.namespaced && info.namespace.is_empty() && resource.verbs.iter().any(|v| v == "list");
    if everywhere && matches!(verb, "create" | "deletecollection") {
        return Err(method_not_allowed());
    }
    let served = match subresource {
        "" if verb == "create" && !collection => false,
        "" => resource.serves(verb),
        name => match resource.subresource(name) {
            Some(subresource) => subresource.verbs.iter().any(|v| v == verb),
            None => return Err(no_such_resource()),
        },
    };
    if served { Ok(()) } else { Err(method_not_allowed()) }
}

async fn shared(scope: Scope, work: impl AsyncFnOnce(&Arc<Scope>) -> Result<Reply, Status>) -> Reply {
    let scope = Arc::new(scope);
    let reply = match work(&scope).await {
        Ok(reply) => reply,
        Err(status) => failure(&status, &scope.accept),
    };
    reply.warn(&scope.warnings)
}

fn finish(scope: Scope, result: Result<Reply, Status>) -> Reply {
    let reply = match result {
        Ok(reply) => reply,
        Err(status) => failure(&status, &scope.accept),
    };
    reply.warn(&scope.warnings)
}

/// What the end of the chain answers: nobody serves this.
pub fn no_such_resource() -> Status {
    Status::generic(404, "", &GroupResource::default(), "", "")
}
