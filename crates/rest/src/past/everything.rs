//! The path `/history/changes`: what was changed in a time, by whom, across all kinds.

use std::collections::HashMap;
use std::sync::Arc;

use authz::Permitted;
use history::Head;
use object::{Meta, Status, Value, value};
use request::Access;
use storage::Revision;

use super::changes::{answer_of, kind, summary};
use super::{Asker, blocking, unreadable};
use crate::options::integer;
use crate::reply::Reply;
use crate::{Api, Call, Snapshot, failure};

/// The path.
pub const PATH: &str = "/history/changes";
/// How many changes a page has, if the request does not say, and at most.
const LIMIT: i64 = 500;
const LIMIT_MAX: i64 = 5000;
/// How many changes are looked at for a page at most: those of other users and kinds are passed over.
const LOOKED_AT_MAX: usize = 100_000;
/// So many are read at once.
const READ_AT_ONCE: usize = 1000;
/// How far back it goes, if the request does not say.
const SINCE: &str = "-10m";

/// Answers with the changes of a time, the oldest first. A user sees those of objects whose history they may get.
pub async fn everything(api: &Arc<Api>, call: &Permitted<Call>) -> Reply {
    match changes(&api.snapshot(), call).await {
        Ok(reply) => reply,
        Err(status) => failure(&status, &api.accept_of_status(call)),
    }
}

async fn changes(api: &Snapshot, call: &Permitted<Call>) -> Result<Reply, Status> {
    let asker = Asker { api };
    let of_call = |name: &str| call.query(name).unwrap_or("");
    let limit = integer(call, "limit")?.filter(|limit| *limit > 0).unwrap_or(LIMIT).min(LIMIT_MAX);
    let limit = usize::try_from(limit).unwrap_or(0);
    let (archive, now) = asker.caught_up().await?;
    let until = match of_call("until") {
        "" => now,
        text => asker.revision_at(text).await?,
    };
    let mut after: Revision = match (of_call("continue"), of_call("since")) {
        ("", "") => asker.revision_at(SINCE).await.or_else(|status| oldest(&archive, status))?,
        ("", since) => asker.revision_at(since).await?,
        (token, _) => token.parse().map_err(|_| Status::bad_request("the continue parameter is not valid"))?,
    };
    let mut visible = Visible { api, call, decided: HashMap::new() };
    let (mut items, mut looked_at) = (Vec::new(), 0);
    while after < until && items.len() < limit && looked_at < LOOKED_AT_MAX {
        let archive = archive.clone();
        let read = blocking(move || {
            let mut heads = Vec::new();
            let reached = archive.each_change(after, until, |head| {
                heads.push(head);
                heads.len() < READ_AT_ONCE
            })?;
            Ok((heads, reached))
        });
        let (heads, reached) = read.await.map_err(unreadable)?;
        let mut last = after;
        after = reached;
        for head in heads {
            // Several changes can have one revision, and a page goes on after a revision.
            if items.len() >= limit && head.revision > last {
                after = last;
                break;
            }
            (last, looked_at) = (head.revision, looked_at + 1);
            items.extend(visible.describe(&head).await);
        }
    }
    let mut list = value!({"metadata": {"resourceVersion": (until.to_string())}, "items": items});
    list.set_type(&kind("ChangeList"));
    if after < until {
        list.metadata_mut().insert("continue", after.to_string());
    }
    Ok(answer_of(&api.accept_of_status(call), "ChangeList", &list))
}

/// A history that is younger than what is looked at by default is shown from its beginning.
fn oldest(archive: &history::Archive, status: Status) -> Result<Revision, Status> {
    archive.status().from.filter(|_| status.code == 410).ok_or(status)
}

/// Which changes the user may see, and asked for.
struct Visible<'a> {
    api: &'a Snapshot,
    call: &'a Permitted<Call>,
    /// By group, resource and namespace.
    decided: HashMap<(String, String, String), bool>,
}

impl Visible<'_> {
    /// The change, with the object that it is about; None if it is not to be shown.
    async fn describe(&mut self, head: &Head) -> Option<Value> {
        let of_call = |name: &str| self.call.query(name).unwrap_or("");
        let is_wanted = |name: &str, is: &str| of_call(name).is_empty() || of_call(name) == is;
        if !is_wanted("user", head.origin.as_ref().map_or("", |origin| &origin.user)) {
            return None;
        }
        let (group, resource) = (self.api.history.as_ref()?.archive().options().resource_of)(&head.key)?;
        let storage = self.api.catalog.stored(&group, &resource)?;
        let path = head.key.as_str()?.strip_prefix(&storage.prefix)?;
        let (namespace, name) = if storage.namespaced { path.split_once('/')? } else { ("", path) };
        if !is_wanted("namespace", namespace) || !is_wanted("resource", &resource) {
            return None;
        }
        let place = (group.to_string(), resource.to_string(), namespace.to_string());
        let may = match self.decided.get(&place) {
            Some(may) => *may,
            None => {
                let access = Access {
                    verb: "get",
                    is_resource: true,
                    group: &group,
                    version: &storage.kind.version,
                    resource: &resource,
                    subresource: super::SUBRESOURCE,
                    namespace,
                    name: "",
                    ..Access::of(&self.call.info, &self.call.user)
                };
                let may = self.api.authorizer.decide(&access).await.is_allowed();
                self.decided.insert(place, may);
                may
            }
        };
        if !may {
            return None;
        }
        let mut change = summary(head);
        change.set(&["object"], value!({"group": (&*group), "resource": (&*resource), "name": name}));
        if !namespace.is_empty() {
            change.set(&["object", "namespace"], namespace);
        }
        Some(change)
    }
}
