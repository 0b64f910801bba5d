//! Which store a server uses: its own file or an etcd, with or without encryption; its health and metrics.

#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg_attr(not(feature = "etcd"), allow(dead_code))] // Its flag is read in every build.
mod overrides;
mod report;

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use metrics::Histogram;
use object::GroupResource;
use outbound::Dial;
use registry::StoredEncoding;
use rest::WatchCache;
use storage::Store;
use storage::encryption::{ConfigFile, EncryptedStore, Encryption, ResourceOf};

use crate::flags::{Given, Row, rows};
use crate::history::HistoryConfig;
use crate::own_console::Console;
use crate::{Config, StartError};
use overrides::Override;

/// How often the encryption configuration is looked at, as upstream does.
const ENCRYPTION_INTERVAL: Duration = Duration::from_secs(60);

/// The key that a store has while `ferrokube migrate` copies into it: what is there is not all.
pub const UNFINISHED_MIGRATION: &str = "/ferrokube/unfinished-migration";

/// The quota of the embedded store: etcd's default.
const QUOTA_BYTES: u64 = 2 << 30;

/// The flags that [`StoreConfig`] takes.
pub(crate) const FLAGS: &[Row] = rows! { store = &mut config.store, |config, given|
    "encryption-provider-config" => store.encryption_config = given.path(),
    "encryption-provider-config-automatic-reload" => store.encryption_reload = given.boolean()?,
    "etcd-cafile" => store.etcd_cafile = given.path(),
    "etcd-certfile" => store.etcd_certfile = given.path(),
    "etcd-compaction-interval" => store.compaction_interval = given.span()?,
    "etcd-count-metric-poll-period" => store.count_metric_interval = given.span_or_zero()?,
    "etcd-db-metric-poll-interval" => store.size_metric_interval = given.span()?,
    "etcd-healthcheck-timeout" => store.healthcheck_timeout = given.span()?,
    "etcd-keyfile" => store.etcd_keyfile = given.path(),
    "etcd-prefix" => store.prefix = given.last().to_string(),
    "etcd-readycheck-timeout" => store.readycheck_timeout = given.span()?,
    "etcd-servers" => store.etcd_servers = given.list().collect(),
    "etcd-servers-overrides" => {
        store.etcd_overrides = given.list().collect();
        store.etcd_overrides.iter().try_for_each(|item| Override::parse(item).map(drop))?;
    },
    "lease-reuse-duration-seconds" => store.lease_reuse = Duration::from_secs(given.read("is not a number of seconds")?),
    "storage-backend" => if !matches!(given.last(), "" | "etcd3") {
        return Err(
            "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'"
                .into(),
        );
    },
    "storage-initialization-timeout" => store.start_timeout = given.span()?,
    "storage-media-type" => store.encoding = encoding(given.last())?,
    "watch-cache" => store.watch_cache.enabled = given.boolean()?,
    "watch-cache-sizes" => store.set_watch_cache_sizes(given)?,
};

/// Where objects are kept and how.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// `--etcd-servers`. With none, the data directory has a store of its own.
    pub etcd_servers: Vec<String>,
    /// Resources that have an etcd of their own: `group/resource#server;server`.
    pub etcd_overrides: Vec<String>,
    pub etcd_cafile: Option<PathBuf>,
    pub etcd_certfile: Option<PathBuf>,
    pub etcd_keyfile: Option<PathBuf>,
    /// The beginning of all keys.
    pub prefix: String,
    pub compaction_interval: Duration,
    /// How many bytes all objects in the embedded store may have; None for any number.
    pub quota_bytes: Option<u64>,
    /// How long starting waits for an etcd that does not answer.
    pub start_timeout: Duration,
    pub lease_reuse: Duration,
    pub healthcheck_timeout: Duration,
    pub readycheck_timeout: Duration,
    /// Objects are counted at any time, so that it only matters whether this is zero, which means not at all.
    pub count_metric_interval: Duration,
    pub size_metric_interval: Duration,
    pub encryption_config: Option<PathBuf>,
    pub encryption_reload: bool,
    /// Whether plugins of version 1 may keep keys: the feature gate `KMSv1`.
    pub kms_v1: bool,
    /// `--history`; None if no history is kept.
    pub history: Option<HistoryConfig>,
    /// `--storage-media-type`.
    pub encoding: StoredEncoding,
    pub watch_cache: WatchCache,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            etcd_servers: Vec::new(),
            etcd_overrides: Vec::new(),
            etcd_cafile: None,
            etcd_certfile: None,
            etcd_keyfile: None,
            prefix: "/registry".into(),
            compaction_interval: Duration::from_secs(5 * 60),
            quota_bytes: Some(QUOTA_BYTES),
            start_timeout: Duration::from_secs(60),
            lease_reuse: Duration::from_secs(60),
            healthcheck_timeout: Duration::from_secs(2),
            readycheck_timeout: Duration::from_secs(2),
            count_metric_interval: Duration::from_secs(60),
            size_metric_interval: Duration::from_secs(30),
            encryption_config: None,
            encryption_reload: false,
            kms_v1: false,
            history: None,
            encoding: StoredEncoding::default(),
            watch_cache: WatchCache::default(),
        }
    }
}

impl StoreConfig {
    /// `--quota-backend-bytes`, as etcd reads it: 0 is the default, and a negative number no limit.
    pub(crate) fn set_quota(&mut self, text: &str) -> Result<(), String> {
        let bytes: i64 = text.parse().map_err(|_| format!("{text} is not a number of bytes"))?;
        self.quota_bytes = match bytes {
            0 => Some(QUOTA_BYTES),
            bytes => u64::try_from(bytes).ok(),
        };
        Ok(())
    }

    /// `resource.group#size`; the only size that matters is zero, which means that there is no watch cache.
    fn set_watch_cache_sizes(&mut self, given: Given<'_>) -> Result<(), String> {
        for item in given.list() {
            let wrong = |what: &str| format!("{what}: {item}");
            let (resource, size) = match item.split('#').collect::<Vec<_>>()[..] {
                [resource, size] => (resource, size),
                _ => return Err(wrong("invalid value of watch cache size")),
            };
            let size: i64 = size.parse().map_err(|_| wrong("invalid size of watch cache size"))?;
            if size < 0 {
                return Err(wrong("watch cache size cannot be negative"));
            }
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let resource = GroupResource::new(group, resource);
            self.watch_cache.without.retain(|without| *without != resource);
            if size == 0 {
                self.watch_cache.without.push(resource);
            }
        }
        Ok(())
    }

    /// The prefix as keys have it: with one slash in front and none behind.
    pub fn prefix(&self) -> String {
        format!("/{}", self.prefix.trim_matches('/'))
    }
}

fn encoding(media_type: &str) -> Result<StoredEncoding, String> {
    match media_type {
        "" | "application/vnd.kubernetes.protobuf" => Ok(StoredEncoding::Protobuf),
        "application/json" => Ok(StoredEncoding::Json),
        "application/yaml" => Err("application/yaml is not written by this server; use application/json".into()),
        other => Err(format!(
            "--storage-media-type {} invalid, allowed values: application/json, application/vnd.kubernetes.protobuf",
            object::quote(other)
        )),
    }
}

/// A store in use, with what goes on around it. Dropping it ends that.
pub(crate) struct OpenedStore {
    pub store: Arc<dyn Store>,
    encryption: Option<Arc<Encryption>>,
    /// The engines of the store: the one for everything, then those that some resources have for themselves.
    clusters: Vec<Cluster>,
    background: Vec<Box<dyn Send + Sync>>,
    /// Records the changes, if a history is kept.
    pub history: Option<Arc<::history::Recorder>>,
    /// Whether it was opened here, and is closed here.
    pub is_own: bool,
}

impl OpenedStore {
    /// Of one engine, and not encrypted yet.
    fn of(main: Cluster) -> OpenedStore {
        let store = main.store.clone();
        let (clusters, background) = (vec![main], Vec::new());
        OpenedStore { store, encryption: None, clusters, background, history: None, is_own: true }
    }

    /// The engines: the one for everything, and those that some resources have for themselves.
    #[cfg(feature = "console")]
    pub fn engines(&self) -> Vec<Arc<dyn Store>> {
        self.clusters.iter().map(|cluster| cluster.store.clone()).collect()
    }

    /// Finishes what was asked of a store that was opened here. One of the program goes on.
    pub async fn close(&self) {
        if self.is_own {
            self.store.close().await;
        } else if let Some(history) = &self.history {
            history.close().await;
        }
    }
}

/// An engine.
struct Cluster {
    store: Arc<dyn Store>,
    /// How to ask it whether it is well.
    ask: Ask,
    is_embedded: bool,
    /// How many keys leases of an etcd have.
    keys_per_lease: Option<Arc<Histogram>>,
}

type Ask = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// Opens the store that the configuration names, or puts one of the program to use.
/// `console` makes links for the socket in the data directory.
pub(crate) async fn open(
    config: &Config,
    given: Option<Arc<dyn Store>>,
    console: Option<Arc<Console>>,
    to_etcd: Option<Arc<dyn Dial>>,
) -> Result<OpenedStore, StartError> {
    let Config { store: config, data_dir, .. } = config;
    let mut opened = match given {
        Some(store) => {
            let main = Cluster { ask: ask_status(&store), store, is_embedded: false, keys_per_lease: None };
            OpenedStore { is_own: false, ..OpenedStore::of(main) }
        }
        None => {
            let opened = open_configured(config, data_dir, console, to_etcd).await?;
            check_complete(&opened).await?;
            opened
        }
    };
    if let Some(history) = &config.history {
        // Below encryption, so that values are kept as they are stored.
        let (recorder, store) = history.open(config, data_dir, opened.store.clone()).await?;
        opened.store = store;
        opened.history = Some(recorder);
    }
    if config.encryption_reload && config.encryption_config.is_none() {
        let why = "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config";
        return Err(StartError::Setting(why.into()));
    }
    if let Some(path) = &config.encryption_config {
        let to_json = Arc::new(|bytes: &[u8]| codec::yaml::to_json(bytes, true).map_err(|error| error.to_string()));
        let file = ConfigFile::load(path, to_json, config.kms_v1).await;
        let file = file.map_err(|error| StartError::Setting(error.to_string()))?;
        let encryption = file.encryption().clone();
        opened.store = Arc::new(EncryptedStore::new(
            opened.store.clone(),
            encryption.clone(),
            resources_of_keys(&config.prefix()),
        ));
        if config.encryption_reload {
            opened.background.push(Box::new(Arc::new(file).follow(ENCRYPTION_INTERVAL)));
        }
        opened.encryption = Some(encryption);
    }
    Ok(opened)
}

/// Fails if a migration into the store was cut off: a server would take what was not copied for deleted.
async fn check_complete(opened: &OpenedStore) -> Result<(), StartError> {
    let found = opened.store.get(UNFINISHED_MIGRATION.as_bytes(), None).await;
    match found.map_err(|error| StartError::Store(error.to_string()))?.entry {
        None => Ok(()),
        Some(_) => {
            opened.close().await;
            Err(StartError::Store(
                "`ferrokube migrate` did not copy everything into it; --resume goes on with it".into(),
            ))
        }
    }
}

async fn open_configured(
    config: &StoreConfig,
    data_dir: &Path,
    console: Option<Arc<Console>>,
    to_etcd: Option<Arc<dyn Dial>>,
) -> Result<OpenedStore, StartError> {
    match config.etcd_servers.is_empty() {
        true if !config.etcd_overrides.is_empty() => {
            Err(StartError::Setting("--etcd-servers must be specified".into()))
        }
        #[cfg(feature = "embedded")]
        true => embedded::open(data_dir, config, console).await,
        #[cfg(feature = "etcd")]
        false => etcd::open(config, to_etcd).await,
        #[allow(unreachable_patterns)] // By default both engines are there.
        is_embedded => {
            let (_, _, _) = (data_dir, console, to_etcd);
            let feature = if is_embedded { "embedded" } else { "etcd" };
            Err(StartError::Store(crate::left_out(feature)))
        }
    }
}

/// Asks a store how it is.
fn ask_status(store: &Arc<dyn Store>) -> Ask {
    let asked = store.clone();
    Arc::new(move || {
        let store = asked.clone();
        Box::pin(async move {
            match store.status().await.map_err(|error| error.to_string())?.health {
                storage::Health::Healthy => Ok(()),
                storage::Health::Degraded(why) | storage::Health::Full(why) => Err(why),
            }
        })
    })
}

/// Tells which resource a key belongs to: the encryption configuration names resources.
pub(crate) fn resources_of_keys(prefix: &str) -> ResourceOf {
    let built_in: HashMap<String, (String, String)> =
        registry::key_paths().map(|(path, group, resource)| (path, (group, resource))).collect();
    let prefix = format!("{prefix}/");
    Arc::new(move |key| {
        let path = std::str::from_utf8(key).ok()?.strip_prefix(&prefix)?;
        let mut ends = path.match_indices('/').map(|(at, _)| at);
        let (one, two) = (ends.next()?, ends.next());
        let known = |end: usize| {
            built_in.get(&path[..end]).map(|(group, resource)| (group.clone().into(), resource.clone().into()))
        };
        // Custom resources are under group and resource.
        let custom = |end: usize| Some((path[..one].to_string().into(), path[one + 1..end].to_string().into()));
        match two {
            None => known(one),
            Some(two) => known(two).or_else(|| known(one)).or_else(|| custom(two)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::set;

    #[test]
    fn keys_belong_to_resources() {
        let resource_of = resources_of_keys("/registry");
        for (key, expected) in [
            ("/registry/secrets/default/a", Some(("", "secrets"))),
            ("/registry/services/specs/default/a", Some(("", "services"))),
            ("/registry/services/endpoints/default/a", Some(("", "endpoints"))),
            ("/registry/minions/a", Some(("", "nodes"))),
            ("/registry/deployments/default/a", Some(("apps", "deployments"))),
            ("/registry/ingress/default/a", Some(("networking.k8s.io", "ingresses"))),
            ("/registry/example.com/widgets/default/a", Some(("example.com", "widgets"))),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com",
                Some(("apiextensions.k8s.io", "customresourcedefinitions")),
            ),
            ("/registry/ranges/servicenodeports", None),
            ("/elsewhere/secrets/a/b", None),
            ("compact_rev_key", None),
        ] {
            let found = resource_of(key.as_bytes());
            let found = found.as_ref().map(|(group, resource)| (group.as_ref(), resource.as_ref()));
            assert_eq!(found, expected, "{key}");
        }
    }

    #[test]
    fn flags_are_taken_or_refused_with_a_reason() {
        let apply = |name: &str, value: &str| {
            let mut config = crate::Config::default();
            set(&mut config, name, Given(&[value.to_string()])).map(|_| config.store)
        };
        assert_eq!(apply("etcd-servers", "http://a,http://b").unwrap().etcd_servers, ["http://a", "http://b"]);
        assert_eq!(apply("lease-reuse-duration-seconds", "5").unwrap().lease_reuse, Duration::from_secs(5));
        assert_eq!(apply("storage-initialization-timeout", "2s").unwrap().start_timeout, Duration::from_secs(2));
        assert!(apply("encryption-provider-config-automatic-reload", "true").unwrap().encryption_reload);
        assert!(apply("storage-backend", "etcd3").is_ok());
        assert_eq!(apply("storage-media-type", "application/json").unwrap().encoding, StoredEncoding::Json);
        let sizes = apply("watch-cache-sizes", "replicasets.apps#0,events#100").unwrap().watch_cache;
        for (group, resource, has) in
            [("apps", "replicasets", false), ("", "events", true), ("events.k8s.io", "events", false)]
        {
            assert_eq!(sizes.has(&GroupResource::new(group, resource)), has, "{resource}.{group}");
        }
        assert!(!apply("watch-cache", "false").unwrap().watch_cache.has(&GroupResource::new("", "pods")));
        let overrides = apply("etcd-servers-overrides", "/events#http://a;http://b,apps/deployments#http://c").unwrap();
        assert_eq!(overrides.etcd_overrides.len(), 2);
        for (name, value) in [
            ("storage-backend", "etcd2"),
            ("storage-media-type", "application/xml"),
            ("etcd-compaction-interval", "-1s"),
            ("lease-reuse-duration-seconds", "x"),
            ("etcd-servers-overrides", "events#http://a"),
            ("watch-cache-sizes", "pods"),
            ("watch-cache-sizes", "pods#many"),
            ("watch-cache-sizes", "pods#-1"),
        ] {
            assert!(apply(name, value).is_err(), "{name}");
        }
    }

    #[test]
    fn prefixes() {
        for (given, expected) in [("/registry", "/registry"), ("registry/", "/registry"), ("/a/b", "/a/b")] {
            assert_eq!(StoreConfig { prefix: given.into(), ..StoreConfig::default() }.prefix(), expected);
        }
    }
}
