//! [`Definitions`]: follows the stored definitions, decides about their names, and keeps the catalog up to date.
//!
//! One task reads changes in the order of their revisions. It first puts what a definition serves into the catalog and
//! then writes its status, so a definition that is Established is served. Every server does this for itself: the decisions
//! follow from the stored definitions alone, and of several servers that write the same status one succeeds.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use cache::{Budget, Item, Start};
use hashbrown::{HashMap, HashSet};
use object::{GroupVersion, Meta, Str, Value};
use outbound::Webhooks;
use registry::{Catalog, Form, Resource, Storage};
use rest::Api;
use storage::{Entry, Layer, Revision, Store};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::conversion::ConversionMeters;
use crate::definition::{Definition, Names};
use crate::finalize;
use crate::resource::{self, Opened, Stores};
use crate::status::{self, Taken};

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const RESOURCE: &str = "customresourcedefinitions";
/// How long a request waits until the catalog has followed the stored definitions.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(3);
/// Status writes under way at once.
const STATUS_WRITES_MAX: usize = 64;
/// Changes that are put into the catalog together.
const BATCH_MAX: usize = 4096;
/// How long a broken watch waits before it begins again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Is told which group-versions a definition serves whenever it changes: an empty list once it is gone, None while what is
/// stored cannot be read.
pub type Served = dyn Fn(&str, Option<Vec<GroupVersion>>) + Send + Sync;

/// What the definitions need from the server.
pub struct Setup {
    pub api: Arc<Api>,
    pub store: Arc<dyn Store>,
    /// `/registry` unless told otherwise.
    pub prefix: String,
    pub budget: Arc<Budget>,
    /// Calls conversion webhooks.
    pub webhooks: Arc<Webhooks>,
    pub versions: Arc<Served>,
    pub meters: Arc<ConversionMeters>,
    /// Compiled CEL expressions of the whole server.
    pub expressions: Arc<cel::Pool>,
}

/// The served definitions.
pub struct Definitions {
    pub(crate) api: Arc<Api>,
    /// Where the definitions themselves are; its writes do not wait for the catalog.
    pub(crate) storage: Arc<Storage>,
    pub(crate) form: Form,
    stores: Stores,
    /// The revision up to which the catalog has followed the definitions.
    followed: watch::Sender<Revision>,
    status_writes: Semaphore,
    versions: Arc<Served>,
}

/// What is known about one definition.
struct Known {
    definition: Definition,
    entry: Arc<Entry>,
    /// Its status is what it should be.
    settled: bool,
    /// What is served of it, and the state of the definition it was made from.
    opened: Option<(Made, Opened)>,
}

/// What an open definition depends on: if none of it changed, it stays as it is.
#[derive(Clone, PartialEq, Eq)]
struct Made {
    uid: Str,
    generation: i64,
    accepted: Names,
    terminating: bool,
}

impl Definitions {
    /// Puts everything that is stored into the catalog and follows it from then on. None if the server does not serve
    /// definitions.
    pub async fn start(setup: Setup, tasks: &mut JoinSet<()>) -> Option<Arc<Definitions>> {
        let catalog = setup.api.catalog.load_full();
        let served = catalog.get(GROUP, "v1", RESOURCE)?;
        let storage = served.storage.as_ref()?;
        let raw = Storage { store: storage.cache.through(), ..(**storage).clone() };
        let definitions = Arc::new(Definitions {
            storage: Arc::new(raw),
            form: served.form.clone(),
            stores: Stores {
                store: setup.store,
                prefix: setup.prefix,
                budget: setup.budget,
                webhooks: setup.webhooks,
                meters: setup.meters,
                expressions: setup.expressions,
                cbor: setup.api.features.enabled("CBORServingAndStorage"),
            },
            followed: watch::Sender::new(0),
            status_writes: Semaphore::new(STATUS_WRITES_MAX),
            versions: setup.versions,
            api: setup.api,
        });
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        tasks.spawn(definitions.clone().follow(ready));
        // The sender is dropped without a message only when the runtime shuts down.
        let _ = is_ready.await;
        Some(definitions)
    }

    /// Waits until the catalog has followed every definition that was written before this call.
    pub async fn caught_up(&self) {
        if self.storage.cache.fresh().await.is_ok() {
            self.followed_to(self.storage.cache.last_change()).await;
        }
    }

    async fn followed_to(&self, revision: Revision) {
        let mut followed = self.followed.subscribe();
        let waiting = followed.wait_for(|reached| *reached >= revision);
        let _ = tokio::time::timeout(FOLLOW_TIMEOUT, waiting).await;
    }

    async fn follow(self: Arc<Self>, ready: tokio::sync::oneshot::Sender<()>) {
        let mut ready = Some(ready);
        let mut follower = Follower::default();
        loop {
            if let Err(error) = self.follow_once(&mut follower, &mut ready).await {
                tracing::warn!(%error, "definitions are read again");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    async fn follow_once(
        self: &Arc<Self>,
        follower: &mut Follower,
        ready: &mut Option<tokio::sync::oneshot::Sender<()>>,
    ) -> Result<(), cache::Error> {
        let part = self.storage.range("").into();
        let mut watcher = self.storage.cache.watch(part, Start::Now).await?;
        let mut initial: Option<HashSet<Str>> = Some(HashSet::new());
        loop {
            let mut items = vec![watcher.next().await?];
            while items.len() < BATCH_MAX
                && let Some(item) = watcher.try_next()
            {
                items.push(item);
            }
            let mut changed: Vec<Str> = Vec::new();
            let mut reached = 0;
            for item in items {
                match item {
                    Item::Initial(object) => {
                        let name = follower.learn(self, object.entry());
                        initial.get_or_insert_default().insert(name.clone());
                        changed.push(name);
                    }
                    Item::InitialDone(revision) => {
                        reached = revision;
                        let gone = initial.take().map(|there| follower.all_but(&there)).unwrap_or_default();
                        changed.extend(gone);
                    }
                    Item::Event(event) => {
                        reached = event.revision;
                        match (&event.object, &event.previous) {
                            (Some(object), _) => changed.push(follower.learn(self, object.entry())),
                            (None, Some(previous)) => changed.push(follower.forget(self, previous.entry())),
                            (None, None) => {}
                        }
                    }
                }
            }
            follower.apply(self, changed).await;
            self.followed.send_modify(|followed| *followed = reached.max(*followed));
            if initial.is_none()
                && let Some(ready) = ready.take()
            {
                let _ = ready.send(());
            }
        }
    }
}

/// The state of the task that follows.
#[derive(Default)]
struct Follower {
    /// By the definition's name.
    known: HashMap<Str, Known>,
    /// What the catalog serves of each definition.
    served: HashMap<Str, Vec<Arc<Resource>>>,
    /// The names of definitions by group.
    groups: HashMap<Str, HashSet<Str>>,
    works: JoinSet<()>,
    /// Definitions whose objects are being deleted.
    finalizing: HashSet<Str>,
    /// Definitions that are stored and cannot be read.
    unreadable: HashSet<Str>,
}

impl Follower {
    /// Takes over what is stored of a definition.
    fn learn(&mut self, definitions: &Definitions, entry: &Arc<Entry>) -> Str {
        let object = match definitions.storage.read(entry) {
            Ok(object) => kinds::apiextensions::to_v1(object),
            Err(why) => {
                tracing::error!(key = %entry.key.to_string(), %why, "a definition cannot be read and is not served");
                let name = name_of(definitions, entry);
                self.unreadable.insert(name.clone());
                return name;
            }
        };
        let definition = Definition::read(&object);
        let settled = status::is_settled(&object);
        let name = definition.name.clone();
        self.unreadable.remove(&name);
        self.groups.entry(definition.group.clone()).or_default().insert(name.clone());
        let opened = self.known.remove(&name).and_then(|known| known.opened);
        self.known.insert(name.clone(), Known { definition, entry: entry.clone(), settled, opened });
        name
    }

    fn forget(&mut self, definitions: &Definitions, entry: &Entry) -> Str {
        let name = name_of(definitions, entry);
        self.remove(&name);
        name
    }

    fn remove(&mut self, name: &Str) -> Option<Known> {
        self.unreadable.remove(name);
        let known = self.known.get(name)?;
        if let Some(names) = self.groups.get_mut(&known.definition.group) {
            names.remove(name);
        }
        self.known.remove(name)
    }

    fn all_but(&mut self, there: &HashSet<Str>) -> Vec<Str> {
        let names = self.known.keys().chain(&self.unreadable);
        let gone: Vec<Str> = names.filter(|name| !there.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| drop(self.remove(name)));
        gone
    }

    /// Names that other definitions of the group have.
    fn taken(&self, definition: &Definition) -> Taken {
        let mut taken = Taken::default();
        let others = self.groups.get(&definition.group).into_iter().flatten().filter(|name| **name != definition.name);
        others.filter_map(|name| self.known.get(name)).for_each(|other| taken.add(&other.definition.accepted));
        taken
    }

    /// Brings the catalog and the statuses in line with what is stored now.
    async fn apply(&mut self, definitions: &Arc<Definitions>, changed: Vec<Str>) {
        while self.works.try_join_next().is_some() {}
        for name in &changed {
            let served = || self.known.get(name).map(|known| known.definition.served_versions()).unwrap_or_default();
            (definitions.versions)(name, (!self.unreadable.contains(name)).then(served));
        }
        let builtin = definitions.api.catalog.load_full();
        let mut queue = changed;
        let (mut put, mut removed) = (Vec::new(), Vec::new());
        let mut writes = Vec::new();
        let mut at = 0;
        while at < queue.len() {
            let name = queue[at].clone();
            at += 1;
            let names_before = self.known.get(&name).map(|known| known.definition.accepted.clone());
            let mut now = self.refresh(definitions, &name, &mut writes).await;
            now.retain(|resource| !is_builtin(&builtin, resource));
            let before =
                if now.is_empty() { self.served.remove(&name) } else { self.served.insert(name.clone(), now.clone()) };
            let before = before.unwrap_or_default();
            let is_kept = |known: &&Arc<Resource>| !now.iter().any(|resource| resource.resource == known.resource);
            removed.extend(before.iter().filter(is_kept).map(|resource| resource.resource.clone()));
            let is_new = |resource: &&Arc<Resource>| !before.iter().any(|known| Arc::ptr_eq(known, resource));
            put.extend(now.iter().filter(is_new).cloned());
            // Names that became free may be what another definition of the group waits for.
            if self.known.get(&name).map(|known| known.definition.accepted.clone()) != names_before
                || !self.known.contains_key(&name)
            {
                let waiting = self.waiting_for_names(&name);
                let new: Vec<Str> = waiting.into_iter().filter(|other| !queue[at..].contains(other)).collect();
                queue.extend(new);
            }
        }
        if !put.is_empty() || !removed.is_empty() {
            definitions.api.catalog.change(|catalog| catalog.changed(&put, &removed));
        }
        for (name, object) in writes {
            let definitions = definitions.clone();
            self.works.spawn(async move { definitions.write_status(&name, object).await });
        }
        self.finalize(definitions, queue);
    }

    /// Opens, keeps or closes what a definition serves, and notes the status it should have.
    async fn refresh(
        &mut self,
        definitions: &Arc<Definitions>,
        name: &Str,
        writes: &mut Vec<(Str, Value)>,
    ) -> Vec<Arc<Resource>> {
        let Some(known) = self.known.get(name) else { return Vec::new() };
        if !known.settled && !self.settle(definitions, name, writes) {
            return Vec::new();
        }
        let Some(known) = self.known.get_mut(name) else { return Vec::new() };
        let (definition, entry) = (&known.definition, known.entry.clone());
        let made = Made {
            uid: definition.uid.clone(),
            generation: definition.generation,
            accepted: definition.accepted.clone(),
            terminating: definition.terminating,
        };
        if let Some((before, opened)) = &known.opened
            && *before == made
        {
            return opened.resources.clone();
        }
        match resource::open(&known.definition, &entry, &definitions.stores).await {
            Ok(opened) => {
                let resources = opened.resources.clone();
                known.opened = Some((made, opened));
                resources
            }
            Err(error) => {
                tracing::error!(%name, %error, "a custom resource cannot be served");
                Vec::new()
            }
        }
    }

    /// Decides about the names and conditions of a definition and notes the status it should have; says whether it is
    /// served.
    fn settle(&mut self, definitions: &Definitions, name: &Str, writes: &mut Vec<(Str, Value)>) -> bool {
        let Some(known) = self.known.get(name) else { return false };
        let Ok(object) = definitions.storage.read(&known.entry).map(kinds::apiextensions::to_v1) else {
            return false;
        };
        let now = definitions.api.clock.now();
        let named = status::with_names(&object, &self.taken(&known.definition), now);
        let wanted = status::with_findings(named, now);
        let definition = Definition::read(&wanted);
        let is_served = definition.established || status::is_true(&wanted, "NamesAccepted");
        if wanted.field("status") != object.field("status") {
            writes.push((name.clone(), wanted));
        }
        let Some(known) = self.known.get_mut(name) else { return false };
        known.definition = definition;
        if !is_served {
            known.opened = None;
        }
        is_served
    }

    /// Definitions of the same group that do not have all the names they ask for.
    fn waiting_for_names(&self, name: &Str) -> Vec<Str> {
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let others = self.groups.get(group).into_iter().flatten().filter(|other| *other != name);
        let waits = |other: &&Str| {
            let known = self.known.get(*other);
            known.is_some_and(|known| {
                let Definition { requested, accepted, .. } = &known.definition;
                let (mut requested, mut accepted) = (requested.clone(), accepted.clone());
                requested.categories.clear();
                accepted.categories.clear();
                requested != accepted
            })
        };
        others.filter(waits).cloned().collect()
    }

    /// Begins to delete the objects of definitions that are being deleted.
    fn finalize(&mut self, definitions: &Arc<Definitions>, names: Vec<Str>) {
        for name in names {
            let Some(known) = self.known.get(&name) else {
                self.finalizing.remove(&name);
                continue;
            };
            if !known.definition.finalizing {
                continue;
            }
            if self.finalizing.insert(name.clone()) {
                let storage = known.opened.as_ref().map(|(_, opened)| opened.storage.clone());
                let definitions = definitions.clone();
                self.works.spawn(async move { finalize::run(&definitions, &name, storage).await });
            }
        }
    }
}

fn name_of(definitions: &Definitions, entry: &Entry) -> Str {
    let key = entry.key.to_string();
    Str::from(key.strip_prefix(&definitions.storage.prefix).unwrap_or(&key))
}

/// Whether the resource is in a group-version of built-in resources, which definitions cannot add to.
fn is_builtin(catalog: &Catalog, resource: &Resource) -> bool {
    catalog.has_builtin(&resource.resource.group_version())
}

impl Definitions {
    /// Writes the status that a definition should have, if it is still the definition that the status was made for.
    async fn write_status(&self, name: &str, wanted: Value) {
        let Ok(_turn) = self.status_writes.acquire().await else { return };
        let written = finalize::update(self, name, &mut |object| {
            if object.resource_version() != wanted.resource_version() {
                return false;
            }
            object.set(&["status"], wanted.field("status").clone());
            true
        })
        .await;
        if let Err(status) = written {
            tracing::warn!(name, message = status.message, "the status of a definition could not be written");
        }
    }
}

/// A store whose writes wait until the catalog has followed them.
pub struct FollowedStore {
    store: Arc<dyn Store>,
    definitions: Arc<std::sync::OnceLock<Weak<Definitions>>>,
}

/// Lets writes of definitions wait for the [`Definitions`] that are connected later.
#[derive(Clone, Default)]
pub struct Followers(Arc<std::sync::OnceLock<Weak<Definitions>>>);

impl Followers {
    /// Wraps the store of definitions in a catalog that is not in use yet.
    pub fn wrap(&self, catalog: &mut Catalog) {
        catalog.wrap_store(GROUP, RESOURCE, &|store| {
            Arc::new(FollowedStore { store, definitions: self.0.clone() }) as Arc<dyn Store>
        });
    }

    pub fn connect(&self, definitions: &Arc<Definitions>) {
        let _ = self.0.set(Arc::downgrade(definitions));
    }
}

#[async_trait]
impl Layer for FollowedStore {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn write(&self, write: storage::Write) -> storage::Result<storage::Written> {
        let written = self.store.write(write).await?;
        if let Some(definitions) = self.definitions.get().and_then(Weak::upgrade) {
            definitions.followed_to(written.revision).await;
        }
        Ok(written)
    }
}

#[async_trait]
impl rest::Definitions for Definitions {
    async fn caught_up(&self) {
        Definitions::caught_up(self).await;
    }
}
