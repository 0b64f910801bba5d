//! [`Pauses`]: how long to wait before a webhook of authentication or authorization is called again.

use std::time::Duration;

const CALLS_MAX: u32 = 5;
const FIRST: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Each pause is half as long again as the one before, and up to a fifth longer; there are four, between five calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    taken: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.taken += 1;
        let exponent = i32::try_from(self.taken - 1).unwrap_or(0);
        let longer = FACTOR.powi(exponent) * (1.0 + JITTER * rand::random::<f64>());
        (self.taken < CALLS_MAX).then(|| FIRST.mul_f64(longer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow() {
        let pauses: Vec<u128> = Pauses::default().map(|pause| pause.as_millis()).collect();
        for (pause, least) in pauses.iter().zip([500, 750, 1125, 1687]) {
            assert!((least..=least * 6 / 5 + 1).contains(pause), "{pauses:?}");
        }
        assert_eq!(pauses.len(), 4);
    }
}
