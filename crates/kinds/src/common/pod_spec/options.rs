//! What validation of a pod spec tolerates.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Path, Value, names};
use registry::Context;

use super::visit::{container_values, is_sidecar};
use super::{affinity, annotations, security, topology};
use crate::common::{paths, resources, selector};

/// What feature gates allow, and what an update lets pass because the stored object already has it.
#[derive(Clone, Debug, Default)]
pub struct PodValidationOptions {
    /// The object is a pod, not a template inside something else.
    pub is_pod: bool,
    /// Containers may be privileged in this cluster.
    pub allow_privileged: bool,
    pub strict_addresses: bool,
    pub pod_level_resources: bool,
    pub resize_pod_level_resources: bool,
    pub resize_memory_volumes: bool,
    pub container_restart_rules: bool,
    pub restart_all_containers: bool,
    pub env_files: bool,
    pub image_volume_digests: bool,
    pub toleration_comparisons: bool,
    pub host_network_user_namespaces: bool,
    pub claim_attributes_class: bool,
    pub match_label_keys: MatchLabelKeys,
    pub only_recursive_selinux: bool,
    pub allow_relaxed_env_names: bool,
    pub allow_sidecar_resize_policy: bool,
    pub allow_invalid_deletion_cost: bool,
    pub allow_invalid_selector_values: bool,
    pub allow_invalid_node_affinity_values: bool,
    pub allow_invalid_spread_selector: bool,
    pub allow_partial_huge_pages: bool,
    pub allow_any_token_path: bool,
    pub allow_host_sysctls: bool,
    pub allow_restart_on_init_resize: bool,
    pub allow_user_namespace_devices: bool,
    pub allow_empty_image_reference: bool,
    pub allow_unescalated_sys_admin: bool,
}

/// How `matchLabelKeys` of a spread constraint are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchLabelKeys {
    /// The keys are merged into the selector, so the selector has them when it is checked.
    #[default]
    Merged,
    /// The keys stand beside the selector, which may not have them.
    Beside,
}

impl PodValidationOptions {
    /// `pod` and `old` are pods or pod templates.
    pub fn new(cx: &Context, pod: &Value, old: Option<&Value>) -> PodValidationOptions {
        let on = |gate| cx.features.enabled(gate);
        let empty = Value::Null;
        let old_spec = old.map_or(&empty, |old| old.field("spec"));
        let mut options = PodValidationOptions {
            is_pod: false,
            allow_privileged: cx.features.allow_privileged(),
            strict_addresses: on("StrictIPCIDRValidation"),
            pod_level_resources: on("PodLevelResources"),
            resize_pod_level_resources: on("InPlacePodLevelResourcesVerticalScaling"),
            resize_memory_volumes: on("InPlacePodVerticalScalingMemoryBackedVolumes"),
            container_restart_rules: on("ContainerRestartRules"),
            restart_all_containers: on("RestartAllContainersOnContainerExits"),
            env_files: on("EnvFiles") || uses_env_files(old_spec),
            image_volume_digests: on("ImageVolumeWithDigest"),
            toleration_comparisons: on("TaintTolerationComparisonOperators") || uses_comparisons(old_spec),
            host_network_user_namespaces: on("UserNamespacesHostNetworkSupport") || has_host_network_userns(old_spec),
            claim_attributes_class: on("VolumeAttributesClass"),
            match_label_keys: match_label_keys(cx, old_spec),
            only_recursive_selinux: !on("SELinuxMount") && !security::has_selinux_change_policy(old_spec),
            allow_relaxed_env_names: on("RelaxedEnvironmentVariableValidation")
                || keeps_relaxed_env_names(pod.field("spec"), old_spec),
            allow_sidecar_resize_policy: on("InPlacePodVerticalScaling"),
            allow_invalid_deletion_cost: !on("PodDeletionCost"),
            allow_restart_on_init_resize: restarts_on_init_resize(old_spec),
            ..PodValidationOptions::default()
        };
        if let Some(old) = old {
            options.tolerate(old);
        }
        options
    }

    /// Lets pass what the old pod or template already does.
    fn tolerate(&mut self, old: &Value) {
        let spec = old.field("spec");
        self.container_restart_rules |= uses_restart_rules(spec);
        self.restart_all_containers |= uses_restart_all(spec);
        self.allow_sidecar_resize_policy |= spec
            .list_at(&["initContainers"])
            .iter()
            .any(|container| is_sidecar(container) && !container.list_at(&["resizePolicy"]).is_empty());
        self.allow_partial_huge_pages = uses_partial_huge_pages(spec);
        self.allow_invalid_selector_values = finds_errors(spec, affinity::check_pod_term_selectors);
        self.allow_invalid_node_affinity_values = affinity::has_invalid_required_node_value(spec);
        self.allow_invalid_spread_selector = finds_errors(spec, |spec, errors| {
            for constraint in spec.field("topologySpreadConstraints").each() {
                selector::validate(
                    &constraint.field("labelSelector"),
                    selector::LabelSelectorValidationOptions::default(),
                    errors,
                );
            }
        });
        self.allow_any_token_path = tokens(spec).any(|token| !paths::is_local_non_reserved(token.str_at(&["path"])));
        self.allow_host_sysctls = spec
            .list_at(&["securityContext", "sysctls"])
            .iter()
            .any(|sysctl| security::host_sysctl_problem(sysctl.str_at(&["name"]), spec).is_some());
        self.allow_user_namespace_devices = spec.field("hostUsers").as_bool() == Some(false)
            && container_values(spec).any(|container| !container.list_at(&["volumeDevices"]).is_empty());
        self.allow_empty_image_reference = spec
            .list_at(&["volumes"])
            .iter()
            .any(|volume| !volume.field("image").is_null() && volume.str_at(&["image", "reference"]).is_empty());
        self.allow_unescalated_sys_admin = container_values(spec).any(has_unescalated_sys_admin);
        self.allow_invalid_deletion_cost |= annotations::deletion_cost_is_bad(old.at(&["metadata", "annotations"]));
    }
}

fn finds_errors(spec: &Value, rule: impl Fn(&Cursor, &mut Errors)) -> bool {
    let mut errors = Errors::new();
    rule(&Cursor::new(spec, Path::of("spec")), &mut errors);
    !errors.is_empty()
}

fn uses_env_files(spec: &Value) -> bool {
    container_values(spec)
        .flat_map(|container| container.list_at(&["env"]))
        .any(|variable| !variable.at(&["valueFrom", "fileKeyRef"]).is_null())
}

fn uses_comparisons(spec: &Value) -> bool {
    spec.list_at(&["tolerations"]).iter().any(|toleration| matches!(toleration.str_at(&["operator"]), "Lt" | "Gt"))
}

fn has_host_network_userns(spec: &Value) -> bool {
    spec.field("hostUsers").as_bool() == Some(false) && spec.field("hostNetwork").as_bool() == Some(true)
}

/// Updates of a pod that breaks the rule in force fall back to the other one, since the field cannot change.
fn match_label_keys(cx: &Context, old_spec: &Value) -> MatchLabelKeys {
    use MatchLabelKeys::{Beside, Merged};
    if !cx.features.enabled("MatchLabelKeysInPodTopologySpread") {
        return Beside;
    }
    let breaks = |mode| {
        finds_errors(old_spec, |spec, errors| {
            for constraint in spec.field("topologySpreadConstraints").each() {
                topology::match_label_keys(&constraint, mode, errors);
            }
        })
    };
    let (mode, other) = match cx.features.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge") {
        true => (Merged, Beside),
        false => (Beside, Merged),
    };
    if breaks(mode) { other } else { mode }
}

/// Whether the spec has a name that only the relaxed rule allows, and had it before.
fn keeps_relaxed_env_names(spec: &Value, old_spec: &Value) -> bool {
    let relaxed = |name: &&str| !names::env_var_name(name).is_empty() && names::relaxed_env_var_name(name).is_empty();
    let mut names = env_names(spec).filter(relaxed).peekable();
    names.peek().is_some() && {
        let old: BTreeSet<&str> = env_names(old_spec).collect();
        names.any(|name| old.contains(name))
    }
}

fn env_names(spec: &Value) -> impl Iterator<Item = &str> {
    container_values(spec).flat_map(|container| {
        let names = container.list_at(&["env"]).iter().map(|variable| variable.str_at(&["name"]));
        let prefixes = container.list_at(&["envFrom"]).iter().map(|source| source.str_at(&["prefix"]));
        names.chain(prefixes)
    })
}

fn restarts_on_init_resize(spec: &Value) -> bool {
    let init = spec.list_at(&["initContainers"]).iter().filter(|container| !is_sidecar(container));
    init.flat_map(|container| container.list_at(&["resizePolicy"]))
        .any(|policy| policy.str_at(&["restartPolicy"]) == "RestartContainer")
}

pub(super) fn uses_restart_rules(spec: &Value) -> bool {
    let init = spec.list_at(&["initContainers"]).iter();
    let regular = spec.list_at(&["containers"]).iter();
    init.into_iter().any(|container| {
        !matches!(container.field("restartPolicy").as_str(), None | Some("Always"))
            || !container.list_at(&["restartPolicyRules"]).is_empty()
    }) || regular.into_iter().any(|container| !container.field("restartPolicy").is_null())
}

fn uses_restart_all(spec: &Value) -> bool {
    let restarts_all = |container: &Value| {
        let mut rules = container.list_at(&["restartPolicyRules"]).iter();
        rules.any(|rule| rule.str_at(&["action"]) == "RestartAllContainers")
    };
    let sidecar_rules =
        |container: &Value| is_sidecar(container) && !container.list_at(&["restartPolicyRules"]).is_empty();
    spec.list_at(&["containers"]).iter().any(restarts_all)
        || spec.list_at(&["initContainers"]).iter().any(|c| restarts_all(c) || sidecar_rules(c))
}

fn uses_partial_huge_pages(spec: &Value) -> bool {
    let partial = |list: &Value| {
        list.as_map().is_some_and(|map| {
            map.iter().any(|(name, amount)| {
                resources::is_huge_page(name)
                    && !resources::is_whole_pages(name, &crate::common::checks::quantity(amount))
            })
        })
    };
    container_values(spec).any(|c| partial(c.at(&["resources", "limits"])) || partial(c.at(&["resources", "requests"])))
        || partial(spec.field("overhead"))
}

fn tokens(spec: &Value) -> impl Iterator<Item = &Value> {
    let sources = spec.list_at(&["volumes"]).iter().flat_map(|volume| volume.list_at(&["projected", "sources"]));
    sources.map(|source| source.field("serviceAccountToken")).filter(|token| !token.is_null())
}

fn has_unescalated_sys_admin(container: &Value) -> bool {
    let context = container.field("securityContext");
    context.field("allowPrivilegeEscalation").as_bool() != Some(true)
        && context.list_at(&["capabilities", "add"]).iter().any(|cap| cap.as_str() == Some("CAP_SYS_ADMIN"))
}
