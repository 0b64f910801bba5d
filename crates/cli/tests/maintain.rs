//! Commands that put one store in the place of another: nothing is lost by them, however often they are run and wherever they end.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use storage::{Change, Expect, KeyRange, RangeQuery, Store, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

fn ferrokube() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ferrokube"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn run(command: &str, data: &Path, arguments: &[&Path]) -> Output {
    ferrokube().arg(command).arg("--data-dir").arg(data).args(arguments).output().unwrap()
}

fn done(command: &str, data: &Path, arguments: &[&Path]) -> String {
    let output = run(command, data, arguments);
    assert!(output.status.success(), "{command}: {}", said(&output));
    said(&output)
}

fn refused(command: &str, data: &Path, arguments: &[&Path], want: &str) {
    let output = run(command, data, arguments);
    assert!(!output.status.success() && said(&output).contains(want), "{command}: {}", said(&output));
}

const FORCE: &str = "--force";

fn force() -> &'static Path {
    Path::new(FORCE)
}

/// Keys and the revision of the store in a data directory, after one more was written.
async fn write(data: &Path, key: &str) -> i64 {
    std::fs::create_dir_all(data).unwrap();
    let store = EmbeddedStore::open(EmbeddedOptions::at(data.join("store.redb"))).unwrap();
    let change = Change::Put { value: vec![b'x'; 20_000].into(), ttl: None };
    let written = store.write(Write { key: key.into(), change, expect: Expect::Any }).await.unwrap();
    store.close().await;
    written.revision
}

async fn keys(data: &Path) -> Vec<String> {
    let store = EmbeddedStore::open(EmbeddedOptions::at(data.join("store.redb"))).unwrap();
    let page = store.range(RangeQuery::new(KeyRange::all())).await.unwrap();
    let keys = page.entries.iter().map(|entry| entry.key.to_string()).collect();
    store.close().await;
    keys
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A data directory with /old, a backup of it, and /later written since.
async fn with_backup() -> (Folder, PathBuf, PathBuf) {
    let folder = Folder(tempfile::tempdir().unwrap());
    let (data, backup) = (folder.path("data"), folder.path("backup"));
    write(&data, "/old").await;
    done("backup", &data, &[&backup]);
    write(&data, "/later").await;
    (folder, data, backup)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_store_that_was_put_aside_is_kept() {
    let (_folder, data, backup) = with_backup().await;
    done("restore", &data, &[force(), &backup]);
    let seen = write(&data, "/first").await;
    done("restore", &data, &[force(), &backup]);
    assert_eq!(keys(&data).await, ["/old"]);
    // No revision is used twice, whichever backup comes back.
    let next = write(&data, "/second").await;
    assert!(next > seen + 1_000, "{seen} was seen, {next} is next");
    // The way back.
    for (aside, want) in
        [("store.redb.before-restore", &["/later", "/old"][..]), ("store.redb.before-restore-2", &["/first", "/old"])]
    {
        let before = seen.max(next);
        done("restore", &data, &[force(), &data.join(aside)]);
        assert_eq!(keys(&data).await, want, "{aside}");
        assert!(write(&data, "/old").await > before + 1_000, "{aside}");
    }
    assert!(data.join("store.redb.before-restore-4").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_restored_changes_nothing() {
    let (folder, data, backup) = with_backup().await;
    refused("restore", &data, &[force(), &data.join("store.redb")], "is the store itself");
    let link = folder.path("link");
    std::os::unix::fs::symlink(data.join("store.redb"), &link).unwrap();
    refused("restore", &data, &[force(), &link], "is the store itself");
    // The new store cannot be written.
    std::fs::create_dir(data.join("store.redb.replacement.partial")).unwrap();
    refused("restore", &data, &[force(), &backup], "store.redb.replacement.partial");
    assert_eq!(keys(&data).await, ["/later", "/old"]);
    std::fs::remove_dir(data.join("store.redb.replacement.partial")).unwrap();
    done("restore", &data, &[force(), &backup]);
    assert_eq!(keys(&data).await, ["/old"]);
}

/// A new machine has no store to look at, so that the time tells which revisions clients may have seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_comes_back_on_new_machines_uses_no_revision_twice() {
    let (folder, _, backup) = with_backup().await;
    let mut last = 0;
    for machine in ["one", "two"] {
        let data = folder.path(machine);
        done("restore", &data, &[&backup]);
        let next = write(&data, "/new").await;
        assert!(next > last, "{machine}: {next} after {last}");
        last = next;
    }
}

/// A restore that ends anywhere leaves the old store, the new one, or files that are refused, and can be run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_is_killed_leaves_a_store() {
    const KILLS: usize = 25;
    let (folder, data, backup) = with_backup().await;
    for key in 0..50 {
        write(&data, &format!("/more/{key:02}")).await;
    }
    let began = std::time::Instant::now();
    done("restore", &folder.path("measured"), &[&backup]);
    let takes = began.elapsed();
    for kill in 0..KILLS {
        let mut command = ferrokube();
        command.arg("restore").arg("--data-dir").arg(&data).args([force(), &backup]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = takes * (kill as u32 + 1) / KILLS as u32;
        tokio::time::sleep(deadline).await;
        let _ = child.kill();
        child.wait().unwrap();
        assert!(data.join("store.redb").exists(), "killed after {deadline:?}");
        let output = run("check", &data, &[]);
        let is_refused = said(&output).contains("damaged");
        assert!(output.status.success() || is_refused, "killed after {deadline:?}: {}", said(&output));
        if output.status.success() {
            assert!(keys(&data).await.contains(&"/old".to_string()), "killed after {deadline:?}");
        }
    }
    done("restore", &data, &[force(), &backup]);
    assert_eq!(keys(&data).await, ["/old"]);
}

/// Keys that were put aside are kept as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_put_aside_again_and_again() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let (data, backup, phrase) = (folder.path("data"), folder.path("backup"), folder.path("phrase"));
    std::fs::write(&phrase, "correct horse\n").unwrap();
    let passphrase = PathBuf::from(format!("--passphrase-file={}", phrase.display()));
    let key = |text: &str| {
        std::fs::create_dir_all(data.join("pki")).unwrap();
        std::fs::write(data.join("pki/ca.key"), text).unwrap();
    };
    write(&data, "/old").await;
    key("of the backup");
    done("backup", &data, &[&passphrase, &backup]);
    for text in ["another", "and another"] {
        key(text);
        refused("restore", &data, &[&passphrase, &backup], "has other keys than the backup");
        done("restore", &data, &[force(), &passphrase, &backup]);
        assert_eq!(std::fs::read_to_string(data.join("pki/ca.key")).unwrap(), "of the backup");
    }
    for (aside, want) in [("pki.before-restore", "another"), ("pki.before-restore-2", "and another")] {
        assert_eq!(std::fs::read_to_string(data.join(aside).join("ca.key")).unwrap(), want);
    }
    assert_eq!(keys(&data).await, ["/old"]);
}

/// A target that does not have everything yet is not served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_was_cut_off_is_not_served() {
    let Some(etcd) = storage_etcd::testing::Cluster::single() else { return };
    let folder = Folder(tempfile::tempdir().unwrap());
    let (data, back) = (folder.path("data"), folder.path("back"));
    write(&data, "/registry/some").await;
    let migrate = |to: &str, data: &Path, more: &[&str]| {
        let mut command = ferrokube();
        command.args(["migrate", "--to", to, "--etcd-servers", &etcd.endpoints().join(","), "--data-dir"]);
        command.arg(data).args(more).output().unwrap()
    };
    // What a copy leaves that was killed.
    write(&data, "/ferrokube/unfinished-migration").await;
    let output = ferrokube().args(["--secure-port=0", "--data-dir"]).arg(&data).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("--resume goes on with it"), "{}", said(&output));
    let output = migrate("etcd", &data, &[]);
    assert!(!output.status.success() && said(&output).contains("was cut off"), "{}", said(&output));
    // A copy that ends takes the mark away.
    write(&back, "/registry/other").await;
    assert!(migrate("etcd", &back, &[]).status.success());
    let output = migrate("embedded", &data, &["--resume"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(keys(&data).await, ["/registry/other", "/registry/some"]);
}

/// The line by which a server is asked for a backup has the whole path.
#[test]
fn paths_of_backups_are_one_line() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let data = folder.path("data");
    let mut command = ferrokube();
    command.args(["--secure-port=0", "--standalone=false", "--data-dir"]).arg(&data);
    let mut server = Serving(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("is ready on")));
    refused("backup", &data, &[&folder.path("evil\nname")], "is not a line of text");
    assert!(!folder.path("evil").exists());
    done("backup", &data, &[&folder.path("blank ")]);
    assert!(folder.path("blank ").exists());
    drop(server);
    // Without a server any path will do.
    done("backup", &data, &[&folder.path("two\nlines")]);
    assert!(folder.path("two\nlines").exists());
}

/// Files that somebody else put into a folder stay.
#[test]
fn assets_for_envtest_replace_nothing_of_others() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let assets = folder.path("assets");
    std::fs::create_dir(&assets).unwrap();
    let make = |path: &str| ferrokube().arg("envtest-assets").arg(&assets).env("PATH", path).output().unwrap();
    for name in ["etcd", "kube-apiserver", "kubectl"] {
        std::fs::write(assets.join(name), "another's").unwrap();
        let output = make("");
        assert!(!output.status.success() && said(&output).contains("exists"), "{name}: {}", said(&output));
        assert_eq!(std::fs::read_to_string(assets.join(name)).unwrap(), "another's");
        std::fs::remove_file(assets.join(name)).unwrap();
    }
    // A folder that is on the path does not become its own source.
    let (tools, path) = (folder.path("tools"), format!("{}:{}", assets.display(), folder.path("tools").display()));
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("kubectl"), "kubectl").unwrap();
    for _ in 0..2 {
        let output = make(&path);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(std::fs::read_to_string(assets.join("kubectl")).unwrap(), "kubectl");
    }
}
