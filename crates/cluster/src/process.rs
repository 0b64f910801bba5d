//! What a process has used, from `/proc`.

use std::time::Duration;

/// The kernel counts processor time in hundredths of a second for user space.
const TICKS_A_SECOND: u64 = 100;

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub processor: Duration,
    pub resident_bytes: u64,
    pub peak_bytes: u64,
    /// How often its threads have waited for something.
    pub sleeps: u64,
}

/// None if the process is gone.
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Usage {
        processor: Duration::from_millis(ticks * 1000 / TICKS_A_SECOND),
        resident_bytes: kilobytes("VmRSS:")? * 1024,
        peak_bytes: kilobytes("VmHWM:")? * 1024,
        sleeps: sleeps(pid),
    })
}

/// The voluntary switches of all threads. One that has ended since is missing.
fn sleeps(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        switches.trim().parse::<u64>().ok()
    };
    threads.filter_map(of_thread).sum()
}
