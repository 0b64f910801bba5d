//! `authorized`: lists and watches of what their user may see, while roles and objects change, against a model that asks the authorizer
//! about single objects.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use authz::rbac::{Rbac, Sources};
use http_body_util::BodyExt;
use object::{Meta, Value, value};
use registry::Setup;
use request::{Access, User};
use rest::{Api, Limits};
use storage::memory::MemoryStore;
use support::{Server, Watch, decoded, map, send_as, setup};

const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];
const NAMES: [&str; 4] = ["w", "x", "y", "z"];
const MAPS: &str = "/api/v1/configmaps";

/// Key → resourceVersion.
type Objects = BTreeMap<String, String>;

struct Cluster {
    api: Arc<Api>,
    server: Server,
    alice: User,
}

impl Cluster {
    async fn new() -> Cluster {
        let enabled = Box::new(|resource: &object::GroupVersionResource, _: bool| {
            resource.group.is_empty() || resource.group == RBAC
        });
        let setup = Setup { enabled, ..setup(Arc::new(MemoryStore::new())) };
        let server = Server::built(setup, Vec::new(), &[], Limits::default()).await;
        let mut api = Arc::into_inner(server.0).unwrap();
        let catalog = api.catalog.load_full();
        let stored = |name: &str| catalog.stored(RBAC, name).unwrap().direct().unwrap();
        api.authorizer = Arc::new(Rbac::new(Sources {
            cluster_roles: stored("clusterroles"),
            roles: stored("roles"),
            cluster_role_bindings: stored("clusterrolebindings"),
            role_bindings: stored("rolebindings"),
        }));
        let api = Arc::new(api);
        let groups = vec![User::AUTHENTICATED.to_string()];
        let alice = User { name: "alice".into(), groups, ..User::default() };
        let cluster = Cluster { server: Server(api.clone()), api, alice };
        let rule = |verbs: &[&str], names: &[&str]| value!([{"verbs": (verbs.to_vec()), "apiGroups": [""], "resources": ["configmaps"], "resourceNames": (names.to_vec())}]);
        for (name, rules) in [
            ("all", rule(&["list", "watch"], &[])),
            ("some", rule(&["list", "watch"], &["x", "z"])),
            ("get", rule(&["get"], &[])),
        ] {
            let role = value!({"metadata": {"name": name}, "rules": (rules)});
            cluster.must("POST", &["clusterroles"], role).await;
        }
        cluster
    }

    async fn ask(&self, method: &str, path: &[&str], body: Value) -> (u16, Value) {
        let base = if path.contains(&"configmaps") { "/api/v1" } else { "/apis/rbac.authorization.k8s.io/v1" };
        self.server.ask(method, &[&[base], path].concat().join("/"), body).await
    }

    async fn must(&self, method: &str, path: &[&str], body: Value) {
        let (code, answer) = self.ask(method, path, body).await;
        assert!(code < 300, "{method} {path:?}: {answer:?}");
    }

    async fn list(&self, query: &str) -> Result<Value, u16> {
        let response =
            send_as(&self.api, &self.alice, &[MAPS, query].concat(), "").await.map_err(|status| status.code)?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        if code == 200 { Ok(decoded(&bytes)) } else { Err(code) }
    }

    async fn watch(&self, query: &str) -> Watch {
        let response = send_as(&self.api, &self.alice, &[MAPS, "?watch=true&", query].concat(), "").await.unwrap();
        Watch::of(response).await.unwrap()
    }

    /// What alice would get if she asked for each object alone.
    async fn model(&self, keep: fn(&Value) -> bool) -> Objects {
        let (_, all) = self.server.ask("GET", MAPS, Value::Null).await;
        let mut visible = Objects::new();
        for object in all.list_at(&["items"]).iter().filter(|object| keep(object)) {
            let access = |name| Access {
                namespace: object.namespace(),
                resource: "configmaps",
                version: "v1",
                name,
                ..Access::to_resource(&self.alice, "list")
            };
            let whole = self.api.authorizer.decide(&access("")).await.is_allowed();
            if whole || self.api.authorizer.decide(&access(object.name())).await.is_allowed() {
                visible.insert(key(object), object.resource_version().to_string());
            }
        }
        visible
    }
}

fn key(object: &Value) -> String {
    [object.namespace(), object.name()].join("/")
}

fn objects(list: &Value) -> Objects {
    list.list_at(&["items"]).iter().map(|object| (key(object), object.resource_version().to_string())).collect()
}

fn binding(name: &str, role: &str) -> Value {
    value!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "alice"}]
    })
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'s>(&mut self, of: &[&'s str]) -> &'s str {
        of[self.roll(of.len())]
    }
}

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
