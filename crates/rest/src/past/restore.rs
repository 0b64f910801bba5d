//! POST of the subresource `history`: makes an object, or what was in a namespace, what it was.
//!
//! A restore is made of ordinary requests of its user: lists of the past and of now, creations, updates. Each is authorized, admitted and
//! audited by itself, so that a restore can do nothing that its user could not do one by one. What it adds is the order, owner
//! references to the new uids, and that the writes of a step are made in one step of the store.

mod objects;
mod options;
mod plan;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use object::{Meta, Status, Value, value};
use storage::Revision;

use super::changes::{kind, reply, state};
use super::{Asker, blocking, check, unreadable};
use crate::reply::Reply;
use crate::scope::Scope;
use options::RestoreOptions;
use plan::{PlannedChange, RestorePlan, Todo};
use requests::PartRequests;

/// How often it is planned again because something else was changed at the same time.
const TRIES: usize = 4;
/// How many changes are looked at to find when a deletion began.
const LOOKED_AT_MAX: usize = 100;

/// Restores what the request names.
pub async fn restore(scope: &Arc<Scope>) -> Result<Reply, Status> {
    let options = RestoreOptions::read(scope).await?;
    check(scope).await?;
    let revision = moment(scope, &options).await?;
    let requests = PartRequests::of(scope, &options)?;
    if !options.dry_run {
        // What has begun is finished, also if the client goes away.
        scope.begin(&scope.context(false));
    }
    let recorder = scope.api.history.clone().ok_or_else(crate::route::no_such_resource)?;
    let busy = || Status::too_many_requests("other restores are being made, please try again later", 1);
    let _place = recorder.begin_restore().await.ok_or_else(busy)?;
    let mut tries = 0;
    loop {
        tries += 1;
        requests.begin_plan();
        let plan = RestorePlan::make(scope, &requests, &options, revision).await?;
        if options.dry_run {
            return Ok(shown(scope, revision, &requests.try_out(plan).await));
        }
        match run(&requests, plan).await {
            Err(failed) if failed.code == 409 && tries < TRIES => {}
            Err(failed) => return Err(failed),
            Ok(done) => return Ok(shown(scope, revision, &done)),
        }
    }
}

/// The revision whose state is brought back: the one that is asked for, or the last one before the deletion of the object began.
async fn moment(scope: &Scope, options: &RestoreOptions) -> Result<Revision, Status> {
    let asker = Asker::of(scope);
    if let Some(revision) = options.revision {
        return Ok(revision);
    }
    if !options.at.is_empty() {
        return asker.revision_at(&options.at).await;
    }
    let info = &scope.call.info;
    let namespace = if scope.resource.namespaced { info.namespace.as_str() } else { "" };
    let key = scope.storage()?.key(namespace, &info.name);
    let (archive, now) = asker.caught_up().await?;
    let of_key = key.clone();
    let heads = blocking(move || archive.changes_of(&of_key, now, LOOKED_AT_MAX)).await.map_err(unreadable)?;
    let unknown = || Status::bad_request("the history does not know when it was deleted; give `at` or `revision`");
    if heads.first().is_some_and(|last| last.what != history::What::Deleted) {
        return Err(Status::bad_request("the object exists; give the moment that is brought back, `at` or `revision`"));
    }
    for head in heads {
        let before = state(scope, &key, head.revision - 1).await?;
        if !before.is_null() && !before.is_deleting() {
            return Ok(head.revision - 1);
        }
    }
    Err(unknown())
}

/// Makes all changes of a plan, step by step.
async fn run(requests: &PartRequests, plan: RestorePlan) -> Result<RestorePlan, Status> {
    let RestorePlan { steps, mut done } = plan;
    let count = steps.len();
    let mut made = 0;
    for (at, step) in steps.into_iter().enumerate() {
        let mut step = requests.make(step).await;
        if let Some((planned, mut status)) = refusal(&step) {
            status.message = format!(
                "{}: {} (none of the {} changes of step {} of {count} was made; {made} of earlier steps were)",
                planned.described(),
                status.message,
                step.len(),
                at + 1,
            );
            return Err(status);
        }
        made += step.len();
        done.append(&mut step);
    }
    Ok(RestorePlan { steps: Vec::new(), done })
}

/// The change that was refused, if one was: others fail because of it.
fn refusal(step: &[PlannedChange]) -> Option<(&PlannedChange, Status)> {
    let because_of_another = storage::Error::StepRefused.to_string();
    let failed = step.iter().filter_map(|planned| Some((planned, planned.failure.clone()?)));
    failed.min_by_key(|(_, status)| (status.message.contains(&because_of_another), status.code >= 500))
}

/// The answer.
fn shown(scope: &Scope, revision: Revision, plan: &RestorePlan) -> Reply {
    let mut items: Vec<Value> = plan.done.iter().map(described).collect();
    items.sort_by(|one, two| (one.str_at(&["object", "resource"])).cmp(two.str_at(&["object", "resource"])));
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for planned in &plan.done {
        *counts.entry(planned.todo.name()).or_default() += 1;
    }
    let counts: Vec<Value> =
        counts.into_iter().map(|(operation, count)| value!({"operation": operation, "count": count})).collect();
    let mut answer = value!({
        "metadata": {"resourceVersion": (revision.to_string())},
        "counts": counts,
        "items": items,
    });
    answer.set_type(&kind("Restore"));
    reply(scope, "Restore", &answer)
}

fn described(planned: &PlannedChange) -> Value {
    let resource = &planned.resource.resource;
    let mut item = value!({
        "object": {"group": (&*resource.group), "resource": (&*resource.resource), "name": (planned.name.clone())},
        "operation": (planned.todo.name()),
    });
    for (path, text) in [
        (&["object", "namespace"][..], planned.namespace.as_str()),
        (&["object", "uid"], planned.uid.as_str()),
        (&["resourceVersion"], planned.stored_version.as_str()),
        (&["note"], &planned.notes.join("; ")),
        (&["error"], planned.failure.as_ref().map_or("", |status| &status.message)),
    ] {
        if !text.is_empty() {
            item.set(path, text);
        }
    }
    if planned.todo != Todo::Nothing && planned.stored_version.is_empty() {
        if let Some(now) = &planned.now {
            item.set(&["before"], super::difference::without_noise(now.clone()));
        }
        item.set(&["after"], planned.wanted.clone());
    }
    item
}
