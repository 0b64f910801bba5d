//! Many servers in one process, and what is left of them: nothing. Alone in its process, because it counts what the process has.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::time::Duration;

use ferrokube::{Api as Profile, Server};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;

const PATIENCE: Duration = Duration::from_secs(60);

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Tasks of the runtime, threads, and open files of the process.
fn counted() -> [usize; 3] {
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    [tasks, entries("/proc/self/task"), entries("/proc/self/fd")]
}

async fn start(profile: fn() -> Profile, listens: bool) -> Server {
    let builder = Server::builder().api(profile());
    let builder = if listens { builder } else { builder.without_listener() };
    builder.start().await.unwrap()
}

async fn check(profile: fn() -> Profile, count: usize, listens: bool, drops: bool) {
    let before = counted();
    let servers = futures::future::join_all((0..count).map(|_| start(profile, listens))).await;
    for server in &servers {
        let namespaces = Api::<Namespace>::all(server.client()).list(&ListParams::default()).await.unwrap();
        assert!(namespaces.items.len() >= 4);
    }
    let temporary: Vec<_> = servers.iter().filter_map(|server| server.kubeconfig_file().ok()).collect();
    assert_eq!(temporary.len(), if listens { count } else { 0 });
    match drops {
        true => drop(servers),
        false => drop(futures::future::join_all(servers.into_iter().map(Server::stop)).await),
    }
    // Tasks that were told to end need the runtime once more, connections a moment to say goodbye.
    let gone = async {
        while counted()[0] > before[0] || counted()[2] > before[2] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, gone).await;
    assert!(waited.is_ok(), "listens: {listens}, drops: {drops}: {before:?} became {:?}", counted());
    assert!(temporary.iter().all(|file| !file.exists()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_servers() {
    // The first server makes what all share: tables, pools of threads.
    start(Profile::minimal, true).await.stop().await;
    for (profile, count, listens, drops) in [
        (Profile::minimal as fn() -> Profile, 200, false, true),
        (Profile::minimal, 25, false, false),
        (Profile::minimal, 25, true, false),
        (Profile::minimal, 25, true, true),
        (Profile::kubernetes, 10, false, true),
        (Profile::kubernetes, 10, true, false),
    ] {
        check(profile, count, listens, drops).await;
    }
}
