//! Servers on one etcd of which one serves what the other does not.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use object::{Value, value};
use storage_etcd::testing::Cluster;
use support::Node;

const RANGE: &str = "10.7.0.0/24";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// A server that serves everything, and has a front proxy's certificate that it believes.
async fn complete(etcd: &Cluster) -> Node {
    Node::start_with(&etcd.endpoints(), RANGE, |config| {
        config.hostname = "complete".into();
        config.advertise_address = Some("127.0.0.1".parse().unwrap());
        config.standalone = true;
    })
    .await
}

/// A server without batch/v1 that passes requests on to the other.
async fn partial(etcd: &Cluster, other: &Node) -> Node {
    let pki = other.directory().join("pki");
    Node::start_with(&etcd.endpoints(), RANGE, |config| {
        config.hostname = "partial".into();
        config.advertise_address = Some("127.0.0.1".parse().unwrap());
        config.runtime_config = vec![("batch/v1".into(), false)];
        config.peering.authority = Some(pki.join("ca.crt"));
        config.aggregation.certificate = Some(pki.join("front-proxy-client.crt"));
        config.aggregation.key = Some(pki.join("front-proxy-client.key"));
    })
    .await
}

fn job(name: &str) -> Value {
    let pod = value!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}});
    value!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": (pod)}})
}

fn group_names(document: &Value) -> Vec<&str> {
    document.list_at(&["items"]).iter().map(|group| group.str_at(&["metadata", "name"])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_where_they_are_served() {
    let Some(etcd) = Cluster::single() else { return };
    let one = complete(&etcd).await;
    let two = partial(&etcd, &one).await;
    let mut client = two.client().await;
    // The server's lease is written after it has started.
    let began = Instant::now();
    let created = loop {
        let (code, created) = client.ask("POST", JOBS, &job("one")).await;
        if code != 404 {
            break (code, created);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "nothing is passed on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((created.0, created.1.str_at(&["metadata", "name"])), (201, "one"), "{created:?}");
    let (code, list) = client.ask("GET", &format!("{JOBS}?labelSelector=a%20in%20(b)"), &Value::Null).await;
    assert_eq!((code, list.list_at(&["items"]).len()), (200, 0), "the query is passed on");
    let (code, list) = one.client().await.ask("GET", JOBS, &Value::Null).await;
    assert_eq!((code, list.list_at(&["items"]).len()), (200, 1));

    let merged = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, all) = client.ask_for("/apis", merged).await;
    assert!(group_names(&all).contains(&"batch"), "{:?}", group_names(&all));
    let (_, own) = client.ask_for("/apis", &format!("{merged};profile=nopeer")).await;
    assert!(!group_names(&own).contains(&"batch"), "{:?}", group_names(&own));
    let metrics = client.text("/metrics").await;
    let counted = "apiserver_rerouted_request_total{code=\"201\",group=\"batch\",resource=\"jobs\",version=\"v1\"} 1";
    assert!(metrics.contains(counted), "{counted}");

    // What no server serves any more is said to be out of reach, and what none ever served is not found.
    one.stop().await;
    let (code, refused) = client.ask("GET", JOBS, &Value::Null).await;
    let why = "Error getting ip and port info of the remote server while proxying";
    assert_eq!((code, refused.str_at(&["message"])), (503, why));
    assert_eq!(client.ask("GET", "/apis/nothing.io/v1/things", &Value::Null).await.0, 404);
}

const VERSIONS: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// What servers with these identities say about a resource, each with a version of its own.
fn told_by(servers: &[&str]) -> Value {
    let entry = |server: &&str| {
        let version = server.replace("id-", "v");
        value!({"apiServerID": (*server), "encodingVersion": (version.as_str()), "decodableVersions": [(version.as_str())]})
    };
    let entries: Vec<Value> = servers.iter().map(entry).collect();
    let mut status = value!({"storageVersions": (entries.clone())});
    if let [only] = entries.as_slice() {
        status.set(&["commonEncodingVersion"], only.str_at(&["encodingVersion"]));
    }
    status
}

fn identity_lease(server: &str) -> Value {
    value!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": server, "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}},
        "spec": {"holderIdentity": server, "leaseDurationSeconds": 3600, "renewTime": "2099-01-01T00:00:00.000000Z"}
    })
}

/// Waits until the servers that tell about the resource are these; none if there is no such object.
async fn until_told_by(client: &mut support::Client, path: &str, servers: &[&str]) -> Value {
    let began = Instant::now();
    loop {
        let (code, object) = client.ask("GET", path, &Value::Null).await;
        let told: Vec<&str> =
            object.list_at(&["status", "storageVersions"]).iter().map(|entry| entry.str_at(&["apiServerID"])).collect();
        if told == servers && (code == 404) == servers.is_empty() {
            return object;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{code} {told:?} instead of {servers:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_said_goes_with_their_leases() {
    let Some(etcd) = Cluster::single() else { return };
    let node = Node::start_with(&etcd.endpoints(), RANGE, |config| {
        config.standalone = true;
        config.feature_gates = vec![("APIServerIdentity".into(), true), ("StorageVersionAPI".into(), true)];
        config.runtime_config = vec![("internal.apiserver.k8s.io/v1alpha1".into(), true)];
    })
    .await;
    let mut client = node.client().await;
    let path = format!("{VERSIONS}/tests.example.com.foos");
    let object = value!({
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion",
        "metadata": {"name": "tests.example.com.foos"}, "spec": {}
    });
    for server in ["id-1", "id-2"] {
        assert_eq!(client.ask("POST", LEASES, &identity_lease(server)).await.0, 201);
    }
    // The object is created and then told about, as servers do.
    let tell = async |client: &mut support::Client, servers: &[&str]| {
        let (code, mut created) = client.ask("POST", VERSIONS, &object).await;
        assert_eq!(code, 201, "{created:?}");
        created.set(&["status"], told_by(servers));
        let (code, updated) = client.ask("PUT", &format!("{path}/status"), &created).await;
        assert_eq!(code, 200, "{updated:?}");
    };
    tell(&mut client, &["id-gone"]).await;
    until_told_by(&mut client, &path, &[]).await;
    tell(&mut client, &["id-1", "id-2"]).await;
    until_told_by(&mut client, &path, &["id-1", "id-2"]).await;
    assert_eq!(client.ask("DELETE", &format!("{LEASES}/id-1"), &Value::Null).await.0, 200);
    let object = until_told_by(&mut client, &path, &["id-2"]).await;
    assert_eq!(object.str_at(&["status", "commonEncodingVersion"]), "v2", "{object:?}");
    assert_eq!(client.ask("DELETE", &format!("{LEASES}/id-2"), &Value::Null).await.0, 200);
    until_told_by(&mut client, &path, &[]).await;
}
