//! Files of the store that change behind the server's back. What was acknowledged is there at the next start, or the start is
//! refused.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use difftest::Client;
use hostile::{ADMIN, Target, request};
use http_body_util::Full;
use serde_json::{Value, json};
use testing::Server;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FILES: [&str; 4] = ["store.redb", "store.redb.wal-0", "store.redb.wal-1", "store.redb.wal-mark"];

/// Copies the store as it is on disk, which is what is left of a server that is killed now. All files are of one moment: where the server
/// has written meanwhile, they are copied again.
fn copy(from: &Path, to: &Path) {
    let read = |folder: &Path| FILES.map(|file| std::fs::read(folder.join(file)).unwrap());
    std::fs::create_dir_all(to).unwrap();
    for _ in 0..100 {
        for file in FILES {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        if read(from) == read(to) {
            return;
        }
    }
    panic!("{} does not stay the same while it is copied", from.display());
}

async fn create_some(target: &Target, name: &str, count: usize) {
    for number in 0..count {
        let object = json!({"metadata": {"name": format!("{name}-{number}")}, "data": {"a": "b"}});
        assert_eq!(target.ask(ADMIN, "POST", MAPS, object.to_string()).await.code, 201);
    }
}

/// The file of the log that is being written, and the other one.
fn logs(folder: &Path) -> (PathBuf, PathBuf) {
    let [first, second] = ["store.redb.wal-0", "store.redb.wal-1"].map(|name| folder.join(name));
    let generation = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.get(8..16).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
    };
    if generation(&first) > generation(&second) { (first, second) } else { (second, first) }
}

fn zero(path: &Path, at: u64, length: usize) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(&vec![0; length], at).unwrap();
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn put_back(store: &Path, old: &Path, file: &str) {
    std::fs::copy(old.join(file), store.join(file)).unwrap();
}

type Attack = fn(store: &Path, old: &Path);

/// What is done to the files, and what the refusal names; none if nothing is lost by it. Where the database has everything already, damage
/// to the log loses nothing either.
const ATTACKS: [(&str, Attack, Option<&str>); 14] = [
    ("nothing", |_, _| {}, None),
    ("the log's header is zeroed", |store, _| zero(&logs(store).0, 0, 512), Some("store.redb.wal-")),
    ("its last group is zeroed", |store, _| zero(&logs(store).0, 4096, 60 << 10), Some("store.redb.wal-")),
    ("it is deleted", |store, _| std::fs::remove_file(logs(store).0).unwrap(), Some("store.redb.wal-")),
    ("it is emptied", |store, _| cut(&logs(store).0, 0), Some("store.redb.wal-")),
    ("it is cut", |store, _| cut(&logs(store).0, 8 << 10), Some("store.redb.wal-")),
    (
        "it is replaced with the other file",
        |store, _| {
            std::fs::copy(logs(store).1, logs(store).0).unwrap();
        },
        Some("store.redb.wal-"),
    ),
    (
        "it is an old copy",
        |store, old| {
            let active = logs(store).0;
            put_back(store, old, active.file_name().unwrap().to_str().unwrap());
        },
        Some("store.redb.wal-"),
    ),
    (
        "both are deleted",
        |store, _| {
            let (one, other) = logs(store);
            [one, other].iter().for_each(|file| std::fs::remove_file(file).unwrap());
        },
        Some("store.redb.wal-"),
    ),
    (
        "all but the database are deleted",
        |store, _| FILES[1..].iter().for_each(|file| std::fs::remove_file(store.join(file)).unwrap()),
        Some("store.redb.wal-mark"),
    ),
    ("the mark is deleted", |store, _| std::fs::remove_file(store.join(FILES[3])).unwrap(), Some(FILES[3])),
    ("the mark is an old copy", |store, old| put_back(store, old, FILES[3]), None),
    ("the database is deleted", |store, _| std::fs::remove_file(store.join(FILES[0])).unwrap(), Some(FILES[0])),
    (
        "the log's files are swapped",
        |store, _| {
            let (one, other) = logs(store);
            let aside = store.join("aside");
            for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
                std::fs::rename(from, to).unwrap();
            }
        },
        None,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_not_the_one_that_must_follow_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (live, old, killed) = (folder.path().join("live"), folder.path().join("old"), folder.path().join("killed"));
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, format!("{ADMIN},{ADMIN},uid,system:masters\n")).unwrap();
    let target = Target::start_with(|builder| builder.folder(&live)).await;
    create_some(&target, "early", 60).await;
    copy(&live, &old);
    create_some(&target, "late", 60).await;
    copy(&live, &killed);
    for (number, (what, attack, named)) in ATTACKS.into_iter().enumerate() {
        let store = folder.path().join(format!("attacked-{number}"));
        copy(&killed, &store);
        attack(&store, &old);
        let builder = Server::builder().bare().folder(&store);
        let started = builder.configure(|config| config.token_auth_file = Some(tokens.clone())).start().await;
        match (started, named) {
            (Err(error), Some(name)) => {
                let said = error.to_string();
                assert!(said.contains(name) && said.contains("`ferrokube repair`"), "{what}: {said}");
            }
            (Ok(server), _) => {
                let client = Client::new(server.running().address, ADMIN).unwrap();
                let answer = client.send(request(ADMIN, "GET", MAPS).body(Full::new(Bytes::new())).unwrap()).await;
                let list: Value = serde_json::from_slice(&answer.unwrap().into_body()).unwrap();
                let found = list["items"].as_array().unwrap().len();
                assert!(found >= 120, "{what}: it starts without a word, with {found} objects");
                server.stop().await;
            }
            (Err(error), None) => panic!("{what}: {error}"),
        }
    }
}
