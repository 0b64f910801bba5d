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

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cel::Pool;
use object::{GroupResource, Meta, Status, Value, quote};
use outbound::{Egress, Kubeconfig, Resolve, WebhookOptions, Webhooks};
use registry::DirectStorage;

use self::budget::Breaker;
pub(crate) use self::call::Step;
use self::configuration::{Configured, Hook};
pub use self::meters::WebhookMeters;
pub use self::mutating::MutatingWebhooks;
pub use self::validating::ValidatingWebhooks;
use crate::compiled::{Compiled, Snapshot};
use crate::manifests::{self, Manifests};
use crate::versioned::Versioned;
use crate::{Attributes, Configuration, Host, plugins};

/// The group of webhook configurations and admission policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// What the two webhook plugins are made of.
#[derive(Clone)]
pub struct WebhookSettings {
    /// The stored configurations; None where they are not served.
    pub mutating: Option<DirectStorage>,
    pub validating: Option<DirectStorage>,
    /// How services are found.
    pub services: Arc<dyn Resolve>,
    /// How they and URLs are reached.
    pub egress: Egress,
    /// How long the webhooks of one request with `failurePolicy: Ignore` may take together; None for no such limit.
    pub ignore_budget: Option<Duration>,
    /// The feature gate ExcludeAdmissionWebhookVirtualResources.
    pub exclude_virtual_resources: bool,
}

/// The options of one of the plugins; None if it has nothing to do.
pub(crate) fn options(
    plugin: &str,
    settings: &plugins::PluginSettings<'_>,
) -> Result<Option<WebhookPluginOptions>, String> {
    let own = &settings.webhooks;
    let stored = if plugin == "MutatingAdmissionWebhook" { &own.mutating } else { &own.validating };
    let Some(configurations) = stored.clone() else { return Ok(None) };
    let kubeconfig = kubeconfig(plugin, settings.config)?;
    let manifests = match manifests::folder(settings.config, plugin, settings.manifests)? {
        Some(folder) => Some(Manifests::open(folder, manifest_source(plugin, &configurations, settings))?),
        None => None,
    };
    let clients =
        Webhooks::new(WebhookOptions { kubeconfig, ..WebhookOptions::new(own.services.clone(), &own.egress) });
    Ok(Some(WebhookPluginOptions {
        configurations,
        manifests,
        clients: Arc::new(clients),
        expressions: settings.expressions.clone(),
        meters: settings.meters.clone(),
        ignore_budget: own.ignore_budget,
        exclude_virtual_resources: own.exclude_virtual_resources,
        host: settings.server.clone(),
    }))
}

fn manifest_source(
    plugin: &str,
    configurations: &DirectStorage,
    settings: &plugins::PluginSettings<'_>,
) -> manifests::Source<Vec<Configured>> {
    let (plugin, kind) = match plugin {
        "MutatingAdmissionWebhook" => ("MutatingAdmissionWebhook", "MutatingWebhookConfiguration"),
        _ => ("ValidatingAdmissionWebhook", "ValidatingWebhookConfiguration"),
    };
    let pool = settings.expressions.clone();
    manifests::Source {
        plugin,
        what: "webhook",
        kinds: vec![(kind, configurations.clone())],
        check: check_clients,
        compile: Box::new(move |objects| {
            Ok(objects.iter().map(|object| Configured::of_manifest(object, &pool)).collect())
        }),
        meters: settings.meters.clone(),
    }
}

/// Files name URLs, because services may depend on what admission lets through.
fn check_clients(object: &Value, file: &Path) -> Result<(), String> {
    for hook in object.list_at(&["webhooks"]) {
        let client = hook.field("clientConfig");
        let (hook, configuration) = (quote(hook.str_at(&["name"])), quote(object.name()));
        let place = format!("webhook {hook} in {configuration} (file {})", quote(&file.display().to_string()));
        if !client.field("service").is_null() {
            return Err(format!(
                "{place}: clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            ));
        }
        if client.str_at(&["url"]).is_empty() {
            return Err(format!("{place}: clientConfig.url is required for static manifests"));
        }
    }
    Ok(())
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
    Kubeconfig::read(Path::new(file))
}

/// What one webhook plugin works with.
pub struct WebhookPluginOptions {
    /// The stored MutatingWebhookConfigurations or ValidatingWebhookConfigurations.
    pub configurations: DirectStorage,
    /// Configurations from files.
    pub manifests: Option<Arc<Manifests<Vec<Configured>>>>,
    pub clients: Arc<Webhooks>,
    /// Where match conditions are shared.
    pub expressions: Arc<Pool>,
    pub meters: Arc<crate::AdmissionMeters>,
    /// How long the webhooks of one request with `failurePolicy: Ignore` may take together; None for no such limit.
    pub ignore_budget: Option<Duration>,
    /// ExcludeAdmissionWebhookVirtualResources.
    pub exclude_virtual_resources: bool,
    /// Whom match conditions ask who may do what.
    pub host: Arc<dyn Host>,
}

/// The hooks of one plugin.
struct Hooks {
    configurations: Compiled<Configured>,
    manifests: Option<Arc<Manifests<Vec<Configured>>>>,
    clients: Arc<Webhooks>,
    meters: Arc<crate::AdmissionMeters>,
    ignore_budget: Option<Duration>,
    breaker: Breaker,
    exclude_virtual_resources: bool,
    host: Arc<dyn Host>,
}

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

/// Whether a request is about policies and their bindings, which policies never see.
pub(crate) fn is_admission_policy(attributes: &Attributes<'_>) -> bool {
    is_admission_configuration(attributes) && attributes.kind.kind.contains("AdmissionPolicy")
}

/// Whether a request is a review of who may do what, which policies and by default webhooks never see.
pub(crate) fn is_virtual(attributes: &Attributes<'_>) -> bool {
    let resource = attributes.resource;
    registry::REVIEWS.iter().any(|(group, name)| resource.group == *group && resource.resource == *name)
}

impl Hooks {
    fn new(options: WebhookPluginOptions) -> Hooks {
        Hooks {
            configurations: Compiled::new(options.configurations, move |object| {
                Configured::compile(object, &options.expressions)
            }),
            manifests: options.manifests,
            clients: options.clients,
            meters: options.meters,
            ignore_budget: options.ignore_budget,
            breaker: Breaker::default(),
            exclude_virtual_resources: options.exclude_virtual_resources,
            host: options.host,
        }
    }

    /// Whether a hook's match conditions hold for the objects in its version. Err refuses the request.
    async fn conditions_hold(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        form: &Versioned,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<bool, Status> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        match hook.conditions.hold_for_webhook(attributes, &*self.host, &self.meters, form, object, old).await {
            Ok(holds) => Ok(holds),
            Err(why) => {
                let resource = attributes.resource;
                let resource = GroupResource::new(resource.group.clone(), resource.resource.clone());
                Err(Status::forbidden(&resource, attributes.name, why))
            }
        }
    }

    /// The hooks that a request is matched against; None if there are none.
    fn current(&self, attributes: &Attributes<'_>) -> Result<Option<Current>, Status> {
        let resource = attributes.resource;
        if self.exclude_virtual_resources && is_virtual(attributes) {
            return Ok(None);
        }
        let from_files = self.manifests.as_ref().map(|manifests| manifests.current()).unwrap_or_default();
        let mut from_api = None;
        if !is_admission_configuration(attributes) {
            let current = self.configurations.current().map_err(|_| {
                let resource = GroupResource::new(resource.group.clone(), resource.resource.clone());
                Status::forbidden(&resource, attributes.shown_name(), "not yet ready to handle request")
            })?;
            from_api = Some(current).filter(|current| !current.is_empty());
        }
        if from_files.is_empty() && from_api.is_none() {
            return Ok(None);
        }
        Ok(Some(Current { from_files, from_api }))
    }
}

/// The configurations that are in force for a request: those from files come first.
struct Current {
    from_files: Arc<Vec<Configured>>,
    /// None for requests about the configuration of admission itself.
    from_api: Option<Arc<Snapshot<Configured>>>,
}

impl Current {
    /// All hooks in the order in which they are called, numbered.
    fn hooks(&self) -> impl Iterator<Item = (usize, &Hook)> {
        let from_api = self.from_api.iter().flat_map(|snapshot| snapshot.iter().map(|configured| &**configured));
        self.from_files.iter().chain(from_api).flat_map(|configured| configured.hooks.iter()).enumerate()
    }
}
