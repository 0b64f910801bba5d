//! The batch group: pods that run to an end.

mod cronjob;
mod job;
mod schedule;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("batch", "jobs", Arc::new(job::Job)), ("batch", "cronjobs", Arc::new(cronjob::CronJob))]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::{check, check_with_all_features};

    #[test]
    fn jobs() {
        check(job::Job, "batch/v1 Job", include_str!("../data/cases/job.txt"));
    }

    #[test]
    fn cron_jobs() {
        check(cronjob::CronJob, "batch/v1 CronJob", include_str!("../data/cases/cronjob.txt"));
    }

    #[test]
    fn job_scheduling() {
        check_with_all_features(job::Job, "batch/v1 Job", include_str!("../data/cases/job-scheduling.txt"));
    }
}
