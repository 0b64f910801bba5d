//! The administrative socket in the data directory, mode 0600: one line in, one line out. `ferrokube backup` uses it when the
//! server is running, and `ferrokube console`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storage_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, Report};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::own_console::OwnConsoleCell;
use crate::{kubeconfig, store_path};

/// Longest request line that is read.
const LINE_MAX: u64 = 8 * 1024;
/// The longest path a socket may have is shorter than most paths may be.
const SOCKET_PATH_MAX: usize = 100;

/// How long it waits when a connection cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Listens until it is dropped.
pub struct Admin {
    task: tokio::task::JoinHandle<()>,
    path: PathBuf,
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Admin {
    /// None, with a warning, where there cannot be such a socket; the server does not depend on it.
    pub fn open(data_dir: &Path, store: Arc<EmbeddedStore>, console: OwnConsoleCell) -> Option<Admin> {
        let path = socket_path(data_dir);
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            tracing::debug!("the data directory's path is too long for a socket; backups need a stopped server");
            return None;
        }
        // We hold the store's lock, so a socket that exists was left by a server that has ended.
        let _ = std::fs::remove_file(&path);
        let listener = match UnixListener::bind(&path) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for administrative commands");
                return None;
            }
        };
        use std::os::unix::fs::PermissionsExt;
        let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600));
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(answer(stream, store.clone(), console.clone()))),
                    // Most likely there are no file descriptors left, which passes.
                    Err(error) => {
                        tracing::debug!(%error, "cannot accept an administrative command");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
        Some(Admin { task, path })
    }
}

async fn answer(stream: UnixStream, store: Arc<EmbeddedStore>, console: OwnConsoleCell) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(read.take(LINE_MAX)).read_line(&mut line).await.is_err() {
        return;
    }
    let reply = match line.strip_suffix('\n').and_then(|line| line.split_once(' ')) {
        Some(("backup", target)) => match store.backup(Path::new(target)).await {
            Ok(report) => format!("ok {}\n", describe(&report)),
            Err(error) => format!("error {error}\n"),
        },
        None if line.trim_end() == "console" => match console.get() {
            Some(console) => format!("ok {}\n", console.make_code()),
            None => "error the server has no console\n".to_string(),
        },
        _ => "error unknown command\n".to_string(),
    };
    let _ = write.write_all(reply.as_bytes()).await;
}

/// Backs up the store of a data directory: through its server if one runs, directly otherwise. Answers what was written.
pub async fn backup(data_dir: &Path, target: &Path) -> Result<String, String> {
    if target.exists() {
        return Err(format!("{} exists", target.display()));
    }
    let absolute = std::path::absolute(target).map_err(|error| error.to_string())?;
    if let Ok(stream) = UnixStream::connect(socket_path(data_dir)).await {
        // The line that asks for it ends with the path.
        let path = absolute.to_str().filter(|path| !path.contains('\n'));
        let path = path.ok_or("the path of the backup is not a line of text")?;
        return ask(stream, &format!("backup {path}\n")).await;
    }
    let path = store_path(data_dir);
    if !path.exists() {
        return Err(format!("{} does not exist", path.display()));
    }
    let store = EmbeddedStore::open(EmbeddedOptions::at(path)).map_err(|error| error.to_string())?;
    store.backup(&absolute).await.map(|report| describe(&report)).map_err(|error| error.to_string())
}

/// A link that signs a browser on this machine in to the console of the data directory's server, once.
pub async fn console_link(data_dir: &Path) -> Result<String, String> {
    let connected = UnixStream::connect(socket_path(data_dir)).await;
    let why = |error| format!("no server with an embedded store runs on {}: {error}", data_dir.display());
    let code = ask(connected.map_err(why)?, "console\n").await?;
    let path = data_dir.join("kubeconfig");
    let server = kubeconfig::server_of(&path);
    let why = |error| format!("where the server is cannot be read from {}: {error}", path.display());
    Ok(console::link(&server.map_err(why)?, &code))
}

async fn ask(mut stream: UnixStream, line: &str) -> Result<String, String> {
    let mut reply = String::new();
    stream.write_all(line.as_bytes()).await.map_err(|error| error.to_string())?;
    stream.read_to_string(&mut reply).await.map_err(|error| error.to_string())?;
    match reply.trim_end().split_once(' ') {
        Some(("ok", report)) => Ok(report.to_string()),
        Some((_, why)) => Err(why.to_string()),
        None => Err("the server ended before it answered".into()),
    }
}

/// A report in a line.
pub fn describe(report: &Report) -> String {
    format!("revision {}, {} keys, {} bytes", report.revision, report.keys, report.record_bytes)
}

/// Why a store cannot be used and, if it is damaged, what can be done about it.
pub fn with_way_out(error: &OpenError) -> String {
    match error.is_damage() {
        true => format!(
            "{error}; `ferrokube repair` lists what is lost and keeps the rest, `ferrokube restore --force` goes back to a backup"
        ),
        false => error.to_string(),
    }
}

fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.sock")
}
