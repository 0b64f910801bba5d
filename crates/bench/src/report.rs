//! The measurements as one table of ratios, in Markdown.

use std::fmt::Write;
use std::time::Duration;

use crate::Arguments;
use crate::load::Cost;
use crate::scenarios::Measured;
use crate::target::{Cpu, Kind};

/// By how many percent a line may be worse than before.
const TOLERATED: f64 = 3.0;

pub fn line(cost: &Cost) -> String {
    format!(
        "{:44} {:>9.0}/s  p50 {:>8}  p99 {:>8}  cpu {:>8}  peak {:>5} MiB",
        cost.name,
        cost.requests as f64 / cost.seconds,
        time(cost.p50),
        time(cost.p99),
        time(cost.cpu.total()),
        cost.peak_memory >> 20
    )
}

pub fn table(arguments: &Arguments, results: &[(Kind, Measured)]) -> String {
    let mut out = String::from("# Benchmarks\n\n");
    let _ = writeln!(
        out,
        "Written by `cargo xtask bench`: each server alone on the machine, one after the other, under the same load over \
         HTTP/2 and TLS, with one process of the load generator beside it. CPU is that of all the server's processes (etcd \
         included, in brackets without it) divided by requests; a request of a watch line is one event delivered to one watcher. The ratio is \
         ferrokube's figure in kube-apiserver's: ×5 means five times as many requests, or a fifth of the CPU, time or memory.\n"
    );
    let _ = writeln!(out, "{}\n\n{}\n", machine(), arguments.versions);
    let base = results.iter().find(|(kind, _)| *kind == Kind::KubeApiserver).map(|(_, measured)| measured);
    for (kind, measured) in results.iter().filter(|(kind, _)| *kind != Kind::KubeApiserver) {
        let _ = writeln!(out, "## {} against kube-apiserver + etcd\n", title(*kind));
        out.push_str("| | kube-apiserver + etcd | ferrokube | ratio |\n|---|---:|---:|---:|\n");
        let base_ready = base.map(|base| base.ready);
        row(&mut out, "start to ready", base_ready.map(time), time(measured.ready), ratio(base_ready, measured.ready));
        let memory = |bytes: u64| format!("{} MiB", bytes >> 20);
        let less = base.map(|base| base.idle_memory as f64 / measured.idle_memory.max(1) as f64);
        row(&mut out, "idle memory", base.map(|base| memory(base.idle_memory)), memory(measured.idle_memory), less);
        for cost in &measured.loads {
            let other = base.and_then(|base| base.loads.iter().find(|other| other.name == cost.name));
            costs(&mut out, cost, other);
        }
        out.push('\n');
    }
    out
}

fn costs(out: &mut String, cost: &Cost, base: Option<&Cost>) {
    let rate = |cost: &Cost| cost.requests as f64 / cost.seconds;
    let faster = base.map(|base| rate(cost) / rate(base));
    let name = &cost.name;
    row(
        out,
        &format!("{name}: per second"),
        base.map(|b| format!("{:.0}", rate(b))),
        format!("{:.0}", rate(cost)),
        faster,
    );
    let latency = |cost: &Cost| format!("{} / {}", time(cost.p50), time(cost.p99));
    let quicker = ratio(base.map(|base| base.p99), cost.p99);
    row(out, &format!("{name}: p50 / p99"), base.map(latency), latency(cost), quicker);
    let cheaper = ratio(base.map(|base| base.cpu.total()), cost.cpu.total());
    row(out, &format!("{name}: CPU each"), base.map(|base| cpu(base.cpu)), cpu(cost.cpu), cheaper);
    let memory = |cost: &Cost| format!("{} MiB", cost.peak_memory >> 20);
    let less = base.map(|base| base.peak_memory as f64 / cost.peak_memory.max(1) as f64);
    row(out, &format!("{name}: peak memory so far"), base.map(memory), memory(cost), less);
}

/// The CPU of both processes, and in brackets the API server's own where etcd is one of them.
fn cpu(cpu: Cpu) -> String {
    match cpu.store.is_zero() {
        true => time(cpu.server),
        false => format!("{} ({})", time(cpu.total()), time(cpu.server)),
    }
}

/// An earlier build beside this one; lines that got worse by more than [`TOLERATED`] are marked.
pub fn comparison(arguments: &Arguments, results: &[(Kind, Measured)]) -> String {
    let [(_, earlier), (_, now)] = results else { return String::new() };
    let mut out = format!(
        "{}\n\n{}\n\n| CPU each | earlier | now | change |\n|---|---:|---:|---:|\n",
        machine(),
        arguments.versions
    );
    let mut line = |name: &str, earlier: (String, f64), now: (String, f64)| {
        let change = (now.1 / earlier.1.max(1e-12) - 1.0) * 100.0;
        let mark = if change > TOLERATED { " **worse**" } else { "" };
        let _ = writeln!(out, "| {name} | {} | {} | {change:+.1} %{mark} |", earlier.0, now.0);
    };
    let timed = |duration: Duration| (time(duration), duration.as_secs_f64());
    let sized = |bytes: u64| (format!("{} MiB", bytes >> 20), bytes as f64);
    line("start to ready", timed(earlier.ready), timed(now.ready));
    line("idle memory", sized(earlier.idle_memory), sized(now.idle_memory));
    for (before, after) in earlier.loads.iter().zip(&now.loads) {
        line(&after.name, timed(before.cpu.total()), timed(after.cpu.total()));
    }
    let peak = |measured: &Measured| sized(measured.loads.iter().map(|load| load.peak_memory).max().unwrap_or(0));
    line("peak memory", peak(earlier), peak(now));
    out
}

fn row(out: &mut String, name: &str, base: Option<String>, ours: String, ratio: Option<f64>) {
    let ratio =
        ratio.map_or("".into(), |ratio| if ratio >= 10.0 { format!("×{ratio:.0}") } else { format!("×{ratio:.1}") });
    let _ = writeln!(out, "| {name} | {} | {ours} | {ratio} |", base.unwrap_or_default());
}

fn ratio(base: Option<Duration>, ours: Duration) -> Option<f64> {
    base.map(|base| base.as_secs_f64() / ours.as_secs_f64().max(1e-9))
}

fn time(duration: Duration) -> String {
    match duration.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        micros @ 1000..100_000 => format!("{:.1} ms", micros as f64 / 1e3),
        micros => format!("{:.0} ms", micros as f64 / 1e3),
    }
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::FerrokubeOnEtcd => "ferrokube on etcd",
        _ => "ferrokube on its embedded store",
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
