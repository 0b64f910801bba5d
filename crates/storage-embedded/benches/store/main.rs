//! What the engine can do on this machine, beside a real etcd if there is one.
//!
//! ```text
//! cargo bench -p ferrokube-storage-embedded                                 everything but etcd
//! cargo bench -p ferrokube-storage-embedded -- --etcd path/to/etcd          with etcd on the same disk
//! cargo bench -p ferrokube-storage-embedded -- writes --seconds 10          one part: writes, resources, fanout, memory, history
//! ```
//!
//! Files are written below `--dir` (default: the system's temporary directory), which should be on the disk in question.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic)] // A program for people; a failure is a crash.

mod etcd;
mod fanout;
mod history;
mod memory;
mod resources;
mod writes;

use std::path::PathBuf;
use std::time::Duration;

pub struct Settings {
    pub dir: PathBuf,
    pub etcd: Option<PathBuf>,
    pub duration: Duration,
    parts: Vec<String>,
}

fn main() {
    let mut settings =
        Settings { dir: std::env::temp_dir(), etcd: None, duration: Duration::from_secs(5), parts: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bench" => {} // Cargo says so.
            "--dir" => settings.dir = args.next().expect("--dir needs a directory").into(),
            "--etcd" => settings.etcd = Some(args.next().expect("--etcd needs a file").into()),
            "--seconds" => {
                let seconds = args.next().and_then(|seconds| seconds.parse().ok());
                settings.duration = Duration::from_secs(seconds.expect("--seconds needs a number"));
            }
            "--memory-child" => return memory::child(&args.next().expect("a file").into()),
            part => settings.parts.push(part.into()),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // What is left for the disk to do after the writes (their files are deleted) would be counted as delay.
        for part in ["fanout", "writes", "resources", "memory", "history"] {
            if !settings.parts.is_empty() && !settings.parts.iter().any(|chosen| chosen == part) {
                continue;
            }
            match part {
                "writes" => writes::run(&settings).await,
                "resources" => resources::run(&settings).await,
                "fanout" => fanout::run(&settings).await,
                "memory" => memory::run(&settings),
                _ => history::run(&settings).await,
            }
        }
    });
}

/// The value below which `share` of the sorted values are.
pub fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

pub fn directory(settings: &Settings) -> tempfile::TempDir {
    tempfile::tempdir_in(&settings.dir).unwrap()
}
