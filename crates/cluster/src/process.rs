//! What a process has used, from `/proc`.

use std::time::Duration;

/// The kernel counts processor time in hundredths of a second for user space.
const TICKS_A_SECOND: u64 = 100;

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub processor: Duration,
    pub resident_bytes: u64,
    pub peak_bytes: u64,
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
    })
}
