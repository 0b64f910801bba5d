//! Stores without room: a quota that is used up, and a file system that is full.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use storage::{Change, Error, Expect, Health, KeyRange, RangeQuery, Revision, Store, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, Reserve, check, restore};
use support::soon;

const EXCEEDED: &str = "etcdserver: mvcc: database space exceeded";
const RESERVE: u64 = 16 << 20;

async fn put(store: &EmbeddedStore, key: &str, bytes: usize) -> Result<Revision, Error> {
    let change = Change::Put { value: Bytes::from(vec![b'x'; bytes]), ttl: None };
    store.write(Write { key: key.into(), change, expect: Expect::Any }).await.map(|written| written.revision)
}

fn is_full(answer: &Result<Revision, Error>) -> bool {
    matches!(answer, Err(Error::Full(message)) if message == EXCEEDED)
}

async fn health(store: &EmbeddedStore) -> Health {
    store.status().await.unwrap().health
}

async fn until(what: &str, store: &EmbeddedStore, is: impl Fn(&Health) -> bool) {
    soon(what, async {
        while !is(&health(store).await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_quota_refuses_what_grows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = EmbeddedOptions { quota_bytes: Some(100_000), ..EmbeddedOptions::at(&path) };
    let store = EmbeddedStore::open(options.clone()).unwrap();
    for number in 0..9 {
        put(&store, &format!("/{number}"), 10_000).await.unwrap();
    }
    assert_eq!(health(&store).await, Health::Healthy);
    let refused = put(&store, "/more", 10_000).await;
    assert!(is_full(&refused), "{refused:?}");
    until(
        "the refusal is seen",
        &store,
        |health| matches!(health, Health::Full(why) if why.contains("--quota-backend-bytes")),
    )
    .await;
    // What does not grow, and what grows a little, as a deletion that waits does.
    put(&store, "/0", 9_000).await.unwrap();
    put(&store, "/0", 10_000).await.unwrap();
    put(&store, "/0", 10_500).await.unwrap();
    assert!(is_full(&put(&store, "/0", 30_000).await));
    // The state survives a restart, and a store may be larger than its quota.
    drop(store);
    let smaller = EmbeddedOptions { quota_bytes: Some(50_000), ..EmbeddedOptions::at(&path) };
    let store = EmbeddedStore::open(smaller).unwrap();
    assert!(is_full(&put(&store, "/more", 1).await));
    assert!(is_full(&put(&store, "/0", 10_600).await), "also the quota's own reserve");
    for number in 0..5 {
        store.delete(format!("/{number}").into(), None).await.unwrap();
    }
    put(&store, "/more", 1000).await.unwrap();
    until("there is room", &store, |health| *health == Health::Healthy).await;
}

/// A small file system that goes away with the test; none where this process may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(directory.path())
            .output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        if !is_mounted {
            eprintln!("not run: a small file system cannot be mounted here");
        }
        is_mounted.then_some(SmallDisk(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
        for bytes in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; bytes]).is_ok() {}
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("-l").arg(self.path()).status());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_file_system_takes_deletions() {
    let Some(disk) = SmallDisk::mount("64m") else { return };
    let path = disk.path().join("store");
    let options = || EmbeddedOptions { reserve: Some(Reserve::beside(&path, RESERVE)), ..EmbeddedOptions::at(&path) };
    let store = Arc::new(EmbeddedStore::open(options()).unwrap());
    for number in 0..400 {
        put(&store, &format!("/{number}"), 20_000).await.unwrap();
    }
    disk.fill();
    // Creations go on until the store's files need more room.
    let mut created = 0;
    let refused = loop {
        match put(&store, &format!("/more/{created}"), 20_000).await {
            Ok(_) => created += 1,
            refused => break refused,
        }
        assert!(created < 2000, "nothing notices that the disk is full");
    };
    assert!(is_full(&refused), "{refused:?}");
    until("it is seen", &store, |health| matches!(health, Health::Full(why) if why.contains("file system mounted at")))
        .await;
    for number in 0..200 {
        store.delete(format!("/{number}").into(), None).await.unwrap();
    }
    store.compact(store.progress().await.unwrap()).await.unwrap();
    // What grows a little is taken while half of the reserve is left, which depends on how much of it checkpoints have needed by now.
    let small = put(&store, "/200", 20_100).await;
    if is_full(&small) {
        let left = std::fs::metadata(disk.path().join("store.reserve")).unwrap().len();
        assert!(left < RESERVE / 2, "{left} bytes of the reserve are left");
    } else {
        small.unwrap();
    }
    // A start with a full disk is possible, and so are deletions after it.
    let revision = store.progress().await.unwrap();
    drop(store);
    let store = Arc::new(EmbeddedStore::open(options()).unwrap());
    assert_eq!(store.progress().await.unwrap(), revision);
    for number in 200..400 {
        store.delete(format!("/{number}").into(), None).await.unwrap();
    }
    let backup = disk.path().join("backup");
    let failed = store.backup(&backup).await.unwrap_err().to_string();
    assert!(failed.contains(&format!("cannot write {}", backup.display())), "the target is to blame: {failed}");
    std::fs::remove_file(disk.path().join("filler")).unwrap();
    until("there is room", &store, |health| *health == Health::Healthy).await;
    put(&store, "/again", 20_000).await.unwrap();
    let page = store.range(RangeQuery::new(KeyRange::all())).await.unwrap();
    assert_eq!(page.count, created + 1);
    drop(store);
    assert_eq!(check(&path).unwrap().keys, created as u64 + 1);
    // Nor is a restored store blamed on its backup.
    disk.fill();
    let restored = restore(&path, &disk.path().join("restored"), 0);
    assert!(matches!(&restored, Err(OpenError::Write { .. })), "{restored:?}");
}
