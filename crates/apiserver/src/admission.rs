//! Admission for this server: the chain from the configuration, and what its plugins ask of the server.

use std::sync::Arc;

use ::admission::plugins::PluginSettings;
use ::admission::{AdmissionMeters, Answer, Chain, Configuration, policy, webhook};
use async_trait::async_trait;
use authz::Authorizer;
use outbound::Egress;
use registry::{Catalog, Features, OwnClient};
use request::Access;

use crate::Config;
use crate::services::Services;

/// The chain that the flags ask for.
pub fn chain(
    config: &Config,
    catalog: &Catalog,
    features: &Features,
    server: Arc<Host>,
    client: Arc<dyn OwnClient>,
    egress: &Egress,
) -> Result<Chain, String> {
    let configuration = Configuration::read(config.admission_config_file.as_deref())?;
    let (services, meters, expressions) = (server.services.clone(), server.meters.clone(), server.expressions.clone());
    ::admission::plugins::chain(&PluginSettings {
        enabled: &config.enable_admission_plugins,
        disabled: &config.disable_admission_plugins,
        toleration_seconds: config.toleration_seconds,
        config: &configuration,
        server,
        client,
        webhooks: webhook::WebhookSettings {
            mutating: catalog.direct(webhook::GROUP, "mutatingwebhookconfigurations"),
            validating: catalog.direct(webhook::GROUP, "validatingwebhookconfigurations"),
            services,
            egress: egress.clone(),
            ignore_budget: config.webhook_ignore_budget,
            exclude_virtual_resources: features.enabled("ExcludeAdmissionWebhookVirtualResources"),
        },
        policies: policy::PolicySettings {
            mutating: policies(catalog, "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
            validating: policies(catalog, "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        },
        meters,
        expressions,
        manifests: features.enabled("ManifestBasedAdmissionControlConfig"),
    })
}

/// Where policies and their bindings are stored; None where they are not served.
fn policies(catalog: &Catalog, policies: &str, bindings: &str) -> Option<policy::Stored> {
    let stored = |resource| catalog.direct(webhook::GROUP, resource);
    Some(policy::Stored { policies: stored(policies)?, bindings: stored(bindings)? })
}

/// The server as plugins see it.
pub struct Host {
    authorizer: Arc<dyn Authorizer>,
    /// Where webhooks find services.
    pub services: Arc<Services>,
    pub meters: Arc<AdmissionMeters>,
    /// Compiled CEL expressions of the whole server.
    pub expressions: Arc<cel::Pool>,
}

impl Host {
    /// `id` is the identity of this server, the name of its lease.
    pub fn new(authorizer: Arc<dyn Authorizer>, services: Arc<Services>, id: &str) -> Host {
        let meters = Arc::new(AdmissionMeters::new(id));
        Host { authorizer, services, meters, expressions: Arc::default() }
    }
}

#[async_trait]
impl ::admission::Host for Host {
    async fn allows(&self, access: &Access<'_>) -> Result<(), String> {
        self.authorizer.decide(access).await.allowed().map(drop)
    }

    async fn decision(&self, access: &Access<'_>) -> Answer {
        let decision = self.authorizer.decide(access).await;
        Answer { allowed: decision.is_allowed(), reason: decision.reason, error: decision.error }
    }
}
