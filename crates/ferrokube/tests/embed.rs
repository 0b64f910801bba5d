//! Servers in this process: what builders may rely on.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ferrokube::audit::{Event, EventSink};
use ferrokube::egress::{Address, Dial, Stream};
use ferrokube::{
    ActionRequest, Api as Profile, Denied, GroupResource, PathResponse, Resource, Server, User, async_trait,
};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Nothing here takes long; a test that waits in vain should fail, not hang.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: waited in vain"))
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()
}

async fn served(client: &Client) -> Vec<String> {
    let mut names = Vec::new();
    for group in client.list_api_groups().await.unwrap().groups {
        let version = group.preferred_version.unwrap().group_version;
        let listed = client.list_api_group_resources(&version).await.unwrap().resources;
        names.extend(listed.into_iter().map(|one| format!("{}.{}", one.name, group.name)));
    }
    let core = client.list_core_api_resources("v1").await.unwrap().resources;
    names.extend(core.into_iter().map(|one| one.name));
    names
}

#[tokio::test]
async fn a_server_without_a_listener_serves_its_process() {
    let server = Server::builder().without_listener().start().await.unwrap();
    assert_eq!(server.url(), None);
    assert!(server.kubeconfig().is_err());
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let mut changes = std::pin::pin!(watcher(maps.clone(), watcher::Config::default()).applied_objects());
    maps.create(&PostParams::default(), &config_map("x")).await.unwrap();
    let seen = async {
        while let Some(map) = changes.try_next().await.unwrap() {
            if map.name_any() == "x" {
                return;
            }
        }
    };
    soon("an informer", seen).await;
    let local = server.local().get("/api/v1/namespaces/default/configmaps/x").await.unwrap();
    assert_eq!((local.code, local.json::<ConfigMap>().unwrap().data.unwrap()["a"].as_str()), (200, "b"));
    let missing = server.local().get("/api/v1/namespaces/default/configmaps/y").await.unwrap();
    assert_eq!(missing.json::<ConfigMap>().unwrap_err().to_string(), "configmaps \"y\" not found (404)");
    // A user in the process may do what a user may do.
    let stranger = User { name: "stranger".into(), groups: vec![User::AUTHENTICATED.into()], ..User::default() };
    let refused = Api::<ConfigMap>::default_namespaced(server.client_as(stranger)).list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
}

#[tokio::test]
async fn profiles_have_what_they_name() {
    let pods = GroupResource::new("", "pods");
    for (profile, has, has_not) in [
        (Profile::minimal(), "customresourcedefinitions.apiextensions.k8s.io", "pods"),
        (Profile::only([pods]), "pods", "configmaps"),
        (Profile::kubernetes(), "deployments.apps", "none"),
    ] {
        let server = Server::builder().api(profile).without_listener().start().await.unwrap();
        let names = served(&server.client()).await;
        assert!(names.iter().any(|name| name == has) && !names.iter().any(|name| name == has_not), "{names:?}");
        let namespaces = Api::<Namespace>::all(server.client()).list(&ListParams::default()).await.unwrap();
        assert!(namespaces.iter().any(|namespace| namespace.name_any() == "default"));
        server.stop().await;
    }
    let unknown = Profile::minimal().and("", "pots");
    let refused = Server::builder().api(unknown).validate().unwrap_err().to_string();
    assert!(refused.contains("pots"), "{refused}");
}

/// One number, for ever.
struct Always(u64);

impl ferrokube::object::Randomness for Always {
    fn number(&self) -> u64 {
        self.0
    }
}

/// What is made of the program's randomness, and what is not.
#[tokio::test]
async fn uids_and_generated_names_are_of_the_programs_randomness() {
    let mut tokens = Vec::new();
    for (number, name, uid) in [
        (0, "x-bbbbb", "00000000-0000-4000-8000-000000000000"),
        (u64::MAX, "x-99999", "ffffffff-ffff-4fff-bfff-ffffffffffff"),
        (u64::MAX, "x-99999", "ffffffff-ffff-4fff-bfff-ffffffffffff"),
    ] {
        let builder = Server::builder().api(Profile::minimal()).randomness(Always(number)).resettable();
        let server = builder.without_listener().start().await.unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
        let map = serde_json::from_value(json!({"metadata": {"generateName": "x-"}})).unwrap();
        let made = maps.create(&PostParams::default(), &map).await.unwrap();
        assert_eq!((made.name_any().as_str(), made.uid().as_deref()), (name, Some(uid)));
        let user = User { name: "admin".into(), groups: vec![User::MASTERS.into()], ..User::default() };
        let request = http::Request::builder().uri("/version").body(String::new()).unwrap();
        let answer = server.in_process(user).send(request).await.unwrap();
        assert_eq!(answer.headers()["audit-id"], uid);
        tokens.push(server.token().unwrap().to_string());
    }
    assert!(tokens[1] != tokens[2], "a token is not to be guessed");
}

#[tokio::test]
async fn options_are_validated_by_name() {
    for (set, named) in [
        (
            Box::new(|o: &mut ferrokube::Options| o.serving.cors_origins = vec!["(".into()]) as Box<dyn FnOnce(&mut _)>,
            "cors",
        ),
        (Box::new(|o: &mut ferrokube::Options| o.feature_gates = vec![("Unheard".into(), true)]), "Unheard"),
        (Box::new(|o: &mut ferrokube::Options| o.own_service.reconciler = "x".into()), "endpoint-reconciler-type"),
        (
            Box::new(|o: &mut ferrokube::Options| o.admission_control = Some(vec!["Unheard".into()])),
            "admission-control",
        ),
    ] {
        let refused = Server::builder().options(set).validate().unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    }
}

struct Counter(Arc<AtomicUsize>);

#[async_trait]
impl EventSink for Counter {
    async fn store(&self, events: &[Arc<Event>]) -> Result<(), String> {
        let gets = events.iter().filter(|event| event.request_uri.starts_with("/hello"));
        self.0.fetch_add(gets.count(), Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test]
async fn parts_of_the_program_are_asked() {
    let events = Arc::new(AtomicUsize::new(0));
    let server = Server::builder()
        .without_listener()
        .audit(Counter(events.clone()))
        .metrics(|out| out.push_str("hello_total 1\n"))
        .path("/hello", |request| async move { PathResponse::json(&json!({"path": request.path})) })
        .start()
        .await
        .unwrap();
    let local = server.local();
    for (path, code) in [("/hello", 200), ("/hello/you", 200), ("/hellos", 404)] {
        assert_eq!(local.get(path).await.unwrap().code, code, "{path}");
    }
    let metrics = local.get("/metrics").await.unwrap();
    assert!(String::from_utf8_lossy(&metrics.body).contains("hello_total 1"));
    server.stop().await;
    assert!(events.load(Ordering::Relaxed) >= 2);
    assert!(local.get("/hello").await.is_err(), "a client does not keep its server");
}

#[tokio::test]
async fn objects_can_be_made_when_they_are_asked_for() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "visitors.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "visitors", "kind": "Visitor"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"who": {"type": "string"}}}}
            }}}],
        },
    });
    let visitors = Resource::from_definition(definition.clone()).made_by(|user, _| async move {
        let one = |namespace: &str, color: &str| {
            json!({"metadata": {"name": "me", "namespace": namespace, "labels": {"color": color}}, "spec": {"who": user.name}})
        };
        vec![one("b", "red"), one("a", "blue")]
    });
    let server = Server::builder().api(Profile::minimal()).without_listener().resource(visitors).start().await.unwrap();
    let client = server.client();
    let kind = kube::api::GroupVersionKind::gvk("example.com", "v1", "Visitor");
    let (kind, _) = kube::discovery::pinned_kind(&client, &kind).await.unwrap();
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let found = all.list(&ListParams::default()).await.unwrap();
    assert_eq!(found.iter().map(|one| one.namespace().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(all.list(&ListParams::default().labels("color=red")).await.unwrap().items.len(), 1);
    let own: Api<DynamicObject> = Api::namespaced_with(client.clone(), "a", &kind);
    assert_eq!(own.get("me").await.unwrap().data["spec"]["who"], "kubernetes-admin");
    assert!(own.get_opt("you").await.unwrap().is_none());
    // Nobody else can have the name.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created =
        server.local().call(http::Method::POST, path, "application/json", definition.to_string()).await.unwrap();
    assert_eq!(created.code, 201);
    let stored = server.local().get(&format!("{path}/visitors.example.com")).await.unwrap().json::<serde_json::Value>();
    let conditions = stored.unwrap()["status"]["conditions"].clone();
    let accepted = conditions.as_array().unwrap().iter().find(|one| one["type"] == "NamesAccepted").unwrap().clone();
    assert_eq!(accepted["status"], "False", "{conditions}");
    assert_eq!(all.list(&ListParams::default()).await.unwrap().items.len(), 2);
}

/// Reads events up to the one that is wanted last, as `kind name size`.
async fn told(
    watch: &mut (impl futures::Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Unpin),
    wanted: &[&str],
) {
    for want in wanted {
        let event = soon(want, watch.next()).await.unwrap().unwrap();
        let (kind, object) = match &event {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            other => panic!("{other:?} instead of {want}"),
        };
        assert_eq!(format!("{kind} {} {}", object.name_any(), object.data["spec"]["size"]), *want);
    }
}

#[tokio::test]
async fn objects_that_are_made_can_be_watched() {
    let sizes = Arc::new(std::sync::Mutex::new(vec![("a", "red", 1), ("b", "blue", 2)]));
    let made = sizes.clone();
    let (resource, changes) = Resource::from_definition(gadgets()).made_and_watched(move |user, _| {
        let gadget = |(name, color, size): &(&str, &str, i64)| {
            json!({"metadata": {"name": name, "namespace": "default", "labels": {"color": color}}, "spec": {"size": size}})
        };
        let mut all: Vec<_> = made.lock().unwrap().iter().map(gadget).collect();
        all.retain(|one| user.name != "guest" || one["metadata"]["name"] == "a");
        async move { all }
    });
    let server = Server::builder().api(Profile::minimal()).without_listener().resource(resource).start().await.unwrap();
    let client = server.client();
    let kind = kube::api::GroupVersionKind::gvk("example.com", "v1", "Gadget");
    let (kind, has) = kube::discovery::pinned_kind(&client, &kind).await.unwrap();
    assert_eq!(has.operations, ["get", "list", "watch"]);
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let guest = User { name: "guest".into(), groups: vec!["system:masters".into()], ..User::default() };
    let guests: Api<DynamicObject> = Api::all_with(server.client_as(guest), &kind);
    let listed = all.list(&ListParams::default()).await.unwrap();
    let revision = listed.metadata.resource_version.unwrap();
    assert_eq!(listed.items[0].resource_version().unwrap(), revision);
    let own: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    assert_eq!(own.get("a").await.unwrap().resource_version().unwrap(), revision);
    let everything = WatchParams::default();
    let mut later = all.watch(&everything, &revision).await.unwrap().boxed();
    let mut first = all.watch(&everything, "0").await.unwrap().boxed();
    let mut red = all.watch(&everything.clone().labels("color=red"), &revision).await.unwrap().boxed();
    let mut of_guest = guests.watch(&everything, "").await.unwrap().boxed();
    told(&mut first, &["added a 1", "added b 2"]).await;
    told(&mut of_guest, &["added a 1"]).await;

    // What is the same is not told.
    changes.notify();
    *sizes.lock().unwrap() = vec![("a", "red", 3), ("b", "red", 2), ("c", "blue", 4)];
    changes.notify();
    for watch in [&mut later, &mut first] {
        told(watch, &["modified a 3", "modified b 2", "added c 4"]).await;
    }
    told(&mut red, &["modified a 3", "added b 2"]).await;
    told(&mut of_guest, &["modified a 3"]).await;
    sizes.lock().unwrap().clear();
    changes.notify();
    told(&mut red, &["deleted a 3", "deleted b 2"]).await;
    told(&mut of_guest, &["deleted a 3"]).await;

    // Nothing is known of what was there at the time of an earlier list.
    let mut old = all.watch(&everything, &revision).await.unwrap().boxed();
    match soon("an error", old.next()).await.unwrap().unwrap() {
        WatchEvent::Error(status) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    // An informer follows all of it.
    let mut informer =
        std::pin::pin!(watcher(all.clone(), watcher::Config::default().streaming_lists()).applied_objects());
    sizes.lock().unwrap().push(("z", "red", 9));
    changes.notify();
    let seen = soon("an informer", informer.try_next()).await.unwrap().unwrap();
    assert_eq!(seen.name_any(), "z");
    // So does a client that shows tables.
    let viewer = User { name: "viewer".into(), groups: vec!["system:masters".into()], ..User::default() };
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let path = "/apis/example.com/v1/gadgets?watch=true&timeoutSeconds=1&resourceVersion=0";
    let request = http::Request::get(path).header("accept", accept).body(http_body_util::Empty::<bytes::Bytes>::new());
    let answer = server.in_process(viewer).send(request.unwrap()).await.unwrap();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(
        body.starts_with(r#"{"type":"ADDED","object":{"kind":"Table""#) && body.contains(r#""cells":["z""#),
        "{body}"
    );
    drop(server);
    soon("the end of a watch", async { while later.next().await.is_some_and(|event| event.is_ok()) {} }).await;
}

#[tokio::test]
async fn a_watch_ends_when_its_server_stops() {
    let server = Server::builder().without_listener().start().await.unwrap();
    let pods: Api<Pod> = Api::all(server.client());
    let mut watch = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let stopping = tokio::spawn(server.stop());
    soon("the end of the watch", async { while watch.next().await.is_some_and(|event| event.is_ok()) {} }).await;
    soon("the end of the server", stopping).await.unwrap();
}

#[tokio::test]
async fn a_folder_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let builder = || Server::builder().data_dir(folder.path().join("data"));
    let server = builder().start().await.unwrap();
    let (url, kubeconfig) = (server.url().unwrap(), server.kubeconfig().unwrap());
    assert!(kubeconfig.contains(&url));
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    server.stop().await;
    let server = builder().start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    assert!(maps.get_opt("kept").await.unwrap().is_some());
}

/// A dialer that reaches nothing and notes what it was asked for.
struct Nowhere(Arc<std::sync::Mutex<Vec<String>>>);

#[async_trait]
impl Dial for Nowhere {
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, ferrokube::egress::Error> {
        self.0.lock().unwrap().push(address.to_string());
        Err(ferrokube::egress::Error::Connect("nowhere".into()))
    }
}

#[tokio::test]
async fn the_dialer_of_the_program_makes_connections() {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let server = Server::builder().without_listener().dialer(Nowhere(asked.clone())).start().await.unwrap();
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://hooks.example.com/check"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let local = server.local();
    assert_eq!(local.call(http::Method::POST, path, "application/json", hook.to_string()).await.unwrap().code, 201);
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let refused = maps.create(&PostParams::default(), &config_map("x")).await.unwrap_err().to_string();
    assert!(refused.contains("nowhere"), "{refused}");
    assert_eq!(asked.lock().unwrap()[0], "hooks.example.com:443");
}

/// A definition of `gadgets.example.com` with one field.
fn gadgets() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "default": 3},
                }}},
            }}}],
        },
    })
}

const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

#[tokio::test]
async fn objects_that_the_program_keeps_can_be_watched() {
    let (resource, feed) = Resource::from_definition(gadgets()).fed();
    let gadget = |name: &str, color: &str| json!({"metadata": {"name": name, "namespace": "default", "labels": {"color": color}}});
    feed.put(&gadget("early", "red")).await.unwrap();
    let server = Server::builder().api(Profile::minimal()).without_listener().resource(resource).start().await.unwrap();
    let client = server.client();
    let kind = kube::api::GroupVersionKind::gvk("example.com", "v1", "Gadget");
    let (kind, has) = kube::discovery::pinned_kind(&client, &kind).await.unwrap();
    assert_eq!(has.operations, ["get", "list", "watch"]);
    let own: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    let listed = own.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].data["spec"], serde_json::Value::Null);
    let mut watch =
        own.watch(&WatchParams::default(), &listed.metadata.resource_version.unwrap()).await.unwrap().boxed();
    feed.put(&gadget("late", "blue")).await.unwrap();
    feed.put(&gadget("late", "blue")).await.unwrap();
    feed.put(&gadget("early", "blue")).await.unwrap();
    assert!(feed.remove("default", "late").await.unwrap());
    assert!(!feed.remove("default", "late").await.unwrap());
    for want in ["added late", "modified early", "deleted late"] {
        let event = soon(want, watch.next()).await.unwrap().unwrap();
        let (what, object) = match &event {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            other => panic!("{other:?}"),
        };
        assert_eq!(format!("{what} {}", object.name_any()), want);
        assert!(object.uid().is_some() && object.creation_timestamp().is_some());
    }
    assert_eq!(own.list(&ListParams::default().labels("color=blue")).await.unwrap().items.len(), 1);
    assert_eq!(own.get("early").await.unwrap().uid(), listed.items[0].uid());
    // Clients can change nothing.
    let body = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "early"}}).to_string();
    for (method, path) in [
        (http::Method::POST, GADGETS.to_string()),
        (http::Method::PUT, format!("{GADGETS}/early")),
        (http::Method::DELETE, format!("{GADGETS}/early")),
        (http::Method::DELETE, GADGETS.to_string()),
    ] {
        let answer = server.local().call(method.clone(), &path, "application/json", body.clone()).await.unwrap();
        assert_eq!(answer.code, 405, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
    }
    // What fits no path is refused.
    for object in
        [gadget("a/b", "red"), json!({"metadata": {"name": "a"}}), json!({"metadata": {"namespace": "default"}})]
    {
        assert!(feed.put(&object).await.is_err(), "{object}");
    }
}

#[tokio::test]
async fn subresources_of_the_program_are_carried_out() {
    let backend = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = backend.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = backend.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello").await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let resource = Resource::from_definition(gadgets())
        .action("grow", "GadgetGrowth", |request: ActionRequest| async move {
            let (size, by) = (&request.object["spec"]["size"], &request.body["by"]);
            match (size.as_i64(), by.as_i64()) {
                (Some(size), Some(by)) => Ok(json!({"size": size + by, "user": request.user.name})),
                _ => Err(Denied::field("by", "is no number")),
            }
        })
        .proxy(move |_, _, name| async move {
            match name.as_str() {
                "known" => Ok(format!("http://{address}").parse().unwrap()),
                _ => Err(Denied::forbidden("it has no pages")),
            }
        });
    let server = Server::builder().api(Profile::minimal()).without_listener().resource(resource).start().await.unwrap();
    let local = server.local();
    let post = async |path: String, body: serde_json::Value| {
        let answer = local.call(http::Method::POST, &path, "application/json", body.to_string()).await.unwrap();
        (answer.code, serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap())
    };
    let growth = |by: serde_json::Value| json!({"apiVersion": "example.com/v1", "kind": "GadgetGrowth", "by": by});
    for name in ["known", "other"] {
        let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {}});
        assert_eq!(post(GADGETS.into(), gadget).await.0, 201);
    }
    for (path, body, code, field, want) in [
        ("known/grow", growth(json!(2)), 201, "/size", json!(5)),
        ("known/grow", growth(json!(2)), 201, "/kind", json!("GadgetGrowth")),
        ("known/grow", growth(json!("x")), 422, "/reason", json!("Invalid")),
        ("missing/grow", growth(json!(1)), 404, "/reason", json!("NotFound")),
        ("known/grow", json!({"apiVersion": "example.com/v1", "kind": "Gadget"}), 422, "/reason", json!("Invalid")),
        ("known/shrink", growth(json!(1)), 404, "/reason", json!("NotFound")),
    ] {
        let (got, answer) = post(format!("{GADGETS}/{path}"), body).await;
        assert_eq!((got, answer.pointer(field)), (code, Some(&want)), "{path}: {answer}");
    }
    for (path, code) in
        [("known/grow", 405), ("other/proxy/x", 403), ("missing/proxy/x", 404), ("known/proxy/a/b?c=d", 200)]
    {
        let answer = local.get(&format!("{GADGETS}/{path}")).await.unwrap();
        assert_eq!(answer.code, code, "{path}: {}", String::from_utf8_lossy(&answer.body));
    }
    let head = soon("the request", answering).await.unwrap();
    assert!(head.starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{head}");
    // A role must name the subresource.
    let reader = User { name: "reader".into(), groups: vec![User::AUTHENTICATED.into()], ..User::default() };
    let path = format!("{GADGETS}/known/grow");
    let reader = server.local_as(reader);
    let refused = reader.call(http::Method::POST, &path, "application/json", growth(json!(1)).to_string()).await;
    assert_eq!(refused.unwrap().code, 403);
    for wrong in ["status", "Grow", "proxy"] {
        let nothing = |_: ActionRequest| async { Ok(json!({})) };
        let resource = Resource::from_definition(gadgets()).action(wrong, "X", nothing);
        let refused = Server::builder().without_listener().resource(resource).start().await;
        assert!(refused.is_err(), "{wrong}");
    }
}
