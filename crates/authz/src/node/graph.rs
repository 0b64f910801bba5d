//! [`Graph`]: which objects are related to which nodes, through pods and volumes.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap, HashSet};
use storage::Key;

use super::references::{PodReferences, VolumeReferences};

/// What a pod can refer to by name in its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Secret,
    ConfigMap,
    ServiceAccount,
    Claim,
    ResourceClaim,
}

/// An object that pods or volumes refer to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: Kind,
    pub namespace: Box<str>,
    pub name: Box<str>,
}

/// A target that is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wanted<'a> {
    pub kind: Kind,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl ObjectRef {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { kind, namespace: namespace.into(), name: name.into() }
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted { kind: self.kind, namespace: &self.namespace, name: &self.name }
    }
}

impl Hash for ObjectRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.wanted().hash(state);
    }
}

impl Equivalent<Arc<ObjectRef>> for Wanted<'_> {
    fn equivalent(&self, target: &Arc<ObjectRef>) -> bool {
        *self == target.wanted()
    }
}

/// Relations are counted where several objects can cause the same one.
#[derive(Default)]
pub struct Graph {
    pods: HashMap<Key, Pod>,
    volumes: HashMap<Key, Volume>,
    targets: HashMap<Arc<ObjectRef>, Relations>,
    /// Node → claims that its pods use.
    claims: HashMap<Arc<str>, HashMap<Arc<ObjectRef>, u32>>,
    /// Objects that name their node: volume attachments, resource slices, pod certificate requests.
    owned: HashMap<Key, Box<str>>,
}

struct Pod {
    node: Arc<str>,
    targets: Vec<Arc<ObjectRef>>,
}

struct Volume {
    claim: Arc<ObjectRef>,
    secrets: Vec<Arc<ObjectRef>>,
}

#[derive(Default)]
struct Relations {
    /// Node → number of its pods that refer to the target.
    nodes: HashMap<Arc<str>, u32>,
    /// Volumes that refer to the secret, or are bound to the claim.
    volumes: HashSet<Key>,
}

impl Graph {
    /// Whether the node has a pod that refers to the target, or to a claim whose volume refers to it.
    pub fn reaches(&self, wanted: &Wanted<'_>, node: &str) -> bool {
        let Some(relations) = self.targets.get(wanted) else { return false };
        if relations.nodes.contains_key(node) {
            return true;
        }
        if wanted.kind != Kind::Secret || relations.volumes.is_empty() {
            return false;
        }
        // A secret can be that of thousands of volumes; a node has few claims.
        let Some(claims) = self.claims.get(node) else { return false };
        if relations.volumes.len() <= claims.len() {
            return relations.volumes.iter().any(|volume| self.uses_volume(volume, node));
        }
        let bound = |claim: &Arc<ObjectRef>| self.targets.get(claim).map(|relations| &relations.volumes);
        claims.keys().filter_map(bound).any(|volumes| volumes.iter().any(|volume| relations.volumes.contains(volume)))
    }

    /// Whether the node has a pod that uses the volume's claim.
    pub fn uses_volume(&self, volume: &Key, node: &str) -> bool {
        let claim = self.volumes.get(volume).and_then(|volume| self.targets.get(&volume.claim));
        claim.is_some_and(|claim| claim.nodes.contains_key(node))
    }

    pub fn is_bound(&self, pod: &Key, node: &str) -> bool {
        self.pods.get(pod).is_some_and(|pod| *pod.node == *node)
    }

    pub fn owns(&self, object: &Key, node: &str) -> bool {
        self.owned.get(object).is_some_and(|owner| **owner == *node)
    }

    /// None removes a pod, and so does one that is not bound to a node.
    pub fn set_pod(&mut self, key: &Key, references: Option<PodReferences>) {
        let old = self.pods.get(key);
        if let (Some(old), Some(new)) = (old, &references)
            && *old.node == *new.node
            && old.targets.iter().map(|target| &**target).eq(&new.targets)
        {
            return;
        }
        if let Some(old) = self.pods.remove(key) {
            for target in &old.targets {
                self.unrelate(target, &old.node);
            }
        }
        let Some(new) = references else { return };
        let node = match self.claims.get_key_value(new.node.as_str()) {
            Some((node, _)) => node.clone(),
            None => Arc::from(new.node.as_str()),
        };
        let targets = new.targets.into_iter().map(|target| self.relate(target, &node)).collect();
        self.pods.insert(key.clone(), Pod { node, targets });
    }

    /// None removes a volume, and so does one without a claim.
    pub fn set_volume(&mut self, key: &Key, references: Option<VolumeReferences>) {
        if let Some(old) = self.volumes.remove(key) {
            for target in old.secrets.iter().chain([&old.claim]) {
                let Some(relations) = self.targets.get_mut(target) else { continue };
                relations.volumes.remove(key);
                self.drop_unrelated(target);
            }
        }
        let Some(new) = references else { return };
        let mut relate = |target: ObjectRef| {
            let target = self.target(target);
            if let Some(relations) = self.targets.get_mut(&target) {
                relations.volumes.insert(key.clone());
            }
            target
        };
        let claim = relate(new.claim);
        let secrets = new.secrets.into_iter().map(relate).collect();
        self.volumes.insert(key.clone(), Volume { claim, secrets });
    }

    /// "" if the object belongs to no node.
    pub fn set_owner(&mut self, object: &Key, node: &str) {
        if node.is_empty() {
            self.owned.remove(object);
        } else {
            self.owned.insert(object.clone(), node.into());
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.keys().next().is_none() && self.targets.is_empty() && self.claims.is_empty()
    }

    /// The keys of all objects that relations come from.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.pods.keys().chain(self.volumes.keys()).chain(self.owned.keys())
    }

    /// The shared copy of a target.
    fn target(&mut self, target: ObjectRef) -> Arc<ObjectRef> {
        if let Some((known, _)) = self.targets.get_key_value(&target.wanted()) {
            return known.clone();
        }
        let target = Arc::new(target);
        self.targets.insert(target.clone(), Relations::default());
        target
    }

    fn relate(&mut self, target: ObjectRef, node: &Arc<str>) -> Arc<ObjectRef> {
        let target = self.target(target);
        if let Some(relations) = self.targets.get_mut(&target) {
            *relations.nodes.entry(node.clone()).or_insert(0) += 1;
        }
        if target.kind == Kind::Claim {
            *self.claims.entry(node.clone()).or_default().entry(target.clone()).or_insert(0) += 1;
        }
        target
    }

    fn unrelate(&mut self, target: &Arc<ObjectRef>, node: &Arc<str>) {
        let Some(relations) = self.targets.get_mut(target) else { return };
        uncount(&mut relations.nodes, node);
        self.drop_unrelated(target);
        if target.kind == Kind::Claim
            && let Some(claims) = self.claims.get_mut(node)
        {
            uncount(claims, target);
            if claims.is_empty() {
                self.claims.remove(node);
            }
        }
    }

    fn drop_unrelated(&mut self, target: &Arc<ObjectRef>) {
        if self.targets.get(target).is_some_and(|relations| relations.nodes.is_empty() && relations.volumes.is_empty())
        {
            self.targets.remove(target);
        }
    }
}

fn uncount<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
