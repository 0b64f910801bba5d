//! Admission for this server: the chain from the configuration, and what its plugins ask of the server.

use std::sync::{Arc, OnceLock, Weak};

use ::admission::plugins::{QuotaWriter, Settings};
use ::admission::{Answer, Chain, Configuration, Meters, policy, webhook};
use async_trait::async_trait;
use authz::Authorizer;

use object::{Clock, GroupVersionKind, Meta, Reason, Status, SystemClock, Value, value};
use outbound::Egress;
use registry::{
    AdmitAll, Catalog, Context, Features, Form, NoLookup, ResourceStorage, UpdateOptions, UpdateScope, UpdatedObject,
};
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
    let quotas = Quotas::new(catalog, features).ok_or("resourcequotas are not served, but admission needs them")?;
    ::admission::plugins::chain(&Settings {
        enabled: &config.enable_admission_plugins,
        disabled: &config.disable_admission_plugins,
        toleration_seconds: config.toleration_seconds,
        config: &configuration,
        server,
        quotas: Arc::new(quotas),
        webhooks: webhook::Settings {
            mutating: catalog.stored(webhook::GROUP, "mutatingwebhookconfigurations").cloned(),
            validating: catalog.stored(webhook::GROUP, "validatingwebhookconfigurations").cloned(),
            services,
            egress: egress.clone(),
            ignore_budget: config.webhook_ignore_budget,
            exclude_virtual_resources: features.enabled("ExcludeAdmissionWebhookVirtualResources"),
        },
        policies: policy::Settings {
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
    let stored = |resource| catalog.stored(webhook::GROUP, resource).cloned();
    Some(policy::Stored { policies: stored(policies)?, bindings: stored(bindings)? })
}

/// What plugins see of the server. The API is built around the chain, so it comes later.
pub struct Host {
    authorizer: Arc<dyn Authorizer>,
    api: OnceLock<Weak<Api>>,
    /// Where webhooks find services.
    pub services: Arc<Services>,
    pub meters: Arc<Meters>,
    /// Compiled CEL expressions of the whole server.
    pub expressions: Arc<cel::Pool>,
}

impl Host {
    /// `id` is the identity of this server, the name of its lease.
    pub fn new(authorizer: Arc<dyn Authorizer>, services: Services, id: &str) -> Host {
        let meters = Arc::new(Meters::new(id));
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
        match storage.create(&cx, namespace, &AdmitAll).await {
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
}

#[async_trait]
impl QuotaWriter for Quotas {
    async fn quotas(&self, namespace: &str) -> Result<Vec<Arc<Value>>, Status> {
        let storage = &self.storage;
        storage.cache.fresh().await.map_err(|error| storage.read_failed(error, "list"))?;
        let snapshot = storage.cache.snapshot(&storage.range(namespace).into());
        snapshot.objects.iter().map(|object| Ok(Arc::new(storage.decode_entry(object.entry())?))).collect()
    }

    async fn update_used(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        used: Value,
    ) -> Result<bool, Status> {
        let user = User::loopback();
        let cx = Context {
            now: SystemClock.now(),
            user: &user,
            namespace,
            group: "",
            version: "v1",
            subresource: "status",
            verb: "",
            dry_run: false,
            features: &self.features,
            catalog: Catalog::empty(),
            lookup: &NoLookup,
        };
        let options = UpdateOptions { scope: UpdateScope::Status, ..UpdateOptions::default() };
        let mut charge = Charge { quotas: self, cx, resource_version, used };
        match self.storage.update(&cx, name, &mut charge, &AdmitAll, &options).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.reason(), Reason::Conflict | Reason::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sets what is used, of the version of the quota that it was worked out from and no other.
struct Charge<'a> {
    quotas: &'a Quotas,
    cx: Context<'a>,
    resource_version: &'a str,
    used: Value,
}

#[async_trait]
impl UpdatedObject for Charge<'_> {
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let live = existing.cloned().unwrap_or_default();
        if live.resource_version() != self.resource_version {
            return Err(Status::conflict(&self.quotas.storage.resource, live.name(), registry::MODIFIED));
        }
        let mut charged = live.clone();
        charged.set(&["status", "used"], self.used.clone());
        let tracked = ManagedKind {
            kind: &self.quotas.kind,
            form: &self.quotas.form,
            subresource: "status",
            resets: self.quotas.storage.strategy.reset_fields("status"),
        };
        Ok(rest::track(&tracked, &live, charged, "kube-apiserver", self.cx.now))
    }
}
