//! What operators see: members that die, leaders that change, history that goes, connections that break.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use storage::suite::linearizability::{Answer, Recorder, check};
use storage::suite::soon;
use storage::{Error, Key, KeyRange, Revision, Store, WatchRequest, WatchStream};
use storage_etcd::testing::Cluster;
use storage_etcd::{EtcdOptions, EtcdStore};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

async fn connect(cluster: &Cluster) -> EtcdStore {
    EtcdStore::connect(EtcdOptions::at(cluster.endpoints())).await.unwrap()
}

/// A caller who is alone learns by one read whether a key has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_caller_learns_that_nothing_has_changed() {
    let Some(cluster) = Cluster::single() else { return };
    let store = connect(&cluster).await;
    let key = Key::from("/unchanged/one");
    let created = store.create(key.clone(), Bytes::from("x"), None).await.unwrap().revision;
    assert!(store.is_unchanged(&key, created).await.unwrap());
    let updated = store.update(key.clone(), Bytes::from("y"), created, None).await.unwrap().revision;
    assert!(!store.is_unchanged(&key, created).await.unwrap());
    assert!(store.is_unchanged(&key, updated).await.unwrap());
    // What was read is the current revision for those who wait for it.
    assert!(store.progress().await.unwrap() >= updated);
}

/// What became of every write that was tried.
#[derive(Default)]
struct Outcomes {
    /// Revision → key and value, for those that were acknowledged.
    acknowledged: BTreeMap<Revision, (Key, Bytes)>,
    unknown: usize,
    refused: usize,
}

/// Creates and updates keys of its own until told to stop: a writer alone knows what each must be.
async fn write_until(store: EtcdStore, writer: usize, stop: Arc<AtomicBool>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let mut current: Option<(Key, Revision)> = None;
    let mut n = 0;
    while !stop.load(Ordering::SeqCst) {
        n += 1;
        let value = Bytes::from(format!("{writer}-{n}"));
        let key = match &current {
            Some((key, _)) if n % 4 != 0 => key.clone(),
            _ => Key::from(format!("/fault/{writer}/{n:06}")),
        };
        let result = match &current {
            Some((at, revision)) if *at == key => store.update(key.clone(), value.clone(), *revision, None).await,
            _ => store.create(key.clone(), value.clone(), None).await,
        };
        match result {
            Ok(written) => {
                let entry = written.entry.unwrap();
                assert_eq!((&entry.value, entry.mod_revision), (&value, written.revision));
                outcomes.acknowledged.insert(written.revision, (key.clone(), value));
                current = Some((key, written.revision));
            }
            Err(Error::OutcomeUnknown(_)) => {
                outcomes.unknown += 1;
                current = None;
            }
            Err(Error::Unavailable(_) | Error::Timeout(_)) => {
                outcomes.refused += 1;
                current = None;
            }
            // No other client writes these keys, so there can have been no conflict.
            Err(other) => panic!("{writer}-{n}: {other:?}"),
        }
    }
    outcomes
}

/// Every event up to `end`, checked to be in order.
async fn read_until(mut stream: WatchStream, end: Revision) -> BTreeMap<Revision, (Key, Bytes)> {
    let mut seen = BTreeMap::new();
    let mut position = 0;
    while position < end {
        let batch = soon("a batch", stream.next()).await.unwrap().unwrap();
        assert!(batch.revision > position, "{} after {position}", batch.revision);
        position = batch.revision;
        for event in batch.events {
            let entry = event.entry.clone().unwrap();
            assert!(seen.insert(event.revision, (event.key.clone(), entry.value.clone())).is_none(), "twice");
        }
    }
    seen
}

/// Runs writers and a watcher through what `trouble` does to the cluster, and compares what each of them knows.
async fn through(cluster: &mut Cluster, trouble: impl AsyncFnOnce(&mut Cluster, &EtcdStore)) -> (usize, usize) {
    let store = connect(cluster).await;
    let outcome = write_and_watch(&store, trouble(cluster, &store)).await;
    (outcome.0, outcome.1 + outcome.2)
}

/// Writes and watches while there is trouble. How many writes were acknowledged, are unknown, and were refused.
async fn write_and_watch(store: &EtcdStore, trouble: impl Future<Output = ()>) -> (usize, usize, usize) {
    let start = store.progress().await.unwrap();
    let stream = store.watch(WatchRequest::after(KeyRange::prefix("/fault/"), start)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4).map(|writer| tokio::spawn(write_until(store.clone(), writer, stop.clone()))).collect();
    trouble.await;
    stop.store(true, Ordering::SeqCst);
    let mut acknowledged = BTreeMap::new();
    let (mut unknown, mut refused) = (0, 0);
    for writer in writers {
        let outcomes = soon("a writer", writer).await.unwrap();
        acknowledged.extend(outcomes.acknowledged);
        unknown += outcomes.unknown;
        refused += outcomes.refused;
    }
    let end = soon("progress", store.progress()).await.unwrap();
    let seen = read_until(stream, end).await;
    for (revision, write) in &acknowledged {
        assert_eq!(seen.get(revision), Some(write), "an acknowledged write is not in the log");
    }
    let extra = seen.len() - acknowledged.len();
    assert!(extra <= unknown, "{extra} writes happened that were refused; only {unknown} were in doubt");
    // A second look at the same history is the same.
    let again = store.watch(WatchRequest::after(KeyRange::prefix("/fault/"), start)).await.unwrap();
    assert_eq!(read_until(again, end).await, seen);
    (acknowledged.len(), unknown, refused)
}

/// Waits until a few writes have gone through again, so that the next fault hits writes that are under way.
async fn until_busy(store: &EtcdStore) {
    let mut enough = None;
    soon("writes", async {
        loop {
            if let Ok(revision) = store.progress().await
                && revision >= *enough.get_or_insert(revision + 10)
            {
                break;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_member_restarts() {
    let Some(mut cluster) = Cluster::single() else { return };
    let (writes, lost) = through(&mut cluster, async |cluster, store| {
        for _ in 0..3 {
            until_busy(store).await;
            cluster.kill(0);
            cluster.revive(0);
        }
        until_busy(store).await;
    })
    .await;
    assert!(writes > 20, "{writes} writes");
    assert_eq!(lost, 0, "the cluster came back in time, so all outcomes can be told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_and_leaders_come_and_go() {
    let Some(mut cluster) = Cluster::of_three() else { return };
    let (writes, lost) = through(&mut cluster, async |cluster, store| {
        // Whichever of them leads, in three rounds it is killed; and the member that we speak to is.
        for round in 0..3 {
            until_busy(store).await;
            cluster.kill(round);
            until_busy(store).await;
            cluster.revive(round);
        }
        until_busy(store).await;
    })
    .await;
    assert!(writes > 20, "{writes} writes");
    assert_eq!(lost, 0, "the cluster came back in time, so all outcomes can be told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_hang() {
    let Some(cluster) = Cluster::of_three() else { return };
    let options = EtcdOptions { attempt_timeout: Duration::from_millis(500), ..EtcdOptions::at(cluster.endpoints()) };
    let store = EtcdStore::connect(options).await.unwrap();
    let (writes, unknown, refused) = write_and_watch(&store, async {
        // One after the other, so that the leader and the one that we speak to are among them: first for so long that
        // all clients use other members, then for moments, as with a slow disk.
        for (pause, rounds) in [(Duration::ZERO, 3), (Duration::from_millis(150), 9)] {
            for round in 0..rounds {
                cluster.hang(round % 3);
                tokio::time::sleep(pause).await;
                if pause.is_zero() {
                    until_busy(&store).await;
                }
                cluster.go_on(round % 3);
                until_busy(&store).await;
            }
        }
    })
    .await;
    assert!(writes > 50, "{writes} writes");
    assert_eq!((unknown, refused), (0, 0));

    // A watch whose member hangs is not waited for: it is resumed on another member.
    let start = store.progress().await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(store.watch(WatchRequest::after(KeyRange::prefix("/hang/"), start)).await.unwrap());
    }
    for n in 0..3 {
        cluster.hang(n);
        soon("a write", store.create(format!("/elsewhere/{n}").into(), Bytes::new(), None)).await.unwrap();
        let wanted = soon("progress", store.progress()).await.unwrap();
        for stream in &mut streams {
            soon("a mark", async { while stream.next().await.unwrap().unwrap().revision < wanted {} }).await;
        }
        cluster.go_on(n);
        let key = format!("/hang/{n}");
        let written = store.create(key.into(), Bytes::new(), None).await.unwrap().revision;
        for stream in &mut streams {
            soon("an event", async { while stream.next().await.unwrap().unwrap().revision < written {} }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_is_gone_for_good() {
    let Some(mut cluster) = Cluster::of_three() else { return };
    // Gone before we come: the first endpoint of the list does not answer.
    cluster.kill(0);
    let (writes, _) = through(&mut cluster, async |_, store| {
        until_busy(store).await;
        store.check().await.unwrap();
        let enough = store.progress().await.unwrap() + 50;
        soon("fifty writes", async { while store.progress().await.unwrap() < enough {} }).await;
    })
    .await;
    assert!(writes > 10, "{writes} writes");
    // Without a majority every request fails with an error instead of hanging.
    let store = EtcdStore::connect(EtcdOptions {
        write_timeout: Duration::from_secs(1),
        read_timeout: Duration::from_secs(1),
        ..EtcdOptions::at(cluster.endpoints())
    })
    .await
    .unwrap();
    cluster.kill(1);
    assert!(store.check().await.is_err());
    let refused = soon("the refusal", store.create("/fault/none".into(), Bytes::new(), None)).await;
    assert!(matches!(refused, Err(Error::OutcomeUnknown(_) | Error::Unavailable(_))), "{refused:?}");
    cluster.revive(1);
    // The one that was in doubt may have been made.
    let created = |result| matches!(result, Ok(_) | Err(Error::KeyExists(_)));
    soon("a write", async { while !created(store.create("/fault/none".into(), Bytes::new(), None).await) {} }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_under_a_watch_that_is_cut_off() {
    let Some(mut cluster) = Cluster::single() else { return };
    let store = connect(&cluster).await;
    let first = store.create("/old/a".into(), Bytes::from_static(b"1"), None).await.unwrap().revision;
    let mut stream = store.watch(WatchRequest::after(KeyRange::prefix("/old/"), first)).await.unwrap();
    let second = store.update("/old/a".into(), Bytes::from_static(b"2"), first, None).await.unwrap().revision;
    let batch = soon("the update", stream.next()).await.unwrap().unwrap();
    assert_eq!(batch.revision, second);
    // A watch that is up to date survives a compaction and a restart.
    let third = store.update("/old/a".into(), Bytes::from_static(b"3"), second, None).await.unwrap().revision;
    store.compact(third).await.unwrap();
    assert_eq!(soon("the next", stream.next()).await.unwrap().unwrap().revision, third);
    cluster.kill(0);
    cluster.revive(0);
    let fourth = store.update("/old/a".into(), Bytes::from_static(b"4"), third, None).await.unwrap().revision;
    assert_eq!(soon("the one after", stream.next()).await.unwrap().unwrap().revision, fourth);

    // One that was cut off for so long that its history is gone is told.
    let lonely = connect(&cluster).await;
    let mut cut = lonely.watch(WatchRequest::after(KeyRange::prefix("/old/"), fourth)).await.unwrap();
    cluster.kill(0);
    cluster.launch(0);
    let other = connect(&cluster).await;
    let mut last = fourth;
    for n in 0..20 {
        last = other.update("/old/a".into(), Bytes::from(format!("{n}")), last, None).await.unwrap().revision;
    }
    other.compact(last).await.unwrap();
    let mut reached = fourth;
    loop {
        match soon("the end or what was missed", cut.next()).await.unwrap() {
            // It was quick and saw it in time.
            Ok(batch) if batch.revision == last => break,
            Ok(batch) => {
                assert!(batch.revision > reached);
                reached = batch.revision;
            }
            Err(Error::Compacted { requested, compacted }) => {
                assert_eq!((requested, compacted), (reached, last));
                break;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Between us and a member: cuts every connection now and then, so that requests arrive whose answers do not.
async fn cutting_proxy(target: String) -> (String, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let cut = Arc::new(Notify::new());
    let address = target.trim_start_matches("http://").to_string();
    let signal = cut.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (address, cut) = (address.clone(), signal.clone());
            tokio::spawn(async move {
                let server = TcpStream::connect(&address).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let requests = tokio::io::copy(&mut from_client, &mut to_server);
                let answers = async {
                    // The answers stop first; what is sent after that is done and never heard of.
                    tokio::select! {
                        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
                        _ = cut.notified() => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                };
                tokio::select! {
                    _ = requests => {}
                    _ = answers => {}
                }
            });
        }
    });
    (endpoint, cut)
}

/// How often connections are cut; more of them through the environment.
#[allow(clippy::disallowed_methods)] // Tests have no flags.
fn cuts() -> usize {
    std::env::var("FERROKUBE_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(30)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_break_in_the_middle_of_writes() {
    let Some(cluster) = Cluster::single() else { return };
    let (endpoint, cut) = cutting_proxy(cluster.endpoint(0)).await;
    let store = EtcdStore::connect(EtcdOptions::at([endpoint])).await.unwrap();
    let (acknowledged, unknown, refused) = write_and_watch(&store, async {
        for _ in 0..cuts() {
            until_busy(&store).await;
            cut.notify_waiters();
        }
        until_busy(&store).await;
    })
    .await;
    println!("{acknowledged} acknowledged, {unknown} unknown, {refused} refused");
    assert!(acknowledged > 100);
    // etcd was there all the time, so what became of a write can always be told.
    assert_eq!((unknown, refused), (0, 0));
}

/// What one server believes to have done.
#[derive(Debug, Default)]
struct Believed {
    increments: usize,
    created: usize,
    deleted: usize,
}

/// Counts in one key, and creates and deletes another one, always with the same bytes as the other clients.
async fn change_alike(store: EtcdStore, stop: Arc<AtomicBool>) -> Believed {
    let (counter, token) = (Key::from("/alike/counter"), Key::from("/alike/token"));
    let mut believed = Believed::default();
    while !stop.load(Ordering::SeqCst) {
        let now = store.get(&counter, None).await.unwrap().entry.unwrap();
        let number: usize = String::from_utf8_lossy(&now.value).parse().unwrap();
        let next = Bytes::from((number + 1).to_string());
        match store.update(counter.clone(), next, now.mod_revision, None).await {
            Ok(written) => {
                assert!(written.revision > now.mod_revision);
                believed.increments += 1;
            }
            Err(Error::Conflict(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
        match store.create(token.clone(), Bytes::from_static(b"x"), None).await {
            Ok(_) => believed.created += 1,
            Err(Error::KeyExists(there)) => {
                let expected = number.is_multiple_of(2).then_some(there.mod_revision);
                match store.delete(token.clone(), expected).await {
                    Ok(gone) => {
                        assert_eq!(gone.previous.unwrap().value, "x");
                        believed.deleted += 1;
                    }
                    Err(Error::Conflict(_) | Error::NotFound) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    believed
}

/// Servers that make the same changes to the byte, with connections that break: nothing in the keys tells who was first,
/// yet each must know what it has done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_make_the_same_changes() {
    let Some(cluster) = Cluster::single() else { return };
    let direct = connect(&cluster).await;
    direct.create("/alike/counter".into(), Bytes::from_static(b"0"), None).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    let mut signals = Vec::new();
    for _ in 0..2 {
        let (endpoint, cut) = cutting_proxy(cluster.endpoint(0)).await;
        let store = EtcdStore::connect(EtcdOptions::at([endpoint])).await.unwrap();
        tasks.extend((0..3).map(|_| tokio::spawn(change_alike(store.clone(), stop.clone()))));
        signals.push(cut);
    }
    for n in 0..cuts() {
        until_busy(&direct).await;
        signals[n % 2].notify_waiters();
    }
    until_busy(&direct).await;
    stop.store(true, Ordering::SeqCst);
    let mut sum = Believed::default();
    for task in tasks {
        let believed = soon("a server", task).await.unwrap();
        sum.increments += believed.increments;
        sum.created += believed.created;
        sum.deleted += believed.deleted;
    }
    println!("{sum:?}");
    let counter = direct.get(b"/alike/counter", None).await.unwrap().entry.unwrap();
    assert_eq!(counter.value, sum.increments.to_string(), "an increment is believed twice or by nobody");
    let token = direct.get(b"/alike/token", None).await.unwrap().entry;
    assert_eq!(sum.created - sum.deleted, usize::from(token.is_some()));
    assert!(sum.increments > 20 && sum.deleted > 20, "{sum:?}");
}

/// The model checker, with connections that break and a writer that goes another way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable_when_connections_break() {
    let Some(cluster) = Cluster::single() else { return };
    let (endpoint, cut) = cutting_proxy(cluster.endpoint(0)).await;
    let troubled: Arc<dyn Store> = Arc::new(EtcdStore::connect(EtcdOptions::at([endpoint])).await.unwrap());
    let direct: Arc<dyn Store> = Arc::new(connect(&cluster).await);
    let recorder = Arc::new(Recorder::default());
    let clients: Vec<_> = (0..6)
        .map(|client| {
            let store = if client < 4 { troubled.clone() } else { direct.clone() };
            let recorder = recorder.clone();
            tokio::spawn(async move { recorder.drive(&store, client, 120).await })
        })
        .collect();
    let cutting = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(15)).await;
            cut.notify_waiters();
        }
    });
    for client in clients {
        soon("a client", client).await.unwrap();
    }
    cutting.abort();
    let history = recorder.history();
    let unknown = history.iter().filter(|operation| operation.answer == Answer::Unknown).count();
    assert_eq!(unknown, 0);
    if let Err(complaint) = check(&history) {
        panic!("{complaint}");
    }
}

/// What became of a write can be told even if its revision cannot be read any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_may_go_while_a_write_is_in_doubt() {
    let Some(cluster) = Cluster::single() else { return };
    let (endpoint, cut) = cutting_proxy(cluster.endpoint(0)).await;
    let store = EtcdStore::connect(EtcdOptions::at([endpoint])).await.unwrap();
    let direct = connect(&cluster).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4).map(|writer| tokio::spawn(write_until(store.clone(), writer, stop.clone()))).collect();
    for _ in 0..cuts() {
        until_busy(&direct).await;
        cut.notify_waiters();
        // To the very present, so that what was just written cannot be read at its revision.
        let now = direct.progress().await.unwrap();
        direct.compact(now).await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        let outcomes = soon("a writer", writer).await.unwrap();
        assert_eq!((outcomes.unknown, outcomes.refused), (0, 0));
    }
}

/// Replicas take turns with compaction, as kube-apiserver's do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_compaction() {
    let Some(cluster) = Cluster::single() else { return };
    let interval = Duration::from_millis(300);
    let options = || EtcdOptions { compaction_interval: interval, ..EtcdOptions::at(cluster.endpoints()) };
    let one = EtcdStore::connect(options()).await.unwrap();
    let two = EtcdStore::connect(options()).await.unwrap();
    let revision = one.create("/c".into(), Bytes::new(), None).await.unwrap().revision;
    let mut turns = one.watch(WatchRequest::after(KeyRange::single("compact_rev_key"), revision)).await.unwrap();
    let mut seen: Vec<(i64, i64)> = Vec::new();
    while seen.len() < 5 {
        let batch = soon("a turn", turns.next()).await.unwrap().unwrap();
        for event in batch.events {
            let entry = event.entry.clone().unwrap();
            seen.push((entry.version, String::from_utf8(entry.value.to_vec()).unwrap().parse().unwrap()));
        }
    }
    // One turn in an interval, however many there are; the first compacts nothing.
    assert_eq!(seen[0], (1, 0));
    assert!(seen.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0 && pair[0].1 < pair[1].1), "{seen:?}");
    let status = two.status().await.unwrap();
    assert!(status.compacted >= seen[3].1, "{status:?} {seen:?}");
}

/// Keys written about the same time share a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_shared() {
    let Some(cluster) = Cluster::single() else { return };
    let store = connect(&cluster).await;
    let mut leases = BTreeMap::new();
    for (name, seconds) in [("a", 3600), ("b", 3600), ("c", 7200), ("d", 3600)] {
        let ttl = Some(Duration::from_secs(seconds));
        let written = store.create(format!("/lease/{name}").into(), Bytes::new(), ttl).await.unwrap();
        leases.insert(name, written.entry.unwrap().lease);
    }
    assert_eq!((leases["a"], leases["a"]), (leases["b"], leases["d"]));
    assert_ne!(leases["a"], leases["c"]);
}

/// An etcd whose quota is used up: writes are refused with its words, reads and deletions work, and after the alarm is
/// disarmed so do writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_is_read_and_emptied() {
    let Some(binary) = storage_etcd::testing::etcd() else { return };
    let quota = format!("--quota-backend-bytes={}", 4 << 20);
    let cluster = Cluster::start(&binary, 1, &["--unsafe-no-fsync", &quota]);
    let store = connect(&cluster).await;
    let value = Bytes::from(vec![b'x'; 256 << 10]);
    let mut stored = 0;
    let full = loop {
        match store.create(format!("/full/{stored:03}").into(), value.clone(), None).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "it does not become full");
    };
    assert!(matches!(&full, Error::Full(_)), "{full:?}");
    assert_eq!(full.to_string(), "etcdserver: mvcc: database space exceeded");
    assert!(store.get(b"/full/000", None).await.unwrap().entry.is_some());
    let again = store.create("/full/again".into(), Bytes::new(), Some(Duration::from_secs(60))).await;
    assert!(matches!(&again, Err(Error::Full(_))), "{again:?}");
    for number in 0..stored {
        store.delete(format!("/full/{number:03}").into(), None).await.unwrap();
    }
    // A server that has just started has no lease for its receipts, and cannot get one.
    assert!(matches!(connect(&cluster).await.delete("/full/000".into(), None).await, Err(Error::NotFound)));
}
