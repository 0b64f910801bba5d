//! Authorization for this server: the authorizers that flags or a configuration file ask for, and the reload of that file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use authz::configuration::Configured;
use authz::node::{self, Node};
use authz::rbac::{self, Rbac};
use authz::{
    Abac, AlwaysAllow, AlwaysDeny, Authorizer, AuthorizerOpinion, AuthzMeters, Changes, Configuration, Decision,
    DecisionsChanged, Named, ReviewVersion, RulesFor, Union, Verdict, Webhook, webhook,
};
use outbound::Egress;
use registry::{Catalog, DirectStorage, Features};
use request::{Access, User};
use standalone::Identity;

use crate::flags::{Row, rows};
use crate::reload::{self, Outcome, Reload};
use crate::reload_meters::ReloadMeters;
use crate::start::{StartError, hostname};

/// How often the graph of the mode Node follows what changed while no kubelet asked.
const GRAPH_INTERVAL: Duration = Duration::from_millis(500);

/// Flags of authorization.
pub(crate) const FLAGS: &[Row] = rows! { authorization = &mut config.authorization, |config, given|
    "authorization-config" => authorization.file = given.path(),
    "authorization-mode" => authorization.legacy().modes = given.list().collect(),
    "authorization-policy-file" => authorization.policy_file = given.path(),
    "authorization-webhook-cache-authorized-ttl" => authorization.legacy().authorized_ttl = given.span_or_zero()?,
    "authorization-webhook-cache-unauthorized-ttl" => authorization.legacy().unauthorized_ttl = given.span_or_zero()?,
    "authorization-webhook-config-file" => authorization.legacy().webhook_file = given.path(),
    "authorization-webhook-version" => authorization.legacy().webhook_version = given.last().to_string(),
};

/// The settings of the flags of authorization.
#[derive(Clone, Debug)]
pub struct AuthorizationConfig {
    /// `--authorization-mode`, in order.
    pub modes: Vec<String>,
    /// `--authorization-config`: a file instead of the other flags.
    pub file: Option<PathBuf>,
    /// `--authorization-policy-file` of the mode ABAC.
    pub policy_file: Option<PathBuf>,
    /// `--authorization-webhook-config-file` of the mode Webhook.
    pub webhook_file: Option<PathBuf>,
    pub webhook_version: String,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    /// Whether a flag was given that the file stands for.
    legacy: bool,
}

impl Default for AuthorizationConfig {
    fn default() -> AuthorizationConfig {
        AuthorizationConfig {
            modes: vec!["Node".into(), "RBAC".into()],
            file: None,
            policy_file: None,
            webhook_file: None,
            webhook_version: "v1beta1".into(),
            authorized_ttl: Duration::from_secs(5 * 60),
            unauthorized_ttl: Duration::from_secs(30),
            legacy: false,
        }
    }
}

impl AuthorizationConfig {
    /// The settings for a flag that the file stands for.
    fn legacy(&mut self) -> &mut AuthorizationConfig {
        self.legacy = true;
        self
    }

    /// The configuration, and the file's contents if it comes from one.
    fn configuration(&self) -> Result<(Configuration, Option<Vec<u8>>), String> {
        if let Some(file) = &self.file {
            if self.legacy {
                return Err("--authorization-config can not be specified when --authorization-mode or \
                            --authorization-webhook-* flags are defined"
                    .into());
            }
            let text = std::fs::read(file)
                .map_err(|error| format!("open {}: {}", file.display(), outbound::in_gos_words(&error)))?;
            return Ok((Configuration::read(&text, &BTreeSet::new())?, Some(text)));
        }
        self.check()?;
        let webhook = webhook::WebhookAuthorizerSettings {
            name: "default".into(),
            kubeconfig: self.webhook_file.clone().unwrap_or_default(),
            version: match self.webhook_version.as_str() {
                "v1" => ReviewVersion::V1,
                "v1beta1" => ReviewVersion::V1beta1,
                other => {
                    return Err(format!(
                        "unsupported webhook authorizer version {}, supported versions are \"v1\", \"v1beta1\"",
                        object::quote(other)
                    ));
                }
            },
            timeout: Duration::from_secs(30),
            authorized_ttl: self.authorized_ttl,
            unauthorized_ttl: self.unauthorized_ttl,
            on_failure: Verdict::NoOpinion,
            conditions: Vec::new(),
        };
        Ok((Configuration::of_flags(&self.modes, &webhook), None))
    }

    fn check(&self) -> Result<(), String> {
        authz::check_modes(&self.modes)?;
        let has = |mode: &str| self.modes.iter().any(|one| one == mode);
        for (mode, file, missing, unused) in [
            (
                "ABAC",
                &self.policy_file,
                "authorization-mode ABAC's authorization policy file not passed",
                "cannot specify --authorization-policy-file without mode ABAC",
            ),
            (
                "Webhook",
                &self.webhook_file,
                "authorization-mode Webhook's authorization config file not passed",
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ),
        ] {
            match (has(mode), file.is_some()) {
                (true, false) => return Err(missing.into()),
                (false, true) => return Err(unused.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Who decides.
pub struct Authorization {
    pub authorizer: Arc<dyn Authorizer>,
    /// The RBAC among the authorizers, if there is one.
    pub rbac: Option<Arc<Rbac>>,
    pub meters: Arc<AuthzMeters>,
    /// The metrics of the configuration file, if there is one.
    pub reloads: Option<Arc<ReloadMeters>>,
}

impl Authorization {
    pub fn open(
        config: &AuthorizationConfig,
        catalog: &Catalog,
        features: &Features,
        egress: &Egress,
        own: Vec<(String, Arc<dyn Authorizer>)>,
    ) -> Result<Authorization, StartError> {
        let (configuration, text) = config.configuration().map_err(StartError::Setting)?;
        let lasting = Lasting { own, ..Lasting::open(&configuration, config, catalog, features, egress)? };
        let (meters, rbac) = (lasting.meters.clone(), lasting.rbac.clone());
        let union = lasting.union(&configuration).map_err(StartError::Setting)?;
        let (Some(file), Some(text)) = (&config.file, text) else {
            return Ok(Authorization { authorizer: Arc::new(union), rbac, meters, reloads: None });
        };
        let reloads = Arc::new(ReloadMeters::new("authorization", &Identity::lease_name_on(&hostname())));
        reloads.started(&text);
        let authorizer = Arc::new(Reloadable(ArcSwap::from_pointee(union)));
        let target = File { configuration, lasting, authorizer: Arc::downgrade(&authorizer), meters: reloads.clone() };
        tokio::spawn(reload::run(file.clone(), text, target));
        Ok(Authorization { authorizer, rbac, meters, reloads: Some(reloads) })
    }
}

/// Authorizers that are made once and stay when the file is reloaded.
struct Lasting {
    /// Those of the program, which are asked first.
    own: Vec<(String, Arc<dyn Authorizer>)>,
    node: Option<Arc<Node>>,
    rbac: Option<Arc<Rbac>>,
    abac: Option<Arc<Abac>>,
    egress: Egress,
    meters: Arc<AuthzMeters>,
    modes: BTreeSet<String>,
}

impl Lasting {
    fn open(
        configuration: &Configuration,
        config: &AuthorizationConfig,
        catalog: &Catalog,
        features: &Features,
        egress: &Egress,
    ) -> Result<Lasting, StartError> {
        let (modes, meters) = (configuration.lasting_modes(), Arc::<AuthzMeters>::default());
        let node = modes.contains("Node").then(|| node(catalog, features, &meters)).transpose()?;
        let rbac = modes.contains("RBAC").then(|| rbac(catalog).map(Arc::new)).transpose()?;
        let abac = |path: &PathBuf| Abac::read(path).map(Arc::new).map_err(StartError::Setting);
        let policy_file = config.policy_file.clone().unwrap_or_default();
        let abac = modes.contains("ABAC").then(|| abac(&policy_file)).transpose()?;
        Ok(Lasting { own: Vec::new(), node, rbac, abac, egress: egress.clone(), meters, modes })
    }

    fn union(&self, configuration: &Configuration) -> Result<Union, String> {
        let own = self.own.iter().map(|(name, authorizer)| Ok(Named::new("Embedded", name, authorizer.clone())));
        let configured = configuration.authorizers.iter().map(|configured| {
            let authorizer = self.authorizer(configured)?;
            Ok(Named::new(&configured.mode, &configured.name, authorizer))
        });
        Ok(Union::new(own.chain(configured).collect::<Result<_, String>>()?, self.meters.clone()))
    }

    fn authorizer(&self, configured: &Configured) -> Result<Arc<dyn Authorizer>, String> {
        let mode = configured.mode.as_str();
        let lasting: Option<Arc<dyn Authorizer>> = match mode {
            "AlwaysAllow" => Some(Arc::new(AlwaysAllow)),
            "AlwaysDeny" => Some(Arc::new(AlwaysDeny)),
            "Node" => self.node.clone().map(|node| node as _),
            "RBAC" => self.rbac.clone().map(|rbac| rbac as _),
            "ABAC" => self.abac.clone().map(|abac| abac as _),
            _ => None,
        };
        match (lasting, &configured.webhook) {
            (Some(authorizer), _) => Ok(authorizer),
            (None, Some(settings)) => Ok(Arc::new(Webhook::open(settings.clone(), &self.egress, self.meters.clone())?)),
            (None, None) => {
                Err(format!("authorizer type {mode} is not allowed if it was not enabled at initial server startup"))
            }
        }
    }
}

/// The authorizers of a file that may change.
struct Reloadable(ArcSwap<Union>);

#[async_trait]
impl Authorizer for Reloadable {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        let union = self.0.load_full();
        union.decide(access).await
    }

    async fn opinions(&self, access: &Access<'_>) -> Vec<AuthorizerOpinion> {
        let union = self.0.load_full();
        union.opinions(access).await
    }

    fn rules_for(&self, user: &User, namespace: &str) -> RulesFor {
        self.0.load().rules_for(user, namespace)
    }

    fn changed(&self) -> DecisionsChanged {
        self.0.load().changed()
    }

    /// Watches that began before the file changed keep the wakes of the authorizers that were there then; what last through changes are
    /// the authorizers of roles.
    fn changes(&self) -> Vec<Changes> {
        self.0.load().changes()
    }
}

/// Puts the changed contents of the file to use.
struct File {
    configuration: Configuration,
    lasting: Lasting,
    authorizer: Weak<Reloadable>,
    meters: Arc<ReloadMeters>,
}

#[async_trait]
impl Reload for File {
    async fn reload(&mut self, contents: Result<&[u8], &std::io::Error>) -> Outcome {
        let Some(authorizer) = self.authorizer.upgrade() else { return Outcome::Settled };
        let read = contents.map_err(|error| error.to_string());
        let read = read.and_then(|text| Ok((text, Configuration::read(text, &self.lasting.modes)?)));
        let made = match read {
            Ok((_, configuration)) if configuration == self.configuration => return Outcome::Settled,
            Ok((text, configuration)) => self.lasting.union(&configuration).map(|union| (text, configuration, union)),
            Err(why) => Err(why),
        };
        match made {
            Ok((text, configuration, union)) => {
                authorizer.0.store(Arc::new(union));
                self.configuration = configuration;
                self.meters.succeeded(text);
                tracing::info!("the authorization configuration was reloaded");
            }
            Err(error) => {
                self.meters.failed();
                tracing::error!(error, "the changed authorization configuration is not used");
            }
        }
        Outcome::Settled
    }

    fn is_over(&self) -> bool {
        self.authorizer.strong_count() == 0
    }
}

fn rbac(catalog: &Catalog) -> Result<Rbac, StartError> {
    let find = |resource: &str| needed(catalog, "RBAC", "rbac.authorization.k8s.io", resource);
    Ok(Rbac::new(rbac::Sources {
        cluster_roles: find("clusterroles")?,
        roles: find("roles")?,
        cluster_role_bindings: find("clusterrolebindings")?,
        role_bindings: find("rolebindings")?,
    }))
}

fn node(catalog: &Catalog, features: &Features, meters: &Arc<AuthzMeters>) -> Result<Arc<Node>, StartError> {
    let find = |group: &str, resource: &str| catalog.direct(group, resource);
    let sources = node::Sources {
        pods: needed(catalog, "Node", "", "pods")?,
        persistent_volumes: needed(catalog, "Node", "", "persistentvolumes")?,
        volume_attachments: find("storage.k8s.io", "volumeattachments"),
        resource_slices: find("resource.k8s.io", "resourceslices"),
        pod_certificate_requests: find("certificates.k8s.io", "podcertificaterequests"),
    };
    let role = bootstrap::default_cluster_role(features, "system:node").unwrap_or_default();
    let node = Arc::new(Node::new(sources, rbac::rules(&role), features, meters.clone()));
    tokio::spawn(keep_current(Arc::downgrade(&node)));
    Ok(node)
}

/// Kubelets ask seldom where there are few: without this the first question after a while would pay for all that changed.
async fn keep_current(node: Weak<Node>) {
    loop {
        let Some(node) = node.upgrade() else { return };
        if node.is_behind() && tokio::task::spawn_blocking(move || node.catch_up()).await.is_err() {
            return;
        }
        tokio::time::sleep(GRAPH_INTERVAL).await;
    }
}

fn needed(catalog: &Catalog, mode: &str, group: &str, resource: &str) -> Result<DirectStorage, StartError> {
    let off = || StartError::Setting(format!("{mode} needs {resource}.{group}, which is turned off"));
    catalog.direct(group, resource).ok_or_else(off)
}

#[cfg(test)]
mod tests {
    use crate::flags::{Given, set};

    fn check(flags: &[(&str, &str)], want: Result<&[&str], &str>) {
        let mut config = crate::Config::default();
        for (name, value) in flags {
            assert!(set(&mut config, name, Given(&[value.to_string()])).unwrap());
        }
        let got = config.authorization.configuration().map(|(configuration, _)| {
            configuration.authorizers.iter().map(|one| one.name.clone()).collect::<Vec<String>>()
        });
        let got = got.as_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(got.map_err(String::as_str), want.map(<[&str]>::to_vec), "{flags:?}");
    }

    #[test]
    fn flags_become_a_configuration() {
        check(&[], Ok(&["node", "rbac"]));
        check(
            &[("authorization-mode", "Webhook,RBAC"), ("authorization-webhook-config-file", "/a")],
            Ok(&["default", "rbac"]),
        );
        check(&[("authorization-mode", "ABAC")], Err("authorization-mode ABAC's authorization policy file not passed"));
        check(
            &[("authorization-mode", "RBAC"), ("authorization-webhook-config-file", "/a")],
            Err("cannot specify --authorization-webhook-config-file without mode Webhook"),
        );
        check(
            &[("authorization-mode", "RBAC"), ("authorization-config", "/a")],
            Err(
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags \
                 are defined",
            ),
        );
        check(&[("authorization-config", "/nonexistent")], Err("open /nonexistent: no such file or directory"));
        check(
            &[("authorization-webhook-version", "v2")],
            Err("unsupported webhook authorizer version \"v2\", supported versions are \"v1\", \"v1beta1\""),
        );
    }
}
