//! The OpenAPI documents of backends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codec::Notes;
use hashbrown::{HashMap, HashSet};
use http::{Method, StatusCode};
use object::{GroupVersion, Value};
use request::User;

use crate::backend::Fetch;
use crate::{Aggregator, Backend, convert};

/// How often a backend is asked again; after failures twice as long each time, up to the maximum.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
const RETRY_MAX: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest documents that are read: kube-apiserver's own of the second version has about 4 MB.
const V2_BYTES_MAX: usize = 32 * 1024 * 1024;
const V3_INDEX_BYTES_MAX: usize = 4 * 1024 * 1024;

const REFERENCE: &str = "$ref";
const DEFINITIONS: &str = "#/definitions/";
const PARAMETERS: &str = "#/parameters/";

/// The OpenAPI documents of a backend about its group-version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Specification {
    /// Documents of the third version by name, such as `apis/metrics.k8s.io/v1beta1`, with the URL that is listed.
    pub v3: BTreeMap<String, String>,
    /// The part of its document of the second version that is about its group-version.
    pub v2: Option<Arc<Value>>,
    /// Documents of the third version, by name, that were made of the second version because the backend has nothing else.
    pub converted: BTreeMap<String, Arc<Value>>,
}

/// Keeps a backend's documents up to date. Never returns.
pub async fn refresh(aggregator: Arc<Aggregator>, backend: Arc<Backend>) {
    let mut changes = backend.changes.subscribe();
    let mut etag = String::new();
    let mut retry_after = REFRESH_INTERVAL;
    loop {
        let known = backend.specification().unwrap_or_default();
        let (v3, mut v2) = tokio::join!(fetch_v3(&backend), fetch_v2(&backend, &etag));
        let has_v3 = v3.as_ref().map_or(known.converted.is_empty(), Option::is_some);
        if !has_v3 && known.converted.is_empty() && matches!(v2, Ok(V2::Unchanged)) {
            // What is known of the second version was not converted.
            v2 = fetch_v2(&backend, "").await;
        }
        let read = match v2 {
            Ok(V2::Unchanged) => Ok(None),
            Ok(V2::Missing) => Ok(Some(Read::default())),
            Ok(V2::Document(body, new_etag)) => {
                etag = new_etag;
                read_v2(&backend.version, body, !has_v3).await.map(Some)
            }
            Err(why) => Err(why),
        };
        let failed = v3.is_err() || read.is_err();
        for why in [v3.as_ref().err(), read.as_ref().err()].into_iter().flatten() {
            tracing::debug!(name = %backend.name, why, "a backend's OpenAPI document cannot be read");
        }
        // What was read before stays until there is something newer.
        let v3 = v3.map_or_else(|_| known.v3.clone(), Option::unwrap_or_default);
        let new = match read {
            Ok(Some(read)) => Specification { v3, v2: read.part, converted: read.converted },
            Ok(None) | Err(_) => {
                let converted = if has_v3 { BTreeMap::new() } else { known.converted.clone() };
                Specification { v3, v2: known.v2.clone(), converted }
            }
        };
        if new != *known {
            backend.specification.store(Some(Arc::new(new)));
            aggregator.note_change();
        }
        let wait = if failed { retry_after } else { REFRESH_INTERVAL };
        retry_after = if failed { (retry_after * 2).min(RETRY_MAX) } else { REFRESH_INTERVAL };
        // A backend that becomes available is asked at once.
        if let Ok(Ok(())) = tokio::time::timeout(wait, changes.changed()).await {
            retry_after = REFRESH_INTERVAL;
        }
    }
}

fn user() -> User {
    User { name: "system:aggregator".into(), ..User::default() }
}

/// The documents of the third version that are about the backend's group-version, with their URLs. None if it does not know
/// the third version.
async fn fetch_v3(backend: &Backend) -> Result<Option<BTreeMap<String, String>>, String> {
    let (limit, timeout) = (V3_INDEX_BYTES_MAX, TIMEOUT);
    let fetch =
        Fetch { method: Method::GET, path: "/openapi/v3", accept: "*/*", etag: "", limit, timeout, user: user() };
    let fetched = backend.fetch(fetch).await?;
    match fetched.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(format!("could not get list of group versions: {status}")),
    }
    let index = codec::json::decode(&fetched.body, None, &mut Notes::ignore()).map_err(|error| error.to_string())?;
    let mut documents = BTreeMap::new();
    for name in names_of(&backend.version) {
        let url = index.at(&["paths", &name, "serverRelativeURL"]).as_str();
        if let Some(url) = url.filter(|url| url.starts_with("/openapi/v3/")) {
            documents.insert(name.clone(), url.to_string());
        }
    }
    Ok(Some(documents))
}

/// The names of documents about a group-version.
pub fn names_of(version: &GroupVersion) -> Vec<String> {
    match version.group.as_str() {
        "" => vec![format!("api/{}", version.version)],
        group => vec![format!("apis/{group}"), format!("apis/{group}/{}", version.version)],
    }
}

/// A document of the second version as the backend answers.
enum V2 {
    /// It is the one with the given ETag.
    Unchanged,
    Missing,
    /// Its text and its ETag.
    Document(Bytes, String),
}

async fn fetch_v2(backend: &Backend, etag: &str) -> Result<V2, String> {
    let (limit, timeout) = (V2_BYTES_MAX, TIMEOUT);
    let fetch = Fetch {
        method: Method::GET,
        path: "/openapi/v2",
        accept: "application/json",
        etag,
        limit,
        timeout,
        user: user(),
    };
    let fetched = backend.fetch(fetch).await?;
    match fetched.status {
        StatusCode::OK => {
            let etag = fetched.headers.get(http::header::ETAG).and_then(|value| value.to_str().ok()).unwrap_or("");
            Ok(V2::Document(fetched.body, etag.to_string()))
        }
        StatusCode::NOT_MODIFIED if !etag.is_empty() => Ok(V2::Unchanged),
        StatusCode::NOT_FOUND => Ok(V2::Missing),
        status => Err(format!("failed to retrieve openAPI spec, http error: {status}")),
    }
}

/// What is kept of a document of the second version.
#[derive(Default)]
struct Read {
    /// What is about the backend's group-version.
    part: Option<Arc<Value>>,
    /// All of it in the third version, by name, if that is wanted.
    converted: BTreeMap<String, Arc<Value>>,
}

async fn read_v2(version: &GroupVersion, body: Bytes, wants_v3: bool) -> Result<Read, String> {
    let name = format!("apis/{}/{}", version.group, version.version);
    let read = move || {
        let document = codec::json::decode(&body, None, &mut Notes::ignore()).map_err(|error| error.to_string())?;
        let prefix = format!("/{name}/");
        let part = Some(Arc::new(below(&document, |path| path.starts_with(&prefix))));
        let converted = wants_v3.then(|| (name, Arc::new(convert::to_v3(&document)))).into_iter().collect();
        Ok(Read { part, converted })
    };
    tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?
}

/// A document without the paths that are not wanted, and without the definitions that only those refer to.
pub fn below(document: &Value, is_wanted: impl Fn(&str) -> bool) -> Value {
    let Some(paths) = document.field("paths").as_map() else { return Value::map() };
    let mut kept = Value::map();
    for (path, item) in paths.iter().filter(|(path, _)| is_wanted(path)) {
        kept.set(&[path], item.clone());
    }
    let before = used_definitions(document, document.field("paths"));
    let after = used_definitions(document, &kept);
    let mut definitions = Value::map();
    for (name, definition) in document.field("definitions").as_map().into_iter().flat_map(|map| map.iter()) {
        if after.contains(name) || !before.contains(name) {
            definitions.set(&[name], definition.clone());
        }
    }
    let mut part = Value::map();
    part.set(&["definitions"], definitions);
    drop(after);
    part.set(&["paths"], kept);
    part.set(&["parameters"], document.field("parameters").clone());
    part
}

/// The definitions that something refers to, directly or not.
fn used_definitions<'a>(document: &'a Value, from: &'a Value) -> HashSet<&'a str> {
    let mut used = HashSet::new();
    let mut seen_parameters = HashSet::new();
    let mut queue = vec![from];
    while let Some(next) = queue.pop() {
        each_reference(next, &mut |reference| {
            if let Some(name) = reference.strip_prefix(DEFINITIONS)
                && used.insert(name)
            {
                queue.push(document.at(&["definitions", name]));
            }
            if let Some(name) = reference.strip_prefix(PARAMETERS)
                && seen_parameters.insert(name)
            {
                queue.push(document.at(&["parameters", name]));
            }
        });
    }
    used
}

fn each_reference<'a>(value: &'a Value, hear: &mut impl FnMut(&'a str)) {
    match value {
        Value::Map(map) => {
            for (key, inner) in map.iter() {
                match inner.as_str() {
                    Some(reference) if key == REFERENCE => hear(reference),
                    _ => each_reference(inner, hear),
                }
            }
        }
        Value::List(items) => items.iter().for_each(|item| each_reference(item, hear)),
        _ => {}
    }
}

/// Replaces references by the whole text.
pub fn rename_references(value: &mut Value, renames: &HashMap<String, String>) {
    match value {
        Value::Map(map) => {
            for (key, inner) in map.iter_mut() {
                match inner.as_str().filter(|_| key == REFERENCE).and_then(|reference| renames.get(reference)) {
                    Some(new) => *inner = Value::from(new.as_str()),
                    None => rename_references(inner, renames),
                }
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| rename_references(item, renames)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn a_part_keeps_what_it_refers_to() {
        let document = value!({
            "paths": {
                "/apis/g/v1/": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/List"}}}}},
                "/apis/g/v1/a": {"parameters": [{"$ref": "#/parameters/p"}]},
                "/apis/g/v10/": {"get": {"schema": {"$ref": "#/definitions/Other"}}},
            },
            "parameters": {"p": {"schema": {"$ref": "#/definitions/Body"}}},
            "definitions": {
                "List": {"properties": {"items": {"items": {"$ref": "#/definitions/Item"}}}},
                "Item": {"properties": {"$ref": {"type": "string"}, "self": {"$ref": "#/definitions/Item"}}},
                "Body": {}, "Other": {}, "Unused": {},
            },
        });
        let part = below(&document, |path| path.starts_with("/apis/g/v1/"));
        let keys = |field: &str| part.field(field).as_map().unwrap().iter().map(|(key, _)| key.to_string()).collect();
        let (paths, definitions): (Vec<String>, Vec<String>) = (keys("paths"), keys("definitions"));
        assert_eq!(paths, ["/apis/g/v1/", "/apis/g/v1/a"]);
        // What nothing referred to before stays, as upstream has it.
        assert_eq!(definitions, ["Body", "Item", "List", "Unused"]);
    }
}
