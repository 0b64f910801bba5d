//! The command as a newcomer meets it: what it prints, what a second start finds, and what it says when it cannot start.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

struct Serving {
    child: Child,
    greeting: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    /// Starts and reads what it says until it says what to try.
    fn start(program: &Path, data_dir: &Path, arguments: &[&str]) -> Serving {
        let mut command = Command::new(program);
        command.args(["--secure-port=0", "--data-dir"]).arg(data_dir).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut greeting = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            greeting.push_str(&line.unwrap());
            greeting.push('\n');
            if greeting.contains("get namespaces") {
                break;
            }
        }
        Serving { child, greeting }
    }

    fn tell_to_stop(&self) {
        Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
    }

    /// Ends as a supervisor would end it, and answers with the exit code.
    fn terminate(mut self) -> Option<i32> {
        self.tell_to_stop();
        self.child.wait().unwrap().code()
    }
}

fn ferrokube() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_ferrokube"))
}

fn run(arguments: &[&str]) -> Output {
    Command::new(ferrokube()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_second_start_reuses_everything() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let first = Serving::start(&ferrokube(), &data, &[]);
    assert!(first.greeting.starts_with("ferrokube is ready on https://127.0.0.1:"), "{}", first.greeting);
    assert!(first.greeting.contains("kubectl --kubeconfig"), "{}", first.greeting);
    assert_eq!(first.terminate(), Some(0));
    let authority = std::fs::read(data.join("pki/ca.crt")).unwrap();
    let key_mode = std::fs::metadata(data.join("pki/ca.key")).unwrap().permissions().mode();
    assert_eq!(key_mode & 0o077, 0, "keys are for their owner only");
    let data_mode = std::fs::metadata(&data).unwrap().permissions().mode();
    assert_eq!(data_mode & 0o777, 0o700, "the data directory is for its owner only");

    // The same server under the name it stands in for.
    let link = folder.path().join("kube-apiserver");
    std::os::unix::fs::symlink(ferrokube(), &link).unwrap();
    let second = Serving::start(&link, &data, &[]);
    assert!(second.greeting.contains("is ready on"), "{}", second.greeting);
    assert_eq!(std::fs::read(data.join("pki/ca.crt")).unwrap(), authority);

    // Another process cannot use its data meanwhile, but can back it up.
    let data_text = data.to_str().unwrap();
    let third = run(&["--secure-port=0", "--data-dir", data_text]);
    assert!(!third.status.success());
    assert!(text(&third.stderr).contains("in use by another process"), "{}", text(&third.stderr));
    let backup = folder.path().join("backup");
    let made = run(&["backup", "--data-dir", data_text, backup.to_str().unwrap()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert_eq!(second.terminate(), Some(0));

    let checked = run(&["check", "--data-dir", data_text]);
    assert!(text(&checked.stdout).contains("is whole"), "{}", text(&checked.stderr));
    let refused = run(&["restore", "--data-dir", data_text, backup.to_str().unwrap()]);
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    let restored = run(&["restore", "--force", "--data-dir", data_text, backup.to_str().unwrap()]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let third = Serving::start(&ferrokube(), &data, &[]);
    assert_eq!(third.terminate(), Some(0));
}

/// A store with a wrong byte is not served; every command says what is wrong and what to do.
#[test]
fn a_damaged_store_is_refused_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let (data_text, backup_text) = (data.to_str().unwrap(), backup.to_str().unwrap());
    assert_eq!(Serving::start(&ferrokube(), &data, &[]).terminate(), Some(0));
    assert!(run(&["backup", "--data-dir", data_text, backup_text]).status.success());
    let damage = || {
        let path = data.join("store.redb");
        let mut bytes = std::fs::read(&path).unwrap();
        let name = b"/registry/namespaces/kube-node-lease";
        let places: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
        assert!(!places.is_empty());
        places.iter().for_each(|at| bytes[at + name.len() + 5] ^= 1);
        std::fs::write(&path, bytes).unwrap();
        // Its write-ahead log still has everything, which would mend the damage.
        for log in ["store.redb.wal-0", "store.redb.wal-1"] {
            std::fs::remove_file(data.join(log)).unwrap();
        }
    };
    let fails = |arguments: &[&str], want: &str| {
        let output = run(arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && said.contains(want), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    };
    damage();
    fails(&["--secure-port=0", "--data-dir", data_text], "`ferrokube repair` lists what is lost");
    fails(&["check", "--data-dir", data_text], "`ferrokube repair` lists what is lost");
    fails(&["backup", "--data-dir", data_text, folder.path().join("other").to_str().unwrap()], "damaged");
    fails(&["repair", "--data-dir", data_text], "kube-node-lease");
    fails(&["repair", "--data-dir", data_text], "--accept-loss");
    let repaired = run(&["repair", "--accept-loss", "--data-dir", data_text]);
    assert!(text(&repaired.stdout).contains("repaired: revision 1000"), "{}", text(&repaired.stderr));
    assert!(data.join("store.redb.before-repair").exists());
    let again = run(&["repair", "--data-dir", data_text]);
    assert!(text(&again.stdout).contains("nothing to repair"), "{}", text(&again.stderr));
    assert_eq!(Serving::start(&ferrokube(), &data, &[]).terminate(), Some(0));

    damage();
    let restored = run(&["restore", "--force", "--data-dir", data_text, backup_text]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert_eq!(Serving::start(&ferrokube(), &data, &[]).terminate(), Some(0));
}

#[test]
fn what_keeps_it_from_starting_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--secure-port={}", taken.local_addr().unwrap().port());
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let below_file = file.join("data");
    let broken = folder.path().join("broken");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("store.redb"), "this is not a store, whatever its name says").unwrap();
    for (arguments, want) in [
        (vec!["--data-dir", data, &port], "cannot listen on 127.0.0.1:"),
        (vec!["--data-dir", below_file.to_str().unwrap()], "the data directory"),
        (vec!["--data-dir", broken.to_str().unwrap()], "cannot open the store"),
        (vec!["--data-dir", data, "--secure-port=no"], "invalid argument \"no\" for \"--secure-port\" flag"),
        (vec!["--data-dir", data, "--authorization-mode=Maybe"], "authorization-mode \"Maybe\" is not a valid mode"),
        (vec!["--data-dir", data, "--no-such-flag"], "--no-such-flag"),
        (vec!["--data-dir", data, "--service-cluster-ip-range=everywhere"], "--service-cluster-ip-range"),
        (vec!["--data-dir", data, "--token-auth-file=missing.csv"], "missing.csv"),
    ] {
        let output = run(&arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?} started");
        assert!(said.contains(want), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        assert!(!Path::new(data).exists(), "{arguments:?} left a data directory behind");
    }
}

/// With `--output json` results and failures are objects, and exit codes tell what is wrong.
#[test]
fn programs_read_results_and_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (data, backup, new) = (path("data"), path("backup"), path("new"));
    let check = |arguments: &[&str], code: i32, wanted: &[&str]| {
        let output = run(&[arguments, &["--output", "json"]].concat());
        let said = if code == 0 { text(&output.stdout) } else { text(&output.stderr) };
        let last = said.lines().last().unwrap_or_default().to_string();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(last.starts_with('{') && last.ends_with('}'), "{arguments:?}: {said}");
        assert!(wanted.iter().all(|part| last.contains(part)), "{arguments:?}: {last} lacks one of {wanted:?}");
    };
    let serving = Serving::start(&ferrokube(), Path::new(&data), &[]);
    check(&["check", "--data-dir", &data], 4, &["\"code\":4", "in use by another process"]);
    check(
        &["backup", "--data-dir", &data, &backup],
        0,
        &["\"revision\":", "\"keys\":", "\"certificates\":\"left out\""],
    );
    assert_eq!(serving.terminate(), Some(0));
    check(&["check", "--data-dir", &data], 0, &["\"whole\":true", "store.redb"]);
    check(&["restore", "--data-dir", &new, &backup], 0, &["\"certificates\":\"none\""]);
    check(&["backup", "--data-dir", &data, &backup], 1, &["\"code\":1", "exists"]);
    std::fs::write(path("data/store.redb"), "this is not a store").unwrap();
    check(&["check", "--data-dir", &data], 3, &["\"code\":3", "is damaged"]);
    check(&["restore", "--data-dir", &path("third"), &path("data/store.redb")], 3, &["\"code\":3"]);
}

/// What was mistyped is named with what may be meant, without colours where those are not wanted.
#[test]
fn a_similar_flag_or_command_is_named() {
    for (arguments, similar) in [
        (["backpu", "x"], "backup"),
        (["--secure-prot=1", "--v=1"], "--secure-port"),
        (["check", "--data-dri=x"], "--data-dir"),
    ] {
        let output = Command::new(ferrokube()).args(arguments).env("NO_COLOR", "1").output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("'{similar}'")), "{arguments:?}: {said}");
        assert!(!said.contains('\x1b'), "{said}");
    }
}

/// A backup with a passphrase is all that a new machine needs; one without says what is missing.
#[test]
fn a_backup_brings_keys_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (data, with, without, phrase) = (path("data"), path("with"), path("without"), path("phrase"));
    std::fs::write(&phrase, "correct horse\n").unwrap();
    let passphrase = format!("--passphrase-file={phrase}");
    assert_eq!(Serving::start(&ferrokube(), Path::new(&data), &[]).terminate(), Some(0));
    let done = |arguments: &[&str], want: &str| {
        let output = run(arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success() && said.contains(want), "{arguments:?}: {said}");
        output
    };
    let fails = |arguments: &[&str], want: &str| {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(want), "{arguments:?}: {said}");
    };
    done(&["--data-dir", &data, "backup", &without], "WITHOUT the keys and certificates");
    done(&["backup", "--data-dir", &data, &passphrase, &with], "with the keys and certificates of");
    fails(&["backup", "--data-dir", &data, &with], "exists");
    // Standard output is the backup and nothing else.
    let written = done(&["--data-dir", &data, "backup", "-"], "backup written: revision");
    let piped = path("piped");
    std::fs::write(&piped, &written.stdout).unwrap();

    let (new, other, wrong) = (path("new"), path("other"), path("wrong"));
    std::fs::write(&wrong, "battery staple\n").unwrap();
    fails(
        &["restore", "--data-dir", &new, &format!("--passphrase-file={wrong}"), &with],
        "the passphrase does not open",
    );
    done(&["restore", "--data-dir", &new, &passphrase, &with], "keys and certificates restored");
    for file in ["ca.key", "ca.crt", "sa.key", "admin.crt"] {
        let read = |data: &str| std::fs::read(Path::new(data).join("pki").join(file)).unwrap();
        assert_eq!(read(&data), read(&new), "{file}");
    }
    assert_eq!(Serving::start(&ferrokube(), Path::new(&new), &[]).terminate(), Some(0));
    done(&["restore", "--data-dir", &other, &with], "NOT restored");
    done(&["restore", "--data-dir", &path("third"), &piped], "has no keys");
    // Other keys are not overwritten.
    assert_eq!(Serving::start(&ferrokube(), Path::new(&other), &[]).terminate(), Some(0));
    fails(&["restore", "--data-dir", &other, &passphrase, &with], "has other keys than the backup");
    done(&["restore", "--force", "--data-dir", &other, &passphrase, &with], "keys and certificates restored");
    assert!(Path::new(&other).join("pki.before-restore/ca.key").exists());
    let left = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("backup")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Told to stop before it is ready, while it waits for an etcd that does not answer, and says so.
#[test]
fn it_stops_while_it_starts() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let etcd = format!("--etcd-servers=http://{}", silent.local_addr().unwrap());
    let mut command = Command::new(ferrokube());
    command.args(["--secure-port=0", &etcd, "--data-dir"]).arg(folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = said.into_iter().find(|line| line.contains("waiting for etcd")).unwrap();
    assert!(line.contains(&silent.local_addr().unwrap().to_string()), "{line}");
    assert_eq!(Serving { child, greeting: String::new() }.terminate(), Some(0));
}

/// Told twice, it does not wait for anything any more, and says that this was not the orderly way.
#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(ferrokube());
    command.args(["--secure-port=0", "--shutdown-delay-duration=1h", "--data-dir"]).arg(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let greeting =
        BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).find(|line| line.contains("ready"));
    assert!(greeting.is_some());
    let serving = Serving { child, greeting: String::new() };
    serving.tell_to_stop();
    assert!(said.any(|line| line.contains("stopping")));
    assert_eq!(serving.terminate(), Some(1));
    assert!(said.any(|line| line.contains("told twice")));
}

#[test]
fn it_speaks_of_itself() {
    assert!(text(&run(&["--version"]).stdout).starts_with("Kubernetes v1.37."));
    let help = text(&run(&["--help"]).stdout);
    for want in ["backup", "Secure serving:", "Etcd:", "--etcd-servers", "no effect: "] {
        assert!(help.contains(want), "{want} is not in the help");
    }
    assert!(text(&run(&["completion", "bash"]).stdout).contains("ferrokube"));
    let folder = tempfile::tempdir().unwrap();
    let nothing = run(&["kubeconfig", "--data-dir", folder.path().to_str().unwrap()]);
    assert!(text(&nothing.stderr).contains("start ferrokube there once"));
}

#[test]
fn everything_moves_to_etcd_and_back() {
    let Some(etcd) = storage_etcd::testing::Cluster::single() else { return };
    let endpoints = etcd.endpoints().join(",");
    let folder = tempfile::tempdir().unwrap();
    let (data, back) = (folder.path().join("data"), folder.path().join("back"));
    let serving = Serving::start(&ferrokube(), &data, &[]);
    assert_eq!(serving.terminate(), Some(0));
    let migrate = |to: &str, data: &Path, more: &[&str]| {
        let arguments = ["migrate", "--to", to, "--etcd-servers", &endpoints, "--data-dir", data.to_str().unwrap()];
        run(&[&arguments, more].concat())
    };
    let copied = |output: &Output| {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        let number = |word: usize| said.split_whitespace().nth(word).unwrap().parse::<usize>().unwrap();
        (number(0), number(3))
    };
    // A wrong prefix is not an empty store.
    let wrong = migrate("etcd", &data, &["--etcd-prefix", "/other"]);
    assert!(
        !wrong.status.success() && text(&wrong.stderr).contains("no keys below /other/"),
        "{}",
        text(&wrong.stderr)
    );
    let (all, there) = copied(&migrate("etcd", &data, &[]));
    assert!(all > 100 && there == 0, "{all} {there}");
    // What is there is not overwritten by accident, and a second copy finds nothing to do.
    assert!(text(&migrate("etcd", &data, &[]).stderr).contains("--resume"));
    assert_eq!(copied(&migrate("etcd", &data, &["--resume"])), (0, all));
    // A server on etcd is noticed.
    let on_etcd = folder.path().join("on-etcd");
    let server = format!("--etcd-servers={endpoints}");
    let serving = Serving::start(&ferrokube(), &on_etcd, &[&server, "--own-authority", "--standalone"]);
    let refused = migrate("embedded", &back, &[]);
    assert!(text(&refused.stderr).contains("a server is running on this etcd"), "{}", text(&refused.stderr));
    let while_running = folder.path().join("while-running");
    assert!(copied(&migrate("embedded", &while_running, &["--while-running"])).0 >= all);
    assert_eq!(serving.terminate(), Some(0));
    assert!(copied(&migrate("embedded", &back, &[])).0 >= all);
    let serving = Serving::start(&ferrokube(), &back, &[]);
    assert!(serving.greeting.contains("is ready on"), "{}", serving.greeting);
    assert_eq!(serving.terminate(), Some(0));
}
