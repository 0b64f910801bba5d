//! The format of pprof's profiles: `profile.proto`, compressed with gzip.

use std::collections::HashMap;
use std::io::Write;
use std::time::UNIX_EPOCH;

use flate2::Compression;
use flate2::write::GzEncoder;
use pprof::{Report, Symbol};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<MappingMessage>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// All texts; elsewhere they are places in this table, whose first text is "".
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub kind: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// The innermost function comes first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub text: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct MappingMessage {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<LineMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct LineMessage {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

pub fn encode(report: &Report) -> std::io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&Tables::default().profile(report).encode_to_vec())?;
    gzip.finish()
}

/// Where each text and function is in the profile.
#[derive(Default)]
struct Tables {
    profile: Profile,
    texts: HashMap<String, i64>,
    locations: HashMap<Vec<u8>, u64>,
}

impl Tables {
    fn profile(mut self, report: &Report) -> Profile {
        self.text("");
        let samples = ValueType { kind: self.text("samples"), unit: self.text("count") };
        let cpu = ValueType { kind: self.text("cpu"), unit: self.text("nanoseconds") };
        let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let mapping = MappingMessage { id: 1, filename: self.text(&program), has_functions: true };
        let period = 1_000_000_000 / i64::from(report.timing.frequency.max(1));
        let thread = self.text("thread");
        for (stack, count) in &report.data {
            let location_id = stack.frames.iter().flatten().map(|symbol| self.location(symbol)).collect();
            let label = vec![Label { key: thread, text: self.text(&stack.thread_name) }];
            let count = *count as i64;
            self.profile.sample.push(Sample { location_id, value: vec![count, count.saturating_mul(period)], label });
        }
        let nanos = |time: std::time::Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Profile {
            sample_type: vec![samples, cpu],
            mapping: vec![mapping],
            time_nanos: report.timing.start_time.duration_since(UNIX_EPOCH).map_or(0, nanos),
            duration_nanos: nanos(report.timing.duration),
            period_type: Some(cpu),
            period,
            ..self.profile
        }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(at) = self.texts.get(text) {
            return *at;
        }
        let at = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_string());
        self.texts.insert(text.to_string(), at);
        at
    }

    /// A function and its one location have the same number.
    fn location(&mut self, symbol: &Symbol) -> u64 {
        if let Some(id) = self.locations.get(symbol.raw_name()) {
            return *id;
        }
        let id = self.profile.location.len() as u64 + 1;
        let (name, system_name) = (self.text(&symbol.name()), self.text(&symbol.sys_name()));
        let filename = match &symbol.filename {
            Some(path) => self.text(&path.to_string_lossy()),
            None => 0,
        };
        self.profile.function.push(Function { id, name, system_name, filename });
        let line = LineMessage { function_id: id, line: i64::from(symbol.lineno()) };
        self.profile.location.push(Location { id, mapping_id: 1, line: vec![line] });
        self.locations.insert(symbol.raw_name().to_vec(), id);
        id
    }
}
