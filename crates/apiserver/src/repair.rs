//! Sets addresses and node ports of Services right.
//!
//! A server that ended in the middle of a write may leave an address taken that no Service has; another server, or an older
//! one, may have written Services without taking their addresses. Services and IPAddresses are looked at when they change,
//! and all of them every few minutes. The log says what was wrong.

use std::sync::Arc;
use std::time::Duration;

use cache::{Item, Start};
use kinds::core::service::Allocation;
use kinds::core::service::allocation::repair::{Finding, PortRepair};
use object::{Status, Str};
use registry::Lookup;
use rest::Api;
use standalone::Queue;
use tokio::task::JoinSet;

/// How often everything is looked at.
const INTERVAL: Duration = Duration::from_secs(3 * 60);
/// How long a broken watch waits before it begins again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const NETWORKING: &str = "networking.k8s.io";

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Service { namespace: Str, name: Str },
    Address { name: Str },
}

/// Starts the loops; they end when what is returned is dropped.
pub fn start(allocation: Arc<Allocation>, api: Arc<Api>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let queue: Arc<Queue<Work>> = Arc::new(Queue::new());
    tasks.spawn(repair_ports(allocation.clone()));
    let service = |namespace, name| Work::Service { namespace, name };
    tasks.spawn(follow(api.clone(), "", "services", queue.clone(), service));
    let address = |_, name| Work::Address { name };
    tasks.spawn(follow(api.clone(), NETWORKING, "ipaddresses", queue.clone(), address));
    tasks.spawn(work(allocation, api, queue));
    tasks
}

async fn repair_ports(allocation: Arc<Allocation>) {
    let mut repair = PortRepair::new();
    loop {
        match repair.run(&allocation).await {
            Ok(findings) => findings.iter().for_each(report),
            Err(status) => tracing::warn!(why = status.message, "cannot check the node ports of services"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Queues what is there and what changes; everything again after the interval.
async fn follow(
    api: Arc<Api>,
    group: &'static str,
    resource: &'static str,
    queue: Arc<Queue<Work>>,
    of: fn(Str, Str) -> Work,
) {
    let Some(storage) = api.catalog.load().stored(group, resource).cloned() else { return };
    loop {
        let round = async {
            let mut watcher = storage.cache.watch(storage.range("").into(), Start::Now).await?;
            loop {
                let object = match watcher.next().await? {
                    Item::Initial(object) => Some(object),
                    Item::InitialDone(_) => None,
                    // What has been deleted has given back what it had.
                    Item::Event(event) => event.object.clone(),
                };
                if let Some(object) = object {
                    let header = object.header(storage.cache.describe());
                    queue.add(of(header.namespace.clone(), header.name.clone()));
                }
            }
        };
        let ended: Result<Result<(), cache::Error>, _> = tokio::time::timeout(INTERVAL, round).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, resource, "watching for the repair of addresses failed; it begins again");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

async fn work(allocation: Arc<Allocation>, api: Arc<Api>, queue: Arc<Queue<Work>>) {
    loop {
        let next = queue.next().await;
        match look(&allocation, &api, &next).await {
            Ok(again) => {
                queue.forget(&next);
                again.into_iter().for_each(|again| queue.after(again, next.clone()));
            }
            Err(status) => {
                tracing::warn!(
                    why = status.message,
                    ?next,
                    "an address of a service cannot be checked; it is tried again"
                );
                queue.retry(next);
            }
        }
    }
}

/// Looks at one object. The answer is when to look again, if at all.
async fn look(allocation: &Allocation, api: &Arc<Api>, work: &Work) -> Result<Option<Duration>, Status> {
    let snapshot = api.snapshot();
    match work {
        Work::Service { namespace, name } => {
            let Some(service) = snapshot.get("", "services", namespace, name) else { return Ok(None) };
            allocation.check_service(&snapshot, &service).await?.iter().for_each(report);
            Ok(None)
        }
        Work::Address { name } => {
            let Some(address) = snapshot.get(NETWORKING, "ipaddresses", "", name) else { return Ok(None) };
            let checked = allocation.check_address(&snapshot, &address, api.clock.now()).await?;
            checked.finding.iter().for_each(report);
            Ok(checked.again)
        }
    }
}

fn report(finding: &Finding) {
    tracing::warn!(?finding, "an address or port of a service was not as it should be");
}
