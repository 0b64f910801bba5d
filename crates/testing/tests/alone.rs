//! What people expect of a server without a controller manager: namespaces go away, owned objects are collected, service
//! accounts are there. Everything is waited for by watching, as a client would.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ResourceQuota, Secret, ServiceAccount};
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testing::Server;

/// Nothing here takes long; a test that waits in vain should fail, not hang.
const PATIENCE: Duration = Duration::from_secs(30);

async fn wait<K>(api: &Api<K>, name: &str, condition: impl Condition<K>)
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + kube::Resource + 'static,
{
    let waiting = await_condition(api.clone(), name, condition);
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{name}: waited in vain")).unwrap();
}

fn owned_by(owner: &ConfigMap, name: &str) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid().unwrap(),
        "blockOwnerDeletion": true
    }]}})
}

async fn create(api: &Api<ConfigMap>, object: Value) -> ConfigMap {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn delete(client: &Client, policy: PropagationPolicy, survives: bool) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let name = format!("{policy:?}").to_lowercase();
    let owner = create(&maps, json!({"metadata": {"name": name}})).await;
    let child = create(&maps, owned_by(&owner, &format!("{name}-child"))).await;
    let grandchild = create(&maps, owned_by(&child, &format!("{name}-grandchild"))).await;
    let options = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    maps.delete(&owner.name_any(), &options).await.unwrap();
    wait(&maps, &owner.name_any(), conditions::is_deleted(&owner.uid().unwrap())).await;
    if survives {
        let free = |found: Option<&ConfigMap>| found.is_some_and(|map| map.owner_references().is_empty());
        wait(&maps, &child.name_any(), free).await;
        assert!(maps.get_opt(&grandchild.name_any()).await.unwrap().is_some());
    } else {
        wait(&maps, &child.name_any(), conditions::is_deleted(&child.uid().unwrap())).await;
        wait(&maps, &grandchild.name_any(), conditions::is_deleted(&grandchild.uid().unwrap())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_used_alone_looks_after_itself() {
    let server = Server::start().await.unwrap();
    let client = server.client().await.unwrap();

    // Owned objects, in each of the three ways.
    delete(&client, PropagationPolicy::Background, false).await;
    delete(&client, PropagationPolicy::Foreground, false).await;
    delete(&client, PropagationPolicy::Orphan, true).await;

    // An object whose owner never was is collected too.
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let ghost = ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some("ghost".into()), uid: Some("gone".into()), ..Default::default() },
        ..Default::default()
    };
    let haunted = create(&maps, owned_by(&ghost, "haunted")).await;
    wait(&maps, "haunted", conditions::is_deleted(&haunted.uid().unwrap())).await;

    // A new namespace gets its service account, and a pod can be made there.
    let namespaces = Api::<Namespace>::all(client.clone());
    let team: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let team = namespaces.create(&PostParams::default(), &team).await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "team");
    wait(&accounts, "default", |found: Option<&ServiceAccount>| found.is_some()).await;
    let pods = Api::<Pod>::namespaced(client.clone(), "team");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(pod.spec.unwrap().service_account_name.as_deref(), Some("default"));

    // A service account that was deleted comes back.
    let account = accounts.get("default").await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let another = move |found: Option<&ServiceAccount>| found.is_some_and(|other| other.uid() != account.uid());
    wait(&accounts, "default", another).await;

    // The namespace goes away with everything in it.
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    wait(&namespaces, "team", conditions::is_deleted(&team.uid().unwrap())).await;
    assert!(pods.list(&Default::default()).await.unwrap().items.is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_outlives_a_server_and_users_have_their_rights() {
    let folder = tempfile::tempdir().unwrap();
    let start = || Server::builder().bare().folder(folder.path()).start();
    let server = start().await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(server.client().await.unwrap());
    let before = create(&maps, json!({"metadata": {"name": "kept"}, "data": {"a": "b"}})).await;
    let stranger = Api::<ConfigMap>::default_namespaced(server.client_for("jane", &["devs"]).await.unwrap());
    match stranger.get("kept").await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403),
        other => panic!("{other:?}"),
    }
    server.stop().await;

    let server = start().await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(server.client().await.unwrap());
    assert_eq!(maps.get("kept").await.unwrap(), before);
    server.stop().await;
}

/// Quotas are counted when they are made, when something goes away, and hold in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_are_counted() {
    let server = Server::start().await.unwrap();
    let client = server.client().await.unwrap();
    let quotas = Api::<ResourceQuota>::default_namespaced(client.clone());
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    let secret = |name: &str| serde_json::from_value::<Secret>(json!({"metadata": {"name": name}})).unwrap();
    secrets.create(&PostParams::default(), &secret("before")).await.unwrap();

    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "2", "pods": "1"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    let used = |secrets: &'static str| {
        move |found: Option<&ResourceQuota>| {
            let status = found.and_then(|quota| quota.status.as_ref());
            let used = status.and_then(|status| status.used.as_ref());
            used.is_some_and(|used| used["secrets"].0 == secrets && used["pods"].0 == "0")
        }
    };
    wait(&quotas, "q", used("1")).await;
    secrets.create(&PostParams::default(), &secret("a")).await.unwrap();
    let refused = secrets.create(&PostParams::default(), &secret("b")).await.unwrap_err().to_string();
    assert!(
        refused.contains("exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2"),
        "{refused}"
    );

    secrets.delete("before", &DeleteParams::default()).await.unwrap();
    wait(&quotas, "q", used("1")).await;
    secrets.create(&PostParams::default(), &secret("b")).await.unwrap();
}
