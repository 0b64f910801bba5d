//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, with their bindings and params.
//!
//! Policies and bindings are compiled when they change ([`definition`]). A request is matched against all policies, then
//! against the bindings of those that match; each binding is evaluated once per param ([`params`]) with the request's objects
//! in the version that the policy asks for ([`subject`], [`evaluation`]).

mod authorization;
mod conditions;
mod definition;
mod evaluation;
mod mutating;
mod native;
mod params;
mod subject;
#[cfg(test)]
mod tests;
mod validating;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use object::Status;
use registry::Storage;

pub use self::conditions::Conditions;
use self::definition::{Binding, Definition};
pub use self::mutating::MutatingPolicies;
pub use self::validating::ValidatingPolicies;
use crate::compiled::{Compiled, Snapshot};
use crate::{Attributes, Host, plugins, webhook};

/// The stored policies and bindings of one kind; None where they are not served.
#[derive(Clone)]
pub struct Stored {
    pub policies: Arc<Storage>,
    pub bindings: Arc<Storage>,
}

/// What the two policy plugins are made of.
#[derive(Clone, Default)]
pub struct Settings {
    pub mutating: Option<Stored>,
    pub validating: Option<Stored>,
}

/// A policy with the bindings that name it. A policy without bindings has no effect.
struct Hook {
    policy: Arc<Definition>,
    bindings: Vec<Arc<Binding>>,
}

/// The policies of one plugin.
struct Policies {
    policies: Compiled<Definition>,
    bindings: Compiled<Binding>,
    joined: ArcSwapOption<Joined>,
    host: Arc<dyn Host>,
}

/// Policies and bindings brought together, for the snapshots that they came from.
struct Joined {
    policies: Arc<Snapshot<Definition>>,
    bindings: Arc<Snapshot<Binding>>,
    hooks: Arc<[Hook]>,
}

impl Policies {
    fn new(stored: Stored, host: Arc<dyn Host>) -> Policies {
        Policies {
            policies: Compiled::new(stored.policies, Definition::compile),
            bindings: Compiled::new(stored.bindings, Binding::compile),
            joined: ArcSwapOption::empty(),
            host,
        }
    }

    /// The policies that a request is matched against; none for requests that no policy sees.
    fn current(&self, attributes: &Attributes<'_>) -> Result<Arc<[Hook]>, Status> {
        if webhook::is_virtual(attributes) || webhook::is_admission_policy(attributes) {
            return Ok(Arc::new([]));
        }
        let not_ready = |_| plugins::forbidden(attributes, "not yet ready to handle request");
        let policies = self.policies.current().map_err(not_ready)?;
        let bindings = self.bindings.current().map_err(not_ready)?;
        let joined = self.joined.load();
        if let Some(joined) = joined.as_ref()
            && Arc::ptr_eq(&joined.policies, &policies)
            && Arc::ptr_eq(&joined.bindings, &bindings)
        {
            return Ok(joined.hooks.clone());
        }
        let hooks = join(&policies, &bindings);
        self.joined.store(Some(Arc::new(Joined { policies, bindings, hooks: hooks.clone() })));
        Ok(hooks)
    }
}

fn join(policies: &Snapshot<Definition>, bindings: &Snapshot<Binding>) -> Arc<[Hook]> {
    let mut by_policy: std::collections::HashMap<&str, Vec<Arc<Binding>>> = std::collections::HashMap::new();
    for binding in bindings.iter() {
        by_policy.entry(&binding.policy).or_default().push(binding.clone());
    }
    let bound = policies.iter().filter_map(|policy| {
        let bindings = by_policy.remove(policy.name.as_str())?;
        Some(Hook { policy: policy.clone(), bindings })
    });
    bound.collect()
}
