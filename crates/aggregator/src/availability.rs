//! Checks whether backends can be reached, and writes the condition Available.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{HeaderMap, Method};
use object::timestamp::Time;
use object::{Meta, Value, quote, value};
use registry::Lookup;
use rest::client::{Client, Failure};
use tokio::time::Instant;

use crate::autoregister::SERVICES;
use crate::backend::{Backend, aggregator_user};
use crate::service::{self, ApiService};
use crate::{Aggregator, follow};

/// A backend is checked at least this often.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// After a failure it is checked again after this, then after twice as long and so on, up to the interval.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Requests that one check makes at once; one success is enough.
const ATTEMPTS: usize = 5;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The availability of a backend as it was found.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    status: &'static str,
    reason: &'static str,
    message: String,
    /// Whether a request failed, which is tried again soon.
    retry: bool,
}

impl Finding {
    fn unavailable(reason: &'static str, message: String) -> Finding {
        Finding { status: "False", reason, message, retry: false }
    }
}

/// Checks one backend for ever: at intervals, soon after a failure, and when its Service or endpoints change.
pub async fn check(aggregator: Arc<Aggregator>, backend: Arc<Backend>) {
    let mut retry_after = FIRST_RETRY;
    loop {
        let finding = find(&aggregator.client, &backend).await;
        let written = write(&aggregator, &backend, &finding).await;
        if let Err(failure) = &written {
            tracing::warn!(name = %backend.name, %failure, "the condition of an APIService cannot be written");
        }
        let wait = match finding.retry || written.is_err() {
            true => retry_after,
            false => CHECK_INTERVAL,
        };
        retry_after = if wait == CHECK_INTERVAL { FIRST_RETRY } else { (retry_after * 2).min(CHECK_INTERVAL) };
        let _ = tokio::time::timeout(wait, backend.recheck.notified()).await;
    }
}

/// Asks for a check of the backends whose Service or endpoints have changed.
pub async fn follow_services(aggregator: Arc<Aggregator>) {
    let catalog = aggregator.client.api.catalog.load_full();
    let follow_one = |group: &str, resource: &str| {
        let aggregator = aggregator.clone();
        let storage = catalog.stored(group, resource).cloned();
        async move {
            let Some(storage) = storage else { return };
            let named = storage.clone();
            follow::follow(storage, "", move |batch| {
                if batch.complete {
                    return;
                }
                let backends = aggregator.backends();
                if backends.is_empty() {
                    return;
                }
                for object in batch.set.iter().chain(&batch.gone) {
                    recheck(&backends, &follow::name_of(&named, object));
                }
            })
            .await;
        }
    };
    tokio::join!(follow_one("", "services"), follow_one("discovery.k8s.io", "endpointslices"));
}

/// Asks for a check of the backends in the namespace of a changed object.
fn recheck(backends: &[Arc<Backend>], name: &str) {
    let namespace = name.split_once('/').map_or("", |(namespace, _)| namespace);
    for backend in backends.iter().filter(|backend| backend.reference.namespace == namespace) {
        backend.recheck.notify_one();
    }
}

async fn find(client: &Client, backend: &Backend) -> Finding {
    if let Some(finding) = find_service(client, backend) {
        return finding;
    }
    match try_discovery(backend).await {
        Ok(()) => Finding { status: "True", reason: "Passed", message: "all checks passed".into(), retry: false },
        Err(why) => Finding { retry: true, ..Finding::unavailable("FailedDiscoveryCheck", why) },
    }
}

/// The fault of the Service or its endpoints, if there is one.
fn find_service(client: &Client, backend: &Backend) -> Option<Finding> {
    let reference = &backend.reference;
    let (namespace, name) = (quote(&reference.namespace), &reference.name);
    let snapshot = client.api.snapshot();
    let Some(service) = snapshot.get("", "services", &reference.namespace, name) else {
        let message = format!("service/{name} in {namespace} is not present");
        return Some(Finding::unavailable("ServiceNotFound", message));
    };
    if service.str_at(&["spec", "type"]) != "ClusterIP" {
        return None;
    }
    let wanted = i64::from(reference.port);
    let port = service.list_at(&["spec", "ports"]).iter().find(|port| port.field("port").as_int() == Some(wanted));
    let Some(port) = port else {
        let message = format!("service/{name} in {namespace} is not listening on port {wanted}");
        return Some(Finding::unavailable("ServicePortError", message));
    };
    let port_name = port.str_at(&["name"]);
    let slices = snapshot.list("discovery.k8s.io", "endpointslices", &reference.namespace);
    let own: Vec<&Arc<Value>> =
        slices.iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(name.as_str())).collect();
    if own.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace}");
        return Some(Finding::unavailable("EndpointsNotFound", message));
    }
    if !own.iter().any(|slice| is_ready(slice, port_name)) {
        let port = quote(port_name);
        let message =
            format!("endpointslices for service/{name} in {namespace} have no addresses with port name {port}");
        return Some(Finding::unavailable("MissingEndpoints", message));
    }
    None
}

/// Whether a slice has an endpoint that is ready, and the port.
fn is_ready(slice: &Value, port_name: &str) -> bool {
    let ready = |endpoint: &Value| endpoint.at(&["conditions", "ready"]).as_bool() != Some(false);
    let is_port = |port: &Value| port.str_at(&["name"]) == port_name && !port.field("port").is_null();
    slice.list_at(&["endpoints"]).iter().any(ready) && slice.list_at(&["ports"]).iter().any(is_port)
}

/// Asks several times at once for what the backend serves, and is content with one good answer.
async fn try_discovery(backend: &Backend) -> Result<(), String> {
    let path = request::version_path(&backend.version).map_err(|error| error.to_string())?;
    let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| attempt(backend, &path)).collect();
    let mut last = Ok(());
    while let Some(outcome) = attempts.next().await {
        if outcome.is_ok() {
            return Ok(());
        }
        last = outcome;
    }
    last
}

async fn attempt(backend: &Backend, path: &str) -> Result<(), String> {
    let url = format!("https://{}{path}", backend.resolve().await?);
    let failed = |why: String| format!("failing or missing response from {url}: {why}");
    let deadline = Instant::now() + ATTEMPT_TIMEOUT;
    match tokio::time::timeout_at(deadline, backend.send(Method::GET, &url, HeaderMap::new(), &aggregator_user())).await
    {
        Ok(Ok(response)) if response.status().is_success() => Ok(()),
        Ok(Ok(response)) => Err(failed(format!("bad status from {url}: {}", response.status().as_u16()))),
        Ok(Err(why)) => Err(failed(why)),
        Err(_) => {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            Err(failed(format!("Get {}: {why}", quote(&url))))
        }
    }
}

/// Writes what was found, if it is news.
async fn write(aggregator: &Aggregator, backend: &Backend, finding: &Finding) -> Result<(), Failure> {
    let is_available = finding.status == "True";
    aggregator.meters.set(&backend.name, is_available);
    let snapshot = aggregator.client.api.snapshot();
    let Some(stored) = snapshot.get("apiregistration.k8s.io", "apiservices", "", &backend.name) else { return Ok(()) };
    // A check that began before the APIService was changed says nothing about the new one.
    if ApiService::read(&stored).backend.as_ref() != Some(&backend.reference) {
        return Ok(());
    }
    let was_available = service::condition(&stored).is_some_and(|known| known.str_at(&["status"]) == "True");
    if !write_condition(&aggregator.client, &stored, finding).await? {
        return Ok(());
    }
    if was_available && !is_available {
        aggregator.meters.lost(&backend.name, finding.reason);
    }
    Ok(())
}

/// Whether the condition of a local APIService says what it should.
pub fn is_local(object: &Value) -> bool {
    let condition = service::condition(object);
    condition.is_some_and(|known| known.str_at(&["status"]) == "True" && known.str_at(&["reason"]) == "Local")
}

/// Declares an APIService available because this server answers for it.
pub async fn write_local(client: &Client, object: &Value) {
    let message = "Local APIServices are always available".into();
    let finding = Finding { status: "True", reason: "Local", message, retry: false };
    match write_condition(client, object, &finding).await {
        // A conflict means that it has changed, and is looked at again.
        Err(failure) if failure.code != 409 => {
            tracing::warn!(name = object.name(), %failure, "the condition of an APIService cannot be written");
        }
        _ => {}
    }
}

/// Whether there was something to write.
async fn write_condition(client: &Client, stored: &Value, finding: &Finding) -> Result<bool, Failure> {
    let mut object = stored.clone();
    let now = Time(client.api.clock.now()).to_string();
    let mut new = value!({"type": "Available", "status": (finding.status), "reason": (finding.reason)});
    new.set(&["message"], finding.message.clone());
    let conditions = object.slot(&["status", "conditions"]).make_list();
    match conditions.iter_mut().find(|known| known.str_at(&["type"]) == "Available") {
        None => {
            new.set(&["lastTransitionTime"], now);
            conditions.push(new);
        }
        Some(known) => {
            let same = known.str_at(&["status"]) == finding.status;
            let since = if same { known.str_at(&["lastTransitionTime"]).to_string() } else { now };
            new.set(&["lastTransitionTime"], since);
            *known = new;
        }
    }
    if object == *stored {
        return Ok(false);
    }
    client.replace(&SERVICES.item(stored.name()).part("status"), &object).await.map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_needs_a_ready_endpoint_and_the_port() {
        let slice = |ready: Value, port: Value| value!({"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": (ready)}}], "ports": [(port)]});
        let port = || value!({"name": "https", "port": 443});
        let cases = [
            (slice(Value::Null, port()), true),
            (slice(true.into(), port()), true),
            (slice(false.into(), port()), false),
            (slice(true.into(), value!({"name": "http", "port": 80})), false),
            (slice(true.into(), value!({"name": "https"})), false),
            (value!({"ports": [(port())]}), false),
        ];
        for (slice, expected) in cases {
            assert_eq!(is_ready(&slice, "https"), expected, "{slice:?}");
        }
    }
}
