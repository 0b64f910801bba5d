//! Sets addresses and ports of services right, at the start and every few minutes.
//!
//! A server that ended in the middle of a write may leave an address taken that no service has. The log says
//! what was wrong.

use std::sync::Arc;
use std::time::Duration;

use kinds::core::service::Allocation;
use kinds::core::service::allocation::repair::Repair;
use object::{Clock, SystemClock};
use tokio::task::JoinSet;

const INTERVAL: Duration = Duration::from_secs(3 * 60);

/// Starts the loop; it ends when what is returned is dropped.
pub fn start(allocation: Arc<Allocation>) -> JoinSet<()> {
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut repair = Repair::new();
        loop {
            match repair.run(&allocation, SystemClock.now()).await {
                Ok(findings) => findings.iter().for_each(|finding| {
                    tracing::warn!(?finding, "an address or port of a service was not as it should be; repaired");
                }),
                Err(status) => {
                    tracing::warn!(why = status.message, "cannot check the addresses and ports of services");
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    });
    task
}
