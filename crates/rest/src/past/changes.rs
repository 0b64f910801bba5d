//! The subresource `history`: who changed an object, when, and how.

use http::StatusCode;
use object::{GroupVersionKind, Meta, Status, Value, value};
use storage::{Key, Revision};

use super::difference::{patch, without_noise};
use super::{Asker, blame, blocking, object, time_of, unreadable};
use crate::media::{Accept, Media};
use crate::options::integer;
use crate::reply::Reply;
use crate::scope::Scope;

/// How many changes a page has, if the request does not say.
const LIMIT: usize = 100;
/// How many at most: each of them is read and compared.
const LIMIT_MAX: usize = 500;
/// How many changes are looked at for a page, at most, while those of others are passed over.
const LOOKED_AT_MAX: usize = 5000;

const GROUP: &str = "history.ferrokube.io";
const VERSION: &str = "v1alpha1";

/// GET of the subresource.
pub async fn get(scope: &Scope) -> Result<Reply, Status> {
    match scope.call.query("view").unwrap_or("") {
        "" => changes(scope).await,
        "blame" => blame::blame(scope).await,
        other => Err(Status::bad_request(format!("there is no view {}: it must be blame", object::quote(other)))),
    }
}

/// The part of an object's changes that a request asks for.
struct Wanted {
    limit: usize,
    since: i64,
    user: String,
    uid: String,
    is_whole: bool,
}

impl Wanted {
    fn parse(scope: &Scope) -> Result<Wanted, Status> {
        let of_call = |name: &str| scope.call.query(name).unwrap_or("").to_string();
        let limit = integer(&scope.call, "limit")?.filter(|limit| *limit > 0).unwrap_or(LIMIT as i64);
        let since = match of_call("since").as_str() {
            "" => i64::MIN,
            text => Asker::of(scope).parse_time(text)?,
        };
        Ok(Wanted {
            limit: usize::try_from(limit).unwrap_or(LIMIT).min(LIMIT_MAX),
            since,
            user: of_call("user"),
            uid: of_call("uid"),
            is_whole: crate::options::flag(&scope.call, "objects") == Some(true),
        })
    }
}

async fn changes(scope: &Scope) -> Result<Reply, Status> {
    let wanted = Wanted::parse(scope)?;
    let key = scope.storage()?.key(&scope.call.info.namespace, &scope.call.info.name);
    let (archive, now) = Asker::of(scope).caught_up().await?;
    let mut until = newest(scope, now).await?;
    let (mut items, mut looked_at, mut next) = (Vec::new(), 0, None);
    let mut after: Option<Value> = None;
    'pages: loop {
        let (archive, of_key) = (archive.clone(), key.clone());
        let heads = blocking(move || archive.changes_of(&of_key, until, LIMIT)).await.map_err(unreadable)?;
        let Some(last) = heads.last() else { break };
        let oldest = last.revision;
        for head in heads {
            if head.time < wanted.since {
                break 'pages;
            }
            if items.len() == wanted.limit || looked_at == LOOKED_AT_MAX {
                next = Some(head.revision);
                break 'pages;
            }
            looked_at += 1;
            // What was there after this change is what was there before the newer one, if that was looked at.
            let known = after.take();
            if !wanted.user.is_empty() && head.origin.as_ref().is_none_or(|origin| origin.user != wanted.user) {
                continue;
            }
            let is = match known {
                Some(value) => value,
                None => state(scope, &key, head.revision).await?,
            };
            let was = match state(scope, &key, head.revision - 1).await {
                // The oldest change may be kept while what it replaced is not.
                Err(status) if status.code == StatusCode::GONE.as_u16() => Value::Null,
                other => other?,
            };
            let uid = if is.uid().is_empty() { was.uid() } else { is.uid() };
            if wanted.uid.is_empty() || wanted.uid == uid {
                items.push(describe(&head, uid, &was, &is, wanted.is_whole));
            }
            after = Some(was);
        }
        until = oldest - 1;
    }
    let mut list = value!({"metadata": {"resourceVersion": (now.to_string())}, "items": items});
    list.set_type(&kind("ChangeList"));
    if let Some(next) = next {
        list.metadata_mut().insert("continue", next.to_string());
    }
    Ok(reply(scope, "ChangeList", &list))
}

/// The revision of the newest change to show: where the page before ended, or the time `until`.
async fn newest(scope: &Scope, now: Revision) -> Result<Revision, Status> {
    let of_call = |name: &str| scope.call.query(name).unwrap_or("");
    match (of_call("continue"), of_call("until")) {
        ("", "") => Ok(now),
        ("", until) => Asker::of(scope).revision_at(until).await,
        (token, _) => token.parse().map_err(|_| Status::bad_request("the continue parameter is not valid")),
    }
}

/// The object as it was at a revision, in the requested version; null if there was none.
pub async fn state(scope: &Scope, key: &Key, revision: Revision) -> Result<Value, Status> {
    let Some(found) = object(scope, key, revision).await? else { return Ok(Value::Null) };
    let storage = scope.storage()?;
    let stored = storage.load(&found).await;
    let stored = stored.map_err(|why| Status::from(storage.unreadable(found.entry(), why)))?;
    let mut shown = scope.from_storage(stored)?;
    if scope.redacts {
        crate::view::redact(&mut shown);
    }
    Ok(without_noise(shown))
}

fn describe(head: &history::Head, uid: &str, was: &Value, is: &Value, is_whole: bool) -> Value {
    let mut change = summary(head);
    change.set(&["uid"], uid);
    match is_whole {
        true => change.set(&["object"], is.clone()),
        false => change.set(&["patch"], patch(was, is)),
    }
    change
}

/// Everything about a change besides the object.
pub fn summary(head: &history::Head) -> Value {
    let operation = match head.what {
        history::What::Created => "Created",
        history::What::Updated => "Updated",
        history::What::Deleted => "Deleted",
    };
    let mut change = value!({
        "revision": (head.revision.to_string()),
        "time": (time_of(head.time)),
        "operation": operation,
    });
    if let Some(origin) = &head.origin {
        for (name, text) in [
            ("user", &origin.user),
            ("impersonator", &origin.impersonator),
            ("userAgent", &origin.user_agent),
            ("verb", &origin.verb),
            ("subresource", &origin.subresource),
            ("auditID", &origin.audit_id),
        ] {
            if !text.is_empty() {
                change.set(&[name], text.as_str());
            }
        }
    }
    change
}

pub fn kind(name: &str) -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, name)
}

/// JSON or YAML; there is no protobuf of it.
pub fn reply(scope: &Scope, name: &str, answer: &Value) -> Reply {
    answer_of(&scope.accept, name, answer)
}

pub fn answer_of(accept: &Accept, name: &str, answer: &Value) -> Reply {
    let media = if accept.media == Media::Yaml { Media::Yaml } else { Media::Json };
    Reply::value(StatusCode::OK, &Accept::plain(media, accept.pretty), &kind(name), answer)
}
