//! Reads of the past, and who made what change.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use authz::{Authorizer, Decision};
use futures::future::BoxFuture;
use history::{Archive, Options, Origin, RecordedStore, Recorder};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use object::{Meta, Value, value};
use request::{Access, RequestInfo, User};
use rest::{Body, Call, CarryOut, Reply};
use storage::Store;
use storage::memory::MemoryStore;
use support::{MAPS, Server};

/// Allows everything but the history of what is named, and creations by the user `reader`.
struct AllButHistoryOf(&'static str);

#[async_trait]
impl Authorizer for AllButHistoryOf {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        let is_creation = ["create", "update"].contains(&access.verb) && access.subresource.is_empty();
        if access.user.name == "reader" && is_creation {
            return Decision::no_opinion("no");
        }
        match access.subresource == "history" && access.resource == self.0 {
            true => Decision::no_opinion("no"),
            false => Decision::allow(""),
        }
    }
}

/// Carries out the requests that a restore is made of.
struct AsOne(Arc<rest::Api>);

impl CarryOut for AsOne {
    fn carry_out(&self, call: Box<Call>, body: Body) -> BoxFuture<'static, Reply> {
        let api = self.0.clone();
        Box::pin(async move {
            match authz::authorize(&*api.authorizer, call).await {
                Ok(call) => rest::serve(&api, call, body).await,
                Err(refused) => rest::failure(&refused.status(), &rest::Accept::json()),
            }
        })
    }
}

struct World {
    server: Server,
    memory: MemoryStore,
    store: Arc<RecordedStore>,
    recorder: Arc<Recorder>,
    _folder: tempfile::TempDir,
}

async fn serve(store: &Arc<RecordedStore>, recorder: &Arc<Recorder>) -> Server {
    let mut server = Server::on(store.clone(), Vec::new(), &[], rest::Limits::default()).await;
    let api = Arc::get_mut(&mut server.0).unwrap();
    api.history = Some(recorder.clone());
    api.authorizer = Arc::new(AllButHistoryOf("secrets"));
    server
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let memory = MemoryStore::default();
        let archive = Archive::open(Options::at(folder.path())).unwrap();
        let (recorder, store) = Recorder::start(Arc::new(memory.clone()), archive);
        recorder.caught_up().await.unwrap();
        let server = serve(&store, &recorder).await;
        World { server, memory, store, recorder, _folder: folder }
    }

    /// The store forgets everything but the present, and the server is another one, whose caches know nothing else.
    async fn forget(&mut self) {
        let revision = self.recorder.caught_up().await.unwrap();
        self.memory.compact(revision).await.unwrap();
        self.server = serve(&self.store, &self.recorder).await;
    }

    async fn ask(&self, user: &str, method: &str, url: &str, body: Value) -> (u16, Value) {
        let (verb, kind) = match method {
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            other => (other, "application/json"),
        };
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query: Vec<(String, String)> = pairs.map(|(key, value)| (key.into(), value.into())).collect();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let info = RequestInfo::parse(verb, path, &query);
        let origin = Origin { user: user.into(), verb: info.verb.as_str().into(), ..Origin::default() };
        let call = Call {
            user: User { name: user.into(), ..User::default() },
            method: Method::from_bytes(verb.as_bytes()).unwrap(),
            uri: Default::default(),
            client: None,
            headers,
            query,
            timeout: std::time::Duration::from_secs(10),
            record: None,
            origin: (!info.verb.is_read()).then(|| Arc::new(origin)),
            only_visible: false,
            finish: None,
            parts: Some(Arc::new(AsOne(self.server.0.clone()))),
            new_uid: None,
            info,
        };
        let call = authz::authorize(&*self.server.0.authorizer, Box::new(call)).await;
        let call = match call {
            Ok(call) => call,
            Err(refused) => return (403, value!({"message": (refused.status().message)})),
        };
        let mut json = Vec::new();
        codec::json::encode(&body, None, &mut json);
        let body = if body.is_null() { Body::Empty } else { Body::Ready(json.into()) };
        let response = rest::serve(&self.server.0, call, body).await.into_response();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        (code, codec::json::decode(&bytes, None, &mut codec::Notes::ignore()).unwrap_or(Value::Null))
    }

    async fn get(&self, url: &str) -> (u16, Value) {
        self.ask("reader", "GET", url, Value::Null).await
    }

    async fn write(&self, user: &str, method: &str, url: &str, body: Value) -> String {
        let (code, answer) = self.ask(user, method, url, body).await;
        assert!(code < 300, "{method} {url}: {answer:?}");
        self.recorder.caught_up().await.unwrap().to_string()
    }
}

fn map(name: &str, data: &str) -> Value {
    value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": data}})
}

fn data_of(objects: &Value) -> Vec<String> {
    let items = objects.list_at(&["items"]).iter();
    items.map(|item| format!("{}={}", item.name(), item.str_at(&["data", "a"]))).collect()
}

#[tokio::test]
async fn objects_and_lists_are_read_as_they_were() {
    let mut world = World::new().await;
    let (one, two) = (format!("{MAPS}/one"), format!("{MAPS}/two"));
    world.write("anne", "POST", MAPS, map("one", "1")).await;
    let first = world.write("anne", "POST", MAPS, map("two", "1")).await;
    let second = world.write("ben", "MERGE", &one, value!({"data": {"a": "2"}})).await;
    let third = world.write("cleo", "DELETE", &two, Value::Null).await;
    world.write("anne", "POST", MAPS, map("three", "1")).await;
    world.forget().await;
    for (revision, wanted) in [(&first, &["one=1", "two=1"][..]), (&second, &["one=2", "two=1"]), (&third, &["one=2"])]
    {
        let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
        let (code, list) = world.get(&format!("{MAPS}?{exact}")).await;
        assert_eq!((code, data_of(&list)), (200, wanted.iter().map(|text| text.to_string()).collect()), "{list:?}");
        assert_eq!(list.str_at(&["metadata", "resourceVersion"]), revision);
        // The same in pages, by label and by field.
        let (mut token, mut found) = (String::new(), Vec::new());
        loop {
            let part = if token.is_empty() { exact.clone() } else { format!("continue={token}") };
            let (code, list) = world.get(&format!("{MAPS}?limit=1&{part}")).await;
            assert_eq!(code, 200, "{list:?}");
            found.extend(data_of(&list));
            token = list.str_at(&["metadata", "continue"]).to_string();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, *wanted);
        let (_, list) = world.get(&format!("{MAPS}?{exact}&fieldSelector=metadata.name=one")).await;
        assert_eq!(data_of(&list), wanted[..1]);
        let (code, object) = world.get(&format!("{one}?{exact}")).await;
        assert_eq!((code, format!("one={}", object.str_at(&["data", "a"]))), (200, wanted[0].to_string()));
        let (code, _) = world.get(&format!("{two}?{exact}")).await;
        assert_eq!(code, if wanted.len() == 2 { 200 } else { 404 });
    }
}

#[tokio::test]
async fn times_are_understood_or_refused() {
    let world = World::new().await;
    let one = format!("{MAPS}/one");
    world.write("anne", "POST", MAPS, map("one", "1")).await;
    let now = object::timestamp::Time(
        object::Clock::now(&object::SystemClock).plus(object::duration::Duration(2_000_000_000)),
    );
    for (query, code, wanted) in [
        ("at=-0s", 200, ""),
        ("at=2000-01-01T00:00:00Z", 410, "the history of this server does not have the state of 2000-01-01T00:00:00Z"),
        ("at=-200000h", 410, "the history of this server does not have the state of -200000h"),
        ("at=yesterday", 400, "is no time of the past"),
        (&format!("at={now}"), 400, "is no time of the past"),
        ("at=-1s&resourceVersion=1", 400, "at is not allowed with resourceVersion"),
        ("resourceVersionMatch=Exact&resourceVersion=0", 400, "needs a resourceVersion greater than 0"),
        ("resourceVersionMatch=Exact&resourceVersion=99999", 504, "Too large resource version"),
    ] {
        let (found, answer) = world.get(&format!("{one}?{query}")).await;
        assert_eq!(found, code, "{query}: {answer:?}");
        assert!(answer.str_at(&["message"]).contains(wanted), "{query}: {answer:?}");
    }
    // A count is not answered by the present.
    let (code, _) = world.get(&format!("{MAPS}?count=true&at=-200000h")).await;
    assert_eq!(code, 410);
    let (code, list) = world.get(&format!("{MAPS}?at=-0s")).await;
    assert_eq!((code, data_of(&list)), (200, vec!["one=1".to_string()]));
}

#[tokio::test]
async fn changes_say_who_made_them() {
    let mut world = World::new().await;
    let one = format!("{MAPS}/one");
    world.write("anne", "POST", MAPS, map("one", "1")).await;
    world.write("ben", "MERGE", &one, value!({"data": {"b": "x"}})).await;
    world.write("anne", "MERGE", &one, value!({"data": {"a": "2"}})).await;
    world.write("cleo", "DELETE", &one, Value::Null).await;
    world.forget().await;
    let (code, list) = world.get(&format!("{one}/history")).await;
    assert_eq!((code, list.kind()), (200, "ChangeList"), "{list:?}");
    let seen: Vec<(&str, &str, &str, i64)> = list
        .list_at(&["items"])
        .iter()
        .map(|item| {
            let patch = item.list_at(&["patch"]).len() as i64;
            (item.str_at(&["user"]), item.str_at(&["verb"]), item.str_at(&["operation"]), patch)
        })
        .collect();
    let wanted = [
        ("cleo", "delete", "Deleted", 1),
        ("anne", "patch", "Updated", 1),
        ("ben", "patch", "Updated", 1),
        ("anne", "create", "Created", 1),
    ];
    assert_eq!(seen, wanted);
    let patch = &list.list_at(&["items"])[1].list_at(&["patch"])[0];
    assert_eq!(*patch, value!({"op": "replace", "path": "/data/a", "value": "2"}));
    // By user, in pages, and as whole objects.
    let (_, list) = world.get(&format!("{one}/history?user=anne&limit=1&objects=true")).await;
    let [item] = list.list_at(&["items"]) else { panic!("{list:?}") };
    assert_eq!((item.str_at(&["user"]), item.str_at(&["object", "data", "a"])), ("anne", "2"));
    let token = list.str_at(&["metadata", "continue"]);
    let (_, list) = world.get(&format!("{one}/history?user=anne&limit=5&continue={token}")).await;
    assert_eq!(list.list_at(&["items"]).len(), 1, "{list:?}");
}

#[tokio::test]
async fn blame_names_the_last_change_of_each_field() {
    let mut world = World::new().await;
    let one = format!("{MAPS}/one");
    world.write("anne", "POST", MAPS, map("one", "1")).await;
    world.write("ben", "MERGE", &one, value!({"data": {"b": "x"}})).await;
    world.write("cleo", "MERGE", &one, value!({"data": {"a": "2"}})).await;
    world.write("dora", "MERGE", &one, value!({"data": {"b": "y"}})).await;
    world.write("ben", "MERGE", &one, value!({"data": {"c": "z"}})).await;
    world.forget().await;
    let (code, blame) = world.get(&format!("{one}/history?view=blame")).await;
    assert_eq!((code, blame.kind()), (200, "Blame"), "{blame:?}");
    let by: Vec<(&str, &str)> = blame
        .list_at(&["fields"])
        .iter()
        .filter(|field| field.str_at(&["path"]).starts_with(".data") || field.str_at(&["path"]) == ".metadata.uid")
        .map(|field| (field.str_at(&["path"]), field.str_at(&["change", "user"])))
        .collect();
    assert_eq!(by, [(".data.a", "cleo"), (".data.b", "dora"), (".data.c", "ben"), (".metadata.uid", "anne")]);
    let (code, _) = world.get(&format!("{MAPS}/none/history?view=blame")).await;
    assert_eq!(code, 404);
    let (code, _) = world.get(&format!("{one}/history?view=other")).await;
    assert_eq!(code, 400);
}

/// Who may not get the subresource `history` of a resource sees nothing of its past, in whatever way it is asked for.
#[tokio::test]
async fn the_past_is_for_those_who_may_see_it_now() {
    let mut world = World::new().await;
    let secrets = "/api/v1/namespaces/ns/secrets";
    let secret = value!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "eA=="}});
    let first = world.write("anne", "POST", secrets, secret).await;
    world.write("anne", "MERGE", &format!("{secrets}/s"), value!({"data": {"a": "eQ=="}})).await;
    world.forget().await;
    for (url, code) in [
        (format!("{secrets}/s"), 200),
        (format!("{secrets}/s/history"), 403),
        (format!("{secrets}/s/history?view=blame"), 403),
        (format!("{secrets}/s?at=-0s"), 403),
        (format!("{secrets}?at=-0s"), 403),
        (format!("{secrets}/s?resourceVersion={first}&resourceVersionMatch=Exact"), 403),
        // As if there was no history.
        (format!("{secrets}?resourceVersion={first}&resourceVersionMatch=Exact"), 410),
        (format!("{secrets}?resourceVersion={first}&limit=1"), 410),
    ] {
        let (found, answer) = world.get(&url).await;
        assert_eq!(found, code, "{url}: {answer:?}");
    }
}

/// Without a history the parameters and the subresource are unknown, as they are upstream.
#[tokio::test]
async fn without_a_history_nothing_is_different() {
    let server = Server::new(Vec::new()).await;
    server.ask("POST", MAPS, map("one", "1")).await;
    for (url, code) in [
        (format!("{MAPS}/one?at=-1h"), 200),
        (format!("{MAPS}?at=nonsense"), 200),
        (format!("{MAPS}/one?resourceVersion=1&resourceVersionMatch=Exact"), 200),
        (format!("{MAPS}/one/history"), 404),
    ] {
        let (found, answer) = server.ask("GET", &url, Value::Null).await;
        assert_eq!(found, code, "{url}: {answer:?}");
    }
}

fn named(list: &Value) -> Vec<(&str, &str)> {
    let items = list.list_at(&["items"]).iter();
    items.map(|item| (item.str_at(&["object", "name"]), item.str_at(&["operation"]))).collect()
}

#[tokio::test]
async fn objects_are_brought_back_by_requests_of_the_user() {
    let mut world = World::new().await;
    let one = format!("{MAPS}/one");
    world.write("anne", "POST", MAPS, map("one", "1")).await;
    let second = world.write("ben", "MERGE", &one, value!({"data": {"a": "2"}})).await;
    world.write("ben", "MERGE", &one, value!({"data": {"a": "3"}})).await;
    world.write("cleo", "DELETE", &one, Value::Null).await;
    world.forget().await;
    let history = format!("{one}/history");
    // A dry run, a user who may not create, and then one who may.
    let (code, tried) = world.ask("anne", "POST", &format!("{history}?dryRun=All"), Value::Null).await;
    assert_eq!((code, named(&tried)), (200, vec![("one", "Create")]), "{tried:?}");
    assert_eq!(tried.list_at(&["items"])[0].str_at(&["after", "data", "a"]), "3");
    assert_eq!(world.get(&one).await.0, 404);
    let (code, refused) = world.ask("reader", "POST", &history, Value::Null).await;
    assert_eq!(code, 403, "{refused:?}");
    let (code, done) = world.ask("dora", "POST", &history, Value::Null).await;
    assert_eq!((code, named(&done)), (200, vec![("one", "Create")]), "{done:?}");
    // To a moment, over what is there.
    let (code, done) = world.ask("dora", "POST", &history, value!({"revision": (second.as_str())})).await;
    assert_eq!((code, named(&done)), (200, vec![("one", "Update")]), "{done:?}");
    let (code, done) = world.ask("dora", "POST", &history, value!({"revision": (second), "onlyMissing": true})).await;
    assert_eq!((code, named(&done)), (200, vec![("one", "None")]), "{done:?}");
    assert_eq!(world.get(&one).await.1.str_at(&["data", "a"]), "2");
    let (_, changes) = world.get(&history).await;
    let seen: Vec<(&str, &str)> =
        changes.list_at(&["items"]).iter().map(|item| (item.str_at(&["operation"]), item.str_at(&["verb"]))).collect();
    let wanted = ["Updated", "Created", "Deleted", "Updated", "Updated", "Created"];
    assert_eq!(seen.iter().map(|(operation, _)| *operation).collect::<Vec<_>>(), wanted);
    for (body, why) in [
        (value!({"at": "-1h", "revision": "3"}), "one moment"),
        (value!({"revision": "0"}), "is not what a restore takes"),
        (value!({"revision": 7}), "is not what a restore takes"),
        (value!({"contents": true}), "only a namespace has contents"),
        (value!({"resources": ["pods"]}), "choose among the contents"),
        (value!({"colour": "red"}), "has no field \"colour\""),
        (value!([1]), "an object in JSON"),
        (Value::Null, "the object exists"),
    ] {
        let (code, answer) = world.ask("dora", "POST", &history, body).await;
        assert!(code == 400 && answer.str_at(&["message"]).contains(why), "{why}: {answer:?}");
    }
}

/// Owners get the uids of today, also where owners and what they own are made in the same step.
#[tokio::test]
async fn the_contents_of_a_namespace_come_back_together() {
    let mut world = World::new().await;
    let namespaces = "/api/v1/namespaces";
    let namespace = value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    world.write("anne", "POST", namespaces, namespace).await;
    let (_, owner) = world.ask("anne", "POST", MAPS, map("owner", "1")).await;
    let mut owned = map("owned", "1");
    let of = |name: &str, uid: &str| value!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    owned.set(&["metadata", "ownerReferences"], vec![of("owner", owner.uid()), of("stranger", "gone")]);
    let full = world.write("anne", "POST", MAPS, owned).await;
    for path in [format!("{MAPS}/owned"), format!("{MAPS}/owner"), format!("{namespaces}/ns")] {
        world.write("anne", "DELETE", &path, Value::Null).await;
    }
    world.forget().await;
    let history = format!("{namespaces}/ns/history");
    // The history of Secrets is closed, so that everything cannot be restored, and is not restored in part.
    let all = value!({"contents": true, "revision": (full.as_str())});
    let (code, refused) = world.ask("anne", "POST", &history, all).await;
    assert_eq!(code, 403, "{refused:?}");
    let maps = value!({"contents": true, "revision": (full.as_str()), "resources": ["configmaps"]});
    let (code, done) = world.ask("anne", "POST", &history, maps.clone()).await;
    assert_eq!((code, done.list_at(&["items"]).len()), (200, 3), "{done:?}");
    let (owner, owned) = (world.get(&format!("{MAPS}/owner")).await.1, world.get(&format!("{MAPS}/owned")).await.1);
    let [reference] = owned.owner_references() else { panic!("{owned:?}") };
    assert_eq!(reference.str_at(&["uid"]), owner.uid());
    let note = done.list_at(&["items"]).iter().find(|item| item.str_at(&["object", "name"]) == "owned").unwrap();
    assert!(note.str_at(&["note"]).contains("owner ConfigMap stranger is gone"), "{note:?}");
    let (_, again) = world.ask("anne", "POST", &history, maps).await;
    assert!(again.list_at(&["items"]).iter().all(|item| item.str_at(&["operation"]) == "None"), "{again:?}");
    let none = value!({"contents": true, "revision": full, "resources": ["nonsense"]});
    assert_eq!(world.ask("anne", "POST", &history, none).await.0, 400);
}
