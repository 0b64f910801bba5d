//! [`Follower`]: brings the catalog and the statuses of the stored definitions in line with what is decided about them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{FutureExt, StreamExt, stream};
use hashbrown::{HashMap, HashSet};
use object::{GroupVersionResource, Str, Value};
use registry::Resource;
use storage::Entry;
use tokio::task::JoinSet;

use crate::conversion::proof;
use crate::decisions::{Decisions, Made};
use crate::definitions::Definitions;
use crate::finalize;
use crate::own::OwnServed;
use crate::resource::{self, Opened};

/// Caches of custom resources that are loaded at once.
const OPENED_AT_ONCE: usize = 64;

/// The state of the task that follows the definitions. What it does for one of them takes time by the size of that definition,
/// however many others there are.
#[derive(Default)]
pub struct Follower {
    decisions: Decisions,
    /// The stored definitions that could be read, by their names.
    entries: HashMap<Str, Arc<Entry>>,
    /// Those that are open, each with the state of the definition it was made from.
    opened: HashMap<Str, (Made, Opened)>,
    /// What the catalog serves of each definition.
    served: HashMap<Str, Vec<Arc<Resource>>>,
    works: JoinSet<()>,
    /// The resources that the program serves by itself.
    own: HashSet<GroupVersionResource>,
}

/// A change of the catalog.
#[derive(Default)]
struct CatalogChange {
    put: Vec<Arc<Resource>>,
    removed: Vec<GroupVersionResource>,
}

impl Follower {
    /// Stored definitions get no name that a definition of the program has.
    pub fn beside(own: &[OwnServed]) -> Follower {
        let mut follower = Follower::default();
        for own in own {
            follower.decisions.reserve(&own.definition);
            follower.own.extend(own.resources.iter().map(|resource| resource.resource.clone()));
        }
        follower
    }

    /// Takes over what is stored of a definition.
    pub fn learn(&mut self, definitions: &Definitions, entry: &Arc<Entry>) -> Str {
        let name = definitions.followed.name_of(&entry.key);
        let object = match read(definitions, entry) {
            Ok(object) => Some(object),
            Err(why) => {
                tracing::error!(key = %entry.key.to_string(), %why, "a definition cannot be read and is not served");
                None
            }
        };
        if object.is_some() {
            self.entries.insert(name.clone(), entry.clone());
        }
        self.decisions.stored(&name, object);
        name
    }

    pub fn forget(&mut self, definitions: &Definitions, entry: &Entry) -> Str {
        let name = definitions.followed.name_of(&entry.key);
        self.remove(&name);
        name
    }

    /// Forgets all definitions but those that are there, and says which those were.
    pub fn all_but(&mut self, there: &HashSet<Str>) -> Vec<Str> {
        let gone: Vec<Str> = self.decisions.names().filter(|name| !there.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
        gone
    }

    fn remove(&mut self, name: &Str) {
        self.decisions.gone(name);
        self.entries.remove(name);
        self.opened.remove(name);
    }

    /// Brings the catalog and the statuses in line with what is stored now.
    pub async fn apply(&mut self, definitions: &Arc<Definitions>, changed: Vec<Str>) {
        while self.works.try_join_next().is_some() {}
        for name in &changed {
            let served = || self.decisions.definition(name).map(|known| known.served_versions()).unwrap_or_default();
            (definitions.versions)(name, (!self.decisions.is_unreadable(name)).then(served));
        }
        for (name, object) in self.decisions.unproven(&changed) {
            // Away from the tasks that serve requests. A task that panics proves nothing, which the status then says nothing about.
            let found = tokio::task::spawn_blocking(move || proof::prove(&object)).await.ok().flatten();
            self.decisions.proven(&name, found);
        }
        let entries = &self.entries;
        let step = self.decisions.step(changed, definitions.api.clock.now(), |name| {
            let entry = entries.get(name)?;
            read(definitions, entry).ok()
        });
        self.open(definitions, &step.served).await;
        let mut change = CatalogChange::default();
        for (name, made) in &step.served {
            self.compare(definitions, name, made.is_some(), &mut change);
        }
        if !change.put.is_empty() || !change.removed.is_empty() {
            definitions.api.catalog.change(&change.put, &change.removed);
        }
        definitions.note_owed(step.served.keys(), &step.writes);
        for status in step.writes {
            let definitions = definitions.clone();
            self.works.spawn(async move { definitions.write_status(status).await });
        }
        for name in step.finalize {
            let storage = self.opened.get(&name).map(|(_, opened)| opened.storage.clone());
            let definitions = definitions.clone();
            self.works.spawn(async move { finalize::run(&definitions, &name, storage).await });
        }
    }

    /// Opens those definitions that are served and were not opened as they are now, and closes those that are not served.
    async fn open(&mut self, definitions: &Definitions, served: &BTreeMap<Str, Option<Made>>) {
        let mut opening = Vec::new();
        for (name, made) in served {
            let Some(made) = made else {
                self.opened.remove(name);
                continue;
            };
            let (Some(definition), Some(entry)) = (self.decisions.definition(name), self.entries.get(name)) else {
                continue;
            };
            if self.opened.get(name).is_none_or(|(before, _)| before != made) {
                let opened = resource::open(definition, entry, &definitions.stores, None);
                opening.push(async move { (name, made, opened.await) }.boxed());
            }
        }
        let opened: Vec<_> = stream::iter(opening).buffer_unordered(OPENED_AT_ONCE).collect().await;
        for (name, made, opened) in opened {
            match opened {
                Ok(opened) => drop(self.opened.insert(name.clone(), (made.clone(), opened))),
                Err(error) => {
                    self.opened.remove(name);
                    tracing::error!(%name, %error, "a custom resource cannot be served");
                }
            }
        }
    }

    /// Compares what is served of a definition with what was served before.
    fn compare(&mut self, definitions: &Definitions, name: &Str, is_served: bool, change: &mut CatalogChange) {
        let opened = self.opened.get(name).filter(|_| is_served).map(|(_, opened)| opened);
        let mut now = opened.map(|opened| opened.resources.clone()).unwrap_or_default();
        let builtin = definitions.api.catalog.load();
        now.retain(|resource| {
            !builtin.has_builtin(&resource.resource.group_version()) && !self.own.contains(&resource.resource)
        });
        let before = match now.is_empty() {
            true => self.served.remove(name),
            false => self.served.insert(name.clone(), now.clone()),
        };
        let before = before.unwrap_or_default();
        let is_gone = |known: &&Arc<Resource>| !now.iter().any(|resource| resource.resource == known.resource);
        change.removed.extend(before.iter().filter(is_gone).map(|resource| resource.resource.clone()));
        // Discovery does not list all verbs of a definition that is being deleted.
        let terminating = self.decisions.definition(name).is_some_and(|known| known.terminating);
        let changed =
            opened.is_some_and(|opened| opened.terminating.swap(terminating, Ordering::AcqRel) != terminating);
        let is_new = |resource: &&Arc<Resource>| changed || !before.iter().any(|known| Arc::ptr_eq(known, resource));
        change.put.extend(now.iter().filter(is_new).cloned());
    }
}

/// A stored definition in the form of v1.
fn read(definitions: &Definitions, entry: &Arc<Entry>) -> Result<Value, String> {
    definitions.followed.storage.read_entry(entry).map(kinds::apiextensions::to_v1).map_err(|why| why.to_string())
}
