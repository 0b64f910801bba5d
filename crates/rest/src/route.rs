//! From a path to a verb: the one table of what the server can do with a resource.

use std::sync::Arc;

use admission::Annotations;
use authz::Permitted;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use object::{GroupResource, Status};
use registry::{Action, Connect, Report, Resource};
use request::{RequestInfo, Verb};

use crate::answers::COUNTED_BYTES;
use crate::finish::Finishing;
use crate::reply::{Reply, ReplyBody};
use crate::scope::{Scope, method_not_allowed};
use crate::view::View;
use crate::{
    Api, Body, Call, Snapshot, action, connect, create, delete, explain, failure, find, get, list, past, patch, report,
    scale, update, watch,
};

/// The refusal of a user whose clients do not read what they get.
const TOO_MUCH_UNREAD: &str = "too many answers to this user have not been read yet, please try again later";

/// Answers a resource request. Every failure becomes a Status here and nowhere else. Boxed, as other entry points are: a crate that
/// awaits an `async fn` of another crate compiles it once more, with all that it calls.
pub fn serve<'a>(api: &'a Arc<Api>, call: Permitted<Call>, body: Body) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let info = &call.info;
        if find::is_group(info) {
            return find::serve(api.snapshot(), &call).await;
        }
        let api = snapshot(api, info).await;
        let found = api.catalog.get(&info.group, &info.version, &info.resource).cloned();
        let Some(resource) = found.filter(|resource| is_in_scope(resource, info)) else {
            // Custom resources are behind another router than built-in ones.
            if !api.catalog.has_builtin_group(&info.group) {
                return page_not_found();
            }
            return failure(&no_such_resource(), &api.accept_of_status(&call));
        };
        if !api.answers.admit(&call.user.name) {
            let status = Status::too_many_requests(TOO_MUCH_UNREAD, 1);
            return failure(&status, &api.accept_of_status(&call));
        }
        let mut scope = Scope::new(api, resource, Arc::new(call), body);
        if let Err(refused) = scope.negotiate() {
            return match unrouted(&scope) {
                Some(status) => failure(&status, &scope.api.accept_of_status(&scope.call)),
                None => refused.reply(&scope.warnings.take()),
            };
        }
        scope.view = match View::read(&scope) {
            Ok(view) => view,
            Err(status) => return failure(&unrouted(&scope).unwrap_or(status), &scope.accept),
        };
        if scope.call.is_in_part() && scope.view.as_ref().is_none_or(|view| view.context.visible.is_none()) {
            let status = scope.access(scope.call.info.verb.as_str()).refusal("");
            return failure(&status, &scope.accept);
        }
        if scope.call.info.verb.is_read() {
            return answer(&Arc::new(scope)).await;
        }
        if explain::is_asked(&scope).await {
            scope.annotations = Annotations::explained();
        }
        let scope = Arc::new(scope);
        let write = scope.clone();
        let (writes, is_own) = (write.api.writes.clone(), write.call.client.is_none());
        let origin = write.call.origin.clone();
        let answered = history::attributed(origin, async move { answer(&write).await });
        match writes {
            None => Finishing::new(scope, answered).await,
            Some(writes) => Finishing::new(scope, writes.run(is_own, Box::pin(answered))).await,
        }
    })
}

async fn answer(scope: &Arc<Scope>) -> Reply {
    let reply = match dispatch(scope).await {
        Ok(reply) => reply,
        Err(status) => failure(&status, &scope.accept),
    };
    let mut reply = reply.warn(&scope.warnings.take());
    if let ReplyBody::Ready(bytes) = &mut reply.body
        && bytes.len() >= COUNTED_BYTES
    {
        *bytes = scope.api.answers.take(scope.user(), bytes.len()).hold(std::mem::take(bytes));
    }
    reply.annotations = scope.annotations.take();
    explain::tell(scope, &mut reply);
    reply
}

/// What upstream says before it looks at what the client accepts: there is no such path, method or patch.
fn unrouted(scope: &Scope) -> Option<Status> {
    let routed = part_of(scope).and_then(|part| check_served(scope, part));
    let routed = routed.and_then(|()| match scope.call.info.verb {
        Verb::Patch => patch::check_content_type(scope),
        _ => Ok(()),
    });
    routed.err()
}

/// The catalog that the request works on.
async fn snapshot(api: &Arc<Api>, info: &RequestInfo) -> Snapshot {
    let snapshot = api.snapshot();
    if snapshot.catalog.get(&info.group, &info.version, &info.resource).is_some() {
        return snapshot;
    }
    match &api.definitions {
        // A definition that another server has just established may not be in this server's catalog yet.
        Some(definitions) => {
            definitions.caught_up().await;
            api.snapshot()
        }
        None => snapshot,
    }
}

/// What the end of upstream's chain of servers says of a path that none of them knows.
pub fn page_not_found() -> Reply {
    Reply::plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Whether the resource exists where the path looks for it: namespaced resources below a namespace, others never.
fn is_in_scope(resource: &Resource, info: &RequestInfo) -> bool {
    // Only a proxy has a path below its subresource; the handler of custom resources does not look at what is there.
    if info.parts.len() > 3 && info.subresource != "proxy" && !resource.is_custom() {
        return false;
    }
    // The path has two slashes in a row before the subresource.
    if info.parts.iter().take(3).any(String::is_empty) || info.in_namespace && info.namespace.is_empty() {
        return false;
    }
    match (resource.namespaced, info.in_namespace) {
        (true, true) | (false, false) => true,
        (false, true) => false,
        // The collection across all namespaces can be listed and watched; of built-in resources other verbs are known there
        // as well and refused later.
        (true, false) => {
            let reads = matches!(info.verb, Verb::List | Verb::Watch);
            info.parts.len() == 1 && resource.serves("list") && (reads || !resource.is_custom())
        }
    }
}

/// What a path addresses.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// Stored objects.
    Object,
    /// Objects that are made when they are asked for.
    Report(&'a dyn Report),
    /// A resource or subresource that is carried out instead of stored.
    Action(&'a dyn Action),
    /// `status`, and other views on a stored object.
    View,
    Scale,
    /// Who changed an object, when, and how.
    History,
    /// exec, attach, portforward, log, proxy.
    Connect(&'a dyn Connect),
}

/// The table of verbs. Which of them a resource has is in the catalog and was checked before.
async fn dispatch(scope: &Arc<Scope>) -> Result<Reply, Status> {
    let part = part_of(scope).and_then(|part| check_served(scope, part).map(|()| part)).inspect_err(|status| {
        // What upstream's router refuses has not reached the resource, which would warn about its deprecation.
        if [no_such_resource(), method_not_allowed()].contains(status) {
            scope.warnings.take();
        }
    })?;
    // Writes are boxed, by `run` too: they hold much more than reads, and every request's future is as large as the largest row.
    match (scope.call.info.verb, part) {
        (Verb::Get, Part::Object | Part::View) => get::get(scope).await,
        (Verb::List, Part::Object) => list::list(scope).await,
        (Verb::Watch, Part::Object) => watch::watch(scope).await,
        (Verb::Create, Part::Object) => scope.large.run(create::create(scope)).await,
        (Verb::Update, Part::Object | Part::View) => scope.large.run(update::update(scope)).await,
        (Verb::Patch, Part::Object | Part::View) => scope.large.run(patch::patch(scope)).await,
        (Verb::Delete, Part::Object) => scope.large.run(delete::delete(scope)).await,
        (Verb::DeleteCollection, Part::Object) => Box::pin(delete::delete_collection(scope)).await,
        (Verb::Get, Part::Scale) => scale::get(scope).await,
        (Verb::Update, Part::Scale) => scope.large.run(scale::update(scope)).await,
        (Verb::Patch, Part::Scale) => scope.large.run(scale::patch(scope)).await,
        (Verb::Create, Part::History) => scope.large.run(past::restore(scope)).await,
        (Verb::Get, Part::History) => Box::pin(past::get_changes(scope)).await,
        (Verb::Get, Part::Report(report)) => report::get(scope, report).await,
        (Verb::List, Part::Report(report)) => report::list(scope, report).await,
        (Verb::Watch, Part::Report(report)) => Box::pin(watch::made::watch(scope, report)).await,
        (Verb::Create, Part::Action(action)) => scope.large.run(action::act(scope, action)).await,
        (_, Part::Connect(target)) => Box::pin(connect::connect(scope, target)).await,
        _ => Err(method_not_allowed()),
    }
}

fn part_of(scope: &Scope) -> Result<Part<'_>, Status> {
    let resource = &scope.resource;
    let name = scope.call.info.subresource.as_str();
    if name.is_empty() {
        return Ok(match (&resource.report, &resource.action) {
            (Some(report), _) => Part::Report(&**report),
            (None, Some(action)) => Part::Action(&**action),
            (None, None) => Part::Object,
        });
    }
    if name == past::SUBRESOURCE && scope.api.history.is_some() && resource.storage.is_some() {
        return Ok(Part::History);
    }
    // Upstream's handler of custom resources answers for the object where others have no route.
    let missing = || match resource.is_custom() {
        true => Status::not_found(&scope.group_resource(), &scope.call.info.name),
        false => no_such_resource(),
    };
    let subresource = resource.subresource(name).ok_or_else(missing)?;
    Ok(match (&subresource.connect, &subresource.action) {
        (Some(connect), _) => Part::Connect(&**connect),
        (None, Some(action)) => Part::Action(&**action),
        (None, None) if name == "scale" => Part::Scale,
        (None, None) => Part::View,
    })
}

/// Whether the resource or subresource has the request's verb, and the path the right length for it.
fn check_served(scope: &Scope, part: Part<'_>) -> Result<(), Status> {
    let (info, resource, method) = (&scope.call.info, &scope.resource, &scope.call.method);
    let is_connect = matches!(part, Part::Connect(_));
    // The prefixes /proxy and /watch are not paths of subresources, and a watch is a GET.
    if info.verb == Verb::Proxy || (info.is_watch_path && !info.subresource.is_empty()) {
        return Err(no_such_resource());
    }
    if info.is_watch_path && method != Method::GET {
        return Err(if resource.is_custom() { no_such_resource() } else { method_not_allowed() });
    }
    if resource.is_custom() {
        return check_custom(scope, part);
    }
    // HEAD is read as a get, but only proxies serve it.
    if method == Method::HEAD && !is_connect {
        return Err(method_not_allowed());
    }
    if is_connect && info.subresource == "proxy" {
        return Ok(());
    }
    // A resource that can be listed but not watched says so itself, not the router.
    if info.verb == Verb::Watch && resource.serves("list") && !resource.serves("watch") {
        return Err(Status::method_not_supported(&scope.group_resource(), "watch"));
    }
    let is_collection = info.parts.len() == 1;
    // What can only be created has no path for single objects.
    let has_objects = ["get", "update", "patch", "delete"].iter().any(|verb| resource.serves(verb));
    if !is_collection && info.subresource.is_empty() && !has_objects {
        return Err(no_such_resource());
    }
    let has_length = match info.verb {
        Verb::Create if info.subresource.is_empty() => is_collection,
        Verb::Update | Verb::Patch => !is_collection,
        _ => true,
    };
    // All namespaces at once can be read but not written.
    let everywhere = resource.namespaced && !info.in_namespace;
    if !has_length || everywhere && matches!(info.verb, Verb::Create | Verb::DeleteCollection) {
        return Err(method_not_allowed());
    }
    let verbs = resource.subresource(&info.subresource).map_or(&resource.verbs, |subresource| &subresource.verbs);
    if verbs.iter().any(|verb| verb == info.verb.as_str()) { Ok(()) } else { Err(method_not_allowed()) }
}

/// As [`check_served`], for upstream's handler of custom resources: it has no routes and looks at the verb alone.
fn check_custom(scope: &Scope, part: Part<'_>) -> Result<(), Status> {
    let info = &scope.call.info;
    let of_objects = matches!(
        (info.verb, part),
        (Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection, Part::Object)
            | (Verb::List | Verb::Watch, Part::Report(_))
    );
    let is_known = match part {
        // Of a program that the server is embedded in.
        Part::Connect(_) => return Ok(()),
        Part::Action(_) => info.verb == Verb::Create,
        Part::History => matches!(info.verb, Verb::Get | Verb::Create),
        _ => matches!(info.verb, Verb::Get | Verb::Update | Verb::Patch) || of_objects,
    };
    // Objects that such a program keeps can only be read.
    let is_read = matches!(info.verb, Verb::Get | Verb::List | Verb::Watch);
    let is_served = is_read || !info.subresource.is_empty() || scope.resource.serves(info.verb.as_str());
    if !is_known || !is_served {
        return Err(Status::method_not_supported(&scope.group_resource(), info.verb.as_str()));
    }
    if info.verb == Verb::Patch {
        patch::check_content_type(scope)?;
    }
    if matches!(info.verb, Verb::Update | Verb::Patch) && info.name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(())
}

/// What upstream's router says when it has no such path.
pub fn no_such_resource() -> Status {
    Status::generic(404, "", &GroupResource::default(), "", "")
}
