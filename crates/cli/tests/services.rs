//! The `kubernetes` Service of several servers, dual-stack Services, and Services that another server has written.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use object::{Value, value};
use storage::Store;
use storage_etcd::testing::Cluster;
use storage_etcd::{EtcdOptions, EtcdStore};
use support::{Client, Node};

const RANGES: &str = "10.7.0.0/24,fd07::/112";
const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn start(etcd: &Cluster, address: &str) -> Node {
    let address = address.parse().unwrap();
    Node::start_with(&etcd.endpoints(), RANGES, |config| config.advertise_address = Some(address)).await
}

/// What a path answers once it is as wanted.
async fn eventually(client: &mut Client, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let (code, answer) = client.ask("GET", path, &Value::Null).await;
        if wanted(code, &answer) {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{path} stays {code} {answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn addresses(endpoints: &Value) -> Vec<String> {
    let subsets = endpoints.list_at(&["subsets"]).iter().flat_map(|subset| subset.list_at(&["addresses"]));
    subsets.map(|address| address.str_at(&["ip"]).to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_run_are_named_in_the_endpoints() {
    let Some(etcd) = Cluster::single() else { return };
    let (one, two) = (start(&etcd, "10.9.0.1").await, start(&etcd, "10.9.0.2").await);
    let endpoints = "/api/v1/namespaces/default/endpoints/kubernetes";
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let mut client = one.client().await;
    let (_, both) = client.ask("GET", endpoints, &Value::Null).await;
    assert_eq!(addresses(&both), ["10.9.0.1", "10.9.0.2"]);
    let (_, both) = client.ask("GET", slice, &Value::Null).await;
    assert_eq!((both.str_at(&["addressType"]), both.list_at(&["endpoints"]).len()), ("IPv4", 2));
    // A server that stops takes its endpoint with it.
    two.stop().await;
    let (_, left) = client.ask("GET", endpoints, &Value::Null).await;
    assert_eq!(addresses(&left), ["10.9.0.1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_have_addresses_of_both_families() {
    let node = Node::start(&[], RANGES).await;
    let mut client = node.client().await;
    let range = client.ask("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", &Value::Null).await.1;
    assert_eq!(range.at(&["spec", "cidrs"]), &value!(["10.7.0.0/24", "fd07::/112"]));
    let spec = value!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]});
    let service = value!({"metadata": {"name": "both"}, "spec": (spec)});
    let (code, service) = client.ask("POST", SERVICES, &service).await;
    assert_eq!((code, service.at(&["spec", "ipFamilies"])), (201, &value!(["IPv4", "IPv6"])));
    for address in service.list_at(&["spec", "clusterIPs"]) {
        let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{}", address.as_str().unwrap());
        assert_eq!(client.ask("GET", &path, &Value::Null).await.0, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_that_another_server_has_written_get_their_addresses() {
    let Some(etcd) = Cluster::single() else { return };
    let node = start(&etcd, "10.9.0.1").await;
    let store = EtcdStore::connect(EtcdOptions::at(etcd.endpoints())).await.unwrap();
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"old","namespace":"default","uid":"u"},
        "spec":{"type":"ClusterIP","clusterIP":"10.7.0.77","ports":[{"port":80}]}}"#;
    store.create("/registry/services/specs/default/old".into(), service.into(), None).await.unwrap();
    let mut client = node.client().await;
    let address = "/apis/networking.k8s.io/v1/ipaddresses/10.7.0.77";
    let address = eventually(&mut client, address, |code, _| code == 200).await;
    assert_eq!(address.str_at(&["spec", "parentRef", "name"]), "old");
}
