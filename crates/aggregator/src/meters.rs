//! Metrics under upstream's names.

use metrics::{Counter, Family, Gauge};

pub struct AggregatorMeters {
    /// 1 for each APIService that is not available, 0 for each that is.
    unavailable: Family<Gauge>,
    /// How often each became unavailable, by reason.
    lost: Family<Counter>,
}

impl Default for AggregatorMeters {
    fn default() -> AggregatorMeters {
        AggregatorMeters {
            unavailable: Family::new(
                "aggregator_unavailable_apiservice",
                "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
                &["name"],
                Gauge::default,
            ),
            lost: Family::new(
                "aggregator_unavailable_apiservice_total",
                "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
                &["name", "reason"],
                Counter::default,
            ),
        }
    }
}

impl AggregatorMeters {
    pub fn set(&self, name: &str, available: bool) {
        self.unavailable.with(&[name]).set(if available { 0.0 } else { 1.0 });
    }

    pub fn lost(&self, name: &str, reason: &str) {
        self.lost.with(&[name, reason]).increment();
    }

    pub fn forget(&self, name: &str) {
        self.unavailable.forget(name);
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        self.unavailable.write(out)?;
        self.lost.write(out)
    }
}
