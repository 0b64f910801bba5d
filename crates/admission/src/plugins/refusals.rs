//! Plugins that refuse a single use of a single field.

use async_trait::async_trait;
use object::{Meta, Status, Value};

use super::forbidden;
use crate::{Attributes, Plugin};

/// Services may not use external addresses, which any user could claim.
pub struct DenyServiceExternalIps;

/// Pods may keep others away from their node, and from nothing larger.
pub struct LimitPodHardAntiAffinityTopology;

#[async_trait]
impl Plugin for DenyServiceExternalIps {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(service) = object.filter(|_| attributes.is("", "services")) else { return Ok(()) };
        let before = old.map(|old| old.list_at(&["spec", "externalIPs"])).unwrap_or(&[]);
        if service.list_at(&["spec", "externalIPs"]).iter().all(|address| before.contains(address)) {
            return Ok(());
        }
        Err(forbidden(attributes, "Use of external IPs is denied by admission control"))
    }
}

const HOSTNAME: &str = "kubernetes.io/hostname";

#[async_trait]
impl Plugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        "LimitPodHardAntiAffinityTopology"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| attributes.is("", "pods")) else { return Ok(()) };
        let required = ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        let keys = pod.list_at(&required).iter().map(|term| term.str_at(&["topologyKey"]));
        match keys.into_iter().find(|key| *key != HOSTNAME) {
            None => Ok(()),
            Some(key) => {
                let why = format!(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
                );
                let pods = object::GroupResource::new("", "pods");
                Err(Status::forbidden(&pods, pod.name(), why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{World, create, update};

    #[test]
    fn external_addresses_may_only_stay() {
        let service = |addresses: Value| value!({"metadata": {"name": "s"}, "spec": {"externalIPs": addresses}});
        let refused =
            Err(r#"services "s" is forbidden: Use of external IPs is denied by admission control"#.to_string());
        let (plugin, world) = (DenyServiceExternalIps, World::default());
        let both = service(value!(["1.1.1.1", "2.2.2.2"]));
        assert_eq!(create(&plugin, &world, "services", both.clone()).map(|_| ()), refused);
        assert!(create(&plugin, &world, "services", service(value!([]))).is_ok());
        assert!(update(&plugin, &world, "services", service(value!(["1.1.1.1"])), both.clone()).is_ok());
        let more = service(value!(["3.3.3.3"]));
        assert_eq!(update(&plugin, &world, "services", more, both).map(|_| ()), refused);
    }

    #[test]
    fn anti_affinity_is_for_nodes() {
        let pod = |key: &str| {
            value!({"metadata": {"name": "p"}, "spec": {"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key}]
            }}}})
        };
        let (plugin, world) = (LimitPodHardAntiAffinityTopology, World::default());
        assert!(create(&plugin, &world, "pods", pod(HOSTNAME)).is_ok());
        assert!(create(&plugin, &world, "pods", pod("zone")).unwrap_err().contains("TopologyKey zone but only"));
    }
}
