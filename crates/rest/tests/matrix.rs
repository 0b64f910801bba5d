//! Every parameter of lists with every verb, form and scope: either the answer is what a model makes of single GETs, or it is a 400 that names
//! the parameter.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use http_body_util::BodyExt;
use object::{Meta, Value, value};
use rest::Body;
use support::cluster::{Cluster, binding};
use support::{FORMS, map, send, send_as};

/// A parameter, which objects it leaves (by a part of their names), and a text that it leaves out.
struct Asked {
    query: &'static str,
    name: &'static str,
    leaves: &'static str,
    drops: &'static str,
}

const PARAMETERS: [Asked; 7] = [
    Asked { query: "authorized=true", name: "authorized", leaves: "mine", drops: "" },
    Asked { query: "count=true", name: "count", leaves: "", drops: "" },
    Asked { query: "drop=metadata.annotations", name: "drop", leaves: "", drops: "annotated" },
    Asked { query: "fields=metadata.name", name: "fields", leaves: "", drops: "annotated" },
    Asked { query: "filter=object.metadata.name.contains('mine')", name: "filter", leaves: "mine", drops: "" },
    Asked { query: "count=true&groupBy=metadata.name", name: "groupBy", leaves: "", drops: "" },
    Asked { query: "sortBy=-metadata.name", name: "sortBy", leaves: "", drops: "" },
];

const NAMES: [&str; 4] = ["one-mine", "two-mine", "one-other", "two-other"];

/// A verb: its method, whether it has a name and which part, what the query needs.
struct Verb {
    name: &'static str,
    method: &'static str,
    part: &'static str,
    query: &'static str,
}

const VERBS: [Verb; 11] = [
    Verb { name: "list", method: "GET", part: "", query: "" },
    Verb { name: "watch", method: "GET", part: "", query: "watch=true" },
    Verb { name: "get", method: "GET", part: "/one-mine", query: "" },
    Verb { name: "create", method: "POST", part: "", query: "" },
    Verb { name: "update", method: "PUT", part: "/one-mine", query: "" },
    Verb { name: "patch", method: "MERGE", part: "/one-mine", query: "" },
    Verb { name: "apply", method: "APPLY", part: "/one-mine", query: "fieldManager=x" },
    Verb { name: "delete", method: "DELETE", part: "/one-mine", query: "" },
    Verb { name: "deletecollection", method: "DELETE", part: "", query: "" },
    Verb { name: "get of a part", method: "GET", part: "/one-mine/status", query: "" },
    Verb { name: "update of a part", method: "PUT", part: "/one-mine/status", query: "" },
];

/// Whether docs/lists.md says that a parameter works with a verb.
fn works(parameter: &str, verb: &str) -> bool {
    match verb {
        "list" => true,
        "watch" => matches!(parameter, "authorized" | "drop" | "fields" | "filter"),
        "get" => matches!(parameter, "drop" | "fields"),
        _ => false,
    }
}

/// A resource in a scope.
struct Place {
    url: &'static str,
    resource: &'static str,
    has_parts: bool,
    is_custom: bool,
}

const PLACES: [Place; 5] = [
    Place { url: "/api/v1/namespaces/a/configmaps", resource: "configmaps", has_parts: false, is_custom: false },
    Place { url: "/api/v1/configmaps", resource: "configmaps", has_parts: false, is_custom: false },
    Place { url: "/api/v1/persistentvolumes", resource: "persistentvolumes", has_parts: true, is_custom: false },
    Place { url: "/apis/example.com/v1/namespaces/a/widgets", resource: "widgets", has_parts: false, is_custom: true },
    Place { url: "/apis/example.com/v1/widgets", resource: "widgets", has_parts: false, is_custom: true },
];

async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    let maps = cluster.api.snapshot().catalog.get("", "v1", "configmaps").unwrap().clone();
    cluster.api.catalog.change(&[std::sync::Arc::new(support::widgets(&maps))], &[]);
    for name in NAMES {
        for path in [&["namespaces", "a", "configmaps"][..], &["persistentvolumes"]] {
            let mut object = if path.len() > 1 { map(value!({"a": "b"})) } else { value!({"spec": {}}) };
            object.set_meta_str("name", name);
            object.set(&["metadata", "annotations"], value!({"x": "annotated"}));
            cluster.must("POST", path, object).await;
        }
    }
    let names: Vec<&str> = NAMES.into_iter().filter(|name| name.contains("mine")).collect();
    let rules = value!([{
        "verbs": ["get", "list", "watch"], "apiGroups": ["", "example.com"], "resources": ["configmaps", "persistentvolumes", "widgets"],
        "resourceNames": (names)
    }]);
    cluster.must("POST", &["clusterroles"], value!({"metadata": {"name": "mine"}, "rules": (rules)})).await;
    cluster.must("POST", &["clusterrolebindings"], binding("mine", "mine")).await;
    cluster
}

/// Reads a body until it has all these texts, or to its end.
async fn read(mut body: support::ResponseBody, texts: &BTreeSet<&str>) -> Vec<u8> {
    let mut all: Vec<u8> = Vec::new();
    let has = |all: &[u8], text: &str| memchr::memmem::find(all, text.as_bytes()).is_some();
    while !texts.iter().all(|text| has(&all, text)) {
        let frame = tokio::time::timeout(Duration::from_secs(60), body.frame()).await.unwrap();
        match frame {
            Some(frame) => all.extend(frame.unwrap().into_data().unwrap_or_default()),
            None => break,
        }
    }
    all
}

#[tokio::test]
async fn every_parameter_works_or_is_refused() {
    let cluster = cluster().await;
    assert_eq!(PARAMETERS.map(|parameter| parameter.name), rest::LIST_PARAMETERS);
    let (mut worked, mut refused) = (0, 0);
    for asked in &PARAMETERS {
        for place in &PLACES {
            for verb in &VERBS {
                if verb.part.ends_with("/status") && !place.has_parts
                    || !verb.part.is_empty() && !place.url.contains("/a/") && place.resource != "persistentvolumes"
                {
                    continue;
                }
                let query = [asked.query, verb.query].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
                let url = [place.url, verb.part, "?", &query.join("&")].concat();
                for form in FORMS {
                    if works(asked.name, verb.name) {
                        worked += usize::from(shows(&cluster, asked, place, verb, &url, form).await);
                    } else {
                        refuses(&cluster, asked, verb, &url, form).await;
                        refused += 1;
                    }
                }
            }
        }
    }
    // What is in the matrix stays there.
    assert!(worked >= 350 && refused >= 1000, "{worked} answers and {refused} refusals");
    // Nothing was changed by what was refused.
    for url in ["/api/v1/configmaps?count=true", "/api/v1/persistentvolumes?count=true"] {
        let (_, counted) = cluster.server.ask("GET", url, Value::Null).await;
        assert_eq!(counted.field("count").as_int(), Some(4), "{url}");
    }
}

/// Checks an answer. False if the form cannot be had of this resource, which has nothing to do with the parameter.
async fn shows(cluster: &Cluster, asked: &Asked, place: &Place, verb: &Verb, url: &str, form: &str) -> bool {
    let plain_url = [place.url, verb.part, "?", verb.query].concat();
    let plain = send(&cluster.api, "GET", &plain_url, Body::Empty, form).await.status().as_u16();
    let response = match asked.name {
        "authorized" => send_as(&cluster.api, &cluster.alice, url, form).await.unwrap(),
        _ => send(&cluster.api, "GET", url, Body::Empty, form).await,
    };
    let code = response.status().as_u16();
    let is_count = matches!(asked.name, "count" | "groupBy");
    if is_count && (form.contains("protobuf") || form.contains("as=")) {
        assert_eq!(code, 406, "{url} as {form}");
        return true;
    }
    assert_eq!(code, plain, "{url} as {form}");
    if code != 200 {
        assert!(place.is_custom || verb.name != "list", "{url} as {form}: {code}");
        return false;
    }
    let is_shown = |name: &&str| match verb.name {
        "get" => *name == "one-mine",
        _ => name.contains(asked.leaves),
    };
    let shown: BTreeSet<&str> = NAMES.into_iter().filter(is_shown).collect();
    let is_named = asked.name != "count";
    let wanted = if is_named { shown.clone() } else { BTreeSet::new() };
    let body = match verb.name {
        "watch" => read(response.into_body(), &wanted).await,
        _ => response.into_body().collect().await.unwrap().to_bytes().to_vec(),
    };
    let has = |text: &str| memchr::memmem::find(&body, text.as_bytes()).is_some();
    for name in NAMES {
        assert_eq!(has(name), wanted.contains(name), "{url} as {form}: {}", String::from_utf8_lossy(&body));
    }
    let dropped = !asked.drops.is_empty() && has(asked.drops);
    assert!(!dropped, "{url} as {form}: {}", String::from_utf8_lossy(&body));
    if asked.name == "sortBy" && verb.name == "list" {
        let at = |name: &str| memchr::memmem::find(&body, name.as_bytes()).unwrap();
        let mut sorted = NAMES;
        sorted.sort_by_key(|name| at(name));
        assert_eq!(sorted, ["two-other", "two-mine", "one-other", "one-mine"], "{url} as {form}");
    }
    true
}

async fn refuses(cluster: &Cluster, asked: &Asked, verb: &Verb, url: &str, form: &str) {
    let mut object = Value::Null;
    if matches!(verb.method, "POST" | "PUT" | "MERGE" | "APPLY") {
        object = value!({"metadata": {"name": "one-mine"}});
    }
    let mut json = Vec::new();
    codec::json::encode(&object, None, &mut json);
    let body = if object.is_null() { Body::Empty } else { Body::Ready(json.into()) };
    let response = send(&cluster.api, verb.method, url, body, form).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    // A form that there is none of, or a method that the resource does not have, is refused before.
    let names = text.contains(asked.name) || asked.name == "groupBy" && text.contains("count");
    assert!(
        code == 400 && names || matches!(code, 404 | 405 | 406 | 415),
        "{} {url} as {form}: {code} {text}",
        verb.method
    );
}
