//! Admission for this server: the chain from the configuration, and what its plugins ask of the server.

use std::sync::{Arc, OnceLock, Weak};

use ::admission::plugins::{PluginSettings, QuotaWriter};
use ::admission::{AdmissionMeters, Answer, Chain, Configuration, policy, webhook};
use async_trait::async_trait;
use authz::Authorizer;

use object::{Clock, GroupVersionKind, Meta, Reason, Status, SystemClock, Value, value};
use outbound::Egress;
use registry::{Catalog, Context, Error, Features, Form, ResourceStorage, UpdateOptions};
use request::{Access, User};
use rest::{Api, ManagedKind};

use crate::Config;
use crate::services::Services;

/// The chain that the flags ask for.
pub fn chain(
    config: &Config,
    catalog: &Catalog,
    features: &Features,
    server: Arc<Host>,
    egress: &Egress,
) -> Result<Chain, String> {
    let configuration = Configuration::read(config.admission_config_file.as_deref())?;
    let (services, meters, expressions) = (server.services.clone(), server.meters.clone(), server.expressions.clone());
    let quotas: Arc<dyn QuotaWriter> = match Quotas::new(catalog, features) {
        Some(quotas) => Arc::new(quotas),
        None => Arc::new(WithoutQuotas),
    };
    ::admission::plugins::chain(&PluginSettings {
        enabled: &config.enable_admission_plugins,
        disabled: &config.disable_admission_plugins,
        toleration_seconds: config.toleration_seconds,
        config: &configuration,
        server,
        quotas,
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

/// What plugins see of the server. The API is built around the chain, so it comes later.
pub struct Host {
    authorizer: Arc<dyn Authorizer>,
    api: OnceLock<Weak<Api>>,
    /// Where webhooks find services.
    pub services: Arc<Services>,
    pub meters: Arc<AdmissionMeters>,
    /// Compiled CEL expressions of the whole server.
    pub expressions: Arc<cel::Pool>,
}

impl Host {
    /// `id` is the identity of this server, the name of its lease.
    pub fn new(authorizer: Arc<dyn Authorizer>, services: Services, id: &str) -> Host {
        let meters = Arc::new(AdmissionMeters::new(id));
        let (api, services) = (OnceLock::new(), Arc::new(services));
        Host { authorizer, api, services, meters, expressions: Arc::default() }
    }

    /// Hands over the API, once there is one.
    pub fn connect(&self, api: &Arc<Api>) {
        let _ = self.api.set(Arc::downgrade(api));
    }

    fn api(&self) -> Option<Arc<Api>> {
        self.api.get().and_then(Weak::upgrade)
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

    async fn make_namespace(&self, name: &str) -> Result<(), Status> {
        let api = self.api().ok_or_else(|| Status::internal("the server is not ready to make namespaces"))?;
        let api = api.snapshot();
        let storage = api.catalog.stored("", "namespaces");
        let storage = storage.ok_or_else(|| Status::internal("namespaces are not served"))?;
        let user = User::loopback();
        let cx = api.context(&user, "", "v1", "", false);
        let namespace = value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match storage.create(&cx, namespace).await {
            Ok(_) => Ok(()),
            Err(error) if error.reason() == Reason::AlreadyExists => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Quotas in the store: read as they are now, and charged only if they have not changed since.
pub struct Quotas {
    storage: Arc<ResourceStorage>,
    kind: GroupVersionKind,
    form: Form,
    features: Features,
}

impl Quotas {
    fn new(catalog: &Catalog, features: &Features) -> Option<Quotas> {
        let resource = catalog.get("", "v1", "resourcequotas")?;
        Some(Quotas {
            storage: resource.storage.clone()?,
            kind: resource.kind.clone(),
            form: resource.form.clone(),
            features: features.clone(),
        })
    }

    /// Sets what is used, of the version of the quota that it was worked out from and no other.
    async fn charge(&self, namespace: &str, name: &str, resource_version: &str, used: Value) -> Result<(), Error> {
        let (storage, user, now) = (&self.storage, User::loopback(), SystemClock.now());
        let cx = Context { namespace, subresource: "status", ..Context::of_server(now, &user, &self.features) };
        let tracked = ManagedKind {
            kind: &self.kind,
            form: &self.form,
            subresource: "status",
            resets: storage.strategy.facts().reset_fields("status"),
        };
        let mut write = storage.begin(&cx, name, &UpdateOptions::STATUS).await?;
        loop {
            let live = write.existing().await?;
            if live.resource_version() != resource_version {
                return Err(Status::conflict(&storage.resource, live.name(), registry::MODIFIED).into());
            }
            let mut charged = live.clone();
            charged.set(&["status", "used"], used.clone());
            let charged = rest::track(&tracked, &live, charged, "kube-apiserver", now).await;
            if write.store(charged, Some(&live)).await?.is_some() {
                return Ok(());
            }
        }
    }
}

#[async_trait]
impl QuotaWriter for Quotas {
    async fn quotas(&self, namespace: &str) -> Result<Vec<Arc<Value>>, Status> {
        Ok(self.storage.list(namespace).await?.into_iter().map(Arc::new).collect())
    }

    async fn update_used(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        used: Value,
    ) -> Result<bool, Status> {
        match self.charge(namespace, name, resource_version, used).await {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.reason(), Reason::Conflict | Reason::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where quotas are not served there are none.
struct WithoutQuotas;

#[async_trait]
impl QuotaWriter for WithoutQuotas {
    async fn quotas(&self, _: &str) -> Result<Vec<Arc<Value>>, Status> {
        Ok(Vec::new())
    }

    async fn update_used(&self, _: &str, _: &str, _: &str, _: Value) -> Result<bool, Status> {
        Ok(false)
    }
}
