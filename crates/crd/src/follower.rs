//! [`Follower`]: what is known about the stored definitions, and how the catalog and their statuses are brought in line with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{FutureExt, StreamExt, stream};
use hashbrown::{HashMap, HashSet};
use object::{GroupVersionResource, Meta, Str, Value};
use registry::Resource;
use storage::Entry;
use tokio::task::JoinSet;

use crate::conversion::proof;
use crate::definition::Definition;
use crate::definitions::{Definitions, Status};
use crate::names::{Groups, Names};
use crate::own::OwnServed;
use crate::resource::{self, Opened};
use crate::status::Condition;
use crate::{finalize, status};

/// Caches of custom resources that are loaded at once.
const OPENED_AT_ONCE: usize = 64;

/// The state of the task that follows the definitions. What it does for one of them takes time by the size of that definition,
/// however many others there are.
#[derive(Default)]
pub struct Follower {
    /// By the definition's name.
    known: HashMap<Str, Known>,
    /// What the catalog serves of each definition.
    served: HashMap<Str, Vec<Arc<Resource>>>,
    groups: Groups,
    works: JoinSet<()>,
    /// Definitions whose objects are being deleted.
    finalizing: HashSet<Str>,
    /// Definitions that are stored and cannot be read.
    unreadable: HashSet<Str>,
    /// The resources that the program serves by itself.
    own: HashSet<GroupVersionResource>,
}

/// What is known about one definition.
struct Known {
    definition: Definition,
    entry: Arc<Entry>,
    /// Its status is what it should be.
    settled: bool,
    /// The definition in the form of v1, if it was just read and has to be settled.
    object: Option<Value>,
    /// How its conversion rules were found to be, while its status does not tell.
    proven: Option<Condition>,
    /// What is served of it, and the state of the definition it was made from.
    opened: Option<(Made, Opened)>,
}

/// What an open definition depends on: if none of it changed, it stays as it is.
#[derive(Clone, PartialEq, Eq)]
struct Made {
    uid: Str,
    /// Goes up with changes of the spec, not when the deletion begins.
    generation: i64,
    accepted: Names,
    /// An annotation, which the generation does not count.
    conversion_rules: Option<Str>,
}

impl Made {
    fn of(definition: &Definition) -> Made {
        Made {
            uid: definition.uid.clone(),
            generation: definition.generation,
            accepted: definition.accepted.clone(),
            conversion_rules: definition.conversion_rules.clone(),
        }
    }
}

/// What follows from changes: resources for the catalog and statuses to write.
#[derive(Default)]
struct Outcome {
    put: Vec<Arc<Resource>>,
    removed: Vec<GroupVersionResource>,
    writes: Vec<Status>,
}

impl Follower {
    /// Stored definitions get no name that a definition of the program has.
    pub fn beside(own: &[OwnServed]) -> Follower {
        let mut follower = Follower::default();
        for own in own {
            // Without a name, it is another definition than one of the same name that is stored.
            follower.groups.add(&Definition { name: Str::default(), ..own.definition.clone() });
            follower.own.extend(own.resources.iter().map(|resource| resource.resource.clone()));
        }
        follower
    }

    /// Takes over what is stored of a definition.
    pub fn learn(&mut self, definitions: &Definitions, entry: &Arc<Entry>) -> Str {
        let object = match definitions.storage.read_entry(entry) {
            Ok(object) => kinds::apiextensions::to_v1(object),
            Err(why) => {
                tracing::error!(key = %entry.key.to_string(), %why, "a definition cannot be read and is not served");
                let name = definitions.name_of(&entry.key);
                self.unreadable.insert(name.clone());
                return name;
            }
        };
        let definition = Definition::read(&object);
        let settled = status::is_settled(&object);
        let name = definition.name.clone();
        self.unreadable.remove(&name);
        let opened = self.forget_known(&name).and_then(|known| known.opened);
        self.groups.add(&definition);
        let object = (!settled).then_some(object);
        self.known
            .insert(name.clone(), Known { definition, entry: entry.clone(), settled, object, proven: None, opened });
        name
    }

    pub fn forget(&mut self, definitions: &Definitions, entry: &Entry) -> Str {
        let name = definitions.name_of(&entry.key);
        self.remove(&name);
        name
    }

    /// Forgets all definitions but those that are there, and says which those were.
    pub fn all_but(&mut self, there: &HashSet<Str>) -> Vec<Str> {
        let names = self.known.keys().chain(&self.unreadable);
        let gone: Vec<Str> = names.filter(|name| !there.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
        gone
    }

    fn remove(&mut self, name: &Str) {
        self.unreadable.remove(name);
        self.forget_known(name);
    }

    fn forget_known(&mut self, name: &Str) -> Option<Known> {
        let known = self.known.remove(name)?;
        self.groups.remove(&known.definition);
        Some(known)
    }

    /// Brings the catalog and the statuses in line with what is stored now.
    pub async fn apply(&mut self, definitions: &Arc<Definitions>, changed: Vec<Str>) {
        while self.works.try_join_next().is_some() {}
        for name in &changed {
            let served = || self.known.get(name).map(|known| known.definition.served_versions()).unwrap_or_default();
            (definitions.versions)(name, (!self.unreadable.contains(name)).then(served));
        }
        self.prove(&changed).await;
        let mut outcome = Outcome::default();
        let decided = self.decide(definitions, changed, &mut outcome.writes);
        self.open(definitions, &decided).await;
        decided.iter().for_each(|(name, is_served)| self.compare(definitions, name, *is_served, &mut outcome));
        if !outcome.put.is_empty() || !outcome.removed.is_empty() {
            definitions.api.catalog.change(&outcome.put, &outcome.removed);
        }
        definitions.note_owed(decided.keys(), &outcome.writes);
        for status in outcome.writes {
            let definitions = definitions.clone();
            self.works.spawn(async move { definitions.write_status(status).await });
        }
        decided.into_keys().for_each(|name| self.finalize(definitions, name));
    }

    /// Tries the conversion rules of those definitions whose status does not tell about them, away from the tasks that serve requests.
    async fn prove(&mut self, changed: &[Str]) {
        for name in changed {
            let Some(known) = self.known.get_mut(name) else { continue };
            let Some(object) = known.object.as_ref().filter(|object| !status::tells_of_rules(object)) else { continue };
            let object = object.clone();
            // A task that panics proves nothing, which the status then says nothing about.
            known.proven = tokio::task::spawn_blocking(move || proof::prove(&object)).await.ok().flatten();
        }
    }

    /// Decides about the names of definitions and of those that waited for such names: whether each of them is served.
    fn decide(
        &mut self,
        definitions: &Definitions,
        changed: Vec<Str>,
        writes: &mut Vec<Status>,
    ) -> BTreeMap<Str, bool> {
        let mut decided = BTreeMap::new();
        let mut queued: HashSet<Str> = changed.iter().cloned().collect();
        let mut queue = VecDeque::from(changed);
        while let Some(name) = queue.pop_front() {
            queued.remove(&name);
            let accepted = |known: &Known| known.definition.accepted.clone();
            let names_before = self.known.get(&name).map(accepted);
            let is_served = match self.known.get(&name) {
                Some(known) => known.settled || self.settle(definitions, &name, writes),
                None => false,
            };
            // Names that became free may be what another definition of the group waits for.
            if !self.known.contains_key(&name) || self.known.get(&name).map(accepted) != names_before {
                let group = name.split_once('.').map_or("", |(_, group)| group);
                let waiting = self.groups.waiting(group).filter(|other| **other != name);
                queue.extend(waiting.filter(|other| queued.insert((*other).clone())).cloned());
            }
            decided.insert(name, is_served);
        }
        decided
    }

    /// Decides about the names and conditions of a definition and notes the status it should have; says whether it is
    /// served.
    fn settle(&mut self, definitions: &Definitions, name: &Str, writes: &mut Vec<Status>) -> bool {
        let Some(known) = self.known.get_mut(name) else { return false };
        let object = match known.object.take() {
            Some(object) => object,
            None => match definitions.storage.read_entry(&known.entry) {
                Ok(object) => kinds::apiextensions::to_v1(object),
                Err(_) => return false,
            },
        };
        let now = definitions.api.clock.now();
        let (before, checks_structure) = (object.field("status").clone(), status::may_lack_structure(&object));
        let named = status::with_names(object, &self.groups.taken(&known.definition), now);
        let wanted = status::with_findings(named, checks_structure, now);
        let wanted = status::with_rules(wanted, known.proven.take(), now);
        self.groups.remove(&known.definition);
        known.definition = Definition::read(&wanted);
        self.groups.add(&known.definition);
        let is_served = known.definition.established || status::is_true(&wanted, "NamesAccepted");
        if !is_served {
            known.opened = None;
        }
        if *wanted.field("status") != before {
            let (version, status) = (wanted.resource_version().to_string(), wanted.field("status").clone());
            writes.push(Status { name: name.clone(), version, status });
        }
        is_served
    }

    /// Opens those definitions that are served and were not opened as they are now.
    async fn open(&mut self, definitions: &Definitions, decided: &BTreeMap<Str, bool>) {
        let mut opening = Vec::new();
        for (name, _) in decided.iter().filter(|(_, is_served)| **is_served) {
            let Some(known) = self.known.get(name) else { continue };
            let made = Made::of(&known.definition);
            if known.opened.as_ref().is_none_or(|(before, _)| *before != made) {
                let opened = resource::open(&known.definition, &known.entry, &definitions.stores, None);
                opening.push(async move { (name, made, opened.await) }.boxed());
            }
        }
        let opened: Vec<_> = stream::iter(opening).buffer_unordered(OPENED_AT_ONCE).collect().await;
        for (name, made, opened) in opened {
            let Some(known) = self.known.get_mut(name) else { continue };
            known.opened = match opened {
                Ok(opened) => Some((made, opened)),
                Err(error) => {
                    tracing::error!(%name, %error, "a custom resource cannot be served");
                    None
                }
            };
        }
    }

    /// Compares what is served of a definition with what was served before.
    fn compare(&mut self, definitions: &Definitions, name: &Str, is_served: bool, outcome: &mut Outcome) {
        let opened = self.known.get(name).filter(|_| is_served).and_then(|known| known.opened.as_ref());
        let opened = opened.map(|(_, opened)| opened);
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
        outcome.removed.extend(before.iter().filter(is_gone).map(|resource| resource.resource.clone()));
        // Discovery does not list all verbs of a definition that is being deleted.
        let terminating = self.known.get(name).is_some_and(|known| known.definition.terminating);
        let changed =
            opened.is_some_and(|opened| opened.terminating.swap(terminating, Ordering::AcqRel) != terminating);
        let is_new = |resource: &&Arc<Resource>| changed || !before.iter().any(|known| Arc::ptr_eq(known, resource));
        outcome.put.extend(now.iter().filter(is_new).cloned());
    }

    /// Begins to delete the objects of a definition that is being deleted.
    fn finalize(&mut self, definitions: &Arc<Definitions>, name: Str) {
        let Some(known) = self.known.get(&name) else {
            self.finalizing.remove(&name);
            return;
        };
        if known.definition.finalizing && self.finalizing.insert(name.clone()) {
            let storage = known.opened.as_ref().map(|(_, opened)| opened.storage.clone());
            let definitions = definitions.clone();
            self.works.spawn(async move { finalize::run(&definitions, &name, storage).await });
        }
    }
}
