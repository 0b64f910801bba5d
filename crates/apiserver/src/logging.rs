//! The server's own log: its flags, and where lines go.
//!
//! klog's verbosities are levels and targets of `tracing`: what is wrong or worth knowing has verbosity 0, debugging 4, tracing 8, and
//! an event whose target is `v3` has verbosity 3. Libraries only begin to say more at 9.

mod file;
mod lines;

use std::io::{self, BufWriter, Stdout, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object::quantity::Quantity;
use object::{Errors, Path};
use parking_lot::Mutex;
use registry::Features;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, filter, fmt, reload};

use crate::debugging::SetVerbosity;
use crate::flags::{Row, rows};

/// The flags that [`Logging`] takes.
pub(crate) const FLAGS: &[Row<Logging>] = rows! { |logging, given|
    "log-flush-frequency" => logging.flush_every = given.span_or_zero()?,
    "log-json-info-buffer-size" => logging.json_stream.buffer_bytes = bytes(given.last())?,
    "log-json-split-stream" => logging.json_stream.split = given.boolean()?,
    "log-text-info-buffer-size" => logging.text_stream.buffer_bytes = bytes(given.last())?,
    "log-text-split-stream" => logging.text_stream.split = given.boolean()?,
    "logging-format" => logging.format = given.last().to_string(),
    "vmodule" => logging.files = given.list().map(|item| FileVerbosity::read(&item)).collect::<Result<_, _>>()?,
};

/// The feature gate of the flags that are alpha.
const ALPHA: &str = "LoggingAlphaOptions";
/// The feature gate of the JSON format.
const BETA: &str = "LoggingBetaOptions";
/// The largest buffer that can be asked for.
const BUFFER_BYTES_MAX: i64 = 64 * 1024 * 1024;

/// How the server logs.
#[derive(Clone, Debug)]
pub struct Logging {
    /// `text` or `json`.
    pub format: String,
    pub text_stream: Stream,
    pub json_stream: Stream,
    /// How long a line may stay in the buffer.
    pub flush_every: Duration,
    /// klog's `-v`.
    pub verbosity: u32,
    /// Lines go to this file until it has so many bytes, and nowhere else.
    pub file: Option<(PathBuf, u64)>,
    /// Nothing but errors is logged.
    pub only_errors: bool,
    /// `--vmodule`: the verbosity of source files.
    pub files: Vec<FileVerbosity>,
}

/// Where lines go in one of the two formats.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// Errors are logged to standard error and everything else to standard output.
    pub split: bool,
    /// How many bytes of lines that are not errors wait to be written together.
    pub buffer_bytes: usize,
}

/// The verbosity of the source files whose names match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVerbosity {
    pattern: String,
    verbosity: u32,
}

impl Default for Logging {
    fn default() -> Logging {
        Logging {
            format: "text".into(),
            text_stream: Stream::default(),
            json_stream: Stream::default(),
            flush_every: Duration::from_secs(5),
            verbosity: 0,
            file: None,
            only_errors: false,
            files: Vec::new(),
        }
    }
}

impl Logging {
    fn is_json(&self) -> bool {
        self.format == "json"
    }

    /// Whether the flags fit together and their feature gate is on.
    pub(crate) fn check(&self, features: &Features) -> Result<(), String> {
        let mut errors = Errors::new();
        if self.flush_every.is_zero() {
            errors.invalid(&Path::of("flushFrequency"), "0s", "Must be greater than zero");
        }
        match self.format.as_str() {
            "text" => {}
            "json" if features.enabled(BETA) => {}
            "json" => {
                let why = format!("Log format json is disabled, see {BETA} feature");
                errors.forbidden(&Path::of("format"), why);
            }
            other => errors.invalid(&Path::of("format"), other, "Unsupported log format"),
        }
        if self.verbosity > i32::MAX as u32 {
            errors.invalid(&Path::of("verbosity"), self.verbosity, format!("Must be <= {}", i32::MAX));
        }
        if self.is_json() && !self.files.is_empty() {
            errors.forbidden(&Path::of("vmodule"), "Only supported for text log format");
        }
        for (format, stream) in [("text", self.text_stream), ("json", self.json_stream)] {
            let at = Path::of("options").field(format);
            for (field, is_set) in [("splitStream", stream.split), ("infoBufferSize", stream.buffer_bytes > 0)] {
                if is_set && !features.enabled(ALPHA) {
                    errors.forbidden(&at.field(field), format!("Feature {ALPHA} is disabled"));
                }
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.aggregate()) }
    }

    /// Begins the log, which is complete when what this returns is dropped.
    pub fn begin(&self) -> Log {
        let filter: LevelsOf = match EnvFilter::try_from_default_env() {
            Ok(from_environment) => Box::new(from_environment),
            Err(_) => self.levels(self.verbosity),
        };
        let (filter, handle) = reload::Layer::new(filter);
        let (writer, buffer) = self.writer();
        let lines = fmt::layer().with_writer(writer);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match self.is_json() {
            true => lines.event_format(lines::Json).with_filter(filter).boxed(),
            false => lines.event_format(lines::Text).with_filter(filter).boxed(),
        };
        tracing_subscriber::registry().with(lines).init();
        let settings = self.clone();
        let set_verbosity = SetVerbosity::new(move |verbosity| {
            handle.reload(settings.levels(verbosity)).map_err(|error| error.to_string())
        });
        Log { set_verbosity, buffer }
    }

    /// Which lines are logged.
    fn levels(&self, most: u32) -> LevelsOf {
        let files = self.files.clone();
        let highest = files.iter().map(|file| file.verbosity).fold(most, u32::max);
        let wanted = move |metadata: &Metadata<'_>| {
            let file = files.iter().find(|file| file.matches(metadata.file().unwrap_or("")));
            verbosity(metadata) <= file.map_or(most, |file| file.verbosity)
        };
        Box::new(filter::filter_fn(wanted).with_max_level_hint(level(highest)))
    }

    fn writer(&self) -> (BoxMakeWriter, Option<Buffered>) {
        let stream = if self.is_json() { self.json_stream } else { self.text_stream };
        let errors = io::stderr.with_max_level(tracing::Level::ERROR);
        if let Some((path, bytes_max)) = &self.file {
            let file = file::LogFile::open(path, *bytes_max);
            return (BoxMakeWriter::new(move || file.clone()), None);
        }
        if self.only_errors {
            return (BoxMakeWriter::new(errors), None);
        }
        match (stream.split, stream.buffer_bytes) {
            (false, _) => (BoxMakeWriter::new(io::stderr), None),
            (true, 0) => (BoxMakeWriter::new(errors.or_else(io::stdout)), None),
            (true, bytes) => {
                let buffered = Buffered::start(bytes, self.flush_every);
                let writer = buffered.clone();
                (BoxMakeWriter::new(errors.or_else(move || writer.clone())), Some(buffered))
            }
        }
    }
}

/// The log of a program that runs.
pub struct Log {
    pub set_verbosity: SetVerbosity,
    buffer: Option<Buffered>,
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(buffer) = &self.buffer {
            let _ = buffer.0.lock().flush();
        }
    }
}

/// A filter that can be replaced while the server runs.
type LevelsOf = Box<dyn Filter<Registry> + Send + Sync>;

/// The level below which nothing has this verbosity.
fn level(verbosity: u32) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::INFO,
        1..=7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// klog's verbosity of an event.
fn verbosity(metadata: &Metadata<'_>) -> u32 {
    let named = metadata.target().strip_prefix('v').and_then(|number| number.parse().ok());
    let is_ours = metadata.file().is_some_and(|file| file.starts_with("crates/"));
    match (named, *metadata.level()) {
        (Some(verbosity), _) => verbosity,
        (None, Level::DEBUG) if is_ours => 4,
        (None, Level::TRACE) if is_ours => 8,
        (None, Level::DEBUG) => 9,
        (None, Level::TRACE) => 10,
        _ => 0,
    }
}

fn bytes(text: &str) -> Result<usize, String> {
    let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
    match quantity.value() {
        bytes @ 0..=BUFFER_BYTES_MAX => Ok(bytes as usize),
        bytes => Err(format!("{bytes} is not between 0 and {BUFFER_BYTES_MAX} bytes")),
    }
}

impl FileVerbosity {
    /// Reads `pattern=N`.
    fn read(item: &str) -> Result<FileVerbosity, String> {
        match item.split('=').collect::<Vec<_>>()[..] {
            [pattern, number] if !pattern.is_empty() && !number.is_empty() => {
                let verbosity = number.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok());
                let why = || format!("parsing verbosity in {}: invalid syntax", object::quote(item));
                Ok(FileVerbosity { pattern: pattern.into(), verbosity: verbosity.ok_or_else(why)? })
            }
            _ => Err(format!("{} does not have the pattern=N format", object::quote(item))),
        }
    }

    /// A pattern with a slash is compared with the path of the source file, any other with the file's name; both without `.rs`.
    fn matches(&self, path: &str) -> bool {
        let path = path.strip_suffix(".rs").unwrap_or(path);
        let name = if self.pattern.contains('/') { path } else { path.rsplit('/').next().unwrap_or(path) };
        is_match(self.pattern.as_bytes(), name.as_bytes())
    }
}

/// Whether `*` for any number of characters and `?` for one, neither a slash, make a name of a pattern. Takes time with the
/// product of both lengths at most.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on after a mismatch: behind the last star, which stands for one character more.
    let mut retry = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, from));
                at += 1;
                continue;
            }
            Some(b'?') if name[from] != b'/' => {}
            Some(byte) if *byte == name[from] => {}
            _ => match retry {
                Some((behind, skipped)) if name[skipped] != b'/' => {
                    retry = Some((behind, skipped + 1));
                    (at, from) = (behind, skipped + 1);
                    continue;
                }
                _ => return false,
            },
        }
        at += 1;
        from += 1;
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Standard output with a buffer, which is written when it is full and after a while.
#[derive(Clone)]
struct Buffered(Arc<Mutex<BufWriter<Stdout>>>);

impl Buffered {
    fn start(bytes: usize, flush_every: Duration) -> Buffered {
        let buffered = Buffered(Arc::new(Mutex::new(BufWriter::with_capacity(bytes, io::stdout()))));
        let writer = Arc::downgrade(&buffered.0);
        std::thread::spawn(move || {
            while let Some(writer) = writer.upgrade() {
                // A reader that has gone away must not end the server.
                let _ = writer.lock().flush();
                drop(writer);
                std::thread::park_timeout(flush_every);
            }
        });
        buffered
    }
}

impl Write for Buffered {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Written by the thread that was started for it.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Given;

    fn read(flags: &[(&str, &str)], gates: &[(String, bool)]) -> Result<Logging, String> {
        let mut logging = Logging::default();
        for (name, value) in flags {
            let row = FLAGS.iter().find(|row| row.name == *name).unwrap();
            (row.set)(&mut logging, Given(&[value.to_string()]))?;
        }
        let mut features = Features::default();
        features.set(gates)?;
        logging.check(&features).map(|()| logging)
    }

    #[test]
    fn alpha_flags_need_their_gate() {
        let on = [(ALPHA.to_string(), true)];
        for (name, value, field) in [
            ("log-text-split-stream", "true", "options.text.splitStream"),
            ("log-text-info-buffer-size", "1Ki", "options.text.infoBufferSize"),
            ("log-json-split-stream", "true", "options.json.splitStream"),
            ("log-json-info-buffer-size", "512", "options.json.infoBufferSize"),
        ] {
            let why = format!("{field}: Forbidden: Feature LoggingAlphaOptions is disabled");
            assert_eq!(read(&[(name, value)], &[]).err(), Some(why));
            assert!(read(&[(name, value)], &on).is_ok(), "{name}");
            assert!(read(&[(name, if value == "true" { "false" } else { "0" })], &[]).is_ok(), "{name}");
        }
        assert_eq!(read(&[("log-text-info-buffer-size", "1Ki")], &on).unwrap().text_stream.buffer_bytes, 1024);
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        for (flags, want) in [
            (&[("log-flush-frequency", "0s")][..], "flushFrequency: Invalid value: \"0s\": Must be greater than zero"),
            (
                &[("logging-format", "json"), ("vmodule", "chain=5")],
                "vmodule: Forbidden: Only supported for text log format",
            ),
            (&[("logging-format", "xml")], "format: Invalid value: \"xml\": Unsupported log format"),
            (&[("vmodule", "chain")], "\"chain\" does not have the pattern=N format"),
            (&[("vmodule", "chain=x")], "parsing verbosity in \"chain=x\": invalid syntax"),
            (&[("log-text-info-buffer-size", "1Ti")], "is not between 0 and"),
        ] {
            let why = read(flags, &[]).err().unwrap_or_default();
            assert!(why.contains(want), "{why}");
        }
    }

    #[test]
    fn files_are_matched_by_name_or_path() {
        for (pattern, path, want) in [
            ("chain", "crates/server/src/chain.rs", true),
            ("chain", "crates/server/src/chains.rs", false),
            ("ch*n", "crates/server/src/chain.rs", true),
            ("*", "crates/server/src/chain.rs", true),
            ("c?ain", "crates/server/src/chain.rs", true),
            ("crates/server/src/*", "crates/server/src/chain.rs", true),
            ("crates/*/chain", "crates/server/src/chain.rs", false),
            ("crates/*/src/ch*", "crates/server/src/chain.rs", true),
            ("*a*a*a*b", &"a".repeat(5000), false),
        ] {
            let file = FileVerbosity { pattern: pattern.into(), verbosity: 5 };
            assert_eq!(file.matches(path), want, "{pattern} {path}");
        }
    }
}
