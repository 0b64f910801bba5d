//! The measurements as one table, in Markdown.

use std::fmt::Write;
use std::time::Duration;

use crate::Arguments;
use crate::target::{Cpu, Kind, Memory};

/// By how many percent a line may be worse than before.
const TOLERATED: f64 = 3.0;

/// One thing that was measured.
pub struct Line {
    pub name: String,
    pub figure: Figure,
}

pub enum Figure {
    Cpu(Cpu),
    PerSecond(f64),
    BytesPerSecond(f64),
    /// Percentiles; the last one is compared.
    Latency(Vec<Duration>),
    Memory(Memory),
    Took(Duration),
    /// So many of one for one of another.
    Times(f64),
}

impl Line {
    pub fn new(name: impl Into<String>, figure: Figure) -> Line {
        let line = Line { name: name.into(), figure };
        eprintln!("{:64} {}", line.name, line.figure.text());
        line
    }
}

impl Figure {
    fn text(&self) -> String {
        match self {
            Figure::Cpu(cpu) => pair(cpu.server, cpu.store, time),
            Figure::PerSecond(rate) => format!("{rate:.0}/s"),
            Figure::BytesPerSecond(rate) => format!("{:.0} MB/s", rate / 1e6),
            Figure::Latency(percentiles) => percentiles.iter().map(|p| time(*p)).collect::<Vec<_>>().join(", "),
            Figure::Memory(memory) => pair(memory.server, memory.store, |bytes| format!("{} MiB", bytes >> 20)),
            Figure::Took(duration) => time(*duration),
            Figure::Times(times) => format!("{times:.2}"),
        }
    }

    /// A number that is lower the better the figure is.
    pub fn cost(&self) -> f64 {
        match self {
            Figure::Cpu(cpu) => cpu.total().as_secs_f64(),
            Figure::PerSecond(rate) | Figure::BytesPerSecond(rate) => 1.0 / rate.max(1e-9),
            Figure::Latency(percentiles) => percentiles.last().map_or(0.0, Duration::as_secs_f64),
            Figure::Memory(memory) => (memory.server + memory.store) as f64,
            Figure::Took(duration) => duration.as_secs_f64(),
            Figure::Times(times) => *times,
        }
    }

    /// What this figure costs of the API server alone, where that is known.
    fn own_cost(&self) -> f64 {
        match self {
            Figure::Cpu(cpu) => cpu.server.as_secs_f64(),
            Figure::Memory(memory) => memory.server as f64,
            other => other.cost(),
        }
    }

    /// Whether it does not depend on what else the machine does, so that builds can be compared by it.
    fn is_stable(&self) -> bool {
        matches!(self, Figure::Cpu(_) | Figure::Memory(_) | Figure::Took(_) | Figure::Times(_))
    }
}

/// The API server's part and, where there is one, that of its store.
fn pair<T: Default + PartialEq>(server: T, store: T, text: impl Fn(T) -> String) -> String {
    if store == T::default() { text(server) } else { format!("{} + {}", text(server), text(store)) }
}

/// All servers side by side, and what others take in multiples of what ferrokube takes.
pub fn table(arguments: &Arguments, results: &[(Kind, Vec<Line>)]) -> String {
    let mut out = String::from("# Benchmarks\n\n");
    let _ = writeln!(out, "{}\n\n{}\n\n{}\n", ABOUT, machine(), arguments.versions);
    let base = results.iter().find(|(kind, _)| *kind == Kind::KubeApiserver);
    let (mut head, mut rule) = (String::from("| |"), String::from("|---|"));
    for (kind, _) in results {
        let _ = write!(head, " {} |", kind.title());
        rule.push_str("---:|");
        if base.is_some() && kind.is_ferrokube() {
            head.push_str(" ratio |");
            rule.push_str("---:|");
        }
    }
    let _ = writeln!(out, "{head}\n{rule}");
    for name in names(results) {
        let _ = write!(out, "| {name} |");
        for (kind, lines) in results {
            let figure = find(lines, name);
            let _ = write!(out, " {} |", figure.map(Figure::text).unwrap_or_default());
            if let (Some((_, base)), true) = (base, kind.is_ferrokube()) {
                let ratio = figure.zip(find(base, name)).map(|(ours, base)| match kind {
                    Kind::FerrokubeOnEtcd => base.own_cost() / ours.own_cost(),
                    _ => base.cost() / ours.cost(),
                });
                let _ = write!(out, " {} |", ratio.map(times).unwrap_or_default());
            }
        }
        out.push('\n');
    }
    out
}

const ABOUT: &str = "Written by `cargo xtask bench`: each server alone on the machine, one after the other, under the same load over \
    HTTP/2 and TLS, with one process of the load generator beside it. CPU is per request, memory is resident; where a server has a store \
    of its own, that store's part stands behind the plus sign. A request of a watch line is one event delivered to one watcher. The ratio \
    says how many times better ferrokube is than kube-apiserver with etcd, both processes counted; for ferrokube on etcd it compares the \
    API servers alone, as both have the same etcd.";

/// The names of all lines, in the order in which they were measured.
fn names(results: &[(Kind, Vec<Line>)]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for line in results.iter().flat_map(|(_, lines)| lines) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    names
}

fn find<'a>(lines: &'a [Line], name: &str) -> Option<&'a Figure> {
    lines.iter().find(|line| line.name == name).map(|line| &line.figure)
}

/// An earlier build beside this one; lines that got worse by more than [`TOLERATED`] are marked.
pub fn comparison(arguments: &Arguments, earlier: &[Line], now: &[Line]) -> String {
    let mut out =
        format!("{}\n\n{}\n\n| | earlier | now | change |\n|---|---:|---:|---:|\n", machine(), arguments.versions);
    for (before, after) in earlier.iter().zip(now).filter(|(_, after)| after.figure.is_stable()) {
        let change = (after.figure.cost() / before.figure.cost().max(1e-12) - 1.0) * 100.0;
        let mark = if change > TOLERATED { " **worse**" } else { "" };
        let (then, now) = (before.figure.text(), after.figure.text());
        let _ = writeln!(out, "| {} | {then} | {now} | {change:+.1} %{mark} |", after.name);
    }
    out
}

fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("×{ratio:.0}") } else { format!("×{ratio:.1}") }
}

fn time(duration: Duration) -> String {
    match duration.as_nanos() {
        nanos @ 0..100_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        nanos @ 100_000..1_000_000 => format!("{} µs", nanos / 1000),
        nanos @ 1_000_000..100_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        nanos => format!("{} ms", nanos / 1_000_000),
    }
}

/// What it ran on: the processor, how many of them, memory, and the load when it was over.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: String, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_string();
        line.split_once(':').map(|(_, value)| value.trim().to_string()).unwrap_or_default()
    };
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let memory: u64 = field(read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let load = read("/proc/loadavg");
    format!(
        "Machine: {processors} × {}, {} GiB, Linux {}; load at the end {}.",
        field(read("/proc/cpuinfo"), "model name"),
        memory >> 20,
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("")
    )
}
