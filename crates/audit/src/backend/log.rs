//! The log backend: a line for each event, written by a thread of its own.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use object::SystemClock;
use tokio::sync::oneshot;

use super::rotate::{RotatingFile, Rotation};
use super::{BUFFER_BYTES_MAX, Batch, BatchOptions, Done, Mode, Output, Truncation, encode};
use crate::event::Event;
use crate::numbers::Numbers;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Legacy,
}

/// The `--audit-log-*` flags.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// `-` for the standard output.
    pub path: PathBuf,
    pub format: LogFormat,
    pub max_megabytes: u64,
    pub max_age_days: u64,
    pub max_backups: usize,
    pub compress: bool,
    pub mode: Mode,
    pub batch: BatchOptions,
    pub truncation: Option<Truncation>,
}

/// The thread that writes, and what waits for it.
pub struct Writer {
    format: LogFormat,
    truncation: Option<Truncation>,
    lines: mpsc::Sender<Lines>,
    waiting_bytes: Arc<AtomicUsize>,
    numbers: Arc<Numbers>,
}

/// Lines to be written, and who waits for them.
struct Lines {
    text: Vec<u8>,
    events: usize,
    written: Option<oneshot::Sender<bool>>,
}

impl Writer {
    /// Opens the file and starts the thread.
    pub fn start(options: LogOptions, numbers: Arc<Numbers>) -> io::Result<Arc<Writer>> {
        let target = LogTarget::open(&options)?;
        let (lines, received) = mpsc::channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let thread = (waiting_bytes.clone(), numbers.clone());
        std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || write_all(target, &received, &thread.0, &thread.1))?;
        let (format, truncation) = (options.format, options.truncation);
        Ok(Arc::new(Writer { format, truncation, lines, waiting_bytes, numbers }))
    }

    /// Hands lines to the thread. None if there are none, or if too many wait already.
    fn hand_over(&self, events: &[Arc<Event>]) -> Option<oneshot::Receiver<bool>> {
        let mut text = Vec::new();
        for event in events {
            match self.line(event) {
                Some(line) => text.extend(line),
                None => self.numbers.error("truncate", 1, &"event is too large even after truncating"),
            }
        }
        if text.is_empty() {
            return None;
        }
        let waiting = self.waiting_bytes.fetch_add(text.len(), Ordering::AcqRel);
        if waiting > BUFFER_BYTES_MAX {
            self.waiting_bytes.fetch_sub(text.len(), Ordering::AcqRel);
            self.numbers.error("log", events.len(), &"too many events wait to be written");
            return None;
        }
        let (written, is_written) = oneshot::channel();
        let lines = Lines { text, events: events.len(), written: Some(written) };
        self.lines.send(lines).ok().map(|()| is_written)
    }

    fn line(&self, event: &Event) -> Option<Vec<u8>> {
        let mut line = match self.format {
            LogFormat::Json => encode(event, self.truncation)?,
            LogFormat::Legacy => event.legacy().into_bytes(),
        };
        line.push(b'\n');
        Some(line)
    }
}

/// The thread: everything that waits is written with one call.
fn write_all(mut target: LogTarget, received: &mpsc::Receiver<Lines>, waiting_bytes: &AtomicUsize, numbers: &Numbers) {
    while let Ok(first) = received.recv() {
        let mut all = vec![first];
        all.extend(received.try_iter().take(1023));
        let text = all.iter().flat_map(|lines| &lines.text).copied().collect::<Vec<u8>>();
        let outcome = target.write(&text);
        waiting_bytes.fetch_sub(text.len(), Ordering::AcqRel);
        if let Err(error) = &outcome {
            numbers.error("log", all.iter().map(|lines| lines.events).sum(), error);
        }
        for written in all.into_iter().filter_map(|lines| lines.written) {
            // A request that did not wait has dropped its end.
            let _ = written.send(outcome.is_ok());
        }
    }
}

enum LogTarget {
    Stdout(io::Stdout),
    File(RotatingFile),
}

impl LogTarget {
    fn open(options: &LogOptions) -> io::Result<LogTarget> {
        if options.path == Path::new("-") {
            return Ok(LogTarget::Stdout(io::stdout()));
        }
        let rotation = Rotation {
            max_megabytes: options.max_megabytes,
            max_age_days: options.max_age_days,
            max_backups: options.max_backups,
            compress: options.compress,
        };
        Ok(LogTarget::File(RotatingFile::open(&options.path, rotation, Box::new(SystemClock))?))
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            LogTarget::Stdout(out) => out.write_all(text).and_then(|()| out.flush()),
            LogTarget::File(file) => file.write(text),
        }
    }
}

impl Output for Writer {
    fn name(&self) -> &'static str {
        "log"
    }

    fn store<'a>(&'a self, events: &'a [Arc<Event>]) -> Done<'a, bool> {
        let written = self.hand_over(events);
        Box::pin(async move {
            match written {
                Some(written) => written.await.unwrap_or(false),
                None => false,
            }
        })
    }

    fn begin(self: Arc<Self>, batch: Batch) -> Done<'static, ()> {
        Box::pin(async move {
            self.store(&batch.events).await;
        })
    }

    fn send(self: Arc<Self>, event: Arc<Event>) {
        drop(self.hand_over(&[event]));
    }

    fn finish(&self) -> Done<'_, ()> {
        Box::pin(async move {
            // Lines are written in order: when these are, so is everything before them.
            let (written, is_written) = oneshot::channel();
            let last = Lines { text: Vec::new(), events: 0, written: Some(written) };
            if self.lines.send(last).is_ok() {
                let _ = is_written.await;
            }
        })
    }

    fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }
}
