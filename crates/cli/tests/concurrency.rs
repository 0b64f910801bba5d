//! What must be exact however many ask at once, and on whatever store: quotas and the addresses of services.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;

use object::{Meta, Value, value};
use storage_etcd::testing::Cluster;
use support::Node;
use tokio::task::JoinSet;

const CLIENTS: usize = 8;
const RANGE: &str = "10.7.0.0/24";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quotas_let_through_what_there_is_and_no_more() {
    quota(&[Node::start(&[], RANGE).await]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quotas_hold_for_two_servers_on_one_etcd() {
    let Some(etcd) = Cluster::single() else { return };
    quota(&[Node::start(&etcd.endpoints(), RANGE).await, Node::start(&etcd.endpoints(), RANGE).await]).await;
}

/// 64 creates at once against a quota of 50.
async fn quota(nodes: &[Node]) {
    const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let mut client = nodes[0].client().await;
    let hard = value!({"configmaps": "50"});
    let quota = value!({"metadata": {"name": "q"}, "spec": {"hard": (hard.clone())}});
    let (code, mut quota) = client.ask("POST", QUOTAS, &quota).await;
    assert_eq!(code, 201);
    // There is no controller that would count what is there: nothing.
    quota.set(&["status"], value!({"hard": hard, "used": {"configmaps": "0"}}));
    let path = format!("{QUOTAS}/q");
    assert_eq!(client.ask("PUT", &format!("{path}/status"), &quota).await.0, 200);

    let mut tasks = JoinSet::new();
    for number in 0..CLIENTS {
        let mut client = nodes[number % nodes.len()].client().await;
        tasks.spawn(async move {
            let mut codes = Vec::new();
            for item in 0..8 {
                let map = value!({"metadata": {"name": (format!("m{number}-{item}"))}});
                let (code, answer) = client.ask("POST", MAPS, &map).await;
                let why = "exceeded quota: q, requested: configmaps=1, used: configmaps=50, limited: configmaps=50";
                assert!(code == 201 || answer.str_at(&["message"]).ends_with(why), "{answer:?}");
                codes.push(code);
            }
            codes
        });
    }
    let codes = tasks.join_all().await.concat();
    let count = |wanted: u16| codes.iter().filter(|code| **code == wanted).count();
    assert_eq!((count(201), count(403)), (50, 14));
    let used = async |client: &mut support::Client| {
        client.ask("GET", &path, &Value::Null).await.1.at(&["status", "used"]).clone()
    };
    assert_eq!(used(&mut client).await, value!({"configmaps": "50"}));
    let (_, list) = client.ask("GET", MAPS, &Value::Null).await;
    assert_eq!(list.list_at(&["items"]).len(), 50);

    // Changing an object uses no more, and a refused creation has used nothing.
    let mut map = list.list_at(&["items"])[0].clone();
    map.set(&["data", "key"], "value");
    let one = format!("{MAPS}/{}", map.name());
    assert_eq!(client.ask("PUT", &one, &map).await.0, 200);
    let (code, _) = client.ask("POST", &format!("{MAPS}?dryRun=All"), &value!({"metadata": {"name": "more"}})).await;
    assert_eq!(code, 403);
    assert_eq!(used(&mut client).await, value!({"configmaps": "50"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_address_is_handed_out_once() {
    let mut node = Node::spawn(RANGE);
    let mut taken = fill(std::slice::from_ref(&node), 0, 100).await;
    let before = addresses(&node).await;
    node.kill_and_start_again(RANGE);
    assert_eq!(addresses(&node).await, before, "a restart changes nothing");
    taken.extend(fill(std::slice::from_ref(&node), 1, 100).await);
    assert_eq!(taken.len(), 200, "no address twice");
    exhaust(&node, taken).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_on_one_etcd_share_the_addresses() {
    let Some(etcd) = Cluster::single() else { return };
    let nodes = [Node::start(&etcd.endpoints(), RANGE).await, Node::start(&etcd.endpoints(), RANGE).await];
    let taken = fill(&nodes, 0, 200).await;
    assert_eq!(taken.len(), 200, "no address twice");
    exhaust(&nodes[1], taken).await;
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str) -> Value {
    value!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

/// Creates so many services from all clients at once; the addresses they got.
async fn fill(nodes: &[Node], round: usize, count: usize) -> BTreeSet<String> {
    let mut tasks = JoinSet::new();
    for number in 0..CLIENTS {
        let mut client = nodes[number % nodes.len()].client().await;
        let items = count / CLIENTS + usize::from(number < count % CLIENTS);
        tasks.spawn(async move {
            let mut addresses = Vec::new();
            for item in 0..items {
                let (code, made) = client.ask("POST", SERVICES, &service(&format!("s{round}-{number}-{item}"))).await;
                assert_eq!(code, 201, "{made:?}");
                addresses.push(made.str_at(&["spec", "clusterIP"]).to_string());
            }
            addresses
        });
    }
    tasks.join_all().await.concat().into_iter().collect()
}

async fn addresses(node: &Node) -> BTreeSet<String> {
    let (_, list) = node.client().await.ask("GET", SERVICES, &Value::Null).await;
    list.list_at(&["items"]).iter().map(|service| service.str_at(&["spec", "clusterIP"]).to_string()).collect()
}

/// Takes what is left of the range to the last address, and again what is given back.
async fn exhaust(node: &Node, mut taken: BTreeSet<String>) {
    let mut client = node.client().await;
    // The server's own service has one of the 254.
    for number in 0..53 {
        let (code, made) = client.ask("POST", SERVICES, &service(&format!("rest-{number}"))).await;
        assert_eq!(code, 201, "{made:?}");
        assert!(taken.insert(made.str_at(&["spec", "clusterIP"]).to_string()));
    }
    assert_eq!(taken.len() + 1, 254);
    let (code, refused) = client.ask("POST", SERVICES, &service("one-too-many")).await;
    assert!(code >= 400 && refused.str_at(&["message"]).contains("range is full"), "{refused:?}");
    let mut freed = BTreeSet::new();
    for number in 0..10 {
        let (code, gone) = client.ask("DELETE", &format!("{SERVICES}/rest-{number}"), &Value::Null).await;
        assert_eq!(code, 200);
        freed.insert(gone.str_at(&["spec", "clusterIP"]).to_string());
    }
    let mut again = BTreeSet::new();
    for number in 0..10 {
        let (code, made) = client.ask("POST", SERVICES, &service(&format!("again-{number}"))).await;
        assert_eq!(code, 201, "{made:?}");
        again.insert(made.str_at(&["spec", "clusterIP"]).to_string());
    }
    assert_eq!(again, freed, "what was given back is handed out again");
}
