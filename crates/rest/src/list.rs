//! LIST: a stream that joins the encoded objects, in constant memory whatever its length.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cache::Object;
use http::StatusCode;
use object::{Cause, GroupVersionKind, Meta, Status, Value};
use registry::{Filter, Pace, Readables, ResourceStorage};
use storage::{Key, KeyRange, Revision};

use crate::history::{self, Unread};
use crate::large::aside;
use crate::media::{Media, Transform};
use crate::options::ListOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::view::View;
use crate::{join, past, table};

/// The feature gate that refuses lists of the present where the cache is behind, instead of reading them from the store.
const NO_FALLBACK: &str = "ConsistentListFromCacheSkipTimeoutFallback";
/// Stands in a continue token for the present.
pub const NOW: Revision = -1;
/// Upstream's wording when the revision of a continue token has been compacted away; the answer has a token to go on with.
pub const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a \
new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between \
the time the first chunk was returned and now may show up in the list.";

/// A page of a list: references to objects, and what its metadata says.
pub struct Page {
    pub objects: Vec<Arc<Object>>,
    /// Objects that follow them and are read while the page is sent.
    pub rest: Option<Unread>,
    pub revision: Revision,
    pub continue_token: String,
    pub remaining: Option<usize>,
    /// The selector of the shard that it is of.
    pub shard: Option<String>,
}

pub async fn list(scope: &Arc<Scope>) -> Result<Reply, Status> {
    let options = ListOptions::parse(scope, false)?;
    let page = match scope.view.as_deref() {
        Some(View { count: Some(count), .. }) => return count.answer(scope, &options).await,
        Some(View { order: Some(order), .. }) => order.page(scope, &options).await?,
        _ => page(scope, &options).await?,
    };
    respond(scope, page).await
}

/// Answers with a page, however the client wants it. Only protobuf and CBOR, which put lengths in front, are made whole where
/// the objects are not sent as they are.
pub async fn respond(scope: &Arc<Scope>, mut page: Page) -> Result<Reply, Status> {
    let accept = &scope.accept;
    let is_sorted = scope.view.as_ref().is_some_and(|view| view.order.is_some());
    if matches!(accept.transform, Transform::Table(_)) && !is_sorted {
        sort_rows(scope, &mut page).await?;
    }
    let is_text = matches!(accept.media, Media::Json | Media::Yaml);
    match &accept.transform {
        Transform::None if accept.media == Media::Proto => join::proto(scope, page).await,
        Transform::None if accept.media == Media::Cbor => join::cbor(scope, page).await,
        Transform::PartialList(_) if accept.media == Media::Proto && !page.objects.is_empty() => {
            join::proto(scope, page).await
        }
        Transform::None if accept.media == Media::Json && !accept.pretty && !scope.is_projected() => {
            join::json(scope, page).await
        }
        Transform::None | Transform::Table(_) | Transform::PartialList(_) if is_text && !page.objects.is_empty() => {
            join::text(scope, page).await
        }
        Transform::None => Ok(join::empty(scope, &page)),
        _ => {
            page.read_all().await?;
            respond_with(scope, read(scope, &page.objects).await?, metadata(&page))
        }
    }
}

/// Puts the page in the order that the kind's Tables have; the pages themselves stay those of the keys' order.
async fn sort_rows(scope: &Scope, page: &mut Page) -> Result<(), Status> {
    let Some(order) = scope.strategy()?.facts().row_order else { return Ok(()) };
    page.read_all().await?;
    let orders = read(scope, &page.objects).await?.into_iter().map(|object| order(&object));
    let mut sorted: Vec<_> = orders.zip(std::mem::take(&mut page.objects)).collect();
    sorted.sort_by_key(|(order, _)| *order);
    page.objects = sorted.into_iter().map(|(_, object)| object).collect();
    Ok(())
}

/// Answers with objects in the storage version. `list` has the list's metadata.
pub fn respond_with(scope: &Scope, objects: Vec<Value>, mut list: Value) -> Result<Reply, Status> {
    let accept = &scope.accept;
    match &accept.transform {
        Transform::None => {
            list.set_type(&list_kind(scope));
            list.metadata_mut();
            list.set(&["items"], objects);
            Ok(Reply::value(StatusCode::OK, accept, &list_kind(scope), &list))
        }
        Transform::Table(version) => {
            let table = table::of_list(scope, version, &objects, &list)?;
            Ok(Reply::value(StatusCode::OK, accept, &GroupVersionKind::new("meta.k8s.io", "v1", "Table"), &table))
        }
        Transform::PartialList(version) => {
            let items: Vec<Value> = objects.iter().map(|object| table::partial(scope, object, version)).collect();
            list.set(&["kind"], "PartialObjectMetadataList");
            list.set(&["apiVersion"], format!("meta.k8s.io/{version}"));
            list.set(&["items"], if items.is_empty() { Value::Null } else { Value::List(items) });
            let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadataList");
            Ok(Reply::value(StatusCode::OK, accept, &kind, &list))
        }
        Transform::Partial(_) => Err(Status::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            table::go_type(scope, &scope.resource.list_kind)
        ))),
    }
}

/// The objects a list is about.
pub async fn page(scope: &Scope, options: &ListOptions) -> Result<Page, Status> {
    let storage = scope.storage()?;
    let range = storage.range(&scope.call.info.namespace);
    let limit = usize::try_from(options.limit).unwrap_or(0);
    if let Some(past) = past::asked(scope, true) {
        return history::page(scope, storage, &range, &options.filter, limit, past.await?, None).await;
    }
    if !options.continue_token.is_empty() {
        let token = Token::parse(&options.continue_token, storage, &range)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        return match token.revision {
            Some(revision) => {
                history::page(scope, storage, &range, &options.filter, limit, revision, Some(&token.start)).await
            }
            // The token of an answer that says it expired goes on at the present.
            None => newest(scope, storage, &range, &options.filter, limit, Some(&token.start)).await,
        };
    }
    let failed = |error| storage.read_failed(error, "list");
    let is_cached = scope.api.limits.watch_cache.has(&storage.resource);
    match (options.revision()?, options.resource_version_match.as_str()) {
        // Any state will do, and it is sent whole, unless upstream would read it from etcd.
        (Some(0), _) if is_cached => now(storage, &range, &options.filter, 0, None).await,
        (None | Some(0), _) => newest(scope, storage, &range, &options.filter, limit, None).await,
        (Some(revision), "Exact") => {
            history::page(scope, storage, &range, &options.filter, limit, revision, None).await
        }
        (Some(revision), "") if limit > 0 => {
            history::page(scope, storage, &range, &options.filter, limit, revision, None).await
        }
        (Some(revision), _) => {
            storage.cache.wait_for(revision).await.map_err(failed)?;
            now(storage, &range, &options.filter, limit, None).await
        }
    }
}

/// With every write that was acknowledged before the request.
async fn newest(
    scope: &Scope,
    storage: &Arc<ResourceStorage>,
    range: &KeyRange,
    filter: &Filter,
    limit: usize,
    start: Option<&Key>,
) -> Result<Page, Status> {
    let failed = |error| storage.read_failed(error, "list");
    match storage.cache.fresh().await {
        Ok(_) => now(storage, range, filter, limit, start).await,
        Err(late @ cache::Error::TooLarge { .. }) if scope.api.features.enabled(NO_FALLBACK) => {
            Err(Status::too_many_requests(Status::from(failed(late)).message, 1))
        }
        // The store knows what the cache has not heard of in time.
        Err(cache::Error::TooLarge { requested, .. }) => {
            history::page(scope, storage, range, filter, limit, requested, start).await
        }
        Err(other) => Err(failed(other).into()),
    }
}

/// From the cache.
async fn now(
    storage: &ResourceStorage,
    range: &KeyRange,
    filter: &Filter,
    limit: usize,
    start: Option<&Key>,
) -> Result<Page, Status> {
    let cache = &storage.cache;
    let part = start.map_or(range.clone(), |start| KeyRange { start: start.clone(), end: range.end.clone() });
    // One more than the page has tells whether there are more.
    let most = if limit > 0 { limit + 1 } else { usize::MAX };
    let looked_at = if filter.is_everything() { most } else { usize::MAX };
    let snapshot = cache.first(&cache.part(part, &filter.fields), looked_at);
    let mut objects = snapshot.objects;
    storage.select(&mut objects, filter, most).await?;
    Ok(cut(objects, snapshot.more, limit, snapshot.revision, range, filter))
}

/// The first `limit` objects, and where to go on. `more` objects follow those given.
pub fn cut(
    mut objects: Vec<Arc<Object>>,
    more: usize,
    limit: usize,
    revision: Revision,
    range: &KeyRange,
    filter: &Filter,
) -> Page {
    let shard = filter.shard.as_ref().map(ToString::to_string);
    let mut page =
        Page { objects: Vec::new(), rest: None, revision, continue_token: String::new(), remaining: None, shard };
    if limit > 0 && objects.len() > limit {
        // How many more there are is only known where nothing is filtered out.
        page.remaining = filter.is_everything().then_some(objects.len() - limit + more);
        objects.truncate(limit);
        if let Some(last) = objects.last() {
            page.continue_token = Token::encode(&last.key().successor(), revision, range);
        }
    }
    page.objects = objects;
    page
}

/// Where a list goes on: at which key, and in which revision (None: in the present).
pub struct Token {
    start: Key,
    revision: Option<Revision>,
}

impl Token {
    pub fn encode(start: &Key, revision: Revision, range: &KeyRange) -> String {
        let rest = String::from_utf8_lossy(&start[range.start.len().min(start.len())..]);
        let mut json = format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":{revision},\"start\":").into_bytes();
        object::write_json_string(&format!("/{rest}"), &mut json);
        json.push(b'}');
        URL_SAFE_NO_PAD.encode(json)
    }

    fn parse(text: &str, storage: &ResourceStorage, range: &KeyRange) -> Result<Token, Status> {
        let invalid =
            |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let json = decode_token(text).map_err(invalid)?;
        let token = codec::json::decode(&json, None, &mut codec::Notes::ignore())
            .map_err(|error| invalid(error.to_string()))?;
        if token.str_at(&["v"]) != "meta.k8s.io/v1" {
            return Err(invalid(format!("server does not recognize this encoded version {}", token.str_at(&["v"]))));
        }
        let start = token.str_at(&["start"]);
        if start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)".into()));
        }
        let key = key_below(range, start).ok_or_else(|| invalid(start.to_string()))?;
        let revision = match token.field("rv").as_int() {
            Some(0) => {
                return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into()));
            }
            Some(revision) if revision < 0 => None,
            Some(revision) => Some(revision),
            None => Some(storage.cache.revision()),
        };
        Ok(Token { start: key, revision })
    }
}

/// A key that a continue token has. Upstream writes it with a slash before it and reads it without one too. It must be below the
/// range's start.
pub fn key_below(range: &KeyRange, start: &str) -> Option<Key> {
    let below = start.strip_prefix('/').unwrap_or(start);
    if below.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return None;
    }
    let mut key = range.start.to_vec();
    key.extend_from_slice(below.as_bytes());
    Some(key.into())
}

/// base64 as Go reads it: spare bits at the end do not matter, and what does not fit is told by its offset.
pub fn decode_token(text: &str) -> Result<Vec<u8>, String> {
    use base64::DecodeError;
    use base64::engine::{GeneralPurpose, general_purpose};
    let lenient = general_purpose::NO_PAD.with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&base64::alphabet::URL_SAFE, lenient).decode(text).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len() / 4 * 4,
        };
        format!("illegal base64 data at input byte {at}")
    })
}

/// A list's metadata, as an object that has nothing else.
pub fn metadata(page: &Page) -> Value {
    let mut list = Value::map();
    list.set_meta_str("resourceVersion", &page.revision.to_string());
    if !page.continue_token.is_empty() {
        list.metadata_mut().insert("continue", page.continue_token.as_str());
    }
    if let Some(remaining) = page.remaining {
        list.metadata_mut().insert("remainingItemCount", remaining);
    }
    if let Some(shard) = &page.shard {
        list.set(&["metadata", "shardInfo", "selector"], shard.as_str());
    }
    list
}

pub fn list_kind(scope: &Scope) -> GroupVersionKind {
    scope.resource.kind.group_version().with_kind(&scope.resource.list_kind)
}

/// How many unreadable objects one answer names.
const UNREADABLE_MAX: usize = 100;

/// All objects in the storage version.
pub async fn read(scope: &Scope, objects: &[Arc<Object>]) -> Result<Vec<Value>, Status> {
    let storage = scope.storage()?;
    let mut pace = Pace::begin();
    let mut values = Vec::with_capacity(objects.len());
    let mut batches = storage.batches(objects);
    while let Some(batch) = batches.next().await {
        for object in batch.iter() {
            let bytes = object.value().len();
            match aside(bytes, || storage.decode(object)) {
                Ok(value) => values.push(value),
                Err(error) => return Err(failed(scope, &batch, batches.rest(), error.into()).await),
            }
            pace.worked(bytes).await;
        }
    }
    Ok(values)
}

/// If one object cannot be read there is no list: without it, it would look as if it was gone. The error names all of them.
pub async fn check_readable(scope: &Scope, objects: &[Arc<Object>]) -> Result<(), Status> {
    refuse_unreadable(scope.storage()?, Vec::new(), objects).await
}

/// The error of a list that cannot be sent: all unreadable objects of a batch and of those that follow it, or else the given status.
pub async fn failed<O>(scope: &Scope, batch: &Readables<O>, rest: &[Arc<Object>], status: Status) -> Status
where
    O: AsRef<[Arc<Object>]>,
{
    let Ok(storage) = scope.storage() else { return status };
    let mut causes = Vec::new();
    let refused = async {
        note_unreadable(storage, batch, &mut causes).await?;
        refuse_unreadable(storage, causes, rest).await
    };
    refused.await.err().unwrap_or(status)
}

/// Adds the objects of a batch that cannot be read, up to the number that one answer names. Fails at the first where errors do not name them.
async fn note_unreadable<O>(
    storage: &ResourceStorage,
    batch: &Readables<O>,
    causes: &mut Vec<Cause>,
) -> Result<(), Status>
where
    O: AsRef<[Arc<Object>]>,
{
    let mut pace = Pace::begin();
    for object in batch.iter() {
        let bytes = object.value().len();
        if let Err(unreadable) = aside(bytes, || storage.read(object)) {
            let field = object.key().to_string();
            if !storage.names_unreadable {
                return Err(unreadable.in_list(&field));
            }
            causes.push(Cause { reason: "UnexpectedServerResponse".into(), message: unreadable.at(&field), field });
        }
        if causes.len() == UNREADABLE_MAX {
            break;
        }
        pace.worked(bytes).await;
    }
    Ok(())
}

/// Fails if there are objects that cannot be read: those that were noted, and more among these.
async fn refuse_unreadable(
    storage: &ResourceStorage,
    mut causes: Vec<Cause>,
    objects: &[Arc<Object>],
) -> Result<(), Status> {
    let mut batches = storage.batches(objects);
    while causes.len() < UNREADABLE_MAX
        && let Some(batch) = batches.next().await
    {
        note_unreadable(storage, &batch, &mut causes).await?;
    }
    if causes.is_empty() {
        return Ok(());
    }
    let mut status = Status::store_read_error(&storage.resource, causes);
    tracing::error!("{}", status.message);
    if let Some(details) = &mut status.details
        && details.causes.len() == UNREADABLE_MAX
    {
        let message = "too many errors, the list is truncated".to_string();
        details.causes.push(Cause { reason: "FieldValueTooMany".into(), message, field: String::new() });
    }
    Err(status)
}
