//! [`Aggregator`]: follows the stored APIServices and knows which requests other servers answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use hashbrown::{HashMap, HashSet};
use object::{GroupVersion, Str, Value};
use parking_lot::RwLock;
use registry::DirectStorage;
use rest::Api;
use rest::client::Client;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::autoregister::Autoregister;
use crate::backend::{AggregatorSettings, Backend};
use crate::follow::{self, Batch};
use crate::meters::AggregatorMeters;
use crate::service::ApiService;
use crate::{availability, discovered, openapi};

const GROUP: &str = "apiregistration.k8s.io";

/// The parts of the server that the aggregator needs.
pub struct Setup {
    pub api: Arc<Api>,
    pub settings: AggregatorSettings,
}

/// The registered APIServices.
pub struct Aggregator {
    pub(crate) client: Client,
    pub(crate) meters: Arc<AggregatorMeters>,
    settings: Arc<AggregatorSettings>,
    autoregister: Autoregister,
    services: RwLock<BTreeMap<Str, Arc<ApiService>>>,
    /// The backends that answer for other servers, by group-version. Every request looks here.
    routes: ArcSwap<HashMap<GroupVersion, Arc<Backend>>>,
    /// Counts changes of what is registered or discovered.
    generation: AtomicU64,
}

impl Aggregator {
    pub fn new(setup: Setup) -> Arc<Aggregator> {
        Arc::new(Aggregator {
            client: Client::new(setup.api, "kube-apiserver"),
            meters: Arc::default(),
            settings: Arc::new(setup.settings),
            autoregister: Autoregister::default(),
            services: RwLock::default(),
            routes: ArcSwap::default(),
            generation: AtomicU64::new(0),
        })
    }

    /// Follows what is stored and registers what is missing. Returns when the APIServices of built-in groups, and of the
    /// definitions that are known by then, are there.
    pub fn run<'a>(self: &'a Arc<Self>, tasks: &'a mut JoinSet<()>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let catalog = self.client.api.catalog.load_full();
            let served = catalog.get(GROUP, "v1", "apiservices").and_then(|served| served.storage.as_ref()?.direct());
            let Some(storage) = served else { return };
            let (ready, is_ready) = oneshot::channel();
            let follower = self.clone();
            tasks.spawn(async move {
                let mut ready = Some(ready);
                let mut remotes = Remotes::default();
                let followed = (*storage).clone();
                follow::follow(followed, "", move |batch| {
                    follower.apply(&storage, batch, &mut remotes);
                    ready.take().map(|ready| ready.send(()));
                })
                .await;
            });
            // The sender is dropped without a message only when the runtime shuts down.
            let _ = is_ready.await;
            let is_builtin = |version: &&GroupVersion| catalog.has_builtin(version);
            self.autoregister.add_builtin(catalog.versions().iter().filter(is_builtin));
            self.autoregister.set_stored(self.services.read().keys().cloned());
            let failed = self.autoregister.sync(&self.client).await;
            if failed > 0 {
                tracing::warn!(failed, "some APIServices could not be registered yet");
            }
            let registrar = self.clone();
            tasks.spawn(async move { registrar.autoregister.run(registrar.client.clone()).await });
        })
    }

    pub fn api(&self) -> &Arc<Api> {
        &self.client.api
    }

    /// Tells which group-versions a custom resource definition serves: an empty list once it is gone, None while it cannot
    /// be read.
    pub fn set_definition(&self, name: &str, versions: Option<Vec<GroupVersion>>) {
        self.autoregister.set_definition(name, versions);
    }

    /// Waits until the APIServices of all definitions that it was told of are registered, and those of others are gone.
    pub async fn registered(&self) {
        self.autoregister.settled().await;
    }

    /// The backend that answers for a path; None where this server does.
    pub fn backend(&self, path: &str) -> Option<Arc<Backend>> {
        let routes = self.routes.load();
        if routes.is_empty() {
            return None;
        }
        let segments: Vec<&str> = path.splitn(7, '/').skip(1).collect();
        let version = match segments.as_slice() {
            // The legacy group's APIService stands for everything below /api.
            ["api", ..] => GroupVersion::new("", "v1"),
            ["apis", group, version, ..] => GroupVersion::new(*group, *version),
            ["openapi", "v3", "apis", group, version] => {
                let backend = routes.get(&GroupVersion::new(*group, *version))?;
                // A document that was converted is served here.
                let is_converted = backend.specification().is_some_and(|known| !known.converted.is_empty());
                return (!is_converted).then(|| backend.clone());
            }
            ["openapi", "v3", "apis", group] => return self.documented(&routes, group),
            _ => return None,
        };
        routes.get(&version).cloned()
    }

    /// The backend that has an OpenAPI document about a group of which this server has nothing.
    fn documented(&self, routes: &HashMap<GroupVersion, Arc<Backend>>, group: &str) -> Option<Arc<Backend>> {
        if self.api().catalog.load().versions().iter().any(|version| version.group == group) {
            return None;
        }
        let name = format!("apis/{group}");
        let lists = |backend: &Backend| backend.specification().is_some_and(|known| known.v3.contains_key(&name));
        routes.values().find(|backend| backend.version.group == group && lists(backend)).cloned()
    }

    /// All backends.
    pub fn backends(&self) -> Vec<Arc<Backend>> {
        self.routes.load().values().cloned().collect()
    }

    /// All APIServices by name.
    pub fn services(&self) -> Vec<Arc<ApiService>> {
        self.services.read().values().cloned().collect()
    }

    /// Grows with every change of what is registered, or of what backends serve.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn note_change(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        self.meters.write(out)?;
        self.settings.certificates.write("kube_aggregator", out)
    }

    fn apply(self: &Arc<Self>, storage: &DirectStorage, batch: Batch, remotes: &mut Remotes) {
        let mut changed: Vec<Str> = Vec::new();
        if batch.complete {
            let there: HashSet<String> = batch.set.iter().map(|object| follow::name_of(storage, object)).collect();
            let known: Vec<Str> = self.services.read().keys().cloned().collect();
            let gone = known.into_iter().filter(|name| !there.contains(name.as_str()));
            gone.for_each(|name| changed.extend(self.forget(&name)));
        }
        for object in &batch.gone {
            changed.extend(self.forget(&follow::name_of(storage, object).into()));
        }
        for object in &batch.set {
            match storage.read_entry(object.entry()) {
                Ok(object) => changed.extend(self.learn(&object)),
                Err(why) => tracing::error!(key = %object.key().to_string(), %why, "an APIService cannot be read"),
            }
        }
        if changed.is_empty() {
            return;
        }
        self.update_routes(&changed, remotes);
        self.note_change();
        changed.into_iter().for_each(|name| self.autoregister.changed(name));
    }

    /// Takes over what is stored of an APIService; its name if that makes a difference.
    fn learn(&self, object: &Value) -> Option<Str> {
        let service = ApiService::read(object);
        let name = service.name.clone();
        if service.backend.is_none() {
            self.meters.set(&name, service.available);
            if !availability::is_local(object) {
                let (client, object) = (self.client.clone(), object.clone());
                tokio::spawn(async move { availability::write_local(&client, &object).await });
            }
        }
        let service = Arc::new(service);
        let before = self.services.write().insert(name.clone(), service.clone());
        (before.as_ref() != Some(&service)).then_some(name)
    }

    fn forget(&self, name: &Str) -> Option<Str> {
        self.meters.forget(name);
        self.services.write().remove(name).map(|service| service.name.clone())
    }

    fn update_routes(self: &Arc<Self>, changed: &[Str], remotes: &mut Remotes) {
        let mut routes = None;
        for name in changed {
            let service = self.services.read().get(name).cloned();
            let reference = service.as_ref().and_then(|service| service.backend.clone());
            let running = remotes.running.get(name);
            match (service, reference) {
                (Some(service), Some(reference)) => {
                    if let Some((backend, _)) = running
                        && backend.reference == reference
                    {
                        backend.set_available(service.available);
                        continue;
                    }
                    let backend = Backend::new(&service, reference, self.settings.clone());
                    let remote = (backend.clone(), self.watch_over(&backend));
                    remotes.running.insert(name.clone(), remote);
                    let routes = routes.get_or_insert_with(|| HashMap::clone(&self.routes.load()));
                    routes.insert(service.version.clone(), backend);
                }
                _ if running.is_some() => {
                    if let Some((backend, _)) = remotes.running.remove(name) {
                        let routes = routes.get_or_insert_with(|| HashMap::clone(&self.routes.load()));
                        routes.remove(&backend.version);
                    }
                }
                _ => {}
            }
        }
        if let Some(routes) = routes {
            self.routes.store(Arc::new(routes));
            remotes.follower = match remotes.running.is_empty() {
                true => None,
                false => remotes.follower.take().or_else(|| {
                    let mut tasks = JoinSet::new();
                    tasks.spawn(availability::follow_services(self.clone()));
                    Some(tasks)
                }),
            };
        }
    }

    /// The tasks that look after a backend; they end when the set is dropped.
    fn watch_over(self: &Arc<Self>, backend: &Arc<Backend>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        tasks.spawn(availability::check(self.clone(), backend.clone()));
        tasks.spawn(discovered::refresh(self.clone(), backend.clone()));
        tasks.spawn(openapi::refresh(self.clone(), backend.clone()));
        tasks
    }
}

/// The backends, with the tasks that look after them.
#[derive(Default)]
struct Remotes {
    /// By the name of the APIService.
    running: HashMap<Str, (Arc<Backend>, JoinSet<()>)>,
    /// Follows Services and their endpoints, as long as there are backends.
    follower: Option<JoinSet<()>>,
}
