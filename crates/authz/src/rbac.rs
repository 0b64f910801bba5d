//! Role-based access control, evaluated from the stored roles and bindings.

mod policy;

use async_trait::async_trait;
use object::Value;
use registry::DirectStorage;
use request::{Access, Rule, User};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::visible::changes_of;
use crate::{Authorizer, Changes, Decision, DecisionsChanged, RulesFor};
pub use policy::rules;
use policy::{Binding, Policy};

/// The four kinds it reads.
pub struct Rbac {
    sources: Sources,
    derived: Mutex<Derived>,
}

/// Where roles and bindings are stored.
pub struct Sources {
    pub cluster_roles: DirectStorage,
    pub roles: DirectStorage,
    pub cluster_role_bindings: DirectStorage,
    pub role_bindings: DirectStorage,
}

/// What was made of the stored objects, and of which state of them.
#[derive(Default)]
struct Derived {
    changes: [i64; 4],
    policy: Arc<Policy>,
    /// Stored key → (revision, parsed): only what changed is parsed again.
    roles: HashMap<storage::Key, (i64, Arc<Vec<Rule>>)>,
    bindings: HashMap<storage::Key, (i64, Arc<Binding>)>,
}

impl Sources {
    fn all(&self) -> [&DirectStorage; 4] {
        [&self.cluster_roles, &self.roles, &self.cluster_role_bindings, &self.role_bindings]
    }
}

impl Rbac {
    pub fn new(sources: Sources) -> Rbac {
        Rbac { sources, derived: Mutex::new(Derived::default()) }
    }

    /// The rules of a role: what a binding to it would grant.
    pub fn rules_of(&self, namespace: &str, kind: &str, name: &str) -> Option<Arc<Vec<Rule>>> {
        self.policy().rules_of(namespace, kind, name)
    }

    fn policy(&self) -> Arc<Policy> {
        let sources = &self.sources;
        let changes = sources.all().map(|storage| storage.cache.last_change());
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if derived.changes != changes {
            derived.rebuild(sources);
            derived.changes = changes;
        }
        derived.policy.clone()
    }
}

impl Derived {
    fn rebuild(&mut self, sources: &Sources) {
        let mut policy = Policy::default();
        let mut roles = HashMap::new();
        for storage in [&sources.cluster_roles, &sources.roles] {
            let snapshot = storage.cache.snapshot(&storage.range("").into());
            for object in &snapshot.objects {
                let rules = match self.roles.remove(object.key()) {
                    Some((revision, rules)) if revision == object.revision() => rules,
                    _ => Arc::new(parse(storage, object, policy::rules)),
                };
                let header = object.header(storage.cache.describe());
                policy.add_role(&header.namespace, &header.name, rules.clone());
                roles.insert(object.key().clone(), (object.revision(), rules));
            }
        }
        let mut bindings = HashMap::new();
        for storage in [&sources.cluster_role_bindings, &sources.role_bindings] {
            let snapshot = storage.cache.snapshot(&storage.range("").into());
            for object in &snapshot.objects {
                let binding = match self.bindings.remove(object.key()) {
                    Some((revision, binding)) if revision == object.revision() => binding,
                    _ => Arc::new(parse(storage, object, policy::binding)),
                };
                policy.add_binding(binding.clone());
                bindings.insert(object.key().clone(), (object.revision(), binding));
            }
        }
        self.roles = roles;
        self.bindings = bindings;
        self.policy = Arc::new(policy);
    }
}

/// What an object says; one that cannot be decoded says nothing, and grants nothing.
fn parse<T>(storage: &DirectStorage, object: &cache::Object, read: impl FnOnce(&Value) -> T) -> T {
    read(&storage.decode_entry(object.entry()).unwrap_or(Value::Null))
}

#[async_trait]
impl Authorizer for Rbac {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        match self.policy().allows(access) {
            Ok(reason) => Decision::allow(format!("RBAC: allowed by {reason}")),
            Err(missing) if missing.is_empty() => Decision::no_opinion(""),
            Err(missing) => Decision::no_opinion(format!("RBAC: {}", object::aggregate(missing))),
        }
    }

    fn rules_for(&self, user: &User, namespace: &str) -> RulesFor {
        let (rules, errors) = self.policy().rules_for(user, namespace);
        RulesFor { rules, incomplete: false, errors }
    }

    fn changed(&self) -> DecisionsChanged {
        let all = self.sources.all().map(|storage| storage.cache.last_change());
        let generation = all.iter().fold(0, |sum: i64, revision| sum.wrapping_add(*revision));
        DecisionsChanged { generation, revision: all.into_iter().max().unwrap_or(0) }
    }

    fn changes(&self) -> Vec<Changes> {
        self.sources.all().map(|storage| changes_of(storage.cache.clone(), storage.range("").into())).into()
    }
}
