//! The past: reads of a revision or a time that only the recorded history has, and the subresource `history`.
//!
//! All of this is off unless the server records a history; then the parameter `at` is unknown and there is no such subresource. Whoever
//! reads the past needs, besides the right to the read itself, the right to `get` the resource's subresource `history` now.

mod blame;
mod changes;
mod difference;
mod everything;
mod restore;

use std::sync::Arc;

use cache::Object;
use futures::future::BoxFuture;
use history::Archive;
use object::timestamp::{MicroTime, Time};
use object::{Status, Timestamp};
use registry::ResourceStorage;
use request::Access;
use storage::{Key, KeyRange, RangeQuery, Revision};

use crate::Snapshot;
use crate::scope::Scope;

pub use changes::get as get_changes;
pub use everything::{PATH as CHANGES_PATH, everything as changes_of_everything};
pub use restore::restore;

/// The name of the subresource.
pub const SUBRESOURCE: &str = "history";

/// The revision of the past that a GET or LIST asks for with `at`, or a GET with `resourceVersionMatch=Exact`, if its user may see it;
/// None if it is about the present. Boxed, so that reads of the present are no larger for it.
pub fn asked(scope: &Scope, is_list: bool) -> Option<BoxFuture<'_, Result<Revision, Status>>> {
    scope.api.history.as_ref()?;
    let of_call = |name: &str| scope.call.query(name).unwrap_or("");
    let at = of_call("at");
    let is_exact = !is_list && of_call("resourceVersionMatch") == "Exact";
    if at.is_empty() && !is_exact {
        return None;
    }
    let is_given = |name: &&str| !of_call(name).is_empty();
    let has_other = ["resourceVersion", "resourceVersionMatch", "continue"].iter().any(is_given);
    let version = of_call("resourceVersion");
    Some(Box::pin(async move {
        if !at.is_empty() && has_other {
            let why = "at is not allowed with resourceVersion, resourceVersionMatch or continue";
            return Err(Status::bad_request(why));
        }
        check(scope).await?;
        if !at.is_empty() {
            return Asker::of(scope).revision_at(at).await;
        }
        match crate::options::parse_revision(version)? {
            Some(revision) if revision > 0 => Ok(revision),
            _ => Err(Status::bad_request("resourceVersionMatch=Exact needs a resourceVersion greater than 0")),
        }
    }))
}

/// Whether a list of a revision that the store has forgotten is read from the history: there is one, and the user may see it.
pub async fn is_open(scope: &Scope, range: &KeyRange, revision: Revision) -> bool {
    let Ok(storage) = scope.storage() else { return false };
    let is_forgotten = scope.api.history.is_some() && revision < storage.store.compacted(range);
    is_forgotten && Box::pin(check(scope)).await.is_ok()
}

/// Refuses a user who may not get the subresource `history` of what the request is about.
async fn check(scope: &Scope) -> Result<(), Status> {
    let access = Access { subresource: SUBRESOURCE, ..scope.access("get") };
    authz::check(&*scope.api.authorizer, &access).await
}

/// The object that was stored under a key at a revision.
pub async fn object(scope: &Scope, key: &Key, revision: Revision) -> Result<Option<Arc<Object>>, Status> {
    let storage = scope.storage()?;
    let query = RangeQuery::new(KeyRange::single(key.clone())).at(revision).recorded(true);
    let page = storage.store.range(query).await.map_err(|error| failed(storage, error))?;
    Ok(page.entries.first().map(|entry| storage.cache.wrap(entry)))
}

fn failed(storage: &ResourceStorage, error: storage::Error) -> Status {
    match error {
        storage::Error::Compacted { requested, .. } => not_kept(requested),
        storage::Error::FutureRevision { requested, current } => {
            storage.read_failed(cache::Error::TooLarge { requested, current }, "get").into()
        }
        other => storage.store_failed(other, "get", "").into(),
    }
}

fn not_kept(revision: Revision) -> Status {
    Status::expired(format!("the history of this server does not have the state of revision {revision}"))
}

/// The API whose past is asked about.
struct Asker<'a> {
    api: &'a Snapshot,
}

impl Asker<'_> {
    fn of(scope: &Scope) -> Asker<'_> {
        Asker { api: &scope.api }
    }

    /// The last revision at a time: RFC 3339, or a duration before now such as `-10m`.
    async fn revision_at(&self, text: &str) -> Result<Revision, Status> {
        let time = self.parse_time(text)?;
        let archive = self.caught_up().await?.0;
        match blocking(move || archive.moment(time)).await {
            Err(history::Error::NotKept(_)) => {
                Err(Status::expired(format!("the history of this server does not have the state of {text}")))
            }
            moment => Ok(moment.map_err(unreadable)?.revision),
        }
    }

    /// A time in milliseconds since 1970.
    fn parse_time(&self, text: &str) -> Result<i64, Status> {
        let now = self.api.clock.now();
        let wrong = || {
            let text = object::quote(text);
            Status::bad_request(format!("{text} is no time of the past: it must be as 2006-01-02T15:04:05Z or as -10m"))
        };
        let time = match text.strip_prefix('-') {
            Some(ago) => {
                let ago = object::duration::Duration::parse(ago).map_err(|_| wrong())?;
                now.plus(object::duration::Duration(ago.0.saturating_neg()))
            }
            None => Time::parse(text).map_err(|_| wrong())?.0,
        };
        // The recorder's clock may be some milliseconds ahead of what we have just read.
        if millis(time) > millis(now).saturating_add(1000) { Err(wrong()) } else { Ok(millis(time)) }
    }

    /// The archive, when everything is recorded that was acknowledged before; and the revision up to which that is.
    async fn caught_up(&self) -> Result<(Arc<Archive>, Revision), Status> {
        let Some(recorder) = &self.api.history else { return Err(crate::route::no_such_resource()) };
        let revision = recorder.caught_up().await.map_err(unreadable)?;
        Ok((recorder.archive().clone(), revision))
    }
}

fn millis(time: Timestamp) -> i64 {
    time.secs.saturating_mul(1000).saturating_add(i64::from(time.nanos / 1_000_000))
}

fn time_of(millis: i64) -> String {
    let nanos = u32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or(0);
    MicroTime(Timestamp::new(millis.div_euclid(1000), nanos)).to_string()
}

fn unreadable(error: history::Error) -> Status {
    match error {
        history::Error::NotKept(revision) => not_kept(revision),
        history::Error::Behind(_) => {
            Status::unavailable("the history has not recorded the newest changes yet, try again")
        }
        other => Status::internal(other),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> history::Result<T> + Send + 'static) -> history::Result<T> {
    let failed = |error: tokio::task::JoinError| storage::Error::Unavailable(error.to_string());
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
