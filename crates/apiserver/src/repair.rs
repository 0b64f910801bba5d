//! Repairs the allocation of cluster IPs and node ports, as upstream's repair controllers do.
//!
//! A server that ended in the middle of a write may leave an address taken that no Service has; another server, or an older
//! one, may have written Services without taking their addresses. Services and IPAddresses are looked at when they change,
//! and all of them every few minutes. The log and events say what was wrong.

mod recorder;

use std::sync::Arc;
use std::time::Duration;

use cache::{Item, Start};
use kinds::core::service::Allocation;
use kinds::core::service::allocation::repair::PortRepair;
use object::{Status, Str};
use registry::Lookup;
use rest::Api;
use standalone::Queue;
use tokio::task::JoinSet;

use self::recorder::Recorder;

/// How often everything is looked at.
const INTERVAL: Duration = Duration::from_secs(3 * 60);
/// How long a broken watch waits before it begins again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const NETWORKING: &str = "networking.k8s.io";

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RepairWork {
    Service { namespace: Str, name: Str },
    Address { name: Str },
}

/// Repairs for as long as the tasks run.
pub fn run(allocation: Arc<Allocation>, api: &Arc<Api>, hostname: &str, tasks: &mut JoinSet<()>) {
    let recorder = Arc::new(Recorder::new(api.clone(), hostname));
    let queue: Arc<Queue<RepairWork>> = Arc::new(Queue::new());
    tasks.spawn(repair_ports(allocation.clone(), recorder.clone()));
    let service = |namespace, name| RepairWork::Service { namespace, name };
    tasks.spawn(follow(api.clone(), "", "services", queue.clone(), service));
    let address = |_, name| RepairWork::Address { name };
    tasks.spawn(follow(api.clone(), NETWORKING, "ipaddresses", queue.clone(), address));
    tasks.spawn(work(allocation, api.clone(), queue, recorder));
}

async fn repair_ports(allocation: Arc<Allocation>, recorder: Arc<Recorder>) {
    let mut repair = PortRepair::new();
    loop {
        match repair.run(&allocation).await {
            Ok(findings) => {
                for finding in &findings {
                    recorder.record(finding).await;
                }
            }
            Err(status) => {
                allocation.meters.port_repair_failed();
                tracing::warn!(why = status.message, "cannot check the node ports of services");
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Queues what is there and what changes; everything again after the interval.
async fn follow(
    api: Arc<Api>,
    group: &'static str,
    resource: &'static str,
    queue: Arc<Queue<RepairWork>>,
    of: fn(Str, Str) -> RepairWork,
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

async fn work(allocation: Arc<Allocation>, api: Arc<Api>, queue: Arc<Queue<RepairWork>>, recorder: Arc<Recorder>) {
    loop {
        let next = queue.next().await;
        match look(&allocation, &api, &next, &recorder).await {
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
async fn look(
    allocation: &Allocation,
    api: &Arc<Api>,
    work: &RepairWork,
    recorder: &Recorder,
) -> Result<Option<Duration>, Status> {
    let snapshot = api.snapshot();
    match work {
        RepairWork::Service { namespace, name } => {
            let Some(service) = snapshot.get("", "services", namespace, name) else { return Ok(None) };
            for finding in allocation.check_service(&snapshot, &service).await? {
                recorder.record(&finding).await;
            }
            Ok(None)
        }
        RepairWork::Address { name } => {
            let Some(address) = snapshot.get(NETWORKING, "ipaddresses", "", name) else { return Ok(None) };
            let checked = allocation.check_address(&snapshot, &address, api.clock.now()).await?;
            if let Some(finding) = &checked.finding {
                recorder.record(finding).await;
            }
            Ok(checked.again)
        }
    }
}
