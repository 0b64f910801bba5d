//! `envtest-assets`: a folder for envtest, KUBEBUILDER_ASSETS, in which this program is both kube-apiserver and etcd.
//!
//! By the name `etcd` the program answers envtest's health check and nothing else. The kube-apiserver of such a folder keeps
//! objects in memory if the etcd that it is given is that stand-in. A file in the folder says what the folder is; a
//! kube-apiserver anywhere else never asks.

pub mod etcd;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::say;
use apiserver::flags::{ETCD, KUBE_APISERVER};

const KUBECTL: &str = "kubectl";
/// Says that a folder was made by this command.
const MARK: &str = "ferrokube-envtest";
/// How long the stand-in may take to say what it is.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: u64 = 4096;

pub fn command() -> Command {
    Command::new("envtest-assets")
        .about("Make a folder for KUBEBUILDER_ASSETS, with kube-apiserver, etcd and kubectl")
        .long_about(
            "Make a folder for KUBEBUILDER_ASSETS, with kube-apiserver, etcd and kubectl.\n\nNothing is downloaded: both servers \
             are this program, etcd is a stand-in, and objects are in memory. kubectl is a link to the one on PATH, if there is \
             one.\n\n  export KUBEBUILDER_ASSETS=$(ferrokube envtest-assets .envtest)",
        )
        .arg(Arg::new("folder").value_name("DIR").required(true).value_parser(clap::value_parser!(PathBuf)))
}

pub fn run(matches: &ArgMatches) -> Result<(), String> {
    let folder = matches.get_one::<PathBuf>("folder").ok_or("which folder?")?;
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    if !folder.join(MARK).is_file() {
        // Those of another origin are not ours to replace.
        for path in [KUBE_APISERVER, ETCD, KUBECTL].map(|name| folder.join(name)) {
            if std::fs::symlink_metadata(&path).is_ok() {
                return Err(format!("{} exists, in a folder that was not made by this command", path.display()));
            }
        }
        std::fs::write(folder.join(MARK), concat!(env!("CARGO_PKG_VERSION"), "\n")).map_err(failed)?;
    }
    let program = std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    for name in [KUBE_APISERVER, ETCD] {
        place(&program, &folder.join(name)).map_err(failed)?;
    }
    let link = folder.join(KUBECTL);
    if let Some(kubectl) = on_path(KUBECTL, folder) {
        remove(&link).and_then(|()| std::os::unix::fs::symlink(kubectl, &link)).map_err(failed)?;
    }
    say(&std::path::absolute(folder).map_err(failed)?.display().to_string());
    Ok(())
}

/// A hard link, or a copy where there cannot be one: a name by which the program knows what it is.
fn place(program: &Path, path: &Path) -> io::Result<()> {
    remove(path)?;
    std::fs::hard_link(program, path).or_else(|_| std::fs::copy(program, path).map(drop))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A program that a shell would start, other than one in this folder.
#[allow(clippy::disallowed_methods)]
fn on_path(name: &str, other_than: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let other_than = std::fs::canonicalize(other_than).ok();
    let mut folders = std::env::split_paths(&path).filter(|folder| std::fs::canonicalize(folder).ok() != other_than);
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))?;
    std::path::absolute(found).ok()
}

/// Whether this program was started from a folder made for envtest, and the one etcd that it was told of is the stand-in.
pub async fn has_stand_in(etcd_servers: &[String]) -> bool {
    let program = std::env::args_os().next().map(PathBuf::from);
    let folder = program.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let [server] = etcd_servers else { return false };
    let Some(address) = server.strip_prefix("http://").filter(|_| folder.is_some_and(|f| f.join(MARK).is_file()))
    else {
        return false;
    };
    let asked = tokio::time::timeout(ASK_TIMEOUT, ask(address.trim_end_matches('/'))).await;
    asked.is_ok_and(|answer| answer.is_ok_and(|answer| answer.contains(etcd::SIGN)))
}

async fn ask(address: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
    Ok(answer)
}
