//! `authorized`: lists and watches of what their user may see, while roles and objects change, against a model that asks the authorizer
//! about single objects.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use object::{Meta, Value, value};
use request::User;
use support::cluster::{Cluster, Dice, MAPS, NAMES, NAMESPACES, Objects, binding, key, objects};
use support::{Watch, map, send_as};

/// Changes an object or a role.
async fn change(cluster: &Cluster, dice: &mut Dice, step: usize) {
    let namespace = dice.pick(&NAMESPACES);
    let name = dice.pick(&NAMES);
    let step = step.to_string();
    match dice.roll(12) {
        0..=4 => {
            let mut object = map(value!({"even": (dice.pick(&["yes", "no"])), "step": (step.as_str())}));
            object.set_meta_str("name", name);
            let path = ["namespaces", namespace, "configmaps"];
            if cluster.ask("POST", &path, object.clone()).await.0 == 409 {
                let path = ["namespaces", namespace, "configmaps", name];
                cluster.must("MERGE", &path, value!({"data": (object.field("data").clone())})).await;
            }
        }
        5..=6 => drop(cluster.ask("DELETE", &["namespaces", namespace, "configmaps", name], Value::Null).await),
        7..=8 => {
            let role = dice.pick(&["all", "some", "get", "none"]);
            let _ = cluster.ask("POST", &["namespaces", namespace, "rolebindings"], binding(role, role)).await;
        }
        9 => {
            let role = dice.pick(&["all", "some", "get", "none"]);
            let _ = cluster.ask("DELETE", &["namespaces", namespace, "rolebindings", role], Value::Null).await;
        }
        10 => {
            let names = dice.pick(&["w", "x", "y", "z"]);
            let rules = value!([{"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [names, "z"]}]);
            cluster.must("MERGE", &["clusterroles", "some"], value!({"rules": (rules)})).await;
        }
        _ if dice.roll(3) == 0 => drop(cluster.ask("POST", &["clusterrolebindings"], binding("all", "all")).await),
        _ => drop(cluster.ask("DELETE", &["clusterrolebindings", "all"], Value::Null).await),
    }
}

/// What an informer has, and what it may ever have been told.
#[derive(Default)]
struct Informer {
    objects: Objects,
    /// Each object in each state that was visible at some time.
    visible: BTreeSet<(String, String)>,
}

impl Informer {
    fn allow(&mut self, model: &Objects) {
        self.visible.extend(model.iter().map(|(key, version)| (key.clone(), version.clone())));
    }

    fn apply(&mut self, event: &str, object: &Value) {
        let (key, version) = (key(object), object.resource_version().to_string());
        let was_known = match event {
            "DELETED" => self.objects.remove(&key).is_some(),
            _ => {
                assert!(
                    self.visible.contains(&(key.clone(), version.clone())),
                    "{event} {key} {version} was never visible"
                );
                self.objects.insert(key.clone(), version).is_some()
            }
        };
        assert_eq!(was_known, event != "ADDED", "{event} {key}");
    }
}

async fn next(watch: &mut Watch) -> (String, Value) {
    tokio::time::timeout(Duration::from_secs(60), watch.next()).await.expect("no event in a minute").unwrap()
}

/// A watch through changes of roles and objects: whenever it is waited for, it has what single requests would give.
async fn follows(filter: &str, keep: fn(&Value) -> bool, seed: u64, steps: usize) {
    let cluster = Cluster::new().await;
    let mut dice = Dice(seed);
    let query = ["authorized=true", filter].concat();
    let mut watch = cluster.watch(&query).await;
    let mut informer = Informer::default();
    let mut step = 0;
    while step < steps {
        // Several changes at once now and then, so that events and changes of roles come together.
        for _ in 0..=dice.roll(4) {
            change(&cluster, &mut dice, step).await;
            informer.allow(&cluster.model(keep).await);
            step += 1;
        }
        let want = cluster.model(keep).await;
        while informer.objects != want {
            let (event, object) = next(&mut watch).await;
            assert!(event != "ERROR", "step {step}: {object:?}");
            informer.apply(&event, &object);
        }
        let listed = cluster.list(&["?", &query].concat()).await.unwrap();
        assert_eq!(objects(&listed), want, "step {step}");
        let counted = cluster.list(&["?count=true&", &query].concat()).await.unwrap();
        assert_eq!(counted.field("count").as_int(), Some(want.len() as i64), "step {step}");
        if dice.roll(20) == 0 {
            // A client that comes back goes on where it was, or is told to list again.
            watch = cluster.watch(&[&query, "&resourceVersion=", listed.resource_version()].concat()).await;
        }
    }
}

#[tokio::test]
async fn informers_are_right_through_changes_of_roles_and_objects() {
    for seed in 1..=4 {
        follows("", |_| true, seed, 400).await;
    }
}

#[tokio::test]
async fn filters_follow_roles_too() {
    follows("&filter=object.data.even=='yes'", |object| object.str_at(&["data", "even"]) == "yes", 7, 600).await;
}

#[tokio::test]
async fn pages_and_orders_tell_nothing_of_what_is_hidden() {
    let cluster = Cluster::new().await;
    for (at, namespace) in NAMESPACES.iter().enumerate() {
        for name in NAMES {
            // An expression over what is hidden would fail: there is no such field.
            let data = if at % 2 == 0 { value!({"n": (name), "seen": "yes"}) } else { value!({"n": "0"}) };
            let mut object = map(data);
            object.set_meta_str("name", name);
            cluster.must("POST", &["namespaces", namespace, "configmaps"], object).await;
        }
    }
    assert_eq!(cluster.list("").await, Err(403));
    assert_eq!(cluster.list("?authorized=false").await, Err(403));
    let none = cluster.list("?authorized=true").await.unwrap();
    assert_eq!((none.list_at(&["items"]).len(), none.at(&["metadata", "remainingItemCount"]).is_null()), (0, true));
    for namespace in ["a", "c"] {
        cluster.must("POST", &["namespaces", namespace, "rolebindings"], binding("all", "all")).await;
    }
    let want = ["a/w", "a/x", "a/y", "a/z", "c/w", "c/x", "c/y", "c/z"];
    for query in [
        "limit=3",
        "limit=3&filter=object.data.seen=='yes'",
        "limit=3&sortBy=metadata.namespace,data.n",
        "fields=data.n",
    ] {
        let (mut got, mut token) = (Vec::new(), String::new());
        loop {
            let next = if token.is_empty() { String::new() } else { ["&continue=", &token].concat() };
            let page = cluster.list(&["?authorized=true&", query, &next].concat()).await.unwrap();
            got.extend(page.list_at(&["items"]).iter().map(key));
            token = page.str_at(&["metadata", "continue"]).to_string();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(got, want, "{query}");
    }
    let grouped = cluster.list("?authorized=true&count=true&groupBy=metadata.namespace").await.unwrap();
    let groups: Vec<_> =
        grouped.list_at(&["groups"]).iter().map(|group| group.list_at(&["values"])[0].clone()).collect();
    assert_eq!(groups, [Value::from("a"), Value::from("c")]);
    // Who is not known is told nothing.
    let anonymous = send_as(&cluster.api, &User::anonymous(), &[MAPS, "?authorized=true"].concat(), "").await;
    assert_eq!(anonymous.map(|_| ()).map_err(|status| status.code), Err(403));
}

/// `namespaceObject` needs the right to get the namespace, and tells nothing of the namespaces of hidden objects.
#[tokio::test]
async fn filters_look_at_namespaces_that_their_user_may_get() {
    let cluster = Cluster::new().await;
    for namespace in NAMESPACES {
        cluster
            .must("POST", &["namespaces"], value!({"metadata": {"name": namespace, "labels": {"seen": namespace}}}))
            .await;
        let mut object = map(value!({"a": "b"}));
        object.set_meta_str("name", "w");
        cluster.must("POST", &["namespaces", namespace, "configmaps"], object).await;
    }
    let rule = value!([{"verbs": ["get"], "apiGroups": [""], "resources": ["namespaces"]}]);
    cluster.must("POST", &["clusterroles"], value!({"metadata": {"name": "namespaces"}, "rules": (rule)})).await;
    for (namespace, role) in [("a", "all"), ("a", "namespaces"), ("b", "all"), ("c", "namespaces")] {
        cluster.must("POST", &["namespaces", namespace, "rolebindings"], binding(role, role)).await;
    }
    let query = "?authorized=true&filter=namespaceObject.metadata.labels.seen!=''";
    let why = cluster.get(&[MAPS, query].concat()).await.unwrap_err();
    let text = r#"namespaces "b" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "b""#;
    assert_eq!(why, (403, text.to_string()));
    cluster.must("POST", &["namespaces", "b", "rolebindings"], binding("namespaces", "namespaces")).await;
    let list = cluster.list(query).await.unwrap();
    assert_eq!(objects(&list).into_keys().collect::<Vec<_>>(), ["a/w", "b/w"]);
    // What is known of a namespace follows roles like everything else.
    let mut watch = cluster.watch(&query[1..]).await;
    assert_eq!(watch.names(2).await, ["ADDED w", "ADDED w"]);
    cluster.must("DELETE", &["namespaces", "a", "rolebindings", "all"], Value::Null).await;
    let (event, object) = next(&mut watch).await;
    assert_eq!((event.as_str(), key(&object).as_str()), ("DELETED", "a/w"));
}

/// Secrets of a user whose roles allow `list-redacted` and not `list`.
#[tokio::test]
async fn a_verb_allows_secrets_without_their_values() {
    let cluster = Cluster::new().await;
    for namespace in ["a", "b"] {
        let secret = value!({"metadata": {"name": "s"}, "data": {"key": "c2VjcmV0"}});
        cluster.must("POST", &["namespaces", namespace, "secrets"], secret).await;
    }
    let rule = value!([{"verbs": ["list-redacted"], "apiGroups": [""], "resources": ["secrets", "configmaps"]}]);
    cluster.must("POST", &["clusterroles"], value!({"metadata": {"name": "redacted"}, "rules": (rule)})).await;
    cluster.must("POST", &["namespaces", "a", "rolebindings"], binding("redacted", "redacted")).await;
    let a = "/api/v1/namespaces/a/secrets";
    let list = cluster.get(a).await.unwrap();
    let one = cluster.get(&[a, "s"].join("/")).await.unwrap();
    for secret in [&list.list_at(&["items"])[0], &one] {
        let sizes = secret.at(&["metadata", "annotations", "lists.ferrokube.io/redacted"]).as_str();
        assert_eq!((secret.str_at(&["data", "key"]), sizes), ("", Some(r#"{"key":6}"#)));
    }
    let counted = cluster.get(&[a, "?count=true&groupBy=data.key"].concat()).await.unwrap();
    assert_eq!(counted.list_at(&["groups"])[0].list_at(&["values"]), [Value::from("")]);
    let response = send_as(&cluster.api, &cluster.alice, &[a, "?watch=true"].concat(), "").await.unwrap();
    let (event, told) = next(&mut Watch::of(response).await.unwrap()).await;
    assert_eq!((event.as_str(), told.str_at(&["data", "key"])), ("ADDED", ""));
    for url in [
        "/api/v1/secrets",
        "/api/v1/namespaces/b/secrets",
        "/api/v1/namespaces/a/configmaps",
        "/api/v1/namespaces/a/secrets/s/history",
    ] {
        assert_eq!(cluster.get(url).await.map_err(|(code, _)| code), Err(403), "{url}");
    }
    // Who may list them sees them whole.
    let rule = value!([{"verbs": ["list", "get"], "apiGroups": [""], "resources": ["secrets"]}]);
    cluster.must("POST", &["clusterroles"], value!({"metadata": {"name": "whole"}, "rules": (rule)})).await;
    cluster.must("POST", &["namespaces", "a", "rolebindings"], binding("whole", "whole")).await;
    assert_eq!(cluster.get(&[a, "s"].join("/")).await.unwrap().str_at(&["data", "key"]), "c2VjcmV0");
}
