//! How long a test server lives: as long as whoever started it.

use std::io::Read;
use std::os::fd::AsFd;

use rustix::fs::FileType;
use rustix::process::Pid;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How often systems that do not tell are asked whether the parent is there.
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(200);

/// The end of whoever started the server.
pub struct Until {
    over: UnboundedReceiver<()>,
    /// Keeps the channel open where nothing is waited for.
    _open: UnboundedSender<()>,
}

impl Until {
    /// Begins to watch the parent, and standard input if it is a pipe: a terminal or a file says nothing by its end. Threads do
    /// the waiting, which need not end before the process does.
    pub fn begin() -> Until {
        let (say, over) = unbounded_channel();
        if let Some(parent) = rustix::process::getppid().filter(|parent| !parent.is_init()) {
            let say = say.clone();
            std::thread::spawn(move || {
                wait_for_end(parent);
                let _ = say.send(());
            });
        }
        if is_pipe(std::io::stdin()) {
            let say = say.clone();
            std::thread::spawn(move || {
                let mut input = std::io::stdin();
                let mut bytes = [0; 256];
                while input.read(&mut bytes).is_ok_and(|read| read > 0) {}
                let _ = say.send(());
            });
        }
        Until { over, _open: say }
    }

    /// Returns when the parent has ended or standard input was closed.
    pub async fn over(mut self) {
        // The sender is here, so that there is always something to wait for.
        let _ = self.over.recv().await;
    }
}

fn is_pipe(input: impl AsFd) -> bool {
    let about = rustix::fs::fstat(input);
    about.is_ok_and(|about| matches!(FileType::from_raw_mode(about.st_mode), FileType::Fifo | FileType::Socket))
}

/// Returns when the process is gone, however it went.
#[allow(clippy::disallowed_methods)] // Where the system does not tell of it, there is no event to await.
fn wait_for_end(parent: Pid) {
    // It may have ended before it was opened, and its number may be another process's by now.
    while rustix::process::getppid() == Some(parent) {
        if is_told_of_end(parent) {
            return;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Waits where the system tells; false where it does not.
#[cfg(target_os = "linux")]
fn is_told_of_end(parent: Pid) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let Ok(process) = rustix::process::pidfd_open(parent, rustix::process::PidfdFlags::empty()) else { return false };
    rustix::process::getppid() == Some(parent)
        && poll(&mut [PollFd::new(&process, PollFlags::IN)], None).is_ok_and(|ready| ready > 0)
}

#[cfg(not(target_os = "linux"))]
fn is_told_of_end(_: Pid) -> bool {
    false
}
