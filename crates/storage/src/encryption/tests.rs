//! Encryption as a whole: the suite over an encrypted store, rules, rotation, recorded values, plugins and reload.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::mock::MockPlugin;
use super::*;
use crate::memory::MemoryStore;
use crate::{Batch, Entry, Error, KeyRange, RangeQuery, Store, Subscriber, WatchRequest};

fn secret(first: u8, size: u8) -> String {
    STANDARD.encode((first..first + size).collect::<Vec<_>>())
}

fn keys(kind: &str, names: &[(&str, u8)]) -> Value {
    let keys: Vec<_> = names.iter().map(|(name, first)| json!({"name": name, "secret": secret(*first, 32)})).collect();
    json!({ kind: { "keys": keys } })
}

fn config(rules: Value) -> Vec<u8> {
    let config =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": rules});
    serde_json::to_vec(&config).unwrap()
}

fn rule(resources: &[&str], providers: &[Value]) -> Value {
    json!({"resources": resources, "providers": providers})
}

/// Keys of these tests are `/registry/[group/]resource/namespace/name`; groups have a dot or are `apps`.
fn resource_of() -> ResourceOf {
    Arc::new(|key: &[u8]| {
        let mut parts = std::str::from_utf8(key).ok()?.strip_prefix("/registry/")?.split('/');
        let first = parts.next()?;
        let (group, resource) =
            if first.contains('.') || first == "apps" { (first, parts.next()?) } else { ("", first) };
        Some((Cow::Borrowed(group), Cow::Borrowed(resource)))
    })
}

async fn encrypted(inner: &Arc<dyn Store>, config: &[u8]) -> Arc<dyn Store> {
    let encryption = Encryption::from_json(config, false).await.unwrap();
    Arc::new(EncryptedStore::new(inner.clone(), Arc::new(encryption), resource_of()))
}

async fn get(store: &Arc<dyn Store>, key: &str) -> Arc<Entry> {
    store.get(key.as_bytes(), None).await.unwrap().entry.unwrap()
}

async fn put(store: &Arc<dyn Store>, key: &str, value: &str) {
    crate::suite::put(store, key, value).await;
}

mod suite {
    use super::*;

    async fn store() -> Arc<dyn Store> {
        let everything: ResourceOf = Arc::new(|_| Some((Cow::Borrowed(""), Cow::Borrowed("things"))));
        let rules = config(json!([rule(&["*.*"], &[keys("aesgcm", &[("k", 0)])])]));
        let encryption = Arc::new(Encryption::from_json(&rules, false).await.unwrap());
        Arc::new(EncryptedStore::new(Arc::new(MemoryStore::new()), encryption, everything))
    }

    crate::suite!(store);
}

#[tokio::test]
async fn rules_choose_by_group_and_resource() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let rules = config(json!([
        rule(&["secrets", "pandas.awesome.example"], &[keys("aescbc", &[("one", 0)])]),
        rule(&["events"], &[json!({"identity": {}})]),
        rule(&["*.apps"], &[keys("aesgcm", &[("two", 1)])]),
        rule(&["*."], &[keys("secretbox", &[("three", 2)])]),
        rule(&["*.*"], &[keys("aesgcm", &[("four", 3)])]),
    ]));
    let store = encrypted(&inner, &rules).await;
    let cases = [
        ("/registry/secrets/default/a", "k8s:enc:aescbc:v1:one:"),
        ("/registry/awesome.example/pandas/default/a", "k8s:enc:aescbc:v1:one:"),
        ("/registry/awesome.example/bears/default/a", "k8s:enc:aesgcm:v1:four:"),
        ("/registry/apps/deployments/default/a", "k8s:enc:aesgcm:v1:two:"),
        ("/registry/configmaps/default/a", "k8s:enc:secretbox:v1:three:"),
        ("/registry/events/default/a", "plain"),
        ("/elsewhere", "plain"),
    ];
    for (key, prefix) in cases {
        put(&store, key, "plain").await;
        let stored = get(&inner, key).await.value.clone();
        assert!(stored.starts_with(prefix.as_bytes()), "{key}: {stored:?}");
        assert_eq!(stored == "plain", prefix == "plain", "{key}");
        let entry = get(&store, key).await;
        assert_eq!((&entry.value[..], entry.is_stale()), (&b"plain"[..], false), "{key}");
    }
    // What is not encrypted is not copied either.
    assert!(Arc::ptr_eq(&get(&inner, "/elsewhere").await, &get(&store, "/elsewhere").await));
    let page = store.range(RangeQuery::new(KeyRange::all())).await.unwrap();
    assert!(page.entries.iter().all(|entry| entry.value == "plain"));
}

#[tokio::test]
async fn keys_and_providers_are_rotated() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let key = "/registry/secrets/default/a";
    let with = async |providers: &[Value]| encrypted(&inner, &config(json!([rule(&["secrets"], providers)]))).await;
    let old = keys("aescbc", &[("old", 0)]);
    put(&with(std::slice::from_ref(&old)).await, key, "plain").await;

    let cases: [(&str, Vec<Value>, Result<bool, &str>); 9] = [
        ("as written", vec![old.clone()], Ok(false)),
        ("a new key before it", vec![keys("aescbc", &[("new", 1), ("old", 0)])], Ok(true)),
        ("a new key after it", vec![keys("aescbc", &[("old", 0), ("new", 1)])], Ok(false)),
        ("another provider before it", vec![keys("aesgcm", &[("new", 1)]), old.clone()], Ok(true)),
        ("no longer encrypting", vec![json!({"identity": {}}), old.clone()], Ok(true)),
        ("the same provider twice", vec![keys("aescbc", &[("new", 1)]), old.clone()], Ok(true)),
        (
            "the key is gone",
            vec![keys("aescbc", &[("new", 1)])],
            Err("no matching key was found for the provided AES transformer"),
        ),
        ("the provider is gone", vec![keys("secretbox", &[("new", 1)])], Err("no matching prefix found")),
        ("only identity", vec![json!({"identity": {}})], Err("no matching prefix found")),
    ];
    for (name, providers, expected) in cases {
        let store = with(&providers).await;
        let entry = get(&store, key).await;
        match expected {
            Ok(stale) => assert_eq!((&entry.value[..], entry.is_stale()), (&b"plain"[..], stale), "{name}"),
            Err(why) => assert_eq!(entry.sealed(), Some(why), "{name}"),
        }
    }
    let store = encrypted(&inner, &config(json!([rule(&["configmaps"], &[keys("aesgcm", &[("k", 0)])])]))).await;
    assert_eq!(get(&store, key).await.sealed(), Some("identity transformer tried to read encrypted data"));

    // A value of the same key name but another secret is an error, not garbage.
    let wrong = with(&[keys("aesgcm", &[("old", 0)])]).await;
    put(&wrong, key, "plain").await;
    let other = with(&[keys("aesgcm", &[("old", 9)])]).await;
    assert_eq!(get(&other, key).await.sealed(), Some("cipher: message authentication failed"));
    // And a value that was moved to another key is not accepted there.
    let stolen = get(&inner, key).await.value.clone();
    inner.create("/registry/secrets/other/a".into(), stolen, None).await.unwrap();
    assert!(get(&wrong, "/registry/secrets/other/a").await.sealed().is_some());
    // It hides no others, and it can still be deleted.
    let page = wrong.range(RangeQuery::new(KeyRange::prefix("/registry/secrets/"))).await.unwrap();
    assert_eq!(page.entries.iter().filter(|entry| entry.sealed().is_none()).count(), 1);
    assert!(wrong.delete("/registry/secrets/other/a".into(), None).await.unwrap().previous.is_none());

    // Failed preconditions show the plain value.
    let error = wrong.create(key.into(), Bytes::from("x"), None).await.unwrap_err();
    assert_eq!(error.current().unwrap().value, "plain");
}

/// Values that a real kube-apiserver v1.37 wrote to etcd, with the configuration it had.
#[tokio::test]
async fn values_written_by_kube_apiserver_are_read() {
    let recorded: Value = serde_json::from_str(include_str!("recorded.json")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kms.sock");
    let _plugin = MockPlugin::start(&socket);
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let rules = config(json!([
        rule(&["secrets"], &[keys("aescbc", &[("key1", 0)])]),
        rule(&["configmaps"], &[json!({"aesgcm": {"keys": [{"name": "key2", "secret": secret(1, 16)}]}})]),
        rule(&["serviceaccounts"], &[keys("secretbox", &[("key3", 2)])]),
        rule(&["pods"], &[kms(&socket)]),
    ]));
    let store = encrypted(&inner, &rules).await;
    for case in recorded["values"].as_array().unwrap() {
        let key = case["key"].as_str().unwrap();
        let bytes = STANDARD.decode(case["value"].as_str().unwrap()).unwrap();
        inner.create(key.into(), bytes.into(), None).await.unwrap();
        let value = get(&store, key).await.value.clone();
        assert!(value.starts_with(b"k8s\0"), "{key}: {value:?}");
        let marker = case["contains"].as_str().unwrap().as_bytes();
        assert!(value.windows(marker.len()).any(|window| window == marker), "{key}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_configuration() {
    let aes = |secret: &str| json!({"aescbc": {"keys": [{"name": "k", "secret": secret}]}});
    let good = || keys("aescbc", &[("k", 0)]);
    let kms = |change: Value| {
        let mut kms = json!({"apiVersion": "v2", "name": "p", "endpoint": "unix:///tmp/p.sock"});
        kms.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({ "kms": kms })
    };
    let cases = [
        (json!([]), "resources: Required value: at least one resources is required"),
        (
            json!([rule(&[], &[good()])]),
            "resources[0].resources: Required value: at least one resources[0].resources is required",
        ),
        (
            json!([rule(&["secrets"], &[])]),
            "resources[0].providers: Required value: at least one resources[0].providers is required",
        ),
        (
            json!([rule(&["secrets"], &[json!({})])]),
            "resources[0].providers[0]: Invalid value: {\"AESGCM\":null,\"AESCBC\":null,\"Secretbox\":null,\"Identity\":null,\"KMS\":null}: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        ),
        (
            json!([rule(&["secrets"], &[aes("")])]),
            "resources[0].providers[0].aescbc.keys[0].secret: Required value: secret is a mandatory field for a key",
        ),
        (
            json!([rule(&["secrets"], &[aes("!")])]),
            "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded",
        ),
        (
            json!([rule(&["secrets"], &[aes("YWJj")])]),
            "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 3, expected one of [16 24 32]",
        ),
        (
            json!([rule(&["secrets"], &[json!({"secretbox": {"keys": []}})])]),
            "resources[0].providers[0].secretbox.keys: Required value: at least one keys is required",
        ),
        (
            json!([rule(&["Secrets"], &[good()])]),
            "resources[0].resources[0]: Invalid value: \"Secrets\": resource name should not contain capital letters",
        ),
        (
            json!([rule(&["*"], &[good()])]),
            "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        ),
        (
            json!([rule(&["events.events.k8s.io"], &[good()])]),
            "resources[0].resources[0]: Invalid value: \"events.events.k8s.io\": '*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        ),
        (
            json!([rule(&["secrets.*"], &[good()])]),
            "resources[0].resources[0]: Invalid value: \"secrets.*\": encrypting the same resource across groups is not supported",
        ),
        (
            json!([rule(&["secrets", "*."], &[good()])]),
            "resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
        ),
        (
            json!([rule(&["secrets", "secrets"], &[good()])]),
            "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource cannot be specified multiple times",
        ),
        (
            json!([rule(&["*.*"], &[good()]), rule(&["secrets"], &[good()])]),
            "resource \"secrets\" is masked by earlier rule \"*.*\"",
        ),
        (
            json!([rule(&["*."], &[good()]), rule(&["secrets"], &[good()])]),
            "resource \"secrets\" is masked by earlier rule \"*.\"",
        ),
        (
            json!([rule(&["secrets"], &[kms(json!({"name": "a:b"}))])]),
            "resources[0].providers[0].kms.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'",
        ),
        (
            json!([rule(&["secrets"], &[kms(json!({"endpoint": "tcp://x"}))])]),
            "resources[0].providers[0].kms.endpoint: Invalid value: \"tcp://x\": unsupported scheme \"tcp\" for KMS provider, only unix is supported",
        ),
        (
            json!([rule(&["secrets"], &[kms(json!({"timeout": "0s"}))])]),
            "resources[0].providers[0].kms.timeout: Invalid value: \"0s\": timeout should be a positive value",
        ),
        (
            json!([rule(&["secrets"], &[kms(json!({"cachesize": 5}))])]),
            "resources[0].providers[0].kms.cachesize: Invalid value: 5: cachesize is not supported in v2",
        ),
        (
            json!([rule(&["secrets"], &[kms(json!({})), kms(json!({}))])]),
            "resources[0].providers[1].kms.name: Invalid value: \"p\": duplicate KMS provider name p, names must be unique",
        ),
    ];
    for (rules, expected) in cases {
        let error = Encryption::from_json(&config(rules), false).await.map(drop).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    for (text, expected) in [
        ("{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}", "no kind \"Pod\" is registered for version \"v1\""),
        ("{\"kidn\":1}", "Object 'Kind' is missing in '{\"kidn\":1}'"),
        ("[", "EOF"),
    ] {
        let error = Encryption::from_json(text.as_bytes(), false).await.map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

fn kms(socket: &std::path::Path) -> Value {
    let endpoint = format!("unix://{}", socket.display());
    json!({"kms": {"apiVersion": "v2", "name": "mock", "endpoint": endpoint, "timeout": "2s"}})
}

#[tokio::test]
async fn a_plugin_keeps_the_keys() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kms.sock");
    let plugin = MockPlugin::start(&socket);
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let rules = config(json!([rule(&["secrets"], &[kms(&socket)])]));
    let asked = || {
        let state = plugin.state.lock();
        (state.encrypted, state.decrypted)
    };

    let store = encrypted(&inner, &rules).await;
    for number in 0..5 {
        put(&store, &format!("/registry/secrets/default/{number}"), "plain").await;
    }
    assert!(get(&inner, "/registry/secrets/default/0").await.value.starts_with(b"k8s:enc:kms:v2:mock:"));
    let entry = get(&store, "/registry/secrets/default/0").await;
    assert_eq!((&entry.value[..], entry.is_stale()), (&b"plain"[..], false));
    assert_eq!(asked(), (1, 0), "one seed for all values, and it is known here");

    // Another server, or this one after a restart, asks once for each seed.
    let store = encrypted(&inner, &rules).await;
    let page = store.range(RangeQuery::new(KeyRange::prefix("/registry/secrets/"))).await.unwrap();
    assert!(page.entries.iter().all(|entry| entry.value == "plain" && !entry.is_stale()));
    assert_eq!(asked(), (2, 1));

    // The plugin has a new key: what the old one encrypted is stale.
    plugin.state.lock().key_id = "key-2".into();
    let store = encrypted(&inner, &rules).await;
    assert!(get(&store, "/registry/secrets/default/0").await.is_stale());
    put(&store, "/registry/secrets/default/0", "plain").await;
    assert!(!get(&store, "/registry/secrets/default/0").await.is_stale());

    // While it is broken, what is known can be read and written, and nothing else.
    plugin.state.lock().broken = true;
    assert_eq!(get(&store, "/registry/secrets/default/1").await.value, "plain");
    put(&store, "/registry/secrets/default/2", "plain").await;
    let other = encrypted(&inner, &rules).await;
    let unwritten = other.create("/registry/secrets/default/new".into(), Bytes::from("x"), None).await;
    assert!(matches!(unwritten, Err(Error::Unavailable(_))), "{unwritten:?}");
    let range = KeyRange::prefix("/registry/secrets/");
    let page = other.range(RangeQuery::new(range.clone())).await.unwrap();
    let broken = |entry: &Arc<Entry>| entry.sealed().is_some_and(|why| why.contains("the plugin is broken"));
    assert!(page.count == 5 && page.entries.iter().all(broken), "{page:?}");

    // When the plugin works again, subscribers are told to list again.
    let ends = Arc::new(Ends::default());
    let subscription = other.subscribe(WatchRequest::after(range.clone(), page.revision), ends.clone()).await;
    let _subscription = subscription.unwrap();
    plugin.state.lock().broken = false;
    ends.wait().await;
    let page = other.range(RangeQuery::new(range)).await.unwrap();
    assert!(page.entries.iter().all(|entry| entry.value == "plain"), "{page:?}");
}

fn kms_v1(socket: &std::path::Path, cachesize: i32) -> Value {
    let endpoint = format!("unix://{}", socket.display());
    json!({"kms": {"name": "mock", "endpoint": endpoint, "timeout": "2s", "cachesize": cachesize}})
}

async fn encrypted_v1(inner: &Arc<dyn Store>, config: &[u8]) -> Arc<dyn Store> {
    let encryption = Encryption::from_json(config, true).await.unwrap();
    Arc::new(EncryptedStore::new(inner.clone(), Arc::new(encryption), resource_of()))
}

/// Every value has a data key of its own; a cache remembers those used last, or none.
#[tokio::test]
async fn a_plugin_of_version_1() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kms.sock");
    let plugin = MockPlugin::start(&socket);
    let asked = || {
        let state = plugin.state.lock();
        (state.encrypted, state.decrypted)
    };
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let rules = |cachesize| config(json!([rule(&["secrets"], &[kms_v1(&socket, cachesize)])]));
    let store = encrypted_v1(&inner, &rules(2)).await;
    let key = |number: usize| format!("/registry/secrets/default/{number}");
    for number in 0..3 {
        put(&store, &key(number), "plain").await;
        let stored = get(&inner, &key(number)).await.value.clone();
        // The length of the masked key, 32 bytes.
        assert!(stored.starts_with(b"k8s:enc:kms:v1:mock:\0\x20"), "{stored:?}");
    }
    assert_eq!(asked(), (3, 0));
    // The last two keys are remembered.
    for (number, decrypted) in [(1, 0), (2, 0), (0, 1), (0, 1), (1, 2)] {
        let entry = get(&store, &key(number)).await;
        assert_eq!((&entry.value[..], entry.is_stale(), asked()), (&b"plain"[..], false, (3, decrypted)));
    }
    // Without a cache the plugin is asked each time, and a list still has everything.
    let store = encrypted_v1(&inner, &rules(-1)).await;
    for decrypted in [5, 8] {
        let page = store.range(RangeQuery::new(KeyRange::prefix("/registry/secrets/"))).await.unwrap();
        assert!(page.entries.iter().all(|entry| entry.value == "plain"), "{page:?}");
        assert_eq!(asked(), (3, decrypted));
    }
    // A value belongs to its place.
    let moved = get(&inner, &key(0)).await.value.clone();
    inner.create("/registry/secrets/default/moved".into(), moved, None).await.unwrap();
    assert!(get(&store, "/registry/secrets/default/moved").await.sealed().is_some());

    plugin.state.lock().broken = true;
    let refused = store.create(key(9).into(), Bytes::from("x"), None).await;
    assert!(matches!(refused, Err(Error::Unavailable(why)) if why.contains("the plugin is broken")));
    let encryption = Encryption::from_json(&rules(2), true).await.unwrap();
    let version = "failed get version from remote KMS provider: rpc error: code = Internal desc = the plugin is broken";
    let problem =
        format!("failed to perform encrypt section of the healthz check for KMS Provider mock, error: {version}");
    assert_eq!(encryption.check_plugin(0).await, Err(problem));
    // The answer of just now has no more than the cause, as upstream's.
    assert_eq!(encryption.check_health().await, Err(format!("kms-provider-0: {version}")));
}

#[tokio::test]
async fn a_plugin_of_version_1_without_its_feature_gate() {
    let rules = config(json!([rule(&["secrets"], &[kms_v1(std::path::Path::new("/kms.sock"), 5)])]));
    let error = Encryption::from_json(&rules, false).await.map(drop).unwrap_err();
    let expected = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set \
                    --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";
    assert_eq!(error.to_string(), expected);
}

/// What servers before Kubernetes 1.25 wrote is read, and written anew with the next change.
#[tokio::test]
async fn values_that_version_1_wrote_with_aes_cbc() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kms.sock");
    let _plugin = MockPlugin::start(&socket);
    let secret: [u8; 32] = std::array::from_fn(|index| index as u8);
    let mut stored = b"k8s:enc:kms:v1:mock:\0\x20".to_vec();
    stored.extend(secret.iter().map(|byte| byte ^ 0x5a));
    super::cipher::Cipher::cbc(&secret).unwrap().seal(b"old", b"", &mut stored).unwrap();
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    inner.create("/registry/secrets/a".into(), stored.into(), None).await.unwrap();
    let store = encrypted_v1(&inner, &config(json!([rule(&["secrets"], &[kms_v1(&socket, 5)])]))).await;
    let entry = get(&store, "/registry/secrets/a").await;
    assert_eq!((&entry.value[..], entry.is_stale()), (&b"old"[..], true));
}

/// A subscriber who waits for its end.
#[derive(Default)]
struct Ends(Mutex<Vec<String>>);

impl Subscriber for Ends {
    fn apply(&self, _: &Batch) {
        assert!(self.0.lock().is_empty(), "called after its end");
    }

    fn end(&self, error: Error) {
        self.0.lock().push(error.to_string());
    }
}

impl Ends {
    async fn wait(&self) {
        crate::suite::soon("the end", async {
            while self.0.lock().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_plugin_that_starts_late_or_is_ill() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kms.sock");
    let rules = config(json!([rule(&["secrets"], &[kms(&socket)])]));
    // The plugin appears while the first call is waiting for it.
    let late = tokio::spawn({
        let socket = socket.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(150)).await;
            MockPlugin::start(&socket)
        }
    });
    let encryption = Encryption::from_json(&rules, false).await.unwrap();
    let plugin = late.await.unwrap();
    assert_eq!(encryption.check_health().await, Ok(()));

    type Edit = Box<dyn Fn(&mut super::mock::State)>;
    let cases: Vec<(Edit, &str)> = vec![
        (Box::new(|state| state.healthz = "not well".into()), "got unexpected healthz status: not well"),
        (Box::new(|state| state.version = "v1".into()), "expected KMSv2 API version v2, got v1"),
        (Box::new(|state| state.key_id = String::new()), "got invalid KMSv2 KeyID hash \"\": keyID is empty"),
        (
            Box::new(|state| state.broken = true),
            // The start has asked already, and its answer is remembered without the section that failed.
            "kms-provider-0: rpc error: code = Internal desc = the plugin is broken",
        ),
    ];
    for (change, expected) in cases {
        {
            let mut state = plugin.state.lock();
            (state.healthz, state.version, state.key_id) = ("ok".into(), "v2".into(), "key-1".into());
            change(&mut state);
        }
        let encryption = Encryption::from_json(&rules, false).await.unwrap();
        let problem = encryption.check_health().await.unwrap_err();
        assert!(problem.starts_with("kms-provider-0: ") && problem.contains(expected), "{problem}");
    }
}

/// A commit cannot wait for a plugin: the subscription ends, and listing again makes the key known.
#[tokio::test]
async fn a_subscriber_that_needs_a_key() {
    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);
    impl Subscriber for Recorder {
        fn apply(&self, batch: &Batch) {
            let values = batch.events.iter().filter_map(|event| event.entry.as_ref());
            self.0.lock().extend(values.map(|entry| String::from_utf8_lossy(&entry.value).into_owned()));
        }
        fn end(&self, error: Error) {
            self.0.lock().push(error.to_string());
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kms.sock");
    let _plugin = MockPlugin::start(&socket);
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let rules = config(json!([rule(&["secrets"], &[kms(&socket)])]));
    let (ours, theirs) = (encrypted(&inner, &rules).await, encrypted(&inner, &rules).await);
    let range = KeyRange::prefix("/registry/secrets/");
    let recorder = Arc::new(Recorder::default());
    let after = ours.progress().await.unwrap();
    let subscription = ours.subscribe(WatchRequest::after(range.clone(), after), recorder.clone()).await.unwrap();
    put(&ours, "/registry/secrets/a", "ours").await;
    put(&theirs, "/registry/secrets/b", "theirs").await;
    put(&ours, "/registry/secrets/c", "not delivered").await;
    assert_eq!(*recorder.0.lock(), ["ours", "storage is unavailable: a key has to be decrypted first"]);
    drop(subscription);

    let page = ours.range(RangeQuery::new(range.clone())).await.unwrap();
    assert_eq!(page.count, 3);
    let recorder = Arc::new(Recorder::default());
    let request = WatchRequest::after(range, page.revision);
    let _subscription = ours.subscribe(request, recorder.clone()).await.unwrap();
    put(&theirs, "/registry/secrets/b", "theirs again").await;
    assert_eq!(*recorder.0.lock(), ["theirs again"]);
}

/// A key that was removed is configured again: subscribers are told to list again, and finds readable what was not.
#[tokio::test]
async fn what_was_read_with_other_keys_is_read_again() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (old, new) = (keys("aesgcm", &[("old", 0)]), keys("aesgcm", &[("new", 1)]));
    let rules = |providers: &[Value]| config(json!([rule(&["secrets"], providers)]));
    let key = "/registry/secrets/default/a";
    put(&encrypted(&inner, &rules(std::slice::from_ref(&old))).await, key, "plain").await;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("encryption.json");
    std::fs::write(&path, rules(std::slice::from_ref(&new))).unwrap();
    let to_json: ToJson = Arc::new(|content: &[u8]| Ok(content.to_vec()));
    let file = ConfigFile::load(&path, to_json, false).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(EncryptedStore::new(inner.clone(), file.encryption().clone(), resource_of()));
    let range = KeyRange::prefix("/registry/secrets/");
    let follow = async || {
        let page = store.range(RangeQuery::new(range.clone())).await.unwrap();
        let ends = Arc::new(Ends::default());
        let subscription = store.subscribe(WatchRequest::after(range.clone(), page.revision), ends.clone()).await;
        (page.entries[0].sealed().is_some(), ends, subscription.unwrap())
    };
    let (sealed, ends, _subscription) = follow().await;
    assert!(sealed);
    std::fs::write(&path, rules(&[new.clone(), old])).unwrap();
    assert!(file.reload().await.unwrap());
    ends.wait().await;
    put(&store, key, "again").await;
    assert_eq!(*ends.0.lock(), ["storage is unavailable: other keys are in force"]);

    // What the keys that are in force do not decrypt cannot be read any more, though it was read before.
    let (sealed, ends, _subscription) = follow().await;
    assert!(!sealed);
    std::fs::write(&path, rules(&[keys("aesgcm", &[("newer", 2)])])).unwrap();
    assert!(file.reload().await.unwrap());
    ends.wait().await;
    assert!(follow().await.0);
}

#[tokio::test]
async fn a_changed_file_comes_into_force() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("encryption.json");
    let write = |rules: Value| std::fs::write(&path, config(rules)).unwrap();
    write(json!([rule(&["secrets"], &[keys("aescbc", &[("one", 0)])])]));
    let to_json: ToJson = Arc::new(|content: &[u8]| Ok(content.to_vec()));
    let file = Arc::new(ConfigFile::load(&path, to_json.clone(), false).await.unwrap());
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let store: Arc<dyn Store> = Arc::new(EncryptedStore::new(inner.clone(), file.encryption().clone(), resource_of()));
    let key = "/registry/secrets/default/a";
    put(&store, key, "plain").await;
    assert!(!file.reload().await.unwrap(), "nothing has changed");

    write(json!([rule(&["secrets"], &[keys("aesgcm", &[("two", 1)]), keys("aescbc", &[("one", 0)])])]));
    assert!(file.reload().await.unwrap());
    assert!(get(&store, key).await.is_stale());
    put(&store, key, "plain").await;
    assert!(get(&inner, key).await.value.starts_with(b"k8s:enc:aesgcm:v1:two:"));

    // A broken file changes nothing; one that is right again does.
    std::fs::write(&path, "{").unwrap();
    let error = file.reload().await.unwrap_err().to_string();
    assert!(error.starts_with("error while parsing file: "), "{error}");
    std::fs::write(&path, "").unwrap();
    assert!(file.reload().await.unwrap_err().to_string().ends_with("is empty"));
    assert_eq!(get(&store, key).await.value, "plain");
    write(json!([rule(&["secrets"], &[keys("aesgcm", &[("two", 1)])])]));
    let following = file.clone().follow(Duration::from_millis(10));
    crate::suite::soon("the reload", async {
        while file.reload().await.unwrap() || store.get(key.as_bytes(), None).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(following);
    assert!(!get(&store, key).await.is_stale());
    assert!(ConfigFile::load(directory.path().join("missing"), to_json, false).await.is_err());
}
