//! Requests that are dropped at every point where they wait, on a whole server: what they had reserved by then has an owner
//! afterwards, or is free again.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use apiserver::{Config, OwnServiceConfig, ProgramParts, Running};
use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, header};
use kinds::core::service::allocation::PortRange;
use object::{Meta, Value, value};
use registry::Lookup;
use request::{RequestInfo, User};
use rest::{Body, Call, FinishWrite, Reply, ReplyBody};
use storage::memory::MemoryStore;
use storage::{Layer, Store, Write, Written};
use tempfile::TempDir;
use tokio::sync::mpsc;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const PORTS: u16 = 8;
/// No write waits more often than this.
const POLLS_MAX: usize = 200;

/// A request: its method or kind of patch, its URL and its body.
type Ask = (&'static str, String, Value);

struct World {
    running: Running,
    _folder: TempDir,
}

/// Tells the code of a write that was finished after its request was dropped.
struct Finished(mpsc::UnboundedSender<u16>);

impl FinishWrite for Finished {
    fn finish(&self, rest: BoxFuture<'static, Reply>) -> BoxFuture<'static, ()> {
        let codes = self.0.clone();
        Box::pin(async move {
            let _ = codes.send(rest.await.status.as_u16());
        })
    }
}

/// A store whose every write waits before and after it takes place, however fast the machine is, so that a request can be dropped there.
struct Waiting(MemoryStore);

#[async_trait]
impl Layer for Waiting {
    fn below(&self) -> &dyn Store {
        &self.0
    }

    async fn write(&self, write: Write) -> storage::Result<Written> {
        tokio::task::yield_now().await;
        let written = self.0.write(write).await;
        tokio::task::yield_now().await;
        written
    }
}

/// What became of a request that was dropped.
#[derive(Debug, PartialEq)]
enum Fate {
    Answered(u16),
    /// Its write had begun and ended with this code.
    Finished(u16),
    Nothing,
}

impl World {
    async fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            data_dir: folder.path().join("data"),
            port: 0,
            disable_admission_plugins: vec!["ServiceAccount".into()],
            own_service: OwnServiceConfig {
                cluster_ip_range: "10.7.0.0/27".into(),
                node_port_range: PortRange { first: 30000, size: PORTS },
                ..OwnServiceConfig::default()
            },
            ..Config::default()
        };
        let parts = ProgramParts { store: Some(Arc::new(Waiting(MemoryStore::new()))), ..ProgramParts::default() };
        World { running: apiserver::start_with(config, parts).await.unwrap(), _folder: folder }
    }

    async fn reply(&self, (method, url, body): &Ask, finish: Option<Arc<dyn FinishWrite>>) -> Reply {
        let (method, kind) = match *method {
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            method => (method, "application/json"),
        };
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query: Vec<(String, String)> = pairs.map(|(key, value)| (key.into(), value.into())).collect();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let call = Call {
            info: RequestInfo::parse(method, path, &query),
            user: User::loopback(),
            method: Method::from_bytes(method.as_bytes()).unwrap(),
            uri: Default::default(),
            headers,
            query,
            timeout: Duration::from_secs(30),
            client: None,
            record: None,
            origin: None,
            only_visible: false,
            finish,
            parts: None,
            new_uid: None,
        };
        let api = &self.running.api;
        let call =
            authz::authorize(&*api.authorizer, Box::new(call)).await.map_err(|refused| refused.status()).unwrap();
        let mut json = Vec::new();
        codec::json::encode(body, None, &mut json);
        let body = if body.is_null() { Body::Empty } else { Body::Ready(json.into()) };
        rest::serve(api, call, body).await
    }

    async fn call(&self, ask: &Ask, finish: Option<Arc<dyn FinishWrite>>) -> (u16, Value) {
        let reply = self.reply(ask, finish).await;
        let value = match &reply.body {
            ReplyBody::Ready(bytes) => {
                codec::json::decode(bytes, None, &mut codec::Notes::ignore()).unwrap_or_default()
            }
            _ => Value::Null,
        };
        (reply.status.as_u16(), value)
    }

    async fn must(&self, ask: Ask) -> Value {
        let (code, answer) = self.call(&ask, None).await;
        assert!(code < 300, "{ask:?}: {code} {answer:?}");
        answer
    }

    /// Polls a request so many times and drops it; returns when nothing of it is left.
    async fn drop_after(&self, polls: usize, ask: &Ask) -> Fate {
        let (sender, mut finished) = mpsc::unbounded_channel();
        let mut request = Box::pin(self.call(ask, Some(Arc::new(Finished(sender)))));
        let mut left = polls;
        let answered = poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            match request.as_mut().poll(cx) {
                Poll::Ready((code, _)) => Poll::Ready(Some(code)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        drop(request);
        // The other end is gone with the request, unless its write goes on.
        match (answered, finished.recv().await) {
            (Some(code), None) => Fate::Answered(code),
            (None, Some(code)) => Fate::Finished(code),
            (None, None) => Fate::Nothing,
            (answered, finished) => panic!("{ask:?} was answered {answered:?} and finished {finished:?}"),
        }
    }

    /// Polls a read, and then what it sends, so many times and drops it. True if it had ended by then.
    async fn drop_read_after(&self, polls: usize, ask: &Ask) -> bool {
        let mut read = Box::pin(async {
            let reply = self.reply(ask, None).await;
            assert_eq!(reply.status, 200, "{ask:?}");
            if let ReplyBody::Stream { mut chunks, .. } = reply.body {
                let mut kept = Vec::new();
                while let Some(chunk) = chunks.next().await {
                    kept.push(chunk.unwrap());
                    // A client that takes a chunk and does not ask for the next at once.
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut left = polls;
        poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(false);
            }
            left -= 1;
            match read.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if left == 0 => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn list(&self, group: &str, resource: &str) -> Vec<Arc<Value>> {
        self.running.api.snapshot().list(group, resource, "")
    }

    /// Addresses without the Service that they were taken for, and Services without their addresses.
    fn leaks(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or("").to_string();
        let mut used: Vec<String> = Vec::new();
        for service in self.list("", "services") {
            used.extend(service.list_at(&["spec", "clusterIPs"]).iter().map(text));
        }
        let taken: Vec<String> =
            self.list("networking.k8s.io", "ipaddresses").iter().map(|address| address.name().to_string()).collect();
        let leaked =
            taken.iter().filter(|address| !used.contains(address)).map(|address| format!("{address} is taken"));
        let missing =
            used.iter().filter(|address| !taken.contains(address)).map(|address| format!("{address} is free"));
        leaked.chain(missing).collect()
    }

    /// How many node ports are free, found by taking them.
    async fn free_ports(&self) -> u16 {
        let mut free = 0;
        while self.call(&post(SERVICES, node_port(&format!("port-{free}"))), None).await.0 == 201 {
            free += 1;
        }
        self.clean_up().await;
        free
    }

    /// Deletes what a request was about.
    async fn clean_up(&self) {
        for service in self.list("", "services").iter().filter(|service| service.name() != "kubernetes") {
            self.must(("DELETE", format!("{SERVICES}/{}", service.name()), Value::Null)).await;
        }
        for (path, group, resource) in
            [(PODS, "", "pods"), (BUDGETS, "policy", "poddisruptionbudgets"), (MAPS, "", "configmaps")]
        {
            for object in self.list(group, resource) {
                self.call(&("DELETE", format!("{path}/{}?gracePeriodSeconds=0", object.name()), Value::Null), None)
                    .await;
            }
        }
    }

    /// Drops a request at every point where it waits, each time after the same preparation. `check` looks at what is left.
    async fn drop_everywhere(&self, prepare: &[Ask], ask: Ask, check: impl Fn(&World) -> Vec<String>) {
        let (mut finished, mut polls) = (0, 0);
        loop {
            for step in prepare {
                self.must(step.clone()).await;
            }
            let fate = self.drop_after(polls, &ask).await;
            let wrong: Vec<String> = self.leaks().into_iter().chain(check(self)).collect();
            assert!(wrong.is_empty(), "{ask:?} after {polls} polls, {fate:?}: {wrong:?}");
            finished += usize::from(matches!(fate, Fate::Finished(_)));
            self.clean_up().await;
            assert_eq!(self.leaks(), Vec::<String>::new(), "{ask:?} after {polls} polls, when all was deleted");
            if let Fate::Answered(code) = fate {
                let refused = ask.1.contains("refused");
                assert_eq!(code >= 400, refused, "{ask:?}");
                break;
            }
            polls += 1;
            assert!(polls < POLLS_MAX, "{ask:?} does not end");
        }
        let lasting = !["dryRun", "/log", "/token"].iter().any(|part| ask.1.contains(part));
        assert_eq!(finished > 0, lasting, "{ask:?}: {finished} of {polls} were finished after they were dropped");
        assert_eq!(self.free_ports().await, PORTS, "{ask:?}");
    }
}

fn post(path: &str, body: Value) -> Ask {
    ("POST", path.into(), body)
}

fn service(name: &str, spec: Value) -> Value {
    let mut service = value!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": (spec)});
    service.set(&["spec", "ports"], value!([{"port": 80}]));
    service
}

fn node_port(name: &str) -> Value {
    service(name, value!({"type": "NodePort"}))
}

fn nothing(_: &World) -> Vec<String> {
    Vec::new()
}

/// Addresses and node ports of Services, whatever becomes of requests that take them and give them back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_keep_what_is_theirs() {
    let world = World::start().await;
    let one = || format!("{SERVICES}/a");
    let balanced = || service("a", value!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}));
    let mut generated = balanced();
    generated.set(&["metadata"], value!({"generateName": "a-"}));
    let refused = || service("a", value!({"type": "NodePort", "sessionAffinity": "Sometimes"}));
    let plain = || post(SERVICES, service("a", value!({})));
    let open = || post(SERVICES, node_port("a"));
    let external =
        || value!({"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null});
    let cases: Vec<(Vec<Ask>, Ask)> = vec![
        (vec![], open()),
        (vec![], post(SERVICES, generated)),
        (vec![], post(&format!("{SERVICES}?x=refused"), refused())),
        (vec![], post(&format!("{SERVICES}?dryRun=All"), node_port("a"))),
        (vec![], ("APPLY", format!("{}?fieldManager=m&force=true", one()), node_port("a"))),
        (vec![plain()], ("PUT", one(), node_port("a"))),
        (vec![plain()], ("MERGE", one(), value!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}}))),
        (
            vec![plain()],
            ("MERGE", format!("{}?x=refused", one()), value!({"spec": {"type": "NodePort", "sessionAffinity": "No"}})),
        ),
        (vec![open()], ("MERGE", one(), value!({"spec": (external())}))),
        (vec![open()], ("MERGE", format!("{}?dryRun=All", one()), value!({"spec": (external())}))),
        (
            vec![open()],
            ("APPLY", format!("{}?fieldManager=m&force=true", one()), service("a", value!({"type": "ClusterIP"}))),
        ),
        (vec![post(SERVICES, balanced())], ("DELETE", one(), Value::Null)),
        (vec![open(), post(SERVICES, node_port("b"))], ("DELETE", SERVICES.into(), Value::Null)),
    ];
    for (prepare, ask) in cases {
        // The Service of the server itself would go with the others.
        let ask = if ask == ("DELETE", SERVICES.into(), Value::Null) {
            ("DELETE", format!("{SERVICES}?fieldSelector=metadata.name!=kubernetes"), Value::Null)
        } else {
            ask
        };
        world.drop_everywhere(&prepare, ask, nothing).await;
    }
}

/// What a quota has counted is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_count_what_is_there() {
    let world = World::start().await;
    let mut quota = value!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/configmaps": "20", "services.nodeports": "20"}}
    });
    world.must(post(QUOTA, quota.clone())).await;
    let used = value!({"count/configmaps": "0", "services.nodeports": "0"});
    quota.set(&["status"], value!({"hard": (quota.at(&["spec", "hard"]).clone()), "used": (used.clone())}));
    let reset = ("PUT", format!("{QUOTA}/q/status"), quota);
    let check = |world: &World| {
        let quota = world.list("", "resourcequotas").remove(0);
        let counted = |name: &str| quota.at(&["status", "used"]).str_at(&[name]).to_string();
        let maps = world.list("", "configmaps").iter().filter(|map| map.namespace() == "default").count();
        let open = world.list("", "services").iter().filter(|s| s.str_at(&["spec", "type"]) == "NodePort").count();
        let want = [("count/configmaps", maps), ("services.nodeports", open)];
        let wrong = want.into_iter().filter(|(name, there)| counted(name) != there.to_string());
        wrong.map(|(name, there)| format!("{name}: {} counted, {there} there", counted(name))).collect()
    };
    let map = value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
    let plain = post(SERVICES, service("a", value!({})));
    for (prepare, ask) in [
        (vec![reset.clone()], post(MAPS, map)),
        (vec![reset.clone()], post(SERVICES, node_port("a"))),
        (vec![reset.clone(), plain], ("PUT", format!("{SERVICES}/a"), node_port("a"))),
    ] {
        world.drop_everywhere(&prepare, ask, check).await;
        world.must(reset.clone()).await;
    }
}

/// A budget is charged for pods that go, and for no others; bindings and deletions are whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_are_charged_for_pods_that_go() {
    let world = World::start().await;
    let pod = |node: &str| {
        let containers = value!([{"name": "c", "image": "i"}]);
        let mut pod = value!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {"containers": (containers)}
        });
        if !node.is_empty() {
            pod.set(&["spec", "nodeName"], node);
        }
        post(PODS, pod)
    };
    let running = value!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let running = ("MERGE", format!("{PODS}/p/status"), value!({"status": (running)}));
    let budget = value!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 0}
    });
    let allowed = value!({
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1
    });
    let allowed = ("MERGE", format!("{BUDGETS}/b/status"), value!({"status": (allowed)}));
    let guarded = [pod("n"), running.clone(), post(BUDGETS, budget), allowed];
    let eviction = value!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let charged = |world: &World| {
        let stays = world.list("", "pods").iter().any(|pod| !pod.is_deleting());
        let left = world.list("policy", "poddisruptionbudgets").remove(0);
        let left = left.at(&["status", "disruptionsAllowed"]).as_int();
        if (left == Some(1)) == stays { Vec::new() } else { vec![format!("the pod stays: {stays}, allowed: {left:?}")] }
    };
    world.drop_everywhere(&guarded, post(&format!("{PODS}/p/eviction"), eviction), charged).await;
    let binding = value!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}
    });
    world.drop_everywhere(&[pod("")], post(&format!("{PODS}/p/binding"), binding), nothing).await;
    // A deletion without grace is two writes: the mark and the removal.
    let whole = |world: &World| match world.list("", "pods").iter().any(|pod| pod.is_deleting()) {
        true => vec!["the pod is marked and stays".to_string()],
        false => Vec::new(),
    };
    let plain = ("DELETE", format!("{PODS}/p?gracePeriodSeconds=0"), Value::Null);
    world.drop_everywhere(&[pod("n"), running], plain, whole).await;
    // These take nothing and store nothing, so they end with their client.
    world.drop_everywhere(&[pod("")], ("GET", format!("{PODS}/p/log"), Value::Null), nothing).await;
    let account = value!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "t"}});
    let account = ("APPLY", format!("{ACCOUNTS}/t?fieldManager=m"), account);
    let token = value!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    world.drop_everywhere(&[account], post(&format!("{ACCOUNTS}/t/token"), token), nothing).await;
}

/// What a read counts of its user's unread answers is given back wherever it is dropped, while it is made and while it is sent, and
/// nothing of it keeps writes waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_give_back_what_they_count() {
    let world = World::start().await;
    let mut old = String::new();
    for at in 0..6 {
        let name = format!("m{at}");
        let filling = "x".repeat(100_000);
        let map =
            value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": (name)}, "data": {"a": (filling)}});
        old = world.must(post(MAPS, map)).await.str_at(&["metadata", "resourceVersion"]).to_string();
    }
    let change = |at: usize| ("MERGE", format!("{MAPS}/m{at}"), value!({"data": {"b": (at.to_string())}}));
    for at in 0..6 {
        world.must(change(at)).await;
    }
    let queries = [
        "/m0".to_string(),
        String::new(),
        "?limit=2".to_string(),
        "?pretty=true".to_string(),
        "?labelSelector=a!=b".to_string(),
        format!("?resourceVersion={old}&resourceVersionMatch=Exact"),
        format!("?resourceVersion={old}&resourceVersionMatch=Exact&limit=3"),
        format!("?watch=true&resourceVersion={old}&timeoutSeconds=1"),
        "?watch=true&resourceVersion=0&timeoutSeconds=1&labelSelector=a!=b".to_string(),
    ];
    for query in queries {
        let ask = ("GET", format!("{MAPS}{query}"), Value::Null);
        let mut polls = 0;
        while !world.drop_read_after(polls, &ask).await {
            assert_eq!(world.running.api.answers.bytes(), 0, "{ask:?} after {polls} polls");
            polls += 1;
            assert!(polls < POLLS_MAX, "{ask:?} does not end");
        }
        assert_eq!(world.running.api.answers.bytes(), 0, "{ask:?} when it was read");
        world.must(change(0)).await;
    }
}
