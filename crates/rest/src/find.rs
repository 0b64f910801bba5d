//! `find`: objects of all kinds that their user may see, by name, label, image, owner, uid or text (docs/lists.md).
//!
//! It is the one resource of a group of its own, which is in no catalog: its objects are those of all other resources.

mod query;
mod search;

use authz::Permitted;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, StatusCode};
use object::{GroupVersionKind, Meta, Status, Value, value};
use registry::Catalog;
use request::{RequestInfo, Verb};

use crate::media::{Accept, Media};
use crate::options::integer;
use crate::reply::Reply;
use crate::scope::method_not_allowed;
use crate::view::wrong;
use crate::{Call, Snapshot, failure, list, page_not_found};
use query::FindQuery;
use search::{FindPosition, Search};

pub const GROUP: &str = "lists.ferrokube.io";
pub const VERSION: &str = "v1alpha1";
const RESOURCE: &str = "find";
/// All parameters that it knows.
const PARAMETERS: [&str; 6] = ["q", "limit", "continue", "pretty", "timeout", "timeoutSeconds"];
/// How many objects a page has, if the request does not say, and at most.
const LIMIT: i64 = 100;
const LIMIT_MAX: i64 = 500;

/// Whether a request is for something of the group.
pub fn is_group(info: &RequestInfo) -> bool {
    info.is_resource && info.group == GROUP
}

/// Whether a request is for objects of all kinds. It needs no right of its own: each user is shown what that user may list.
pub fn is_asked_for(info: &RequestInfo) -> bool {
    is_group(info)
        && info.version == VERSION
        && info.parts == [RESOURCE]
        && !info.in_namespace
        && info.verb == Verb::List
}

/// How many objects there are to look at, and how many bytes they have.
pub fn looked_at(catalog: &Catalog) -> (u64, u64) {
    let mut sum = (0, 0);
    for storage in search::storages(catalog) {
        sum.0 += storage.cache.len() as u64;
        sum.1 += storage.cache.encoded_bytes() as u64;
    }
    sum
}

/// Answers a request for something of the group.
pub async fn serve(api: Snapshot, call: &Permitted<Call>) -> Reply {
    let info = &call.info;
    if info.version != VERSION || info.parts != [RESOURCE] || info.in_namespace {
        return page_not_found();
    }
    let accept = api.accept_of_status(call);
    if info.verb != Verb::List || call.method != Method::GET {
        return failure(&method_not_allowed(), &accept);
    }
    match find(&api, call, &accept).await {
        Ok(reply) => reply,
        Err(status) => failure(&status, &accept),
    }
}

async fn find(api: &Snapshot, call: &Permitted<Call>, accept: &Accept) -> Result<Reply, Status> {
    for (at, (name, _)) in call.query.iter().enumerate() {
        if !PARAMETERS.contains(&name.as_str()) {
            return Err(wrong(name, "cannot be used with find"));
        }
        if call.query[..at].iter().any(|(other, _)| other == name) {
            return Err(wrong(name, "is given more than once"));
        }
    }
    let text = call.query("q").unwrap_or("");
    let query = FindQuery::parse(text).map_err(|why| wrong("q", &why))?;
    let limit = integer(call, "limit")?.filter(|limit| *limit > 0).unwrap_or(LIMIT).min(LIMIT_MAX);
    let after = match call.query("continue").filter(|token| !token.is_empty()) {
        Some(token) => Some(position(token, text)?),
        None => None,
    };
    let mut search = Search::new(api, call, &query, usize::try_from(limit).unwrap_or(0))?;
    let next = Box::pin(search.run(after)).await?;
    let mut found = value!({"metadata": {}, "items": (search.found)});
    found.set_type(&kind("FoundObjectList"));
    if let Some(next) = next {
        found.metadata_mut().insert("continue", token(&next, text));
    }
    let media = match accept.media {
        Media::Proto => Media::Json,
        other => other,
    };
    Ok(Reply::value(StatusCode::OK, &Accept::plain(media, accept.pretty), &kind("FoundObjectList"), &found))
}

fn kind(name: &str) -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, name)
}

/// A token has the key of an object that its user may see, so it tells nothing of others.
fn token(at: &FindPosition, query: &str) -> String {
    let version = kind("").group_version().to_string();
    let token = value!({
        "v": version, "q": query, "group": (at.group.as_str()), "resource": (at.resource.as_str()), "start": (at.key.as_str())
    });
    let mut json = Vec::new();
    codec::json::encode(&token, None, &mut json);
    URL_SAFE_NO_PAD.encode(json)
}

fn position(text: &str, query: &str) -> Result<FindPosition, Status> {
    let invalid = |why: &str| Status::bad_request(format!("invalid continue token: {why}"));
    let json = list::decode_token(text).map_err(|why| invalid(&why))?;
    let token = codec::json::decode(&json, None, &mut codec::Notes::ignore());
    let token: Value = token.map_err(|error| invalid(&error.to_string()))?;
    if token.str_at(&["v"]) != kind("").group_version().to_string() || token.str_at(&["start"]).is_empty() {
        return Err(invalid("it is not of find"));
    }
    if token.str_at(&["q"]) != query {
        return Err(invalid("it is of another query"));
    }
    let text = |name: &str| token.str_at(&[name]).to_string();
    Ok(FindPosition { group: text("group"), resource: text("resource"), key: text("start") })
}
