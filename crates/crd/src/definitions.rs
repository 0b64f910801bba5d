//! [`Definitions`]: follows the stored definitions, decides about their names, and keeps the catalog up to date.
//!
//! One task reads changes in the order of their revisions. It first puts what a definition serves into the catalog and
//! then writes its status, so a definition that is Established is served. Every server does this for itself: the decisions
//! follow from the stored definitions alone, and of several servers that write the same status one succeeds.

use std::sync::Arc;
use std::time::Duration;

use cache::{Budget, Item, Start};
use futures::future::BoxFuture;
use hashbrown::HashSet;
use object::{GroupVersion, Meta, Str, Value};
use outbound::Webhooks;
use registry::Form;
use rest::Api;
use storage::Store;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::conversion::ConversionMeters;
use crate::finalize;
use crate::followed::FollowedDefinitions;
use crate::follower::Follower;
use crate::own::{self, OwnDefinition, OwnDefinitionError};
use crate::resource::Stores;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const RESOURCE: &str = "customresourcedefinitions";
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
    /// None where definitions are not served.
    pub followed: Option<Arc<FollowedDefinitions>>,
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
    /// Definitions of the program, which are not stored.
    pub own: Vec<OwnDefinition>,
}

/// The served definitions.
pub struct Definitions {
    pub(crate) api: Arc<Api>,
    pub(crate) followed: Arc<FollowedDefinitions>,
    pub(crate) form: Form,
    pub(crate) stores: Stores,
    status_writes: Semaphore,
    pub(crate) versions: Arc<Served>,
}

/// The status that a definition should have.
#[derive(Debug)]
pub(crate) struct Status {
    /// The definition's name.
    pub name: Str,
    /// The resourceVersion that it was made for.
    pub version: String,
    pub status: Value,
}

impl Definitions {
    /// Puts everything that is stored, and before it what the program defines, into the catalog and follows it from then on.
    pub fn run(setup: Setup, tasks: &mut JoinSet<()>) -> BoxFuture<'_, Result<(), OwnDefinitionError>> {
        Box::pin(async move {
            let form = setup.api.catalog.load().get(GROUP, "v1", RESOURCE).map(|served| served.form.clone());
            let (Some(followed), Some(form)) = (setup.followed, form) else {
                return if setup.own.is_empty() { Ok(()) } else { Err(OwnDefinitionError::NotServed) };
            };
            let definitions = Arc::new(Definitions {
                followed,
                form,
                stores: Stores {
                    store: setup.store,
                    prefix: setup.prefix,
                    budget: setup.budget,
                    webhooks: setup.webhooks,
                    meters: setup.meters,
                    randomness: setup.api.randomness.clone(),
                    expressions: setup.expressions,
                    cbor: setup.api.features.enabled("CBORServingAndStorage"),
                    names_unreadable: setup.api.features.enabled("AllowUnsafeMalformedObjectDeletion"),
                },
                status_writes: Semaphore::new(STATUS_WRITES_MAX),
                versions: setup.versions,
                api: setup.api,
            });
            let own = own::open(&definitions, setup.own).await?;
            let (ready, is_ready) = tokio::sync::oneshot::channel();
            let follower = Follower::beside(&own);
            let task = definitions.followed.begin();
            tasks.spawn(async move {
                let _task = task;
                definitions.follow(follower, ready).await;
            });
            // The sender is dropped without a message only when the runtime shuts down.
            let _ = is_ready.await;
            Ok(())
        })
    }

    /// Notes for definitions that were decided about whether their status is still to be written.
    pub(crate) fn note_owed<'n>(&self, decided: impl Iterator<Item = &'n Str>, writes: &[Status]) {
        self.followed.note_owed(decided, &writes.iter().map(|status| &status.name).collect());
    }

    async fn follow(self: Arc<Self>, mut follower: Follower, ready: tokio::sync::oneshot::Sender<()>) {
        let mut ready = Some(ready);
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
        let part = self.followed.storage.range("").into();
        let mut watcher = self.followed.storage.cache.watch(part, Start::Now).await?;
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
            self.followed.reach(reached);
            if initial.is_none()
                && let Some(ready) = ready.take()
            {
                let _ = ready.send(());
            }
        }
    }

    /// Writes the status that a definition should have, if it is still the definition that the status was made for.
    pub(crate) async fn write_status(&self, wanted: Status) {
        let Ok(_turn) = self.status_writes.acquire().await else { return };
        let name = wanted.name.as_str();
        let written = finalize::update(self, name, &mut |object| {
            if object.resource_version() != wanted.version {
                return false;
            }
            object.set(&["status"], wanted.status.clone());
            true
        })
        .await;
        if let Err(status) = written {
            self.followed.forgive(name);
            tracing::warn!(name, message = status.message, "the status of a definition could not be written");
        }
    }
}
