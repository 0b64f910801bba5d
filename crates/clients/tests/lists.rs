//! kube-rs with the header `Ferrokube-Authorized`: a watcher over all namespaces of a user who may see some of them, through changes of
//! roles and objects, against single GETs of the same user.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::BTreeMap;
use std::time::Duration;

use clients::TestServer;
use futures::{StreamExt, TryStreamExt};
use http::{HeaderName, HeaderValue};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, Config, Resource, ResourceExt};
use serde_json::json;

const SOON: Duration = Duration::from_secs(60);
const NAMESPACES: [&str; 3] = ["lists-a", "lists-b", "lists-c"];
const NAMES: [&str; 3] = ["x", "y", "z"];

/// The administrator, and alice with the header.
async fn clients(server: &TestServer) -> (Client, Client) {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let admin = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let mut alice = admin.clone();
    alice.auth_info = AuthInfo { token: Some("user-token".to_string().into()), ..AuthInfo::default() };
    alice.headers.push((HeaderName::from_static("ferrokube-authorized"), HeaderValue::from_static("true")));
    (Client::try_from(admin).unwrap(), Client::try_from(alice).unwrap())
}

async fn create<K>(api: &Api<K>, object: serde_json::Value) -> bool
where
    K: Resource + Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(other) => panic!("{other}"),
    }
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn pick<'s>(&mut self, of: &[&'s str]) -> &'s str {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of[(self.0 >> 33) as usize % of.len()]
    }
}

async fn change(admin: &Client, dice: &mut Dice, step: usize) {
    let namespace = dice.pick(&NAMESPACES);
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), namespace);
    let name = dice.pick(&NAMES);
    match dice.pick(&["write", "write", "write", "delete", "bind", "bind", "unbind"]) {
        "write" => {
            let data = json!({"step": step.to_string()});
            if !create(&maps, json!({"metadata": {"name": name}, "data": data})).await {
                let patch = Patch::Merge(json!({"data": data}));
                maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
            }
        }
        "delete" => drop(maps.delete(name, &DeleteParams::default()).await),
        "bind" => {
            let role = dice.pick(&["lists-all", "lists-x"]);
            let group = "rbac.authorization.k8s.io";
            let binding = json!({
                "metadata": {"name": role},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}]
            });
            create(&bindings, binding).await;
        }
        _ => drop(bindings.delete(dice.pick(&["lists-all", "lists-x"]), &DeleteParams::default()).await),
    }
}

/// Namespace and name → resourceVersion, of what alice may get alone.
async fn single_gets(alice: &Client) -> BTreeMap<(String, String), String> {
    let mut seen = BTreeMap::new();
    for namespace in NAMESPACES {
        for name in NAMES {
            match Api::<ConfigMap>::namespaced(alice.clone(), namespace).get(name).await {
                Ok(map) => drop(seen.insert((namespace.into(), name.into()), map.resource_version().unwrap())),
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_has_what_its_user_may_see() {
    let server = TestServer::start().await;
    let (admin, alice) = clients(&server).await;
    for namespace in NAMESPACES {
        create(&Api::<Namespace>::all(admin.clone()), json!({"metadata": {"name": namespace}})).await;
    }
    for (name, names) in [("lists-all", json!([])), ("lists-x", json!(["x"]))] {
        let verbs = ["get", "list", "watch"];
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs, "resourceNames": names});
        create(&Api::<ClusterRole>::all(admin.clone()), json!({"metadata": {"name": name}, "rules": [rule]})).await;
    }
    let everywhere: Api<ConfigMap> = Api::all(alice.clone());
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().streaming_lists();
    let mut events = reflector(writer, watcher(everywhere.clone(), config)).default_backoff().boxed();
    let key = |map: &ConfigMap| (map.namespace().unwrap_or_default(), map.name_any());
    let mut dice = Dice(5);
    // `cargo xtask conformance authorized` asks for more.
    let changes = option_env!("FERROKUBE_CHANGES").map_or(150, |text| text.parse().unwrap());
    for step in 0..changes {
        change(&admin, &mut dice, step).await;
        let want = single_gets(&alice).await;
        let listed = everywhere.list(&ListParams::default()).await.unwrap();
        let got: BTreeMap<_, _> = listed.iter().map(|map| (key(map), map.resource_version().unwrap())).collect();
        assert_eq!(got, want, "step {step}");
        let has =
            || reader.state().iter().map(|map| (key(map), map.resource_version().unwrap())).collect::<BTreeMap<_, _>>();
        while has() != want {
            let next = tokio::time::timeout(SOON, events.try_next()).await;
            next.unwrap_or_else(|_| panic!("step {step}: {:?} instead of {want:?}", has())).unwrap();
        }
    }
    server.stop().await;
}

/// `--authorized-lists-for`: members of the group need neither the header nor the parameter, and can do without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_gets_what_it_may_see_by_default() {
    let server = TestServer::start_with(|config| config.serving.authorized_lists_for = vec!["devs".into()]).await;
    let (admin, _) = clients(&server).await;
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info = AuthInfo { token: Some("user-token".to_string().into()), ..AuthInfo::default() };
    let alice = Client::try_from(config).unwrap();
    create(&Api::<ConfigMap>::namespaced(admin, "default"), json!({"metadata": {"name": "hidden"}})).await;
    let seen = Api::<ConfigMap>::all(alice.clone()).list(&ListParams::default()).await.unwrap();
    assert!(seen.items.is_empty());
    for path in [
        "/api/v1/configmaps?authorized=false",
        "/api/v1/componentstatuses",
        "/api/v1/namespaces/default/configmaps/hidden",
    ] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        match alice.request_text(request).await {
            Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    server.stop().await;
}
