//! The coordination.k8s.io group: leases, by which several agree on one.

mod lease;
mod leasecandidate;

use std::sync::Arc;

use object::{Cursor, Errors, names};

use crate::Strategies;
use crate::common::checks::Checks;

const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

pub fn strategies() -> Strategies {
    vec![
        ("coordination.k8s.io", "leases", Arc::new(lease::Lease)),
        ("coordination.k8s.io", "leasecandidates", Arc::new(leasecandidate::LeaseCandidate)),
    ]
}

/// How the holder of a lease is chosen: one of Kubernetes' own, or another one by a qualified name.
fn validate_election(strategy: &Cursor, errors: &mut Errors) {
    // Upstream names the field twice in the path.
    let strategy = Cursor::new(strategy.value(), strategy.path().field("strategy"));
    if strategy.str().contains('/') {
        strategy.check(errors, names::label_key);
    } else {
        strategy.one_of(errors, &[OLDEST_EMULATION_VERSION]);
    }
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::{check, check_with_all_features};

    #[test]
    fn leases() {
        check(lease::Lease, "coordination.k8s.io/v1 Lease", include_str!("../data/cases/lease.txt"));
    }

    #[test]
    fn elections() {
        check_with_all_features(
            lease::Lease,
            "coordination.k8s.io/v1 Lease",
            include_str!("../data/cases/lease-election.txt"),
        );
    }

    #[test]
    fn candidates() {
        let cases = include_str!("../data/cases/leasecandidate.txt");
        check(leasecandidate::LeaseCandidate, "coordination.k8s.io/v1beta1 LeaseCandidate", cases);
    }
}
