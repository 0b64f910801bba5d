//! Admission webhooks: MutatingWebhookConfiguration and ValidatingWebhookConfiguration.
//!
//! Configurations are compiled when they change ([`configuration`]). A request is matched against all hooks in order; those
//! that match get an AdmissionReview ([`review`]) by a call ([`call`]). Mutating hooks are called one after the other
//! ([`mutating`]), validating ones at the same time ([`validating`]).

mod budget;
mod call;
mod configuration;
mod meters;
mod mutating;
mod review;
mod validating;

use std::sync::Arc;
use std::time::Duration;

use object::{GroupResource, Status};
use outbound::{Kubeconfig, Resolve, WebhookOptions, Webhooks};
use registry::Storage;

use self::budget::Breaker;
use self::configuration::{Configured, Hook};
pub use self::meters::Meters;
pub use self::mutating::MutatingWebhooks;
pub use self::validating::ValidatingWebhooks;
use crate::compiled::{Compiled, Snapshot};
use crate::{Attributes, Configuration};

/// The group of webhook configurations and admission policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// What the two webhook plugins are made of.
#[derive(Clone)]
pub struct Settings {
    /// The stored configurations; None where they are not served.
    pub mutating: Option<Arc<Storage>>,
    pub validating: Option<Arc<Storage>>,
    /// How services are found.
    pub services: Arc<dyn Resolve>,
    pub meters: Arc<Meters>,
    /// How long the webhooks of one request with `failurePolicy: Ignore` may take together; None for no such limit.
    pub ignore_budget: Option<Duration>,
    /// The feature gate ExcludeAdmissionWebhookVirtualResources.
    pub exclude_virtual_resources: bool,
}

impl Settings {
    /// The options of one of the plugins; None if it has nothing to do.
    pub(crate) fn options(&self, plugin: &str, config: &Configuration) -> Result<Option<Options>, String> {
        let stored = if plugin == "MutatingAdmissionWebhook" { &self.mutating } else { &self.validating };
        let Some(configurations) = stored.clone() else { return Ok(None) };
        let kubeconfig = kubeconfig(plugin, config)?;
        let clients = Webhooks::new(WebhookOptions { kubeconfig, ..WebhookOptions::direct(self.services.clone()) });
        Ok(Some(Options {
            configurations,
            clients: Arc::new(clients),
            meters: self.meters.clone(),
            ignore_budget: self.ignore_budget,
            exclude_virtual_resources: self.exclude_virtual_resources,
        }))
    }
}

/// The credentials file that a plugin's part of the admission configuration names.
fn kubeconfig(plugin: &str, config: &Configuration) -> Result<Kubeconfig, String> {
    let part = config.of_kind(plugin, "apiserver.config.k8s.io", "WebhookAdmissionConfiguration")?;
    let file = part.map_or("", |part| part.str_at(&["kubeConfigFile"]));
    if file.is_empty() {
        return Ok(Kubeconfig::default());
    }
    if !file.starts_with('/') {
        let file = object::quote(file);
        return Err(format!("kubeConfigFile: Invalid value: {file}: must be an absolute file path"));
    }
    Kubeconfig::read(std::path::Path::new(file))
}

/// What one webhook plugin works with.
pub struct Options {
    /// The stored MutatingWebhookConfigurations or ValidatingWebhookConfigurations.
    pub configurations: Arc<Storage>,
    pub clients: Arc<Webhooks>,
    pub meters: Arc<Meters>,
    /// How long the webhooks of one request with `failurePolicy: Ignore` may take together; None for no such limit.
    pub ignore_budget: Option<Duration>,
    /// ExcludeAdmissionWebhookVirtualResources.
    pub exclude_virtual_resources: bool,
}

/// The hooks of one plugin.
struct Hooks {
    configurations: Compiled<Configured>,
    clients: Arc<Webhooks>,
    meters: Arc<Meters>,
    ignore_budget: Option<Duration>,
    breaker: Breaker,
    exclude_virtual_resources: bool,
}

/// Reviews of who may do what: a webhook that could refuse them could lock everybody out.
const VIRTUAL_RESOURCES: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Kinds that no webhook sees, because it could make itself permanent.
const EXEMPT_KINDS: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Whether a request is about the configuration of admission itself, which webhooks and policies never see.
pub fn is_admission_configuration(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind;
    kind.group == GROUP && EXEMPT_KINDS.contains(&kind.kind.as_str())
}

impl Hooks {
    fn new(options: Options) -> Hooks {
        Hooks {
            configurations: Compiled::new(options.configurations, Configured::compile),
            clients: options.clients,
            meters: options.meters,
            ignore_budget: options.ignore_budget,
            breaker: Breaker::default(),
            exclude_virtual_resources: options.exclude_virtual_resources,
        }
    }

    /// The hooks that a request is matched against; None if there are none, or if it is exempt.
    fn current(&self, attributes: &Attributes<'_>) -> Result<Option<Arc<Snapshot<Configured>>>, Status> {
        let resource = attributes.resource;
        let is_virtual = |(group, name): &(&str, &str)| resource.group == *group && resource.resource == *name;
        if self.exclude_virtual_resources && VIRTUAL_RESOURCES.iter().any(is_virtual) {
            return Ok(None);
        }
        if is_admission_configuration(attributes) {
            return Ok(None);
        }
        let current = self.configurations.current().map_err(|_| {
            let resource = GroupResource::new(resource.group.clone(), resource.resource.clone());
            Status::forbidden(&resource, attributes.shown_name(), "not yet ready to handle request")
        })?;
        Ok(Some(current).filter(|current| !current.is_empty()))
    }
}

/// All hooks of a snapshot in the order in which they are called, numbered.
fn numbered(snapshot: &Snapshot<Configured>) -> impl Iterator<Item = (usize, &Hook)> {
    snapshot.iter().flat_map(|configured| configured.hooks.iter()).enumerate()
}
