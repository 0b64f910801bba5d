//! The administrative socket in the data directory, mode 0600, for `ferrokube backup` and `ferrokube console` while the server is running: one
//! line in; out come lines that say how far the work is, if they were asked for, and one line with its outcome.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use storage::Revision;
use storage::meter::{Meter, Reached, Step};
use storage_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, Report};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};

use crate::own_console::Console;
use crate::{kubeconfig, store_path};

/// Longest request line that is read.
const LINE_MAX: u64 = 8 * 1024;
/// How often a running server says how far a backup is.
const TOLD_EVERY: Duration = Duration::from_millis(250);
/// Requests for a backup: one with lines that tell how far it is, or one without, which is all that earlier servers know.
const TELL_BACKUP: &str = "tell-backup";
const BACKUP: &str = "backup";
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
    pub fn open(data_dir: &Path, store: Arc<EmbeddedStore>, console: Option<Arc<Console>>) -> Option<Admin> {
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

async fn answer(stream: UnixStream, store: Arc<EmbeddedStore>, console: Option<Arc<Console>>) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(read.take(LINE_MAX)).read_line(&mut line).await.is_err() {
        return;
    }
    let reply = match line.strip_suffix('\n').and_then(|line| line.split_once(' ')) {
        Some((BACKUP, target)) => reply(store.backup(Path::new(target)).await),
        Some((TELL_BACKUP, target)) => reply(tell_backup(&mut write, &store, Path::new(target)).await),
        None if line.trim_end() == "console" => match console {
            Some(console) => format!("ok {}\n", console.make_code()),
            None => "error the server has no console\n".to_string(),
        },
        _ => "error unknown command\n".to_string(),
    };
    let _ = write.write_all(reply.as_bytes()).await;
}

fn reply(outcome: storage::Result<Report>) -> String {
    match outcome {
        Ok(report) => format!("ok {}\n", Summary::from(&report)),
        Err(error @ storage::Error::Corrupt { .. }) => format!("damaged {error}\n"),
        Err(error) => format!("error {error}\n"),
    }
}

/// Backs up, and says meanwhile how far that is. It goes on if the asker leaves.
async fn tell_backup(write: &mut OwnedWriteHalf, store: &EmbeddedStore, target: &Path) -> storage::Result<Report> {
    let meter: Arc<Meter> = Arc::default();
    let mut work = std::pin::pin!(store.backup_with(target, meter.clone()));
    let mut clock = tokio::time::interval(TOLD_EVERY);
    loop {
        tokio::select! {
            outcome = &mut work => return outcome,
            _ = clock.tick() => drop(write.write_all(told(meter.reached()).as_bytes()).await),
        }
    }
}

/// How far the work is, as a line.
fn told(reached: Reached) -> String {
    format!("progress {} {} {} {}\n", reached.step.name(), reached.done, reached.all, reached.bytes)
}

fn heard(line: &str) -> Option<Reached> {
    let mut words = line.strip_prefix("progress ")?.split(' ');
    let step = Step::of(words.next()?)?;
    let mut number = || words.next()?.parse().ok();
    Some(Reached { step, done: number()?, all: number()?, bytes: number()? })
}

/// Why a backup was not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something in the store does not match its checksum.
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Other(String),
}

/// Backs up the store of a data directory: through its server if one runs, directly otherwise.
pub async fn backup(data_dir: &Path, target: &Path, meter: &Arc<Meter>) -> Result<Summary, BackupError> {
    let other = |error: std::io::Error| BackupError::Other(error.to_string());
    if target.exists() {
        return Err(BackupError::Other(format!("{} exists", target.display())));
    }
    let absolute = std::path::absolute(target).map_err(other)?;
    let connect = || UnixStream::connect(socket_path(data_dir));
    if let Ok(stream) = connect().await {
        // The line that asks for it ends with the path.
        let path = absolute.to_str().filter(|path| !path.contains('\n'));
        let path = path.ok_or_else(|| BackupError::Other("the path of the backup is not a line of text".into()))?;
        let seen: &Meter = meter;
        let answered = match ask(stream, &format!("{TELL_BACKUP} {path}"), Some(seen)).await {
            // The server is of an earlier version.
            Err(BackupError::Other(why)) if why == "unknown command" => {
                ask(connect().await.map_err(other)?, &format!("{BACKUP} {path}"), None).await
            }
            answered => answered,
        };
        return answered?.parse().map_err(BackupError::Other);
    }
    let path = store_path(data_dir);
    if !path.exists() {
        return Err(BackupError::Other(format!("{} does not exist", path.display())));
    }
    let store = EmbeddedStore::open(EmbeddedOptions { meter: Some(meter.clone()), ..EmbeddedOptions::at(path) })?;
    store.backup_with(&absolute, meter.clone()).await.map(|report| Summary::from(&report)).map_err(
        |error| match error {
            error @ storage::Error::Corrupt { .. } => BackupError::Damaged(error.to_string()),
            error => BackupError::Other(error.to_string()),
        },
    )
}

/// A link that signs a browser on this machine in to the console of the data directory's server, once.
#[cfg(feature = "console")]
pub async fn console_link(data_dir: &Path) -> Result<String, String> {
    let connected = UnixStream::connect(socket_path(data_dir)).await;
    let why = |error| format!("no server with an embedded store runs on {}: {error}", data_dir.display());
    let code = ask(connected.map_err(why)?, "console", None).await.map_err(|error| error.to_string())?;
    let path = data_dir.join("kubeconfig");
    let server = kubeconfig::server_of(&path);
    let why = |error| format!("where the server is cannot be read from {}: {error}", path.display());
    Ok(console::link(&server.map_err(why)?, &code))
}

/// Asks a running server, and notes how far it says it is.
async fn ask(mut stream: UnixStream, what: &str, meter: Option<&Meter>) -> Result<String, BackupError> {
    let failed = |error: std::io::Error| BackupError::Other(format!("the server did not finish: {error}"));
    stream.write_all(format!("{what}\n").as_bytes()).await.map_err(failed)?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next_line().await.map_err(failed)? {
        if let Some(reached) = heard(&line) {
            meter.iter().for_each(|meter| meter.set(reached));
            continue;
        }
        return match line.split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_string()),
            Some(("damaged", why)) => Err(BackupError::Damaged(why.into())),
            Some((_, why)) => Err(BackupError::Other(why.into())),
            None => Err(BackupError::Other(line)),
        };
    }
    Err(BackupError::Other("the server ended before it answered".into()))
}

/// The size of a store or a backup, in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub revision: Revision,
    pub keys: u64,
    pub bytes: u64,
}

impl From<&Report> for Summary {
    fn from(report: &Report) -> Summary {
        Summary { revision: report.revision, keys: report.keys, bytes: report.record_bytes }
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, {} keys, {} bytes", self.revision, self.keys, self.bytes)
    }
}

impl FromStr for Summary {
    type Err = String;

    fn from_str(text: &str) -> Result<Summary, String> {
        let read = || {
            let (revision, rest) = text.strip_prefix("revision ")?.split_once(", ")?;
            let (keys, rest) = rest.split_once(" keys, ")?;
            let bytes = rest.strip_suffix(" bytes")?;
            Some(Summary { revision: revision.parse().ok()?, keys: keys.parse().ok()?, bytes: bytes.parse().ok()? })
        };
        read().ok_or_else(|| format!("the server answered {}", object::quote(text)))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let summary = Summary { revision: 7, keys: 3, bytes: 1234 };
        assert_eq!(summary.to_string().parse(), Ok(summary));
        for text in ["", "revision 7", "revision 7, x keys, 4 bytes", "revision 7, 3 keys, 4 bytes more"] {
            assert!(text.parse::<Summary>().is_err(), "{text}");
        }
        let reached = Reached { step: Step::Copying, done: 1, all: 2, bytes: 3 };
        assert_eq!(heard(told(reached).trim_end()), Some(reached));
        for line in ["progress", "progress writing 1 2", "progress dancing 1 2 3", "ok revision 1, 2 keys, 3 bytes"] {
            assert_eq!(heard(line), None, "{line}");
        }
    }
}
