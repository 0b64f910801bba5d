//! CPU time, memory and file descriptors of this process, from `/proc`.

use std::fmt::Write;
use std::fs;

/// Linux counts CPU time in hundredths of a second for user space, and memory in pages of 4 KiB.
const TICKS_A_SECOND: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;

/// Writes nothing on systems without `/proc`.
pub fn write(out: &mut String) -> std::fmt::Result {
    let mut line = |name: &str, kind: &str, help: &str, value: Option<f64>| match value {
        None => Ok(()),
        Some(value) => {
            super::head(out, name, kind, help)?;
            writeln!(out, "{name} {}", metrics::number(value))
        }
    };
    let stat = stat();
    let field = |at: usize| stat.as_ref().and_then(|fields| fields.get(at)).and_then(|text| text.parse::<f64>().ok());
    let cpu = field(11).zip(field(12)).map(|(user, system)| (user + system) / TICKS_A_SECOND);
    let started = field(19).zip(boot_time()).map(|(ticks, boot)| boot + ticks / TICKS_A_SECOND);
    line("process_cpu_seconds_total", "counter", "CPU time spent.", cpu)?;
    line("process_start_time_seconds", "gauge", "When the process began, in Unix time.", started)?;
    line("process_virtual_memory_bytes", "gauge", "Virtual memory.", field(20))?;
    line("process_resident_memory_bytes", "gauge", "Resident memory.", field(21).map(|pages| pages * PAGE_BYTES))?;
    line("process_virtual_memory_max_bytes", "gauge", "Virtual memory at most.", limit("Max address space"))?;
    line("process_open_fds", "gauge", "Open files and sockets.", open_files())?;
    line("process_max_fds", "gauge", "How many may be open.", limit("Max open files"))?;
    let (received, sent) = octets().unzip();
    line("process_network_receive_bytes_total", "counter", "Bytes received over the network.", received)?;
    line("process_network_transmit_bytes_total", "counter", "Bytes sent over the network.", sent)
}

/// The fields of `/proc/self/stat` after the name, which may contain anything.
fn stat() -> Option<Vec<String>> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let rest = text.rsplit_once(')')?.1;
    Some(rest.split_whitespace().map(str::to_string).collect())
}

fn boot_time() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn open_files() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

fn limit(name: &str) -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

/// The bytes that IP has received and sent in the network namespace: a line of names is followed by a line of numbers.
fn octets() -> Option<(f64, f64)> {
    let text = fs::read_to_string("/proc/self/net/netstat").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let find = |wanted: &str| {
        let (_, number) = names.split(' ').zip(numbers.split(' ')).find(|(name, _)| *name == wanted)?;
        number.parse().ok()
    };
    Some((find("InOctets")?, find("OutOctets")?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_process_is_described() {
        let mut out = String::new();
        super::write(&mut out).unwrap();
        for name in [
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_start_time_seconds ",
            "process_virtual_memory_max_bytes ",
            "process_network_transmit_bytes_total ",
        ] {
            let line = out.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(line[name.len()..].parse::<f64>().unwrap() >= 0.0, "{line}");
        }
    }
}
