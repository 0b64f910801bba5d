//! What backends serve, for the documents that list everything at once.

use std::sync::Arc;
use std::time::Duration;

use codec::Notes;
use hashbrown::HashMap;
use http::{Method, StatusCode};
use object::{GroupVersionKind, Value, value};
use request::User;

use crate::backend::{Fetch, aggregator_user};
use crate::{Aggregator, Backend};

/// How often a backend is asked again; also the longest pause after a failure.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest discovery document that is read.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The resources that a backend serves of its group-version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovered {
    /// As in an APIVersionDiscovery.
    pub resources: Vec<Value>,
    /// Whether it could be asked the last time that was tried.
    pub current: bool,
}

/// Keeps what a backend serves up to date. Never returns.
pub async fn refresh(aggregator: Arc<Aggregator>, backend: Arc<Backend>) {
    let mut changes = backend.changes.subscribe();
    let mut etag = String::new();
    let mut retry_after = FIRST_RETRY;
    loop {
        let known = backend.discovered();
        let known = known.as_ref().filter(|known| known.current);
        let (new, wait) = match fetch(&backend, if known.is_some() { &etag } else { "" }).await {
            Ok(DiscoveryAnswer::Unchanged) => (known.map(|known| Discovered::clone(known)), REFRESH_INTERVAL),
            Ok(DiscoveryAnswer::Resources(resources, new_etag)) => {
                etag = new_etag;
                (Some(Discovered { resources, current: true }), REFRESH_INTERVAL)
            }
            Err(why) => {
                tracing::debug!(name = %backend.name, why, "a backend does not tell what it serves");
                (Some(Discovered::default()), retry_after)
            }
        };
        retry_after = if wait == REFRESH_INTERVAL { FIRST_RETRY } else { (retry_after * 2).min(REFRESH_INTERVAL) };
        if let Some(new) = new
            && backend.discovered().as_deref() != Some(&new)
        {
            backend.discovered.store(Some(Arc::new(new)));
            aggregator.note_change();
        }
        let _ = tokio::time::timeout(wait, changes.changed()).await;
    }
}

enum DiscoveryAnswer {
    Unchanged,
    Resources(Vec<Value>, String),
}

async fn fetch(backend: &Backend, etag: &str) -> Result<DiscoveryAnswer, String> {
    let (limit, timeout, user) = (DOCUMENT_BYTES_MAX, TIMEOUT, aggregator_user());
    let fetch = Fetch { method: Method::GET, path: "/apis", accept: AGGREGATED, etag, limit, timeout, user };
    let fetched = backend.fetch(fetch).await?;
    let header = |name: &str| fetched.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    match fetched.status {
        StatusCode::NOT_MODIFIED if !etag.is_empty() => return Ok(DiscoveryAnswer::Unchanged),
        StatusCode::SERVICE_UNAVAILABLE => return Err("service returned non-success response code: 503".into()),
        StatusCode::OK if is_aggregated(header("content-type")) => {
            let document =
                decode(&fetched.body, &GroupVersionKind::new("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"))?;
            return Ok(DiscoveryAnswer::Resources(own_part(backend, &document), header("etag").to_string()));
        }
        _ => {}
    }
    // A backend that does not know the aggregated form lists the resources of one version at a time.
    let path = request::version_path(&backend.version).map_err(|error| error.to_string())?;
    let user = User { groups: Vec::new(), ..aggregator_user() };
    let fetch = Fetch { method: Method::GET, path: &path, accept: "application/json", etag: "", limit, timeout, user };
    let fetched = backend.fetch(fetch).await?;
    if fetched.status != StatusCode::OK {
        return Err(format!("failed to download legacy discovery for {path}: {}", fetched.status));
    }
    let document = decode(&fetched.body, &GroupVersionKind::new("", "v1", "APIResourceList"))?;
    Ok(DiscoveryAnswer::Resources(from_plain(&document)?, String::new()))
}

/// Reads a document as one of its kind: what does not belong there is left out, what has the wrong type is an error.
fn decode(json: &[u8], kind: &GroupVersionKind) -> Result<Value, String> {
    let decoded = codec::json::decode(json, schema::builtin().schema(kind), &mut Notes::ignore());
    decoded.map_err(|error| error.to_string())
}

fn is_aggregated(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts.next() == Some("application/json");
    let parts: Vec<&str> = parts.collect();
    is_json && ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"].iter().all(|part| parts.contains(part))
}

/// The resources of the backend's group-version in an APIGroupDiscoveryList.
fn own_part(backend: &Backend, document: &Value) -> Vec<Value> {
    let groups = document.list_at(&["items"]).iter();
    let own = groups.filter(|group| group.str_at(&["metadata", "name"]) == backend.version.group.as_str());
    let versions = own.flat_map(|group| group.list_at(&["versions"]));
    let own = versions.filter(|version| version.str_at(&["version"]) == backend.version.version.as_str());
    let mut resources: Vec<Value> =
        own.last().map(|version| version.list_at(&["resources"]).to_vec()).unwrap_or_default();
    for resource in &mut resources {
        resource.set_default(&["responseKind"], no_kind());
        if resource.field("subresources").is_null() {
            continue;
        }
        for part in resource.slot(&["subresources"]).make_list() {
            part.set_default(&["responseKind"], no_kind());
        }
    }
    resources
}

/// An APIResourceList as resources of an APIVersionDiscovery.
fn from_plain(list: &Value) -> Result<Vec<Value>, String> {
    let scope = |listed: &Value| match listed.field("namespaced").as_bool() {
        Some(true) => "Namespaced",
        _ => "Cluster",
    };
    let (parts, whole): (Vec<&Value>, Vec<&Value>) =
        list.list_at(&["resources"]).iter().partition(|listed| listed.str_at(&["name"]).contains('/'));
    let mut resources: Vec<Value> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for listed in whole {
        let name = listed.str_at(&["name"]);
        let mut resource = value!({"resource": name, "responseKind": (kind_of(listed)), "scope": (scope(listed))});
        resource.set(&["singularResource"], listed.str_at(&["singularName"]));
        resource.set(&["verbs"], listed.field("verbs").clone());
        for field in ["shortNames", "categories"] {
            if !listed.list_at(&[field]).is_empty() {
                resource.set(&[field], listed.field(field).clone());
            }
        }
        places.insert(name, resources.len());
        resources.push(resource);
    }
    for listed in parts {
        let (parent, part) = listed.str_at(&["name"]).split_once('/').unwrap_or_default();
        let scope = scope(listed);
        let at = *places.entry(parent).or_insert_with(|| {
            resources.push(value!({"resource": parent, "responseKind": (no_kind()), "scope": scope}));
            resources.len() - 1
        });
        let parents = resources[at].str_at(&["scope"]);
        if parents != scope {
            return Err(format!(
                "Error: Parent {parent} (scope: {parents}) and subresource {part} (scope: {scope}) scope do not match"
            ));
        }
        let part =
            value!({"subresource": part, "responseKind": (kind_of(listed)), "verbs": (listed.field("verbs").clone())});
        resources[at].slot(&["subresources"]).make_list().push(part);
    }
    Ok(resources)
}

fn kind_of(listed: &Value) -> Value {
    match listed.str_at(&["kind"]) {
        "" => no_kind(),
        kind => {
            let (group, version) = (listed.str_at(&["group"]), listed.str_at(&["version"]));
            value!({"group": group, "version": version, "kind": kind})
        }
    }
}

/// Old clients fail where a kind is missing.
fn no_kind() -> Value {
    value!({"group": "", "version": "", "kind": ""})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_documents_are_converted() {
        let list = value!({"resources": [
            {"name": "flunders/status", "namespaced": true, "kind": "Flunder", "verbs": ["get"]},
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get", "list"],
             "shortNames": ["fl"]},
            {"name": "alone/scale", "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
        ]});
        let expected = value!([
            {"resource": "flunders", "singularResource": "flunder", "scope": "Namespaced", "verbs": ["get", "list"],
             "shortNames": ["fl"], "responseKind": {"group": "", "version": "", "kind": "Flunder"},
             "subresources": [
                {"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Flunder"}, "verbs": ["get"]},
             ]},
            {"resource": "alone", "scope": "Cluster", "responseKind": {"group": "", "version": "", "kind": ""},
             "subresources": [
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                 "verbs": ["get"]},
             ]},
        ]);
        assert_eq!(Value::from(from_plain(&list).unwrap()), expected);
        let mixed = value!({"resources": [{"name": "a"}, {"name": "a/b", "namespaced": true}]});
        assert!(from_plain(&mixed).unwrap_err().contains("scope do not match"));
    }

    #[test]
    fn only_the_aggregated_form_is_taken_for_it() {
        for (content_type, expected) in [
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io", true),
            ("application/json", false),
            ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", false),
            ("text/html;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", false),
        ] {
            assert_eq!(is_aggregated(content_type), expected, "{content_type}");
        }
    }
}
