//! Files: opening, closing, backing up, checking, and files that are not what they should be.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use redb::{Database, TableDefinition};
use storage::{Change, Error, Expect, KeyRange, RangeQuery, Revision, Store, WatchRequest, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, check, restore};
use support::soon;

async fn put(store: &EmbeddedStore, key: &str, value: &str) -> Revision {
    put_for(store, key, value, None).await
}

async fn put_for(store: &EmbeddedStore, key: &str, value: &str, ttl: Option<Duration>) -> Revision {
    let change = Change::Put { value: Bytes::from(value.to_string()), ttl };
    store.write(Write { key: key.into(), change, expect: Expect::Any }).await.unwrap().revision
}

async fn dump(store: &EmbeddedStore, at: Option<Revision>) -> Vec<String> {
    let page = store.range(RangeQuery { at, ..RangeQuery::new(KeyRange::all()) }).await.unwrap();
    let line = |entry: &storage::Entry| {
        let value = String::from_utf8_lossy(&entry.value).into_owned();
        format!("{}={value} c{} m{} v{}", entry.key, entry.create_revision, entry.mod_revision, entry.version)
    };
    page.entries.iter().map(|entry| line(entry)).collect()
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    (directory, path)
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let (_directory, path) = file();
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    put(&store, "/a", "1").await;
    let middle = put(&store, "/b", "1").await;
    put(&store, "/a", "2").await;
    store.delete("/b".into(), None).await.unwrap();
    put(&store, "/c", "1").await;
    let (now, then) = (dump(&store, None).await, dump(&store, Some(middle)).await);
    let revision = store.progress().await.unwrap();
    drop(store);

    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    assert_eq!(store.progress().await.unwrap(), revision);
    assert_eq!(dump(&store, None).await, now);
    assert_eq!(dump(&store, Some(middle)).await, then, "history too");
    // Compacted down to the last revision, everything is in the base and the log is empty.
    store.compact(revision).await.unwrap();
    drop(store);
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    assert_eq!(store.progress().await.unwrap(), revision, "a revision must not be used again");
    assert_eq!(dump(&store, None).await, now);
    assert!(put(&store, "/d", "1").await > revision);
}

#[tokio::test]
async fn compaction_gives_space_back() {
    let (_directory, path) = file();
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    let large = "x".repeat(100_000);
    let mut last = 0;
    for round in 0..200 {
        last = put(&store, &format!("/{}", round % 10), &large).await;
        if round % 50 == 49 {
            store.compact(last).await.unwrap();
        }
    }
    soon("compaction", async {
        while store.status().await.unwrap().size_in_use > 2_000_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    drop(store);
    let report = check(&path).unwrap();
    assert_eq!((report.keys, report.records, report.revision), (10, 10, last));
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 16_000_000, "{size} bytes for 1 MB of data: freed pages must be used again");
}

#[tokio::test]
async fn history_is_limited_by_itself() {
    let (_directory, path) = file();
    let by_size = EmbeddedOptions { history_bytes: 50_000, ..EmbeddedOptions::at(&path) };
    let store = EmbeddedStore::open(by_size).unwrap();
    let first = put(&store, "/a", &"x".repeat(1000)).await;
    for _ in 0..200 {
        put(&store, "/a", &"x".repeat(1000)).await;
    }
    let status = store.status().await.unwrap();
    assert!(status.compacted > first && status.compacted < status.revision, "{status:?}");
    assert!(status.revision - status.compacted <= 50, "{status:?}");
    drop(store);

    let (_directory, path) = file();
    let by_age = EmbeddedOptions { history_age: Duration::from_millis(50), ..EmbeddedOptions::at(&path) };
    let store = EmbeddedStore::open(by_age).unwrap();
    let revision = put(&store, "/a", "1").await;
    soon("compaction by age", async {
        while store.status().await.unwrap().compacted < revision {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(dump(&store, None).await.len(), 1);
}

#[tokio::test]
async fn expiry_survives_a_restart() {
    let (_directory, path) = file();
    let minutes = Arc::new(AtomicU64::new(0));
    let clock = {
        let minutes = minutes.clone();
        Arc::new(move || Duration::from_secs(60 * minutes.load(Ordering::SeqCst)))
    };
    let options = EmbeddedOptions { clock, ..EmbeddedOptions::at(&path) };
    let hour = Duration::from_secs(3600);
    let store = EmbeddedStore::open(options.clone()).unwrap();
    put_for(&store, "/one", "x", Some(hour)).await;
    put_for(&store, "/two", "x", Some(2 * hour)).await;
    let last = put(&store, "/three", "x").await;
    // Also when it is in the base.
    store.compact(last).await.unwrap();
    drop(store);

    // The time between two runs does not count, nor where the clock begins.
    for (opened, closed) in [(1000, 1029), (5, 34)] {
        minutes.store(opened, Ordering::SeqCst);
        let store = EmbeddedStore::open(options.clone()).unwrap();
        minutes.store(closed, Ordering::SeqCst);
        assert_eq!(dump(&store, None).await.len(), 3);
        drop(store);
    }
    minutes.store(0, Ordering::SeqCst);
    let store = EmbeddedStore::open(options).unwrap();
    minutes.store(30, Ordering::SeqCst);
    put(&store, "/wakes", "the writer").await;
    let mut stream = store.watch(WatchRequest::after(KeyRange::all(), last)).await.unwrap();
    let event = loop {
        let batch = soon("the expiry", stream.next()).await.unwrap().unwrap();
        if let Some(event) = batch.events.iter().find(|event| event.is_delete()) {
            break event.clone();
        }
    };
    assert!(event.key.as_bytes() == b"/one", "{event:?}");
    assert_eq!(dump(&store, None).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_while_serving_and_restore() {
    let (directory, path) = file();
    let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap());
    for number in 0..500 {
        put(&store, &format!("/a/{}", number % 100), &number.to_string()).await;
    }
    let done = store.progress().await.unwrap();
    store.compact(done - 200).await.unwrap();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 0.. {
                put(&store, &format!("/busy/{}", number % 10), "x").await;
            }
        }
    });
    let backup = directory.path().join("backup");
    let report = store.backup(&backup).await.unwrap();
    writer.abort();
    assert!(report.revision >= done && report.compacted == done - 200, "{report:?}");
    assert_eq!(check(&backup).unwrap(), report);
    let again = store.backup(&backup).await;
    assert!(matches!(&again, Err(Error::Unavailable(message)) if message.contains("exists")), "{again:?}");
    let expected = dump(&store, Some(report.revision)).await;
    drop(store);

    let restored = directory.path().join("restored");
    assert_eq!(restore(&backup, &restored, 0).unwrap(), report);
    let store = EmbeddedStore::open(EmbeddedOptions::at(&restored)).unwrap();
    assert_eq!(dump(&store, None).await, expected);
    assert_eq!(store.progress().await.unwrap(), report.revision);
    drop(store);
    assert!(matches!(restore(&backup, &restored, 0), Err(OpenError::Exists { .. })));

    // Skipping revisions keeps clients that saw more than the backup has from being fooled.
    let skipped = directory.path().join("skipped");
    restore(&backup, &skipped, 1_000_000).unwrap();
    let store = EmbeddedStore::open(EmbeddedOptions::at(&skipped)).unwrap();
    assert_eq!(dump(&store, None).await, expected);
    assert_eq!(store.progress().await.unwrap(), report.revision + 1_000_000);
    let resumed = store.watch(WatchRequest::after(KeyRange::all(), report.revision + 5)).await;
    assert!(matches!(resumed.map(drop), Err(Error::Compacted { .. })));
    assert!(put(&store, "/new", "x").await > report.revision + 1_000_000);
}

#[tokio::test]
async fn a_file_in_use_is_refused() {
    let (directory, path) = file();
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    let second = EmbeddedStore::open(EmbeddedOptions::at(&path)).map(drop);
    assert!(matches!(second, Err(OpenError::Locked { .. })), "{second:?}");
    assert!(second.unwrap_err().to_string().ends_with("store is in use by another process"));
    assert!(matches!(check(&path), Err(OpenError::Locked { .. })));
    assert!(matches!(restore(&path, &directory.path().join("copy"), 0), Err(OpenError::Locked { .. })));
    drop(store);
    EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
}

#[tokio::test]
async fn files_that_are_something_else_are_refused() {
    let (directory, path) = file();
    std::fs::write(&path, b"apiVersion: v1\nkind: Pod\n").unwrap();
    let opened = EmbeddedStore::open(EmbeddedOptions::at(&path)).map(drop);
    assert!(matches!(opened, Err(OpenError::Corrupt { .. })), "{opened:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"apiVersion: v1\nkind: Pod\n", "and left alone");

    let other = directory.path().join("other");
    let database = Database::create(&other).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("somebody else's")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let opened = EmbeddedStore::open(EmbeddedOptions::at(&other)).map(drop);
    assert!(matches!(&opened, Err(OpenError::Corrupt { message, .. }) if message.contains("another program")));

    let missing = directory.path().join("no/such/directory");
    assert!(matches!(EmbeddedStore::open(EmbeddedOptions::at(&missing)).map(drop), Err(OpenError::Io { .. })));
    assert!(matches!(check(&missing), Err(OpenError::Io { .. })));
}

#[tokio::test]
async fn newer_formats_are_refused() {
    let (_directory, path) = file();
    put(&EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap(), "/a", "1").await;
    set_meta(&path, "format", 5);
    let opened = EmbeddedStore::open(EmbeddedOptions::at(&path)).map(drop);
    assert!(matches!(opened, Err(OpenError::NewerFormat { found: 5, known: 4, .. })), "{opened:?}");
    assert!(opened.unwrap_err().to_string().contains("written by a newer version"));
    // An older format cannot have a checksum, and numbers must match it.
    for (name, number, right) in [("format", 2, 4), ("compacted", 1000, 0), ("base records", 7, 0)] {
        set_meta(&path, name, number);
        let opened = EmbeddedStore::open(EmbeddedOptions::at(&path)).map(drop);
        let is_found = matches!(&opened, Err(OpenError::Corrupt { message, .. }) if message.contains("checksum"));
        assert!(is_found, "{name}: {opened:?}");
        set_meta(&path, name, right);
    }
    assert_eq!(check(&path).unwrap().keys, 1);
}

fn set_meta(path: &Path, name: &str, number: i64) {
    let database = Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<&str, i64>::new("meta")).unwrap().insert(name, number).unwrap();
    transaction.commit().unwrap();
}

/// Whatever is damaged in a file, it is opened with everything in it or refused with a reason; it never panics.
#[tokio::test]
async fn damaged_files_are_found_out() {
    let (directory, path) = file();
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    for number in 0..300 {
        put(&store, &format!("/{}", number % 40), &format!("{number}{}", "x".repeat(900))).await;
    }
    store.compact(store.progress().await.unwrap() - 100).await.unwrap();
    let expected = dump(&store, None).await;
    drop(store);
    let intact = std::fs::read(&path).unwrap();
    let damaged_path = directory.path().join("damaged");
    let mut refused = 0;
    for step in 0..120usize {
        let mut damaged = intact.clone();
        match step % 3 {
            // A page of zeros, a flipped bit, a file that ends early.
            0 => damaged[step * intact.len() / 120 / 4096 * 4096..][..4096].fill(0),
            1 => damaged[step * intact.len() / 120 + step] ^= 0x10,
            _ => damaged.truncate(step * intact.len() / 120),
        }
        std::fs::write(&damaged_path, &damaged).unwrap();
        match check(&damaged_path) {
            Err(error) => {
                refused += 1;
                assert!(matches!(error, OpenError::Corrupt { .. } | OpenError::Io { .. }), "{error:?}");
            }
            Ok(_) => {
                let store = EmbeddedStore::open(EmbeddedOptions::at(&damaged_path)).unwrap();
                assert_eq!(dump(&store, None).await, expected, "step {step}: damage went unnoticed");
            }
        }
    }
    assert!(refused >= 40, "only {refused} of 120 were refused");
}

/// Files written by earlier versions of this crate. When the format changes, add fixtures, never replace one.
#[tokio::test]
async fn files_of_earlier_versions_are_read() {
    let (_directory, path) = file();
    unpack(include_bytes!("fixtures/format-1.redb.gz"), &path);
    looks_like_the_fixture(&path, 1).await;
    // By now it is of the current format.
    assert_eq!(check(&path).unwrap().format, 4);

    // A store that was killed: its last changes are in the write-ahead log only.
    let (_directory, path) = file();
    unpack(include_bytes!("fixtures/format-2.redb.gz"), &path);
    unpack(include_bytes!("fixtures/format-2.wal-0.gz"), &path.with_extension("wal-0"));
    unpack(include_bytes!("fixtures/format-2.wal-1.gz"), &path.with_extension("wal-1"));
    looks_like_the_fixture(&path, 2).await;
    assert_eq!(check(&path).unwrap().format, 4);

    // The same with checksums.
    let (_directory, path) = file();
    unpack(include_bytes!("fixtures/format-3.redb.gz"), &path);
    unpack(include_bytes!("fixtures/format-3.wal-0.gz"), &path.with_extension("wal-0"));
    unpack(include_bytes!("fixtures/format-3.wal-1.gz"), &path.with_extension("wal-1"));
    looks_like_the_fixture(&path, 3).await;
    assert_eq!(check(&path).unwrap().format, 4);

    // With a log that the database knows.
    let (_directory, path) = file();
    unpack(include_bytes!("fixtures/format-4.redb.gz"), &path);
    unpack(include_bytes!("fixtures/format-4.wal-0.gz"), &path.with_extension("wal-0"));
    unpack(include_bytes!("fixtures/format-4.wal-1.gz"), &path.with_extension("wal-1"));
    unpack(include_bytes!("fixtures/format-4.wal-mark.gz"), &path.with_extension("wal-mark"));
    looks_like_the_fixture(&path, 4).await;
}

/// Backups that earlier versions made can be restored.
#[tokio::test]
async fn backups_of_earlier_versions_are_restored() {
    for skipped in [0, 1_000_000] {
        let (directory, path) = file();
        let backup = directory.path().join("backup");
        unpack(include_bytes!("fixtures/format-1.redb.gz"), &backup);
        let report = restore(&backup, &path, skipped).unwrap();
        assert_eq!((report.format, report.revision, report.keys), (4, 41 + skipped, 6));
        assert_eq!(check(&backup).unwrap().format, 1, "the backup is left as it is");
        let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
        assert_eq!(dump(&store, None).await[1], "/registry/item/0=item 35 c3 m38 v8");
        assert!(put(&store, "/new", "x").await > 41 + skipped);
    }
}

fn unpack(compressed: &[u8], path: &Path) {
    let mut decoder = flate2::read::GzDecoder::new(compressed);
    std::io::copy(&mut decoder, &mut std::fs::File::create(path).unwrap()).unwrap();
}

/// How the fixture was made: this leaves the files behind, to be compressed and checked in.
#[tokio::test]
async fn the_fixture_can_be_made_again() {
    let (_directory, path) = file();
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    put(&store, "/registry/gone", "soon gone").await;
    for number in 0..35 {
        put(&store, &format!("/registry/item/{}", number % 5), &format!("item {number}")).await;
    }
    store.compact(31).await.unwrap();
    drop(store);
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    for number in 35..37 {
        put(&store, &format!("/registry/item/{}", number % 5), &format!("item {number}")).await;
    }
    store.delete("/registry/gone".into(), None).await.unwrap();
    put_for(&store, "/registry/expires", "later", Some(Duration::from_secs(100 * 365 * 24 * 3600))).await;
    // As they lie there now, before anything of it gets into the database.
    let left = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (_other, copy) = file();
    for (from, name) in
        [("redb", "store"), ("wal-0", "store.wal-0"), ("wal-1", "store.wal-1"), ("wal-mark", "store.wal-mark")]
    {
        let bytes = std::fs::read(path.with_file_name(name)).unwrap();
        std::fs::write(left.join(format!("format-4.{from}")), &bytes).unwrap();
        std::fs::write(copy.with_file_name(name), &bytes).unwrap();
    }
    drop(store);
    looks_like_the_fixture(&copy, 4).await;
}

#[tokio::test]
async fn a_missing_write_ahead_log_is_noticed() {
    let (directory, path) = file();
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    put(&store, "/a", "1").await;
    let lost = directory.path().join("lost");
    std::fs::copy(&path, &lost).unwrap();
    drop(store);
    let opened = EmbeddedStore::open(EmbeddedOptions::at(&lost)).map(drop);
    assert!(
        matches!(&opened, Err(OpenError::Corrupt { message, .. }) if message.contains("write-ahead log is missing"))
    );
    // After closing in order it is not needed.
    for name in ["store.wal-0", "store.wal-1"] {
        std::fs::remove_file(directory.path().join(name)).unwrap();
    }
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    assert_eq!(dump(&store, None).await.len(), 1);
}

/// Logs of other stores are not read, whatever state the database is in.
#[tokio::test]
async fn logs_of_other_stores_are_refused() {
    let (directory, path) = file();
    let other = directory.path().join("other");
    for path in [&path, &other] {
        put(&EmbeddedStore::open(EmbeddedOptions::at(path)).unwrap(), "/a", "1").await;
    }
    std::fs::copy(path.with_file_name("other.wal-1"), path.with_file_name("store.wal-1")).unwrap();
    let opened = EmbeddedStore::open(EmbeddedOptions::at(&path)).map(drop);
    let is_named = matches!(&opened, Err(OpenError::Corrupt { message, .. })
        if message.contains("store.wal-1 belongs to another store"));
    assert!(is_named, "{opened:?}");
    // What is left of a store is not a place for a new one; repair finds what the log has.
    let (directory, path) = file();
    put(&EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap(), "/a", "1").await;
    std::fs::remove_file(&path).unwrap();
    let opened = EmbeddedStore::open(EmbeddedOptions::at(&path)).map(drop);
    assert!(matches!(&opened, Err(OpenError::Corrupt { message, .. }) if message.contains("is missing")), "{opened:?}");
    assert!(!path.exists() && matches!(check(&path), Err(OpenError::Corrupt { .. })));
    let salvage = storage_embedded::examine(&path).unwrap();
    assert_eq!((salvage.keys(), salvage.losses()), (1, &[storage_embedded::Loss::Numbers][..]));
    salvage.write(&directory.path().join("repaired"), 1000).unwrap();
}

async fn looks_like_the_fixture(path: &Path, format: i64) {
    let report = check(path).unwrap();
    assert_eq!((report.format, report.revision, report.compacted, report.keys), (format, 41, 31, 6));
    let store = EmbeddedStore::open(EmbeddedOptions::at(path)).unwrap();
    assert_eq!(
        dump(&store, None).await,
        [
            "/registry/expires=later c41 m41 v1",
            "/registry/item/0=item 35 c3 m38 v8",
            "/registry/item/1=item 36 c4 m39 v8",
            "/registry/item/2=item 32 c5 m35 v7",
            "/registry/item/3=item 33 c6 m36 v7",
            "/registry/item/4=item 34 c7 m37 v7",
        ]
    );
    assert_ne!(store.get(b"/registry/expires", None).await.unwrap().entry.unwrap().lease, 0);
    assert_eq!(
        dump(&store, Some(31)).await,
        [
            "/registry/gone=soon gone c2 m2 v1",
            "/registry/item/0=item 25 c3 m28 v6",
            "/registry/item/1=item 26 c4 m29 v6",
            "/registry/item/2=item 27 c5 m30 v6",
            "/registry/item/3=item 28 c6 m31 v6",
            "/registry/item/4=item 24 c7 m27 v5",
        ]
    );
    let mut stream = store.watch(WatchRequest::after(KeyRange::all(), 38)).await.unwrap();
    let events = soon("events", stream.next()).await.unwrap().unwrap().events;
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), [39, 40, 41]);
    assert!(events[1].is_delete() && events[1].previous.as_ref().unwrap().value == "soon gone");
    assert!(put(&store, "/registry/item/0", "new").await > 41);
}

/// The store, its write-ahead log and backups hold every secret of the cluster.
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, path) = file();
    let backup = directory.path().join("backup");
    let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
    put(&store, "/a", "1").await;
    store.backup(&backup).await.unwrap();
    drop(store);
    let files = || std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let modes = || files().map(|file| std::fs::metadata(file).unwrap().permissions().mode() & 0o777);
    assert_eq!(modes().collect::<Vec<_>>(), [0o600; 5], "{:?}", files().collect::<Vec<_>>());
    files().for_each(|file| std::fs::set_permissions(file, PermissionsExt::from_mode(0o644)).unwrap());
    std::fs::remove_file(&backup).unwrap();
    drop(EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap());
    assert_eq!(modes().collect::<Vec<_>>(), [0o600; 4], "corrected at the next start");
}
