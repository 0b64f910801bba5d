//! How long the stages of the chain take that upstream calls filters.

use std::time::Instant;

use metrics::{Histogram, head};

use crate::track::Tracked;

/// Upstream's buckets, in seconds.
const SECONDS: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0];

/// A stage of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainFilter {
    Authentication,
    Audit,
    Impersonation,
    ConstrainedImpersonation,
    PriorityAndFairness,
    Authorization,
}

impl ChainFilter {
    const ALL: [ChainFilter; 6] = [
        ChainFilter::Authentication,
        ChainFilter::Audit,
        ChainFilter::Impersonation,
        ChainFilter::ConstrainedImpersonation,
        ChainFilter::PriorityAndFairness,
        ChainFilter::Authorization,
    ];

    /// Upstream's name.
    pub fn name(self) -> &'static str {
        match self {
            ChainFilter::Authentication => "authentication",
            ChainFilter::Audit => "audit",
            ChainFilter::Impersonation => "impersonation",
            ChainFilter::ConstrainedImpersonation => "constrainedimpersonation",
            ChainFilter::PriorityAndFairness => "priorityandfairness",
            ChainFilter::Authorization => "authorization",
        }
    }
}

/// The durations of all stages.
pub struct FilterTimes([Histogram; ChainFilter::ALL.len()]);

impl Default for FilterTimes {
    fn default() -> FilterTimes {
        FilterTimes(ChainFilter::ALL.map(|_| Histogram::new(SECONDS)))
    }
}

impl FilterTimes {
    /// Counts how long a request was in a stage, which the next one follows.
    pub fn passed(&self, filter: ChainFilter, tracked: &mut Tracked) {
        let now = Instant::now();
        self.0[filter as usize].observe((now - tracked.stage_began).as_secs_f64());
        tracked.stage_began = now;
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        let name = "apiserver_request_filter_duration_seconds";
        head(out, name, "histogram", "How long requests were in each filter.")?;
        let passed = ChainFilter::ALL.into_iter().zip(&self.0).filter(|(_, seconds)| seconds.count() > 0);
        passed
            .into_iter()
            .try_for_each(|(filter, seconds)| seconds.write(name, &format!("filter=\"{}\"", filter.name()), out))
    }
}
