//! The changes of a restore, in an order that admission accepts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use object::{Meta, Status, Value};
use registry::{Catalog, Resource};
use storage::{Key, Revision, WriteLimits};

use super::objects::{self, Treatment};
use super::options::RestoreOptions;
use super::requests::{KnownOwners, PartRequests};
use crate::past::difference::without_noise;
use crate::scope::Scope;

/// Resources of a namespace that controllers and clients keep for a moment only.
const LEFT_OUT: [(&str, &str); 3] = [("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases")];
/// Resources that have to be there when others are admitted: accounts for pods, roles for their bindings. Limits and quotas come with the
/// others, so that pods that were there before them come back as they were.
const EARLY: [(&str, &str); 2] = [("", "serviceaccounts"), ("rbac.authorization.k8s.io", "roles")];

/// The changes that are left to be made, step by step, and the objects that are done or need nothing.
#[derive(Default)]
pub struct RestorePlan {
    pub steps: Vec<Vec<PlannedChange>>,
    pub done: Vec<PlannedChange>,
}

/// The change that an object needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    Create,
    Update,
    Nothing,
}

impl Todo {
    pub fn name(self) -> &'static str {
        match self {
            Todo::Create => "Create",
            Todo::Update => "Update",
            Todo::Nothing => "None",
        }
    }
}

/// An object that is looked at.
pub struct PlannedChange {
    pub resource: Arc<Resource>,
    pub namespace: String,
    pub name: String,
    pub key: Key,
    /// As it is now.
    pub now: Option<Value>,
    /// As it is to be, without what the server sets.
    pub wanted: Value,
    pub todo: Todo,
    /// Its uid: that of the object that is there, or the one that it gets.
    pub uid: String,
    /// The uid that it had.
    pub old_uid: String,
    /// Facts that the user should know.
    pub notes: Vec<String>,
    /// The version that was stored; "" if nothing was.
    pub stored_version: String,
    pub failure: Option<Status>,
}

impl PlannedChange {
    fn of(
        scope: &Scope,
        resource: &Arc<Resource>,
        was: &Value,
        now: Option<Value>,
        options: &RestoreOptions,
    ) -> Option<PlannedChange> {
        let namespace = was.namespace().to_string();
        let name = was.name().to_string();
        let mut planned = PlannedChange {
            resource: resource.clone(),
            key: resource.storage.as_ref()?.key(&namespace, &name),
            namespace,
            name,
            wanted: objects::writable(was),
            todo: if now.is_some() { Todo::Update } else { Todo::Create },
            uid: now.as_ref().map_or_else(|| scope.api.randomness.uuid(), |now| now.uid().to_string()),
            old_uid: was.uid().to_string(),
            notes: Vec::new(),
            stored_version: String::new(),
            failure: None,
            now,
        };
        match objects::treatment(resource, was, planned.now.as_ref(), !options.contents) {
            Treatment::Restore => {}
            Treatment::LeaveAlone(why) => planned.leave(why),
        }
        if options.only_missing && planned.todo == Todo::Update {
            planned.leave("it exists");
        }
        Some(planned)
    }

    fn leave(&mut self, why: &str) {
        self.todo = Todo::Nothing;
        self.notes.push(why.to_string());
    }

    /// `configmaps shop/settings`.
    pub fn described(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        [&self.resource.resource.group_resource().to_string(), " ", &self.namespace, slash, &self.name].concat()
    }

    /// Nothing has to be done if it is what it was; otherwise an update is of the object as it was read.
    fn settle(&mut self) {
        let Some(now) = self.now.as_ref().filter(|_| self.todo == Todo::Update) else { return };
        let is_same = without_noise(objects::writable(now)) == without_noise(self.wanted.clone());
        if is_same {
            self.todo = Todo::Nothing;
        } else {
            self.wanted.set_meta_str("resourceVersion", now.resource_version());
            self.wanted.set_meta_str("uid", now.uid());
        }
    }
}

impl RestorePlan {
    pub async fn make(
        scope: &Scope,
        requests: &PartRequests,
        options: &RestoreOptions,
        revision: Revision,
    ) -> Result<RestorePlan, Status> {
        let mut planned = Vec::new();
        let info = &scope.call.info;
        let namespace = if scope.resource.namespaced { info.namespace.as_str() } else { "" };
        requests.check_history_of(&scope.resource, namespace).await?;
        let was = requests.get(&scope.resource, namespace, &info.name, Some(revision)).await?;
        let was = was.ok_or_else(|| Status::not_found(&scope.group_resource(), &info.name))?;
        let now = requests.get(&scope.resource, namespace, &info.name, None).await?;
        if now.as_ref().is_some_and(Meta::is_deleting) {
            let why = "the object is being deleted; it can be brought back when it is gone";
            return Err(Status::conflict(&scope.group_resource(), &info.name, why));
        }
        planned.extend(PlannedChange::of(scope, &scope.resource, &was, now, options));
        if options.contents {
            for resource in resources_of(&scope.api.catalog, &options.resources)? {
                requests.check_history_of(&resource, &info.name).await?;
                let was = requests.list(&resource, &info.name, Some(revision), &options.label_selector).await?;
                if was.is_empty() {
                    continue;
                }
                let now = requests.list(&resource, &info.name, None, "").await?;
                let mut now: HashMap<String, Value> =
                    now.into_iter().map(|object| (object.name().to_string(), object)).collect();
                let found = was.iter().filter_map(|was| {
                    let now = now.remove(was.name());
                    PlannedChange::of(scope, &resource, was, now, options)
                });
                planned.extend(found);
            }
        }
        connect(scope, requests, &mut planned).await?;
        Ok(in_order(scope, planned))
    }
}

/// Makes references among the objects, and to others, those of today.
async fn connect(scope: &Scope, requests: &PartRequests, planned: &mut Vec<PlannedChange>) -> Result<(), Status> {
    // An object that is not there and is not brought back is no owner.
    let is_there = |planned: &&PlannedChange| planned.todo != Todo::Nothing || planned.now.is_some();
    let uids: HashMap<String, String> =
        planned.iter().filter(is_there).map(|planned| (planned.old_uid.clone(), planned.uid.clone())).collect();
    let mut owners = KnownOwners::of(requests);
    let mut volumes = Vec::new();
    for one in planned.iter_mut().filter(|planned| planned.todo != Todo::Nothing) {
        let (namespace, notes) = (one.namespace.clone(), &mut one.notes);
        objects::connect_owners(&scope.api.catalog, &mut owners, &uids, &namespace, &mut one.wanted, notes).await?;
        if one.todo == Todo::Create {
            objects::prepare_creation(&mut one.wanted, &uids);
            volumes.extend(objects::connect_volume(&scope.api.catalog, requests, one).await?);
        } else if let Some(now) = one.now.as_ref().filter(|_| one.old_uid != one.uid) {
            objects::prepare_update(&mut one.wanted, now, &uids);
        }
    }
    planned.append(&mut volumes);
    planned.iter_mut().for_each(PlannedChange::settle);
    Ok(())
}

/// The stored resources of a namespace, each in one version.
fn resources_of(catalog: &Catalog, wanted: &[String]) -> Result<Vec<Arc<Resource>>, Status> {
    let mut found: BTreeMap<(String, String), Arc<Resource>> = BTreeMap::new();
    for resource in catalog.resources() {
        let id = &resource.resource;
        let Some(storage) = resource.storage.as_ref().filter(|_| resource.namespaced) else { continue };
        let is_usable = ["list", "create", "update"].iter().all(|verb| resource.serves(verb));
        if !is_usable || LEFT_OUT.contains(&(&*id.group, &*id.resource)) {
            continue;
        }
        let key = (id.group.to_string(), id.resource.to_string());
        // The stored version, if it is served, has everything.
        if storage.kind.version == id.version || !found.contains_key(&key) {
            found.insert(key, resource.clone());
        }
    }
    if wanted.is_empty() {
        return Ok(found.into_values().collect());
    }
    let mut chosen = Vec::new();
    let mut names = HashSet::new();
    for name in wanted {
        let matches = |(group, resource): &&(String, String)| match name.split_once('.') {
            None => name == resource,
            Some((plural, of_group)) => plural == resource && of_group == group,
        };
        let mut of_name = found.keys().filter(matches).peekable();
        if of_name.peek().is_none() {
            return Err(Status::bad_request(format!("a namespace has no {} to restore", object::quote(name))));
        }
        names.extend(of_name.cloned());
    }
    chosen.extend(found.into_iter().filter(|(key, _)| names.contains(key)).map(|(_, resource)| resource));
    Ok(chosen)
}

/// Divides what is to be done into steps: what admission of others looks at comes first, and no step is larger than the store takes.
fn in_order(scope: &Scope, planned: Vec<PlannedChange>) -> RestorePlan {
    let mut plan = RestorePlan::default();
    let mut stages: [Vec<PlannedChange>; 3] = Default::default();
    for one in planned {
        let id = &one.resource.resource;
        let stage = match (&*id.group, &*id.resource) {
            ("", "namespaces") => 0,
            id if EARLY.contains(&id) => 1,
            _ => 2,
        };
        match one.todo {
            Todo::Nothing => plan.done.push(one),
            Todo::Create | Todo::Update => stages[stage].push(one),
        }
    }
    for stage in stages {
        plan.steps.append(&mut in_steps(families(stage)));
    }
    tracing::debug!(user = %scope.call.user.name, steps = plan.steps.len(), "a restore is planned");
    plan
}

/// Puts families into steps. One that fits into a step is not divided, so that no controller sees an owner without what it owns.
fn in_steps(families: Vec<Vec<PlannedChange>>) -> Vec<Vec<PlannedChange>> {
    let mut steps: Vec<Vec<PlannedChange>> = Vec::new();
    let mut left = WriteLimits { keys: 0, bytes: 0 };
    for family in families {
        let size = |of: &PlannedChange| stored_size(&of.wanted);
        let (keys, bytes) = (family.len(), family.iter().map(size).sum::<usize>());
        let mut has_room = keys <= left.keys && bytes <= left.bytes;
        for one in family {
            let Some(storage) = &one.resource.storage else { continue };
            let size = size(&one);
            if steps.is_empty() || !has_room || left.keys == 0 || size > left.bytes {
                left = storage.store.write_limits();
                steps.push(Vec::new());
            }
            has_room = true;
            left = WriteLimits { keys: left.keys.saturating_sub(1), bytes: left.bytes.saturating_sub(size) };
            if let Some(step) = steps.last_mut() {
                step.push(one);
            }
        }
    }
    steps
}

/// About how many bytes an object takes in the store, at most: managed fields are added to what is sent.
fn stored_size(object: &Value) -> usize {
    let mut json = Vec::new();
    codec::json::encode(object, None, &mut json);
    json.len() * 3 + 1024
}

/// How far owners are followed. Owners that own each other are followed as far.
const OWNERS_MAX: usize = 16;

/// Objects with their owners: each family behind its first owner, owners before what they own.
fn families(planned: Vec<PlannedChange>) -> Vec<Vec<PlannedChange>> {
    let uids: HashSet<String> = planned.iter().map(|one| one.uid.clone()).collect();
    let owners: HashMap<String, String> = planned
        .iter()
        .filter_map(|one| {
            let mut of = one.wanted.owner_references().iter().map(|owner| owner.str_at(&["uid"]));
            let owner = of.find(|owner| uids.contains(*owner) && *owner != one.uid)?;
            Some((one.uid.clone(), owner.to_string()))
        })
        .collect();
    let mut families: BTreeMap<String, Vec<(usize, PlannedChange)>> = BTreeMap::new();
    for one in planned {
        let (mut first, mut depth) = (one.uid.clone(), 0);
        while let Some(owner) = owners.get(&first).filter(|_| depth < OWNERS_MAX) {
            (first, depth) = (owner.clone(), depth + 1);
        }
        families.entry(first).or_default().push((depth, one));
    }
    families
        .into_values()
        .map(|mut family| {
            family.sort_by_key(|(depth, one)| (*depth, one.key.clone()));
            family.into_iter().map(|(_, one)| one).collect()
        })
        .collect()
}
