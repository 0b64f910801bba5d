//! Cases for what is counted, and for many requests at once.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use object::{Meta, Status, Value, value};
use registry::{Lookup, MakeChange, OwnChange, OwnClient};

use super::ResourceQuota;
use crate::plugins::testing::{admit, create, update};

/// Quotas in a store that many servers share.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Vec<Value>>>);

impl Store {
    fn with(hard: Value, used: Value, spec: Value) -> Store {
        let store = Store::default();
        store.all().push(value!({
            "metadata": { "name": "q", "namespace": "ns", "resourceVersion": "1" },
            "spec": spec,
            "status": { "hard": hard, "used": used },
        }));
        store
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used(&self) -> Value {
        self.all()[0].at(&["status", "used"]).clone()
    }

    fn plugin(&self) -> ResourceQuota {
        ResourceQuota::new(Arc::new(self.clone()), &crate::Configuration::default()).unwrap()
    }
}

#[async_trait]
impl Lookup for Store {
    fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Arc<Value>> {
        None
    }

    fn list(&self, _: &str, resource: &str, _: &str) -> Vec<Arc<Value>> {
        if resource == "resourcequotas" { self.all().iter().cloned().map(Arc::new).collect() } else { Vec::new() }
    }
}

#[async_trait]
impl OwnClient for Store {
    async fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Value>>, Status> {
        let quotas = Lookup::list(self, group, resource, namespace);
        if tokio::runtime::Handle::try_current().is_ok() {
            // Lets others come in between.
            tokio::task::yield_now().await;
        }
        Ok(quotas)
    }

    async fn change(&self, what: &OwnChange<'_>, change: &MakeChange<'_>) -> Result<bool, Status> {
        assert_eq!((what.resource, what.subresource, what.namespace), ("resourcequotas", "status", "ns"));
        let mut all = self.all();
        let Some(quota) = all.iter_mut().find(|quota| quota.name() == what.name) else { return Ok(false) };
        let Some(mut changed) = change(quota) else { return Ok(false) };
        let next = quota.resource_version().parse::<u64>().unwrap_or_default() + 1;
        changed.set(&["metadata", "resourceVersion"], next.to_string());
        *quota = changed;
        Ok(true)
    }
}

fn pod(resources: Value) -> Value {
    value!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "resources": resources }] } })
}

#[test]
fn creations_are_charged() {
    let asks = value!({ "requests": { "cpu": "1500m", "example.com/gpu": "2" }, "limits": { "cpu": "2" } });
    let service = |kind: &str| value!({ "metadata": { "name": "s" }, "spec": { "type": kind, "ports": [{}, {}] } });
    let claim = value!({
        "metadata": { "name": "c" },
        "spec": { "storageClassName": "fast", "resources": { "requests": { "storage": "1Gi" } } },
    });
    let hard = value!({
        "pods": "2", "count/pods": "2", "requests.cpu": "2", "limits.cpu": "3", "requests.example.com/gpu": "4",
        "services": "1", "services.nodeports": "2", "services.loadbalancers": "1", "count/configmaps": "1",
        "count/deployments.apps": "1", "requests.storage": "2Gi", "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
    });
    let cases = [
        (
            "pods",
            pod(asks),
            value!({ "pods": "1", "count/pods": "1", "requests.cpu": "1500m", "limits.cpu": "2", "requests.example.com/gpu": "2" }),
        ),
        ("services", service("ClusterIP"), value!({ "services": "1" })),
        (
            "services",
            service("LoadBalancer"),
            value!({ "services": "1", "services.nodeports": "2", "services.loadbalancers": "1" }),
        ),
        ("configmaps", value!({ "metadata": { "name": "m" } }), value!({ "count/configmaps": "1" })),
        ("deployments.apps", value!({ "metadata": { "name": "d" } }), value!({ "count/deployments.apps": "1" })),
        (
            "persistentvolumeclaims",
            claim,
            value!({ "requests.storage": "1Gi", "fast.storageclass.storage.k8s.io/requests.storage": "1Gi" }),
        ),
        ("events", value!({ "metadata": { "name": "e" } }), value!({})),
    ];
    for (resource, object, charged) in cases {
        let mut used = Value::map();
        for name in hard.as_map().into_iter().flat_map(|map| map.keys()) {
            used.set(&[name], charged.field(name).as_str().unwrap_or("0"));
        }
        let mut before = used.clone();
        for (_, amount) in before.make_map().iter_mut() {
            *amount = "0".into();
        }
        let store = Store::with(hard.clone(), before, value!({}));
        let made = create(&store.plugin(), &store, resource, object);
        assert_eq!((made.err(), store.used()), (None, used), "{resource}");
    }
}

#[test]
fn too_much_is_refused() {
    let full = value!({ "pods": "1" });
    let cases = [
        (
            full.clone(),
            full.clone(),
            pod(value!({})),
            "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
        ),
        (
            value!({ "cpu": "1", "limits.memory": "1Gi" }),
            value!({ "cpu": "0", "limits.memory": "0" }),
            pod(value!({})),
            "failed quota: q: must specify cpu for: c; limits.memory for: c",
        ),
        (
            value!({ "pods": "1", "cpu": "1" }),
            value!({ "pods": "0" }),
            pod(value!({ "requests": { "cpu": "1" } })),
            "status unknown for quota: q, resources: cpu,pods",
        ),
        (
            value!({ "cpu": "1" }),
            value!({ "cpu": "500m" }),
            pod(value!({ "requests": { "cpu": "600m" } })),
            "exceeded quota: q, requested: cpu=600m, used: cpu=500m, limited: cpu=1",
        ),
    ];
    for (hard, used, pod, why) in cases {
        let store = Store::with(hard, used.clone(), value!({}));
        let made = create(&store.plugin(), &store, "pods", pod);
        assert_eq!(made.err(), Some(format!("pods \"p\" is forbidden: {why}")));
        assert_eq!(store.used(), used);
    }
}

#[test]
fn scopes_choose_pods() {
    let selector = |operator: &str| {
        value!({ "scopeSelector": { "matchExpressions": [
            { "scopeName": "PriorityClass", "operator": operator, "values": ["high"] },
        ] } })
    };
    let plain = pod(value!({}));
    let mut high = plain.clone();
    high.set(&["spec", "priorityClassName"], "high");
    let mut deadline = plain.clone();
    deadline.set(&["spec", "activeDeadlineSeconds"], 5);
    let asking = pod(value!({ "requests": { "cpu": "1" } }));
    let cases = [
        (value!({ "scopes": ["BestEffort"] }), &plain, true),
        (value!({ "scopes": ["BestEffort"] }), &asking, false),
        (value!({ "scopes": ["NotBestEffort", "NotTerminating"] }), &asking, true),
        (value!({ "scopes": ["Terminating"] }), &deadline, true),
        (value!({ "scopes": ["Terminating"] }), &plain, false),
        (value!({ "scopes": ["PriorityClass"] }), &plain, false),
        (selector("In"), &high, true),
        (selector("In"), &plain, false),
        (selector("NotIn"), &plain, true),
        (selector("DoesNotExist"), &high, false),
    ];
    for (spec, pod, charged) in cases {
        let store = Store::with(value!({ "pods": "5" }), value!({ "pods": "0" }), spec.clone());
        assert!(create(&store.plugin(), &store, "pods", pod.clone()).is_ok());
        assert_eq!(store.used() == value!({ "pods": "1" }), charged, "{spec:?}");
    }
}

#[test]
fn updates_are_charged_for_what_they_add() {
    let store = Store::with(value!({ "services.nodeports": "2" }), value!({ "services.nodeports": "1" }), value!({}));
    let service = |ports: Value| value!({ "metadata": { "name": "s", "resourceVersion": "1" }, "spec": { "type": "NodePort", "ports": ports } });
    let (one, two, three) = (service(value!([{}])), service(value!([{}, {}])), service(value!([{}, {}, {}])));
    assert!(update(&store.plugin(), &store, "services", two.clone(), one.clone()).is_ok());
    assert_eq!(store.used(), value!({ "services.nodeports": "2" }));
    assert!(update(&store.plugin(), &store, "services", three, two.clone()).is_err());
    assert!(update(&store.plugin(), &store, "services", one, two).is_ok());
    assert_eq!(store.used(), value!({ "services.nodeports": "2" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_never_exceed_a_quota() {
    let store = Store::with(value!({ "pods": "50" }), value!({ "pods": "0" }), value!({}));
    let servers = [Arc::new(store.plugin()), Arc::new(store.plugin())];
    let tasks: Vec<_> = (0..64)
        .map(|i| {
            let (server, store) = (servers[i % 2].clone(), store.clone());
            tokio::spawn(async move {
                loop {
                    match admit(&*server, &store, "pods", pod(value!({})), None).await {
                        Err(status) if status.code == 409 => {}
                        done => return done.is_ok(),
                    }
                }
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += usize::from(task.await.expect("requests do not panic"));
    }
    assert_eq!((admitted, store.used()), (50, value!({ "pods": "50" })));
}
