//! [`TestStore`] and [`TestServer`]: what a server for tests has besides: everything is in memory, and it can be emptied while it serves.
//!
//! What is stored when a client writes for the first time is what the server made for itself. [`TestServer::reset`] goes back to
//! that by ordinary writes, so that revisions go on, caches follow and watchers see deletions. A write that began before and
//! comes to the store after it is refused: it was allowed by a state that is no more, such as a namespace that is gone.

mod paths;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use aggregator::Aggregator;
use async_trait::async_trait;
use futures::future::BoxFuture;
use hashbrown::HashSet;
use object::{Value, value};
use parking_lot::Mutex;
use rand::Rng;
use request::User;
use rest::client::{Client, Collection};
use rest::{Api, Reply, RunWrite};
use server::Server;
use storage::memory::{Contents, MemoryStore, Reverted};
use storage::{Error, Key, KeyRange, Layer, RangeQuery, RefusedWrites, Store, Write, Written};
use tokio::sync::RwLock;

use crate::{Config, Pki, ProgramParts, kubeconfig, pki};

/// How much history is kept: enough for every watch of a test to resume, little enough for a hundred servers.
const HISTORY_BYTES_MAX: usize = 8 << 20;
/// How long a reset waits for the APIServices of definitions; they are not registered where APIServices are not served.
const REGISTERED_WITHIN: Duration = Duration::from_secs(1);
/// The longest name of a user or a group.
const NAME_BYTES_MAX: usize = 256;

const DEFINITIONS: &str = "/apiextensions.k8s.io/customresourcedefinitions/";
const SERVICES: &str = "/apiregistration.k8s.io/apiservices/";
/// Leases that the server keeps writing, to say that it is there.
const SIGNS_OF_LIFE: [&str; 3] = ["/leases/kube-system/apiserver-", "/masterleases/", "/peerserverleases/"];

static CLUSTER_ROLE_BINDINGS: Collection = Collection::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings");
static ROLE_BINDINGS: Collection = Collection::new("rbac.authorization.k8s.io", "v1", "rolebindings");

tokio::task_local! {
    /// How many resets there had been when the write began that a task carries out.
    static BEGAN_AFTER: u64;
}

/// Whether custom resource definitions stay when a server is emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestDefinitions {
    /// Those that clients made are removed.
    #[default]
    Remove,
    /// They stay, without any object of theirs.
    Keep,
}

/// The store of a server for tests, and how it runs writes.
pub struct TestStore {
    memory: MemoryStore,
    /// The administrator's, unless the configuration has tokens.
    token: String,
    /// The beginning of all keys.
    prefix: String,
    resets: AtomicU64,
    /// Held for reading by every write, so that a reset comes between writes.
    turn: RwLock<()>,
    /// The objects that the server had made when a client wrote for the first time.
    bootstrap: Mutex<Option<Contents>>,
}

/// A server for tests, as it is controlled through paths of its own and by the program it runs in.
pub struct TestServer {
    store: Arc<TestStore>,
    /// Weak, because the server that has the API has this among its paths.
    api: Weak<Api>,
    aggregator: Weak<Aggregator>,
    pki: Pki,
    address: SocketAddr,
}

impl std::fmt::Debug for TestStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestStore")
    }
}

impl TestStore {
    /// Makes a server that is started with these one for tests, with its keys and certificates in a folder, which is made.
    pub fn set_up(config: &mut Config, parts: &mut ProgramParts, folder: &Path) -> io::Result<Arc<TestStore>> {
        files::create_directory(folder)?;
        let token = rand::rng().random::<[u8; 32]>().map(|byte| format!("{byte:02x}")).concat();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            files::replace(&path, text.as_bytes()).map(|()| path)
        };
        let tokens = write("tokens.csv", &format!("{token},kubernetes-admin,kubernetes-admin,{}\n", User::MASTERS))?;
        // Making an RSA key takes longer than everything else that a start does.
        let key = write("accounts.key", &pki::make_small_key().map_err(io::Error::other)?)?;
        config.data_dir = folder.to_path_buf();
        config.own_authority = Some(true);
        config.token_auth_file.get_or_insert(tokens);
        config.service_accounts.signing_key_file.get_or_insert(key);
        let store = Arc::new(TestStore {
            memory: TestStore::memory(),
            token,
            prefix: config.store.prefix(),
            resets: AtomicU64::new(0),
            turn: RwLock::new(()),
            bootstrap: Mutex::new(None),
        });
        parts.store = Some(store.clone());
        parts.writes = Some(store.clone());
        let of_paths = store.clone();
        parts.paths.push(Box::new(|built| {
            let (aggregator, pki) = (Some(built.aggregator), built.pki.clone());
            Arc::new(TestServer::of(of_paths, built.api, aggregator, pki, built.address))
        }));
        Ok(store)
    }

    /// A store for one test program.
    pub fn memory() -> MemoryStore {
        MemoryStore::with_history(HISTORY_BYTES_MAX)
    }

    /// Takes what is there for what the server made for itself, if this was not done before.
    fn note_bootstrap(&self) {
        self.bootstrap.lock().get_or_insert_with(|| self.memory.contents());
    }

    /// Goes back to what the server made for itself.
    async fn revert(&self, definitions: TestDefinitions) -> Result<Reverted, String> {
        self.note_bootstrap();
        let _turn = self.turn.write().await;
        self.resets.fetch_add(1, Ordering::AcqRel);
        let keep = self.to_keep(definitions).await?;
        let mut bootstrap = self.bootstrap.lock();
        let contents = bootstrap.as_mut().ok_or("nothing is known to go back to")?;
        Ok(self.memory.revert(contents, |key| keep.has(key)))
    }

    async fn to_keep(&self, definitions: TestDefinitions) -> Result<Keep, String> {
        let mut keep = Keep { prefix: self.prefix.clone(), definitions, groups: HashSet::new() };
        if definitions == TestDefinitions::Keep {
            let all = KeyRange::prefix(format!("{}{DEFINITIONS}", keep.prefix));
            let found = self.memory.range(RangeQuery::new(all).keys_only()).await.map_err(|error| error.to_string())?;
            let names = found.entries.iter().filter_map(|entry| entry.key.as_str()?.rsplit('/').next());
            keep.groups = names.filter_map(|name| Some(name.split_once('.')?.1.to_string())).collect();
        }
        Ok(keep)
    }
}

impl TestServer {
    /// The control of a server with this store.
    pub fn new(store: Arc<TestStore>, server: &Arc<Server>, pki: Pki, address: SocketAddr) -> TestServer {
        TestServer::of(store, &server.api, server.aggregator.as_ref(), pki, address)
    }

    fn of(
        store: Arc<TestStore>,
        api: &Arc<Api>,
        aggregator: Option<&Arc<Aggregator>>,
        pki: Pki,
        address: SocketAddr,
    ) -> TestServer {
        let aggregator = aggregator.map(Arc::downgrade).unwrap_or_default();
        TestServer { store, api: Arc::downgrade(api), aggregator, pki, address }
    }

    /// The token of the administrator, unless the configuration has tokens.
    pub fn token(&self) -> &str {
        &self.store.token
    }

    /// Removes what clients and controllers have written, and brings back what the server had made for itself. When this
    /// returns, requests see it so, and no custom resource of a removed definition is served.
    pub async fn reset(&self, definitions: TestDefinitions) -> Result<Reverted, String> {
        let api = self.api()?;
        let reverted = self.store.revert(definitions).await?;
        if let Some(definitions) = &api.definitions {
            definitions.caught_up().await;
        }
        // An APIService whose registration had begun may come after the definition is gone, and goes again.
        if let Some(aggregator) = self.aggregator.upgrade() {
            let _ = tokio::time::timeout(REGISTERED_WITHIN, aggregator.registered()).await;
        }
        Ok(reverted)
    }

    /// A kubeconfig for a user in these groups, with the rights of a cluster role, if one is named, everywhere or in a namespace.
    pub async fn user(&self, user: &TestUser<'_>) -> Result<String, String> {
        let too_long = user.groups.iter().chain([&user.name]).any(|name| name.len() > NAME_BYTES_MAX);
        if user.name.is_empty() || user.groups.iter().any(|group| group.is_empty()) || too_long {
            return Err(format!("names of users and groups have 1 to {NAME_BYTES_MAX} bytes"));
        }
        if let Some(role) = user.cluster_role {
            let (within, binding) = binding(user, role);
            let client = Client::new(self.api()?, "test-server");
            let bound = client.create(&within, &binding).await.map(drop);
            bound.or_else(rest::client::Failure::unless_exists).map_err(|failure| failure.message)?;
        }
        let pki = &self.pki;
        let (certificate, key) = pki.client(user.name, &user.groups).map_err(|error| error.to_string())?;
        let server = kubeconfig::url(self.address);
        kubeconfig::with_certificate(pki, &server, user.name, &certificate, &key).map_err(|error| error.to_string())
    }

    fn api(&self) -> Result<Arc<Api>, String> {
        self.api.upgrade().ok_or_else(|| "the server has ended".to_string())
    }
}

/// Keys that stay as they are when the server is emptied.
struct Keep {
    prefix: String,
    definitions: TestDefinitions,
    /// The groups of the definitions that stay.
    groups: HashSet<String>,
}

impl Keep {
    fn has(&self, key: &Key) -> bool {
        let Some(path) = key.as_str().and_then(|key| key.strip_prefix(&self.prefix)) else { return true };
        if SIGNS_OF_LIFE.iter().any(|sign| path.starts_with(sign)) {
            return true;
        }
        // The APIServices of definitions are the server's, which makes and removes them.
        let of_kept_group =
            |service: &str| service.split_once('.').is_some_and(|(_, group)| self.groups.contains(group));
        self.definitions == TestDefinitions::Keep
            && (path.starts_with(DEFINITIONS) || path.strip_prefix(SERVICES).is_some_and(of_kept_group))
    }
}

/// Who is to have a kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct TestUser<'a> {
    pub name: &'a str,
    pub groups: Vec<&'a str>,
    /// A role to bind to the user; RBAC objects that exist say more.
    pub cluster_role: Option<&'a str>,
    /// Where; everywhere if there is none.
    pub namespace: Option<&'a str>,
}

fn binding(user: &TestUser<'_>, role: &str) -> (Collection, Value) {
    let (within, kind) = match user.namespace {
        Some(namespace) => (ROLE_BINDINGS.within(namespace), "RoleBinding"),
        None => (CLUSTER_ROLE_BINDINGS.clone(), "ClusterRoleBinding"),
    };
    let binding = value!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": (format!("test-user:{}:{role}", user.name))},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": (user.name)}],
    });
    (within, binding)
}

#[async_trait]
impl Layer for TestStore {
    fn below(&self) -> &dyn Store {
        &self.memory
    }

    async fn write(&self, write: Write) -> storage::Result<Written> {
        let _turn = self.turn.read().await;
        self.check_turn()?;
        self.memory.write(write).await
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Written>, RefusedWrites> {
        let _turn = self.turn.read().await;
        self.check_turn().map_err(RefusedWrites::all)?;
        self.memory.write_all(writes).await
    }
}

impl TestStore {
    /// Refuses writes of requests that began before the last reset.
    fn check_turn(&self) -> storage::Result<()> {
        let resets = self.resets.load(Ordering::Acquire);
        if BEGAN_AFTER.try_with(|began| *began != resets).unwrap_or(false) {
            return Err(Error::unavailable("the test server was reset while the request was carried out"));
        }
        Ok(())
    }
}

impl RunWrite for TestStore {
    fn run(&self, is_own: bool, write: BoxFuture<'static, Reply>) -> BoxFuture<'static, Reply> {
        if !is_own {
            self.note_bootstrap();
        }
        Box::pin(BEGAN_AFTER.scope(self.resets.load(Ordering::Acquire), write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_stay() {
        let keep = |definitions, groups: &[&str]| Keep {
            prefix: "/registry".into(),
            definitions,
            groups: groups.iter().map(|group| group.to_string()).collect(),
        };
        for (key, with_definitions, without) in [
            ("/registry/leases/kube-system/apiserver-abc", true, true),
            ("/registry/leases/kube-system/mine", false, false),
            ("/registry/masterleases/10.0.0.1", true, true),
            ("/registry/pods/default/a", false, false),
            ("/registry/example.com/widgets/default/a", false, false),
            ("/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", true, false),
            ("/registry/apiregistration.k8s.io/apiservices/v1.example.com", true, false),
            ("/registry/apiregistration.k8s.io/apiservices/v1.other.com", false, false),
            ("compact_rev_key", true, true),
        ] {
            let key = key.into();
            assert_eq!(keep(TestDefinitions::Keep, &["example.com"]).has(&key), with_definitions, "{key}");
            assert_eq!(keep(TestDefinitions::Remove, &[]).has(&key), without, "{key}");
        }
    }
}
