//! Allocation under concurrency, against a store in memory.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use object::timestamp::Time;
use object::{Timestamp, value};
use registry::{Features, Lookup, OwnClient};
use request::User;

use super::repair::{Checked, Finding, PortRepair};
use super::*;

/// A store and, as the cache in front of it, a lookup that may lag behind.
#[derive(Default)]
struct World {
    addresses: Mutex<BTreeMap<String, Arc<Value>>>,
    /// What the cache still believes to be there.
    stale: Mutex<HashSet<String>>,
    services: Mutex<Vec<Arc<Value>>>,
    ports: Mutex<Option<(Value, u64)>>,
    revision: AtomicU64,
    cidrs: Vec<&'static str>,
    created_at: i64,
}

#[async_trait]
impl OwnClient for World {
    async fn create(&self, _: &str, resource: &str, mut address: Value) -> Result<bool, Status> {
        assert_eq!(resource, "ipaddresses");
        tokio::task::yield_now().await;
        let mut addresses = self.addresses.lock().unwrap();
        if addresses.contains_key(address.name()) {
            return Ok(false);
        }
        address.set_meta_str("creationTimestamp", &Time(Timestamp::new(self.created_at, 0)).to_string());
        addresses.insert(address.name().to_string(), Arc::new(address));
        Ok(true)
    }

    async fn delete(&self, _: &str, resource: &str, name: &str) -> Result<(), Status> {
        assert_eq!(resource, "ipaddresses");
        tokio::task::yield_now().await;
        self.addresses.lock().unwrap().remove(name);
        Ok(())
    }

    async fn list(&self, _: &str, resource: &str, _: &str) -> Result<Vec<Arc<Value>>, Status> {
        match resource {
            "ipaddresses" => Ok(self.addresses.lock().unwrap().values().cloned().collect()),
            resource => {
                assert_eq!(resource, "services");
                Ok(self.services.lock().unwrap().clone())
            }
        }
    }

    async fn node_ports(&self) -> Result<Option<(Value, u64)>, Status> {
        tokio::task::yield_now().await;
        Ok(self.ports.lock().unwrap().clone())
    }

    async fn store_node_ports(&self, ports: &Value, revision: Option<u64>) -> Result<Option<u64>, Status> {
        tokio::task::yield_now().await;
        let mut stored = self.ports.lock().unwrap();
        if stored.as_ref().map(|(_, revision)| *revision) != revision {
            return Ok(None);
        }
        let next = self.revision.fetch_add(1, Ordering::SeqCst) + 1;
        *stored = Some((ports.clone(), next));
        Ok(Some(next))
    }
}

#[async_trait]
impl Lookup for World {
    fn get(&self, _: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        if resource == "services" {
            let services = self.services.lock().unwrap();
            return services.iter().find(|service| service.namespace() == namespace && service.name() == name).cloned();
        }
        assert_eq!(resource, "ipaddresses");
        let stale = self.stale.lock().unwrap().contains(name).then(|| Arc::new(Value::map()));
        stale.or_else(|| self.addresses.lock().unwrap().get(name).cloned())
    }

    fn list(&self, _: &str, resource: &str, _: &str) -> Vec<Arc<Value>> {
        assert_eq!(resource, "servicecidrs");
        let cidr = |cidr: &&str| Arc::new(value!({"metadata": {"name": "x"}, "spec": {"cidrs": [(*cidr)]}}));
        self.cidrs.iter().map(cidr).collect()
    }
}

struct Cluster {
    world: Arc<World>,
    user: User,
    features: Features,
}

impl Cluster {
    fn new(cidrs: &[&'static str]) -> Cluster {
        let world = World { cidrs: cidrs.to_vec(), ..World::default() };
        Cluster { world: Arc::new(world), user: User::default(), features: Features::default() }
    }

    fn server(&self) -> Allocation {
        let range = PortRange { first: 30000, size: 100 };
        Allocation::new(&["10.0.0.0/24".to_string()], range, self.world.clone())
    }

    fn context(&self, dry_run: bool) -> Context<'_> {
        let cx = Context::of_server(Timestamp::new(0, 0), &self.user, &self.features);
        Context { namespace: "ns", dry_run, lookup: &*self.world, ..cx }
    }
}

fn service(name: &str, spec: Value) -> Value {
    let mut service = value!({"metadata": {"namespace": "ns"}});
    service.set_meta_str("name", name);
    service.set(&["spec"], spec);
    super::super::defaults::apply(&mut service);
    service
}

fn plain(name: &str) -> Value {
    service(name, value!({"ports": [{"port": 80}], "selector": {"a": "b"}}))
}

fn with_node_port(name: &str) -> Value {
    service(name, value!({"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}}))
}

/// The addresses that many writers on several servers get until there are none left, some of them twice over.
async fn fill(cluster: &Cluster, writers: usize) -> Vec<String> {
    let tasks = (0..writers).map(|writer| {
        let server = cluster.server();
        async move {
            let mut got = Vec::new();
            for number in 0.. {
                let mut wanted = plain(&format!("s{writer}-{number}"));
                match server.create(&cluster.context(false), &mut wanted).await {
                    // Every third write fails after all and must leave nothing behind.
                    Ok(taken) if number % 3 == 2 => Box::new(taken).undo().await,
                    Ok(taken) => {
                        Box::new(taken).commit().await;
                        got.push(cluster_ip(&wanted).to_string());
                    }
                    Err(status) => {
                        assert!(status.message.ends_with("range is full"), "{}", status.message);
                        break;
                    }
                }
            }
            got
        }
    });
    futures::future::join_all(tasks).await.into_iter().flatten().collect()
}

#[tokio::test]
async fn a_range_fills_to_the_last_address_and_each_is_given_once() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let got = fill(&cluster, 8).await;
    let mut all: HashSet<String> = got.iter().cloned().collect();
    assert_eq!(all.len(), got.len(), "an address was given twice");
    // Writers that gave up while others were about to give back may have left a few.
    let server = cluster.server();
    while all.len() < 254 {
        let mut wanted = plain("late");
        server.create(&cluster.context(false), &mut wanted).await.unwrap();
        assert!(all.insert(cluster_ip(&wanted).to_string()));
    }
    assert_eq!(cluster.world.addresses.lock().unwrap().len(), 254);
    let full = server.create(&cluster.context(false), &mut plain("more")).await.err().unwrap();
    assert_eq!(
        (full.code, full.message.as_str()),
        (500, "Internal error occurred: failed to allocate a serviceIP for Service \"more\": range is full")
    );
}

#[tokio::test]
async fn addresses_come_back_even_if_the_cache_has_not_heard() {
    let cluster = Cluster::new(&["10.0.0.0/29"]);
    let server = cluster.server();
    let mut services = Vec::new();
    for number in 0..6 {
        let mut wanted = plain(&format!("s{number}"));
        server.create(&cluster.context(false), &mut wanted).await.unwrap();
        services.push(wanted);
    }
    let freed = cluster_ip(&services[3]).to_string();
    cluster.world.stale.lock().unwrap().insert(freed.clone());
    server.release(&services[3]).await;
    let mut wanted = plain("next");
    server.create(&cluster.context(false), &mut wanted).await.unwrap();
    assert_eq!(cluster_ip(&wanted), freed);
}

#[tokio::test]
async fn addresses_by_name() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let server = cluster.server();
    let ask = |ip: &str| {
        let mut wanted = plain("a");
        wanted.set(&["spec", "clusterIP"], ip);
        wanted.set(&["spec", "clusterIPs"], vec![ip.to_string()]);
        wanted
    };
    let message = "Service \"a\" is invalid: spec.clusterIPs: Invalid value: ";
    for (ip, dry_run, want) in [
        ("10.0.0.7", false, ""),
        ("10.0.0.7", false, r#"["10.0.0.7"]: failed to allocate IP 10.0.0.7: provided IP is already allocated"#),
        ("10.0.0.7", true, ""),
        (
            "10.0.0.0",
            false,
            r#"["10.0.0.0"]: failed to allocate IP 10.0.0.0: the provided network does not match the current range"#,
        ),
        (
            "10.0.0.255",
            false,
            r#"["10.0.0.255"]: failed to allocate IP 10.0.0.255: the provided network does not match the current range"#,
        ),
        (
            "10.1.0.1",
            true,
            r#"["10.1.0.1"]: failed to allocate IP 10.1.0.1: the provided IP (10.1.0.1) is not in the valid range. The range of valid IPs is 10.0.0.0/24"#,
        ),
    ] {
        let got = server.create(&cluster.context(dry_run), &mut ask(ip)).await.err();
        let want = (!want.is_empty()).then(|| format!("{message}{want}"));
        assert_eq!(got.map(|status| status.message), want, "{ip}");
    }
    let mut dry = plain("dry");
    server.create(&cluster.context(true), &mut dry).await.unwrap();
    assert_eq!(cluster_ip(&dry), "10.0.0.0");
    assert_eq!(cluster.world.addresses.lock().unwrap().len(), 1);
    // A dry run allocates the port after the highest one that was asked for, and after 0 if that is negative.
    let ports = value!([{"port": 80, "nodePort": (-1)}]);
    let mut negative =
        service("negative", value!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}));
    server.create(&cluster.context(true), &mut negative).await.unwrap();
    assert_eq!(negative.at(&["spec", "healthCheckNodePort"]).as_int(), Some(1));
}

#[tokio::test]
async fn node_ports_are_given_once_by_servers_that_share_a_store() {
    let cluster = Cluster::new(&["10.0.0.0/16"]);
    let servers = [cluster.server(), cluster.server(), cluster.server()];
    let tasks = (0..120).map(|number| {
        let (server, cluster) = (&servers[number % 3], &cluster);
        async move {
            let mut wanted = with_node_port(&format!("s{number}"));
            let taken = server.create(&cluster.context(false), &mut wanted).await;
            taken.map(|_| node_ports(&wanted)[0]).map_err(|status| status.message)
        }
    });
    let results = futures::future::join_all(tasks).await;
    let got: Vec<i64> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
    let distinct: HashSet<i64> = got.iter().copied().collect();
    assert_eq!((got.len(), distinct.len()), (100, 100));
    let refused: HashSet<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(
        refused,
        HashSet::from([&"Internal error occurred: failed to allocate a nodePort: range is full".to_string()])
    );
    // A service that got no port gives its address back.
    assert_eq!(cluster.world.addresses.lock().unwrap().len(), 100);
    // What one server gives back another one gives out, and a new server knows what is taken.
    let mut released = with_node_port("x");
    released.set(&["spec", "ports"], value!([{"port": 80, "nodePort": 30042}]));
    servers[0].release(&released).await;
    for server in [&servers[1], &cluster.server()] {
        let mut wanted = with_node_port("y");
        let result = server.create(&cluster.context(false), &mut wanted).await;
        assert_eq!(result.is_ok(), std::ptr::eq(server, &servers[1]));
        assert!(result.is_err() || node_ports(&wanted) == [30042]);
    }
}

#[tokio::test]
async fn node_ports_follow_the_service() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let server = cluster.server();
    let cx = cluster.context(false);
    let mut old = service(
        "a",
        value!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [
            {"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"},
            {"name": "w", "port": 80, "nodePort": 30001}]}),
    );
    server.create(&cx, &mut old).await.unwrap();
    let ports = node_ports(&old);
    assert_eq!((ports.len(), ports[0] == ports[1], ports[2]), (3, true, 30001));
    assert_ne!(health_check_port(&old), 0);
    // Back to a plain service: everything goes, once the write is stored.
    let mut new = old.clone();
    new.set(&["spec", "type"], "ClusterIP");
    let taken = server.update(&cx, &mut new, &old).await.unwrap();
    let mut again = service("b", value!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}));
    let refused = server.create(&cx, &mut again.clone()).await.err().unwrap();
    assert_eq!(
        refused.message,
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"
    );
    Box::new(taken).commit().await;
    server.create(&cx, &mut again).await.unwrap();
    let mut outside = service("c", value!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 1}]}));
    let refused = server.create(&cx, &mut outside).await.err().unwrap();
    assert!(refused.message.ends_with(
        "Invalid value: 1: provided port is not in the valid range. The range of valid ports is 30000-30099"
    ));
}

#[tokio::test]
async fn ports_of_stored_services_are_taken_where_nothing_is_recorded() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    cluster.world.services.lock().unwrap().push(Arc::new(value!({"spec": {"ports": [{"nodePort": 30005}]}})));
    let mut wanted = service("a", value!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30005}]}));
    assert!(cluster.server().create(&cluster.context(false), &mut wanted).await.is_err());
}

fn with_address(name: &str, address: &str) -> Value {
    let mut service = value!({"metadata": {"namespace": "ns", "creationTimestamp": "1970-01-01T00:00:10Z"}});
    service.set_meta_str("name", name);
    service.set(&["spec"], value!({"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address]}));
    service
}

#[tokio::test]
async fn addresses_of_services_that_another_server_has_written_are_taken() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let (server, world) = (cluster.server(), &cluster.world);
    let stored = [with_address("a", "10.0.0.9"), with_address("b", "10.0.0.9"), with_address("c", "10.1.0.1")];
    *world.services.lock().unwrap() = stored.iter().cloned().map(Arc::new).collect();
    let found = |name: &str| ("ns".to_string(), name.to_string());
    let nine = || "10.0.0.9".to_string();
    for (service, want) in [
        (&stored[0], Some(Finding::AddressNotAllocated { address: nine(), service: found("a") })),
        (&stored[0], None),
        (&stored[1], Some(Finding::AddressOfManyServices { address: nine(), service: found("b") })),
        (&stored[2], Some(Finding::AddressOutOfRange { address: "10.1.0.1".into(), service: found("c") })),
    ] {
        let got = server.check_service(&**world, service).await.unwrap();
        assert_eq!(got, want.into_iter().collect::<Vec<_>>(), "{service:?}");
    }
    // An address that says it is of something else, or lacks its labels, is replaced.
    for path in [&["spec", "parentRef", "resource"][..], &["metadata", "labels"]] {
        let mut address = (*world.addresses.lock().unwrap()["10.0.0.9"]).clone();
        address.set(path, "gateways");
        world.addresses.lock().unwrap().insert(nine(), Arc::new(address));
        let got = server.check_service(&**world, &stored[0]).await.unwrap();
        assert_eq!(got, [Finding::AddressMisnamed { address: nine(), service: found("a") }]);
    }
    // Nothing is taken for a service that is deleted while it is looked at.
    let got = server.check_service(&**world, &with_address("gone", "10.0.0.10")).await.unwrap();
    assert_eq!((got.len(), world.addresses.lock().unwrap().contains_key("10.0.0.10")), (0, false));
}

#[tokio::test]
async fn addresses_without_a_service_are_freed_when_no_write_can_be_under_way() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let (server, world) = (cluster.server(), &cluster.world);
    let external = value!({"metadata": {"name": "e", "namespace": "ns"}, "spec": {"type": "ExternalName"}});
    *world.services.lock().unwrap() = vec![Arc::new(with_address("a", "10.0.0.9")), Arc::new(external)];
    let seconds = |again: u64| Checked { again: Some(std::time::Duration::from_secs(again)), finding: None };
    let freed = |finding: Finding| Checked { finding: Some(finding), again: None };
    type Want<'a> = &'a dyn Fn(Arc<Value>) -> Checked;
    let leaked: Want = &|object| freed(Finding::AddressLeaked { object });
    let of_another: Want = &|object| freed(Finding::AddressOfAnother { object });
    let cases: [(&str, i64, i64, Want); 7] = [
        ("gone", 20, 30, &|_| seconds(51)),
        ("gone", 20, 81, leaked),
        ("e", 20, 30, &|_| seconds(50)),
        ("e", 20, 81, of_another),
        ("a", 20, 22, &|_| seconds(5)),
        ("a", 20, 26, of_another),
        ("a", 9, 12, of_another),
    ];
    for (owner, created, now, want) in cases {
        let mut address = addresses::address_object("10.0.0.5", "ns", owner);
        address.set_meta_str("creationTimestamp", &Time(Timestamp::new(created, 0)).to_string());
        let address = Arc::new(address);
        world.addresses.lock().unwrap().insert("10.0.0.5".into(), address.clone());
        let got = server.check_address(&**world, &address, Timestamp::new(now, 0)).await.unwrap();
        assert_eq!(got, want(address), "{owner} {created} {now}");
        let is_there = world.addresses.lock().unwrap().contains_key("10.0.0.5");
        assert_eq!(is_there, got.finding.is_none());
    }
    let right = Arc::new(addresses::address_object("10.0.0.9", "ns", "a"));
    assert_eq!(server.check_address(&**world, &right, Timestamp::new(999, 0)).await.unwrap(), Checked::default());
    let others = Arc::new(value!({"metadata": {"name": "10.0.0.7"}, "spec": {"parentRef": {"resource": "gateways"}}}));
    assert_eq!(server.check_address(&**world, &others, Timestamp::new(999, 0)).await.unwrap(), Checked::default());
}

#[tokio::test]
async fn repair_frees_ports_that_leaked_and_takes_those_that_are_used() {
    let cluster = Cluster::new(&["10.0.0.0/24"]);
    let server = cluster.server();
    let lost = value!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]});
    server.create(&cluster.context(false), &mut service("lost", lost)).await.unwrap();
    let used = value!({"metadata": {"name": "used", "namespace": "ns"}, "spec": {"type": "NodePort",
        "ports": [{"port": 80, "nodePort": 30099}]}});
    cluster.world.services.lock().unwrap().push(Arc::new(used));
    let mut repair = PortRepair::new();
    let service = ("ns".to_string(), "used".to_string());
    assert_eq!(repair.run(&server).await.unwrap(), [Finding::PortNotAllocated { port: 30099, service }]);
    assert_eq!(repair.run(&server).await.unwrap(), []);
    assert_eq!(repair.run(&server).await.unwrap(), [Finding::PortLeaked { port: 30001 }]);
    assert_eq!(repair.run(&server).await.unwrap(), []);
    assert_eq!(node_ports_taken(&cluster), [30099]);
}

fn node_ports_taken(cluster: &Cluster) -> Vec<i64> {
    use base64::Engine;
    let stored = cluster.world.ports.lock().unwrap().clone().unwrap().0;
    let bytes = base64::engine::general_purpose::STANDARD.decode(stored.str_at(&["data"])).unwrap();
    let bits = bytes
        .iter()
        .rev()
        .enumerate()
        .flat_map(|(i, byte)| (0..8).filter(move |b| byte & (1 << b) != 0).map(move |b| i * 8 + b));
    bits.map(|bit| 30000 + bit as i64).collect()
}
