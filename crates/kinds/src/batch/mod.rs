//! The batch group: pods that run to an end.

mod cronjob;
mod job;
mod schedule;

use std::sync::Arc;

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![("batch", "jobs", Arc::new(job::Job)), ("batch", "cronjobs", Arc::new(cronjob::CronJob))]
}
