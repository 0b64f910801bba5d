//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, with their bindings and params.
//!
//! Policies and bindings are compiled when they change ([`definition`]) and brought together ([`hooks`]). A request is
//! matched against the policies that can be about its resource, then against the bindings of those that match; each
//! binding is evaluated once per param ([`params`]) with the request's objects in the version that the policy asks for
//! ([`subject`], [`evaluation`]).

mod authorization;
mod conditions;
mod definition;
mod evaluation;
mod hooks;
mod meters;
mod mutating;
mod params;
mod subject;
#[cfg(test)]
mod tests;
mod validating;

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use cel::Pool;
use object::{Meta, Status, Value, quote};
use parking_lot::Mutex;
use registry::DirectStorage;

pub use self::conditions::Conditions;
use self::definition::{Binding, Definition};
use self::hooks::{Bindings, Hook, Hooks};
pub use self::meters::PolicyMeters;
pub use self::mutating::MutatingPolicies;
pub use self::validating::ValidatingPolicies;
use crate::compiled::{Compiled, Snapshot};
use crate::manifests::{self, Manifests, SUFFIX};
use crate::{Attributes, Host, plugins, webhook};

/// The stored policies and bindings of one kind; None where they are not served.
#[derive(Clone)]
pub struct Stored {
    pub policies: DirectStorage,
    pub bindings: DirectStorage,
}

/// What the two policy plugins are made of.
#[derive(Clone, Default)]
pub struct PolicySettings {
    pub mutating: Option<Stored>,
    pub validating: Option<Stored>,
}

/// The policies of one plugin.
pub struct Policies {
    policies: Compiled<Definition>,
    bindings: Compiled<Binding>,
    joined: ArcSwapOption<Joined>,
    /// Held while policies and bindings are brought together, so that it is done once for all requests that wait for it.
    joining: Mutex<()>,
    /// Policies from files.
    manifests: Option<Arc<Manifests<Hooks>>>,
    host: Arc<dyn Host>,
    meters: Arc<crate::AdmissionMeters>,
}

/// Policies and bindings brought together, for the snapshots that they came from.
struct Joined {
    policies: Arc<Snapshot<Definition>>,
    bindings: Arc<Snapshot<Binding>>,
    by_policy: Bindings,
    hooks: Arc<Hooks>,
}

impl Joined {
    fn is_of(&self, policies: &Arc<Snapshot<Definition>>, bindings: &Arc<Snapshot<Binding>>) -> bool {
        Arc::ptr_eq(&self.policies, policies) && Arc::ptr_eq(&self.bindings, bindings)
    }
}

/// The policies that are in force for a request: those from files come first.
struct Current {
    from_files: Option<Arc<Hooks>>,
    /// None for requests about policies themselves.
    from_api: Option<Arc<Hooks>>,
}

impl Current {
    /// The policies that can be about a resource.
    fn about(&self, resource: &str) -> Vec<&Hook> {
        [&self.from_files, &self.from_api].into_iter().flatten().flat_map(|hooks| hooks.about(resource)).collect()
    }
}

impl Policies {
    /// What a plugin works with; None if it has nothing to do.
    pub(crate) fn open(
        plugin: &'static str,
        settings: &plugins::PluginSettings<'_>,
    ) -> Result<Option<Policies>, String> {
        let (stored, kind, configuration) = match plugin {
            "MutatingAdmissionPolicy" => {
                (&settings.policies.mutating, "MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicyConfiguration")
            }
            _ => (
                &settings.policies.validating,
                "ValidatingAdmissionPolicyBinding",
                "ValidatingAdmissionPolicyConfiguration",
            ),
        };
        let Some(stored) = stored.clone() else { return Ok(None) };
        settings.config.of_kind(plugin, "apiserver.config.k8s.io", configuration)?;
        let manifests = match manifests::folder(settings.config, plugin, settings.manifests)? {
            Some(folder) => {
                let pool = settings.expressions.clone();
                let source = manifests::Source {
                    plugin,
                    what: "policy",
                    kinds: vec![(plugin, stored.policies.clone()), (kind, stored.bindings.clone())],
                    check: check_manifest,
                    compile: Box::new(move |objects| of_manifests(objects, &pool)),
                    meters: settings.meters.clone(),
                };
                Some(Manifests::open(folder, source)?)
            }
            None => None,
        };
        let pool = settings.expressions.clone();
        Ok(Some(Policies {
            policies: Compiled::new(stored.policies, move |policy| Definition::compile(policy, &pool)),
            bindings: Compiled::new(stored.bindings, Binding::compile),
            joined: ArcSwapOption::empty(),
            joining: Mutex::new(()),
            manifests,
            host: settings.server.clone(),
            meters: settings.meters.clone(),
        }))
    }

    /// The policies that a request is matched against; None for requests that no policy sees.
    fn current(&self, attributes: &Attributes<'_>) -> Result<Option<Current>, Status> {
        if webhook::is_virtual(attributes) {
            return Ok(None);
        }
        let from_files = self.manifests.as_ref().map(|manifests| manifests.current());
        let from_api = match webhook::is_admission_policy(attributes) {
            true => None,
            false => Some(self.stored(attributes)?),
        };
        let current = Current { from_files, from_api };
        Ok(Some(current))
    }

    fn stored(&self, attributes: &Attributes<'_>) -> Result<Arc<Hooks>, Status> {
        let not_ready = |_| plugins::forbidden(attributes, "not yet ready to handle request");
        let policies = self.policies.current().map_err(not_ready)?;
        let bindings = self.bindings.current().map_err(not_ready)?;
        let is_current = |joined: &&Arc<Joined>| joined.is_of(&policies, &bindings);
        if let Some(joined) = self.joined.load().as_ref().filter(is_current) {
            return Ok(joined.hooks.clone());
        }
        let _joining = self.joining.lock();
        let joined = self.joined.load_full();
        if let Some(joined) = joined.as_ref().filter(is_current) {
            return Ok(joined.hooks.clone());
        }
        let mut by_policy = Bindings::default();
        match &joined {
            Some(joined) => {
                by_policy = joined.by_policy.clone();
                let (gone, new) = bindings.changes(&joined.bindings);
                gone.into_iter().for_each(|binding| by_policy.remove(binding));
                new.into_iter().for_each(|binding| by_policy.add(binding));
            }
            None => bindings.iter().for_each(|binding| by_policy.add(binding)),
        }
        let hooks = Arc::new(Hooks::join(policies.iter(), &by_policy));
        self.joined.store(Some(Arc::new(Joined { policies, bindings, by_policy, hooks: hooks.clone() })));
        Ok(hooks)
    }
}

/// Refuses what policies and bindings in files cannot have: anything that depends on objects of the API.
fn check_manifest(object: &Value, _: &Path) -> Result<(), String> {
    let (kind, name) = (object.kind(), quote(object.name()));
    if !object.at(&["spec", "paramKind"]).is_null() {
        return Err(format!("{kind} {name}: spec.paramKind is not supported for static manifests"));
    }
    if !kind.ends_with("Binding") {
        return Ok(());
    }
    let policy = object.str_at(&["spec", "policyName"]);
    if policy.is_empty() {
        return Err(format!("binding {name} must reference a policy (spec.policyName)"));
    }
    if !policy.ends_with(SUFFIX) {
        return Err(format!("binding {name}: spec.policyName {} must end with {}", quote(policy), quote(SUFFIX)));
    }
    if !object.at(&["spec", "paramRef"]).is_null() {
        return Err(format!("binding {name}: spec.paramRef is not supported for static manifests"));
    }
    Ok(())
}

/// The policies and bindings of files.
fn of_manifests(objects: &[Value], pool: &Arc<Pool>) -> Result<Hooks, String> {
    let (bindings, policies): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| object.kind().ends_with("Binding"));
    for binding in &bindings {
        let wanted = binding.str_at(&["spec", "policyName"]);
        if !policies.iter().any(|policy| policy.name() == wanted) {
            let (binding, wanted) = (quote(binding.name()), quote(wanted));
            return Err(format!(
                "binding {binding} references policy {wanted} which does not exist in the manifest directory"
            ));
        }
    }
    let policies: Vec<_> = policies.into_iter().map(|policy| Arc::new(Definition::compile(policy, pool))).collect();
    let mut by_policy = Bindings::default();
    bindings.into_iter().for_each(|binding| by_policy.add(&Arc::new(Binding::compile(binding))));
    Ok(Hooks::join(policies.iter(), &by_policy))
}
