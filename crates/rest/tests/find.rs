//! `find`: objects of all kinds, against a model that asks the authorizer about single objects and looks at each of them.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use object::{Meta, Value, value};
use request::{Access, User};
use rest::Limits;
use support::cluster::{Cluster, Dice, NAMES, NAMESPACES, RBAC, binding};
use support::{decoded, send_as};

const FIND: &str = "/apis/lists.ferrokube.io/v1alpha1/find?q=";
const RESOURCES: [(&str, &str); 3] =
    [("ConfigMap", "configmaps"), ("Secret", "secrets"), ("ServiceAccount", "serviceaccounts")];

async fn cluster() -> Cluster {
    let limits = Limits { redact_secrets_for: vec!["dashboards".into()], ..Limits::default() };
    let cluster = Cluster::with(limits).await;
    let mut dice = Dice(11);
    for (kind, resource) in RESOURCES {
        for namespace in NAMESPACES {
            for name in NAMES {
                let mut object = value!({
                    "metadata": {
                        "name": ([name, "-", dice.pick(&["web", "db"])].concat()),
                        "labels": {"app": (dice.pick(&["web", "db"])), "kind": kind},
                        "ownerReferences": [
                            {"apiVersion": "v1", "kind": "Node", "name": (dice.pick(&["n1", "n2"])), "uid": (dice.pick(&["u1", "u2"]))}
                        ]
                    }
                });
                match kind {
                    "ConfigMap" => {
                        object.set(&["data"], value!({"image": (dice.pick(&["nginx", "redis"])), "text": "two words"}))
                    }
                    "Secret" => object.set(&["data"], value!({"key": "bWFyemlwYW4="})),
                    _ => {}
                }
                cluster.must("POST", &["namespaces", namespace, resource], object).await;
            }
        }
    }
    for (name, resources, names) in [
        ("maps", vec!["configmaps"], vec![]),
        ("secrets", vec!["secrets"], vec![]),
        ("named", vec!["configmaps", "serviceaccounts"], vec!["w-web", "w-db", "x-web"]),
    ] {
        let rules =
            value!([{"verbs": ["list"], "apiGroups": [""], "resources": (resources), "resourceNames": (names)}]);
        cluster.must("POST", &["clusterroles"], value!({"metadata": {"name": name}, "rules": (rules)})).await;
    }
    cluster
}

/// Kind, namespace and name of what alice may list, of the objects that the test has made.
async fn model(cluster: &Cluster, keep: impl Fn(&str, &Value) -> bool) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for (kind, resource) in RESOURCES {
        let (_, all) = cluster.server.ask("GET", &["/api/v1/", resource].concat(), Value::Null).await;
        for object in all.list_at(&["items"]).iter().filter(|object| keep(kind, object)) {
            let access = |name| Access {
                namespace: object.namespace(),
                resource,
                version: "v1",
                name,
                ..Access::to_resource(&cluster.alice, "list")
            };
            let whole = cluster.api.authorizer.decide(&access("")).await.is_allowed();
            if whole || cluster.api.authorizer.decide(&access(object.name())).await.is_allowed() {
                seen.insert([kind, object.namespace(), object.name()].join("/"));
            }
        }
    }
    seen
}

/// What is found, on all pages, each of which may have `limit` objects.
async fn found(cluster: &Cluster, query: &str, limit: usize) -> Vec<String> {
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let next = if token.is_empty() { String::new() } else { ["&continue=", &token].concat() };
        let page = cluster.get(&[FIND, query, "&limit=", &limit.to_string(), &next].concat()).await.unwrap();
        let items = page.list_at(&["items"]);
        assert!(items.len() <= limit);
        for item in items {
            assert!(!item.uid().is_empty() && item.api_version() == "v1", "{item:?}");
            assert!(item.at(&["metadata", "managedFields"]).is_null() && item.field("data").is_null(), "{item:?}");
            all.push([item.kind(), item.namespace(), item.name()].join("/"));
        }
        token = page.str_at(&["metadata", "continue"]).to_string();
        if token.is_empty() {
            return all;
        }
    }
}

type Keep = fn(&str, &Value) -> bool;

#[tokio::test]
async fn everything_that_may_be_listed_is_found() {
    let cluster = cluster().await;
    let label = |object: &Value, name: &str| object.str_at(&["metadata", "labels", name]).to_string();
    assert_eq!(label(&value!({}), "app"), "");
    let owner = |object: &Value| object.list_at(&["metadata", "ownerReferences"])[0].clone();
    assert!(owner(&value!({"metadata": {"ownerReferences": [{"name": "x"}]}})).name().is_empty());
    let queries: [(&str, Keep); 13] = [
        ("web", |_, o| o.name().contains("web")),
        ("x- web", |_, o| o.name().contains("x-") && o.name().contains("web")),
        ("name:nothing-like-that", |_, _| false),
        ("label:app", |_, _| true),
        ("label:app=web", |_, o| o.str_at(&["metadata", "labels", "app"]) == "web"),
        ("label:app=db label:kind=Secret", |kind, o| {
            kind == "Secret" && o.str_at(&["metadata", "labels", "app"]) == "db"
        }),
        ("label:kind resource:configmap", |kind, _| kind == "ConfigMap"),
        ("label:kind resource:cm namespace:b", |kind, o| kind == "ConfigMap" && o.namespace() == "b"),
        ("image:ngin", |_, o| o.str_at(&["data", "image"]) == "nginx"),
        ("owner:n1", |_, o| o.list_at(&["metadata", "ownerReferences"])[0].str_at(&["name"]) == "n1"),
        ("owner:u2 label:app=web", |_, o| {
            o.list_at(&["metadata", "ownerReferences"])[0].str_at(&["uid"]) == "u2"
                && o.str_at(&["metadata", "labels", "app"]) == "web"
        }),
        ("text:\"two words\"", |kind, _| kind == "ConfigMap"),
        ("field:data.image=redis", |_, o| o.str_at(&["data", "image"]) == "redis"),
    ];
    let bind = async |namespace: &str, role: &str| {
        cluster.must("POST", &["namespaces", namespace, "rolebindings"], binding(role, role)).await;
    };
    for round in 0..5 {
        match round {
            1 => bind("a", "maps").await,
            2 => bind("b", "named").await,
            3 => {
                bind("c", "secrets").await;
                bind("c", "named").await;
            }
            4 => cluster.must("POST", &["clusterrolebindings"], binding("maps", "maps")).await,
            _ => {}
        }
        for (query, keep) in queries {
            let want = model(&cluster, keep).await;
            for limit in [1, 3, 500] {
                let got = found(&cluster, query, limit).await;
                assert_eq!(got.len(), want.len(), "round {round}, {query}: {got:?} instead of {want:?}");
                assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), want, "round {round}, {query}");
            }
        }
    }
    // By its uid, and what was written a moment ago.
    let made = value!({"metadata": {"name": "late"}});
    let (_, made) = cluster.ask("POST", &["namespaces", "d", "configmaps"], made).await;
    assert_eq!(found(&cluster, &["uid:", made.uid()].concat(), 10).await, ["ConfigMap/d/late"]);
    assert_eq!(found(&cluster, "late", 10).await, ["ConfigMap/d/late"]);
}

#[tokio::test]
async fn values_of_secrets_are_not_found() {
    let cluster = cluster().await;
    let count = async |user: &User, query: &str| {
        let response = send_as(&cluster.api, user, &[FIND, query].concat(), "").await.unwrap();
        let answer = decoded(&response.into_body().collect().await.unwrap().to_bytes());
        let mut json = Vec::new();
        codec::json::encode(&answer, None, &mut json);
        assert!(!String::from_utf8_lossy(&json).contains("bWFy"));
        answer.list_at(&["items"]).len()
    };
    let (value, all) = ("text:bWFyemlwYW4= resource:secrets", "label:kind=Secret");
    assert_eq!((count(&cluster.alice, value).await, count(&cluster.alice, all).await), (0, 0));
    cluster.must("POST", &["clusterrolebindings"], binding("secrets", "secrets")).await;
    assert_eq!((count(&cluster.alice, value).await, count(&cluster.alice, all).await), (16, 16));
    let mut dashboard = cluster.alice.clone();
    dashboard.groups.push("dashboards".into());
    assert_eq!((count(&dashboard, value).await, count(&dashboard, all).await), (0, 16));
    // Who may list them redacted in one namespace, and whole in another.
    cluster.must("DELETE", &["clusterrolebindings", "secrets"], Value::Null).await;
    let rules = value!([{"verbs": ["list-redacted"], "apiGroups": [""], "resources": ["secrets"]}]);
    cluster.must("POST", &["clusterroles"], value!({"metadata": {"name": "redacted"}, "rules": (rules)})).await;
    cluster.must("POST", &["clusterrolebindings"], binding("redacted", "redacted")).await;
    cluster.must("POST", &["namespaces", "a", "rolebindings"], binding("secrets", "secrets")).await;
    assert_eq!((count(&cluster.alice, value).await, count(&cluster.alice, all).await), (4, 16));
}

#[tokio::test]
async fn what_cannot_be_found_is_refused() {
    let cluster = cluster().await;
    let get = async |url: &str| {
        let url = ["/apis/lists.ferrokube.io/v1alpha1/", url].concat();
        cluster.get(&url).await.map(drop).map_err(|(code, why)| format!("{code} {why}"))
    };
    cluster.must("POST", &["clusterrolebindings"], binding("maps", "maps")).await;
    let page = cluster.get(&[FIND, "label:kind&limit=1"].concat()).await.unwrap();
    let token = page.str_at(&["metadata", "continue"]).to_string();
    for (url, why) in [
        ("find", r#"400 the parameter "q" must not be empty"#),
        ("find?q=", r#"400 the parameter "q" must not be empty"#),
        ("find?q=a&q=b", r#"400 the parameter "q" is given more than once"#),
        ("find?q=a&filter=true", r#"400 the parameter "filter" cannot be used with find"#),
        ("find?q=a&labelSelector=x", r#"400 the parameter "labelSelector" cannot be used with find"#),
        ("find?q=lable:a", r#"400 the parameter "q" has the term "lable:a", which begins with none of name, "#),
        ("find?q=a resource:nothing", r#"400 the parameter "q" names no resource that there is: nothing"#),
        ("find?q=a&limit=x", "400 "),
        ("find?q=a&continue=x", "400 invalid continue token: "),
        (&format!("find?q=other&continue={token}"), "400 invalid continue token: it is of another query"),
        ("find?q=a&watch=true", r#"403 find.lists.ferrokube.io is forbidden: User "alice" cannot watch resource"#),
        ("find/x?q=a", r#"403 find.lists.ferrokube.io "x" is forbidden"#),
        ("namespaces/a/find?q=a", "403 find.lists.ferrokube.io is forbidden"),
    ] {
        let got = get(url).await.unwrap_err();
        assert!(got.starts_with(why), "{url}: {got}");
    }
    assert_eq!(get("find?q=nothing").await, Ok(()));
    // The administrator is told that there is nothing else.
    for (method, url, code) in [
        ("POST", "/apis/lists.ferrokube.io/v1alpha1/find", 405),
        ("GET", "/apis/lists.ferrokube.io/v1alpha1/find/x", 404),
        ("GET", "/apis/lists.ferrokube.io/v1alpha1/namespaces/a/find?q=a", 404),
        ("GET", "/apis/lists.ferrokube.io/v1/find?q=a", 404),
        ("GET", "/apis/lists.ferrokube.io/v1alpha1/lose?q=a", 404),
        ("GET", "/apis/lists.ferrokube.io/v1alpha1/find?q=a&watch=true", 405),
    ] {
        let response = support::send(&cluster.api, method, url, rest::Body::Empty, "").await;
        assert_eq!(response.status().as_u16(), code, "{method} {url}");
    }
    let anonymous = send_as(&cluster.api, &User::anonymous(), &[FIND, "a"].concat(), "").await;
    assert_eq!(anonymous.map(drop).map_err(|status| status.code), Err(403));
    assert!(RBAC.starts_with("rbac"));
}

/// Tokens that clients make themselves lead nowhere that their user may not see, and never to an error of the server.
#[tokio::test]
async fn made_up_tokens_show_nothing_else() {
    use base64::Engine;
    let cluster = cluster().await;
    cluster.must("POST", &["namespaces", "b", "rolebindings"], binding("maps", "maps")).await;
    let want = model(&cluster, |_, o| !o.name().is_empty()).await;
    for (group, resource, start) in [
        ("", "configmaps", "a/w-web"),
        ("", "configmaps", "zzz"),
        ("", "secrets", "a/w-web"),
        ("", "aaa", "x"),
        ("zzz", "zzz", "x"),
        ("", "configmaps", "../secrets/a"),
        ("", "configmaps", "b/"),
        ("", "configmaps", "\0"),
    ] {
        let token = value!({"v": "lists.ferrokube.io/v1alpha1", "q": "label:kind", "group": group, "resource": resource, "start": start});
        let mut json = Vec::new();
        codec::json::encode(&token, None, &mut json);
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json);
        match cluster.get(&[FIND, "label:kind&continue=", &token].concat()).await {
            Ok(page) => {
                let items = page.list_at(&["items"]).iter();
                let all: BTreeSet<String> = items.map(|o| [o.kind(), o.namespace(), o.name()].join("/")).collect();
                assert!(all.is_subset(&want), "{group} {resource} {start}: {all:?}");
            }
            Err((code, why)) => assert_eq!(code, 400, "{why}"),
        }
    }
}
