//! The built-in plugins, in the order upstream runs them.

mod always;
mod always_pull_images;
mod certificates;
mod default_toleration_seconds;
mod defaults;
mod event_rate_limit;
mod image_policy;
mod limit_ranger;
mod namespace_lifecycle;
mod namespaces;
mod node_features;
mod node_restriction;
mod owner_references;
mod pod_node_selector;
mod pod_resize;
mod pod_security;
mod pod_tolerations;
mod pod_topology_labels;
mod priority;
mod protection;
mod refusals;
mod resource_quota;
mod resources;
mod runtime_class;
mod service_account;
mod taint_nodes;
#[cfg(test)]
pub(crate) mod testing;
mod tolerations;
mod volume_resize;

use std::sync::Arc;

use object::{GroupResource, Status};
use registry::OwnClient;

pub use self::resource_quota::recount as quota;
use crate::Operation::{self, Connect, Create, Delete, Update};
use crate::chain::Sees;
use crate::{AdmissionMeters, Attributes, Chain, Configuration, Host, Plugin, policy, webhook};

/// What a chain is made of.
pub struct PluginSettings<'a> {
    /// `--enable-admission-plugins`.
    pub enabled: &'a [String],
    /// `--disable-admission-plugins`.
    pub disabled: &'a [String],
    pub config: &'a Configuration,
    /// How long pods tolerate nodes that are not ready, and nodes that cannot be reached, unless they say.
    pub toleration_seconds: (i64, i64),
    pub server: Arc<dyn Host>,
    /// For quotas and namespaces.
    pub client: Arc<dyn OwnClient>,
    pub webhooks: webhook::WebhookSettings,
    pub policies: policy::PolicySettings,
    pub meters: Arc<AdmissionMeters>,
    /// Where compiled expressions are shared.
    pub expressions: Arc<cel::Pool>,
    /// The feature gate ManifestBasedAdmissionControlConfig.
    pub manifests: bool,
}

/// A plugin that upstream knows.
struct Row {
    name: &'static str,
    /// Whether it is on unless told otherwise.
    default: bool,
    sees: Sees,
}

const fn row(
    name: &'static str,
    default: bool,
    operations: &'static [Operation],
    resources: &'static [&'static str],
) -> Row {
    Row { name, default, sees: Sees { operations, resources } }
}

/// What has a pod's template in it, and what decides about pods.
const POD_TEMPLATES: &[&str] = &[
    "namespaces",
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "replicasets",
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
];

/// All plugins that upstream knows, in the order they run, with the operations and resources that they look at.
const ROWS: &[Row] = &[
    row("AlwaysAdmit", false, &[Create, Update, Delete, Connect], &[]),
    row("NamespaceAutoProvision", false, &[Create], &[]),
    row("NamespaceLifecycle", true, &[Create, Delete], &[]),
    row("NamespaceExists", false, &[Create, Update, Delete], &[]),
    row("LimitPodHardAntiAffinityTopology", false, &[Create, Update], &["pods"]),
    row("LimitRanger", true, &[Create, Update], &["pods", "persistentvolumeclaims"]),
    row("ServiceAccount", true, &[Create, Update], &["pods"]),
    row("NodeRestriction", false, &[Create, Update, Delete], &[]),
    row("TaintNodesByCondition", true, &[Create], &["nodes"]),
    row("AlwaysPullImages", false, &[Create, Update], &["pods"]),
    row("ImagePolicyWebhook", false, &[Create, Update], &["pods"]),
    row("PodSecurity", true, &[Create, Update], POD_TEMPLATES),
    row("PodNodeSelector", false, &[Create], &["pods"]),
    row("Priority", true, &[Create, Update], &["pods", "priorityclasses"]),
    row("DefaultTolerationSeconds", true, &[Create, Update], &["pods"]),
    row("PodTolerationRestriction", false, &[Create, Update], &["pods"]),
    row("EventRateLimit", false, &[Create, Update], &["events"]),
    row("ExtendedResourceToleration", false, &[Create, Update], &["pods"]),
    row("DefaultStorageClass", true, &[Create], &["persistentvolumeclaims"]),
    row(
        "StorageObjectInUseProtection",
        true,
        &[Create],
        &["persistentvolumes", "persistentvolumeclaims", "volumeattributesclasses"],
    ),
    row("PodGroupProtection", true, &[Create], &["podgroups"]),
    row("OwnerReferencesPermissionEnforcement", false, &[Create, Update], &[]),
    row("PersistentVolumeClaimResize", true, &[Update], &["persistentvolumeclaims"]),
    row("RuntimeClass", true, &[Create], &["pods"]),
    row("CertificateApproval", true, &[Update], &["certificatesigningrequests"]),
    row("CertificateSigning", true, &[Update], &["certificatesigningrequests"]),
    row("ClusterTrustBundleAttest", true, &[Create, Update], &["clustertrustbundles"]),
    row("CertificateSubjectRestriction", true, &[Create], &["certificatesigningrequests"]),
    row("DefaultIngressClass", true, &[Create], &["ingresses"]),
    row("DenyServiceExternalIPs", false, &[Create, Update], &["services"]),
    row("PodTopologyLabels", true, &[Create], &["pods"]),
    row("NodeDeclaredFeatureValidator", true, &[Create, Update], &["pods", "resourceslices"]),
    row("PodResizeValidator", true, &[Update], &["pods"]),
    row("MutatingAdmissionPolicy", true, &[Create, Update, Connect], &[]),
    row("MutatingAdmissionWebhook", true, &[Create, Update, Delete, Connect], &[]),
    row("ValidatingAdmissionPolicy", true, &[Create, Update, Delete, Connect], &[]),
    row("ValidatingAdmissionWebhook", true, &[Create, Update, Delete, Connect], &[]),
    row("ResourceQuota", true, &[Create, Update], &[]),
    row("AlwaysDeny", false, &[Create, Update, Delete, Connect], &[]),
];

/// Which requests a plugin sees; everything where it is not one of upstream's.
#[cfg(test)]
pub(crate) fn sees(name: &str) -> Sees {
    ROWS.iter().find(|row| row.name == name).map_or(Sees::EVERYTHING, |row| row.sees)
}

/// The names of all plugins, in the order they are asked.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// The chain that the flags and the configuration ask for.
pub fn chain(settings: &PluginSettings<'_>) -> Result<Chain, String> {
    check_names(settings)?;
    let mut chain = Chain::measured(&settings.meters);
    for row in ROWS {
        let named = |list: &[String]| list.iter().any(|item| item == row.name);
        if !named(settings.disabled)
            && (row.default || named(settings.enabled))
            && let Some(plugin) = plugin(row.name, settings)?
        {
            chain.push(plugin, row.sees);
        }
    }
    Ok(chain)
}

fn check_names(settings: &PluginSettings<'_>) -> Result<(), String> {
    for (flag, names) in [("enable", settings.enabled), ("disable", settings.disabled)] {
        if let Some(name) = names.iter().find(|name| !ROWS.iter().any(|row| row.name == name.as_str())) {
            return Err(format!("{flag}-admission-plugins plugin {} is unknown", object::quote(name)));
        }
    }
    let mut both: Vec<&str> =
        settings.enabled.iter().filter(|name| settings.disabled.contains(name)).map(String::as_str).collect();
    both.sort_unstable();
    both.dedup();
    if both.is_empty() {
        return Ok(());
    }
    Err(format!("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", both.join(" ")))
}

/// A plugin by its name; None for one that has nothing to do here.
fn plugin(name: &str, settings: &PluginSettings<'_>) -> Result<Option<Arc<dyn Plugin>>, String> {
    let server = || settings.server.clone();
    let config = settings.config;
    let plugin: Arc<dyn Plugin> = match name {
        "AlwaysAdmit" => Arc::new(always::AlwaysAdmit),
        "AlwaysDeny" => Arc::new(always::AlwaysDeny),
        "NamespaceAutoProvision" => Arc::new(namespaces::NamespaceAutoProvision { client: settings.client.clone() }),
        "NamespaceLifecycle" => Arc::new(namespace_lifecycle::NamespaceLifecycle),
        "NamespaceExists" => Arc::new(namespaces::NamespaceExists),
        "LimitPodHardAntiAffinityTopology" => Arc::new(refusals::LimitPodHardAntiAffinityTopology),
        "LimitRanger" => Arc::new(limit_ranger::LimitRanger),
        "ServiceAccount" => Arc::new(service_account::ServiceAccount),
        "NodeRestriction" => Arc::new(node_restriction::NodeRestriction { server: server() }),
        "TaintNodesByCondition" => Arc::new(taint_nodes::TaintNodesByCondition),
        "AlwaysPullImages" => Arc::new(always_pull_images::AlwaysPullImages),
        "ImagePolicyWebhook" => Arc::new(image_policy::ImagePolicyWebhook::new(config)?),
        "PodSecurity" => Arc::new(pod_security::PodSecurity::new(config)?),
        "PodNodeSelector" => Arc::new(pod_node_selector::PodNodeSelector::new(config)?),
        "Priority" => Arc::new(priority::Priority),
        "DefaultTolerationSeconds" => {
            let (not_ready, unreachable) = settings.toleration_seconds;
            Arc::new(default_toleration_seconds::DefaultTolerationSeconds { not_ready, unreachable })
        }
        "PodTolerationRestriction" => Arc::new(pod_tolerations::PodTolerationRestriction::new(config)?),
        "EventRateLimit" => Arc::new(event_rate_limit::EventRateLimit::new(config)?),
        "ExtendedResourceToleration" => Arc::new(tolerations::ExtendedResourceToleration),
        "DefaultStorageClass" => Arc::new(defaults::DefaultStorageClass),
        "StorageObjectInUseProtection" => Arc::new(protection::StorageObjectInUseProtection),
        "PodGroupProtection" => Arc::new(protection::PodGroupProtection),
        "OwnerReferencesPermissionEnforcement" => {
            Arc::new(owner_references::OwnerReferencesPermissionEnforcement { server: server() })
        }
        "PersistentVolumeClaimResize" => Arc::new(volume_resize::PersistentVolumeClaimResize),
        "RuntimeClass" => Arc::new(runtime_class::RuntimeClass),
        "CertificateApproval" => Arc::new(certificates::CertificateApproval { server: server() }),
        "CertificateSigning" => Arc::new(certificates::CertificateSigning { server: server() }),
        "ClusterTrustBundleAttest" => Arc::new(certificates::ClusterTrustBundleAttest { server: server() }),
        "CertificateSubjectRestriction" => Arc::new(certificates::CertificateSubjectRestriction),
        "DefaultIngressClass" => Arc::new(defaults::DefaultIngressClass),
        "DenyServiceExternalIPs" => Arc::new(refusals::DenyServiceExternalIps),
        "PodTopologyLabels" => Arc::new(pod_topology_labels::PodTopologyLabels),
        "NodeDeclaredFeatureValidator" => Arc::new(node_features::NodeDeclaredFeatureValidator),
        "PodResizeValidator" => Arc::new(pod_resize::PodResizeValidator),
        "MutatingAdmissionWebhook" => {
            let Some(options) = webhook::options(name, settings)? else { return Ok(None) };
            Arc::new(webhook::MutatingWebhooks::new(options))
        }
        "ValidatingAdmissionWebhook" => {
            let Some(options) = webhook::options(name, settings)? else { return Ok(None) };
            Arc::new(webhook::ValidatingWebhooks::new(options))
        }
        "MutatingAdmissionPolicy" => {
            let Some(policies) = policy::Policies::open("MutatingAdmissionPolicy", settings)? else { return Ok(None) };
            Arc::new(policy::MutatingPolicies(policies))
        }
        "ValidatingAdmissionPolicy" => {
            let Some(policies) = policy::Policies::open("ValidatingAdmissionPolicy", settings)? else {
                return Ok(None);
            };
            Arc::new(policy::ValidatingPolicies(policies))
        }
        "ResourceQuota" => Arc::new(resource_quota::ResourceQuota::new(settings.client.clone(), config)?),
        _ => return Ok(None),
    };
    Ok(Some(plugin))
}

/// The 403 that a plugin refuses a request with.
pub(crate) fn forbidden(attributes: &Attributes<'_>, why: impl std::fmt::Display) -> Status {
    let resource = GroupResource::new(attributes.resource.group.clone(), attributes.resource.resource.clone());
    Status::forbidden(&resource, attributes.shown_name(), why)
}

/// An error that upstream's plugins return as it is, without saying what kind of failure it was.
pub(crate) fn plain_failure(message: impl Into<String>) -> Status {
    Status::unknown(500, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::testing::{NoObjects, Open, no_webhooks};

    fn names(enabled: &[&str], disabled: &[&str]) -> Result<Vec<&'static str>, String> {
        let strings = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let (enabled, disabled) = (strings(enabled), strings(disabled));
        let config = Configuration::default();
        let (server, client) = (Arc::new(Open), Arc::new(NoObjects));
        let settings = PluginSettings {
            enabled: &enabled,
            disabled: &disabled,
            config: &config,
            toleration_seconds: (300, 300),
            server,
            client,
            webhooks: no_webhooks(),
            policies: policy::PolicySettings::default(),
            meters: Arc::new(AdmissionMeters::new("")),
            expressions: Arc::default(),
            manifests: true,
        };
        chain(&settings).map(|chain| chain.names().collect())
    }

    #[test]
    fn flags_choose_plugins() {
        let default = names(&[], &[]).unwrap();
        assert_eq!((default.first(), default.last()), (Some(&"NamespaceLifecycle"), Some(&"ResourceQuota")));
        assert!(!default.contains(&"AlwaysPullImages"));
        let chosen = names(&["AlwaysDeny", "AlwaysAdmit"], &["Priority"]).unwrap();
        assert_eq!((chosen.first(), chosen.last()), (Some(&"AlwaysAdmit"), Some(&"AlwaysDeny")));
        assert!(!chosen.contains(&"Priority"));
        for (enabled, disabled, want) in [
            ("Nope", "Priority", "enable-admission-plugins plugin \"Nope\" is unknown"),
            ("Priority", "Nope", "disable-admission-plugins plugin \"Nope\" is unknown"),
            ("Priority", "Priority", "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped"),
        ] {
            assert_eq!(names(&[enabled], &[disabled]), Err(want.to_string()));
        }
    }

    #[test]
    fn plugins_are_called_what_they_are_listed_as() {
        let all: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let ours = names(
            &all.iter()
                .copied()
                .filter(|name| *name != "ImagePolicyWebhook" && *name != "EventRateLimit")
                .collect::<Vec<_>>(),
            &[],
        );
        assert!(ours.unwrap().iter().all(|name| all.contains(name)));
    }
}
