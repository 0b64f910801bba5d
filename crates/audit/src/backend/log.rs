//! The log backend: a line for each event, written by a thread of its own.

use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use object::SystemClock;
use tokio::sync::oneshot;

use super::batch::Batches;
use super::rotate::{RotatingFile, Rotation};
use super::{BUFFER_BYTES_MAX, Backend, BatchOptions, Mode, Truncation, encode};
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

/// Writes events to a file.
pub struct LogBackend {
    mode: Mode,
    writer: Arc<Writer>,
    batches: Option<Batches>,
}

/// The thread that writes, and what waits for it.
struct Writer {
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

impl LogBackend {
    /// Opens the file and starts writing. The file is readable by its owner only.
    pub fn start(options: LogOptions, numbers: Arc<Numbers>) -> io::Result<LogBackend> {
        let target = Target::open(&options)?;
        let (lines, received) = mpsc::channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let thread = (waiting_bytes.clone(), numbers.clone());
        std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || write_all(target, &received, &thread.0, &thread.1))?;
        let (format, truncation) = (options.format, options.truncation);
        let writer = Arc::new(Writer { format, truncation, lines, waiting_bytes, numbers });
        let batches = (options.mode == Mode::Batch).then(|| {
            let writer = writer.clone();
            Batches::start("log", options.batch, writer.numbers.clone(), move |events| {
                let writer = writer.clone();
                Box::pin(async move {
                    writer.store(&events).await;
                })
            })
        });
        Ok(LogBackend { mode: options.mode, writer, batches })
    }
}

impl Writer {
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

    async fn store(&self, events: &[Arc<Event>]) -> bool {
        match self.hand_over(events) {
            Some(written) => written.await.unwrap_or(false),
            None => false,
        }
    }
}

/// The thread: everything that waits is written with one call.
fn write_all(mut target: Target, received: &mpsc::Receiver<Lines>, waiting_bytes: &AtomicUsize, numbers: &Numbers) {
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

enum Target {
    Stdout(io::Stdout),
    File(RotatingFile),
}

impl Target {
    fn open(options: &LogOptions) -> io::Result<Target> {
        if options.path == Path::new("-") {
            return Ok(Target::Stdout(io::stdout()));
        }
        let rotation = Rotation {
            max_megabytes: options.max_megabytes,
            max_age_days: options.max_age_days,
            max_backups: options.max_backups,
            compress: options.compress,
        };
        Ok(Target::File(RotatingFile::open(&options.path, rotation, Box::new(SystemClock))?))
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Target::Stdout(out) => out.write_all(text).and_then(|()| out.flush()),
            Target::File(file) => file.write(text),
        }
    }
}

impl Backend for LogBackend {
    fn is_strict(&self) -> bool {
        self.mode == Mode::BlockingStrict
    }

    fn store(&self, event: Arc<Event>) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            match &self.batches {
                Some(batches) => {
                    batches.push(event);
                    true
                }
                None => self.writer.store(&[event]).await,
            }
        })
    }

    fn send(&self, event: Arc<Event>) {
        match &self.batches {
            Some(batches) => batches.push(event),
            None => drop(self.writer.hand_over(&[event])),
        }
    }

    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            if let Some(batches) = &self.batches {
                batches.shut_down().await;
            }
            // Lines are written in order: when these are, so is everything before them.
            let (written, is_written) = oneshot::channel();
            let last = Lines { text: Vec::new(), events: 0, written: Some(written) };
            if self.writer.lines.send(last).is_ok() {
                let _ = is_written.await;
            }
        })
    }

    fn numbers(&self) -> Arc<Numbers> {
        self.writer.numbers.clone()
    }
}
