//! [`Hooks`]: policies with their bindings, found by the resource that a request is about.

use std::collections::HashMap;
use std::sync::Arc;

use object::Str;

use super::definition::{Binding, Definition};

/// A policy with the bindings that name it. A policy without bindings has no effect.
pub struct Hook {
    pub policy: Arc<Definition>,
    /// Sorted by name.
    pub bindings: Arc<Vec<Arc<Binding>>>,
}

/// Bindings by the name of their policy. A copy shares the lists of policies whose bindings did not change.
#[derive(Clone, Default)]
pub struct Bindings(HashMap<Str, Arc<Vec<Arc<Binding>>>>);

impl Bindings {
    /// Adds a binding that is not there.
    pub fn add(&mut self, binding: &Arc<Binding>) {
        let bindings = Arc::make_mut(self.0.entry(binding.policy.clone()).or_default());
        let (Ok(at) | Err(at)) = bindings.binary_search_by(|known| known.name.cmp(&binding.name));
        bindings.insert(at, binding.clone());
    }

    pub fn remove(&mut self, binding: &Arc<Binding>) {
        let Some(bindings) = self.0.get_mut(&binding.policy).map(Arc::make_mut) else { return };
        if let Ok(at) = bindings.binary_search_by(|known| known.name.cmp(&binding.name)) {
            bindings.remove(at);
        }
        if bindings.is_empty() {
            self.0.remove(&binding.policy);
        }
    }
}

/// All policies of one plugin, sorted by name.
#[derive(Default)]
pub struct Hooks {
    hooks: Vec<Hook>,
    /// The places of the policies that can be about a resource, for resources that rules name.
    by_resource: HashMap<Str, Box<[u32]>>,
    /// The same for all other resources.
    others: Box<[u32]>,
}

impl Hooks {
    /// Brings policies and bindings together.
    pub fn join<'a>(policies: impl Iterator<Item = &'a Arc<Definition>>, bindings: &Bindings) -> Hooks {
        let bound = policies.filter_map(|policy| {
            let bindings = bindings.0.get(&policy.name)?.clone();
            Some(Hook { policy: policy.clone(), bindings })
        });
        Hooks::new(bound.collect())
    }

    pub fn new(hooks: Vec<Hook>) -> Hooks {
        let mut named: HashMap<Str, Vec<u32>> = HashMap::new();
        let mut others: Vec<u32> = Vec::new();
        for (place, hook) in (0u32..).zip(&hooks) {
            match hook.policy.matcher.resources() {
                None => {
                    named.values_mut().for_each(|places| places.push(place));
                    others.push(place);
                }
                Some(resources) => {
                    for resource in resources {
                        let places = named.entry(resource.clone()).or_insert_with(|| others.clone());
                        if places.last() != Some(&place) {
                            places.push(place);
                        }
                    }
                }
            }
        }
        let by_resource = named.into_iter().map(|(resource, places)| (resource, places.into())).collect();
        Hooks { hooks, by_resource, others: others.into() }
    }

    /// The policies whose rules do not exclude a resource by its name, in their order.
    pub fn about(&self, resource: &str) -> impl Iterator<Item = &Hook> {
        let places = self.by_resource.get(resource).unwrap_or(&self.others);
        places.iter().filter_map(|place| self.hooks.get(*place as usize))
    }
}
