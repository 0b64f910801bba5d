//! The recorded requests against a fresh server, on the embedded store and on etcd. The score of each group may only rise:
//! when it does, raise it in `ratchet.txt` too.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::BTreeMap;

use apiserver::{StoreConfig, Versions};
use difftest::{Client, cases, run};
use storage_etcd::testing::Cluster;

const RATCHET: &str = include_str!("../ratchet.txt");
/// How many differing answers are shown when a group falls.
const SHOWN: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_a_real_server() {
    check("embedded", StoreConfig::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_on_etcd() {
    let Some(cluster) = Cluster::single() else { return };
    check("etcd", StoreConfig { etcd_servers: cluster.endpoints(), ..StoreConfig::default() }).await;
}

async fn check(engine: &str, store: StoreConfig) {
    let server = support::server(store, Versions::default()).await;
    let client = Client::new(server.running.address, "admin-token").unwrap();
    let (score, differences) = run(&client, cases().unwrap()).await;
    let floor: BTreeMap<&str, usize> = RATCHET
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(group, passed)| (group, passed.trim().parse().unwrap()))
        .collect();
    let mut fallen = Vec::new();
    for (group, (passed, all)) in &score {
        println!("difftest on {engine}, {group}: {passed}/{all}");
        if *passed < floor.get(group.as_str()).copied().unwrap_or(0) {
            fallen.push(group.clone());
        }
    }
    let (passed, all) = score.values().fold((0, 0), |sum, score| (sum.0 + score.0, sum.1 + score.1));
    println!("difftest on {engine}: {passed} of {all} answers are those of a real server");
    for difference in differences.iter().filter(|d| fallen.iter().any(|g| d.case.starts_with(g.as_str()))).take(SHOWN) {
        println!(
            "--- {} step {}: {}\nwant {}\ngot  {}",
            difference.case, difference.step, difference.request, difference.want, difference.got
        );
    }
    server.stop().await;
    assert!(fallen.is_empty(), "scores fell on {engine} in {fallen:?}");
}
