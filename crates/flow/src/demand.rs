//! How many seats a priority level asks for over time.

use tokio::time::Instant;

/// How much of the former smoothed demand stays after an adjustment; its half-life is five minutes.
const SMOOTHING: f64 = 0.977;

/// Integrates the number of seats in use or waited for.
#[derive(Debug)]
pub struct Integrator {
    since: Instant,
    changed: Instant,
    value: f64,
    max: f64,
    integral: f64,
    integral_of_squares: f64,
}

impl Integrator {
    pub fn new(now: Instant) -> Integrator {
        Integrator { since: now, changed: now, value: 0.0, max: 0.0, integral: 0.0, integral_of_squares: 0.0 }
    }

    pub fn set(&mut self, value: f64, now: Instant) {
        self.advance(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    fn advance(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.changed).as_secs_f64();
        self.integral += self.value * seconds;
        self.integral_of_squares += self.value * self.value * seconds;
        self.changed = now;
    }

    /// The observations since the last reset.
    fn reset(&mut self, now: Instant) -> Observation {
        self.advance(now);
        let seconds = now.saturating_duration_since(self.since).as_secs_f64();
        let average = self.integral / seconds;
        let deviation = (self.integral_of_squares / seconds - average * average).sqrt();
        let observation = Observation { seconds, average, deviation, max: self.max };
        *self = Integrator { value: self.value, max: self.value, ..Integrator::new(now) };
        observation
    }
}

struct Observation {
    seconds: f64,
    average: f64,
    deviation: f64,
    max: f64,
}

/// The demand of a level, from which its limit is derived.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    pub average: f64,
    pub deviation: f64,
    pub high_watermark: f64,
    pub smoothed: f64,
}

impl Demand {
    /// Takes over what the integrator saw since the last update.
    pub fn update(&mut self, integrator: &mut Integrator, now: Instant) {
        let seen = integrator.reset(now);
        self.high_watermark = seen.max.round();
        if seen.seconds <= 0.0 {
            return;
        }
        let deviation = if seen.deviation.is_nan() { 0.0 } else { seen.deviation };
        let envelope = seen.average + deviation;
        self.average = seen.average;
        self.deviation = deviation;
        self.smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn demand_follows_quickly_and_falls_slowly() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut integrator = Integrator::new(start);
        let mut demand = Demand::default();
        integrator.set(10.0, start);
        integrator.set(0.0, after(5));
        demand.update(&mut integrator, after(10));
        assert_eq!(demand, Demand { average: 5.0, deviation: 5.0, high_watermark: 10.0, smoothed: 10.0 });
        demand.update(&mut integrator, after(20));
        assert_eq!(demand, Demand { average: 0.0, deviation: 0.0, high_watermark: 0.0, smoothed: 9.77 });
    }
}
