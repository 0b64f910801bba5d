//! [`Sparing`]: lines of the log that anybody can cause are few, by address.

use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::windows::network;

/// So many lines an address may cause in [`PERIOD`].
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);
/// So many addresses may cause lines in a period.
const ADDRESSES_MAX: usize = 1024;

/// Who has caused lines.
#[derive(Default)]
pub struct Sparing(Mutex<HashMap<IpAddr, Said>>);

/// The lines of one address.
struct Said {
    since: Instant,
    lines: u32,
    /// Lines that were not written since the last one that was.
    withheld: u64,
}

impl Sparing {
    /// Whether a line that this address causes is written, and how many were not since the last.
    pub fn line(&self, address: IpAddr) -> Option<u64> {
        let (address, now) = (network(address), Instant::now());
        let mut said = self.0.lock();
        if said.len() >= ADDRESSES_MAX && !said.contains_key(&address) {
            said.retain(|_, said| now - said.since < PERIOD);
            if said.len() >= ADDRESSES_MAX {
                return None;
            }
        }
        let said = said.entry(address).or_insert(Said { since: now, lines: 0, withheld: 0 });
        if now - said.since >= PERIOD {
            (said.since, said.lines) = (now, 0);
        }
        if said.lines == LINES_MAX {
            said.withheld += 1;
            return None;
        }
        said.lines += 1;
        Some(std::mem::take(&mut said.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_are_few_by_address() {
        let sparing = Sparing::default();
        let (hog, polite) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let written: Vec<u64> = (0..1000).filter_map(|_| sparing.line(hog)).collect();
        assert_eq!(written, [0; LINES_MAX as usize]);
        assert_eq!(sparing.line(polite), Some(0));
        tokio::time::advance(PERIOD).await;
        assert_eq!((sparing.line(hog), sparing.line(hog)), (Some(1000 - u64::from(LINES_MAX)), Some(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_forgotten() {
        let sparing = Sparing::default();
        let address = |at: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(at));
        let written = (0..2 * ADDRESSES_MAX as u32).filter(|at| sparing.line(address(*at)).is_some()).count();
        assert_eq!((written, sparing.0.lock().len()), (ADDRESSES_MAX, ADDRESSES_MAX));
        tokio::time::advance(PERIOD).await;
        assert_eq!(sparing.line(address(u32::MAX)), Some(0));
        assert_eq!(sparing.0.lock().len(), 1);
    }
}
