//! [`ApiService`]: what an APIService says, and the order of groups that follows from it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{GroupVersion, Meta, Str, Value, compare_versions, value};

use crate::Priority;

/// Says how the server looks after an APIService that it made itself.
pub const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// How the server looks after an APIService that it made itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// Created or repaired once, when the server starts: those of built-in groups.
    OnStart,
    /// Kept as it should be at any time: those of custom resource definitions.
    Always,
}

impl Managed {
    pub fn as_str(self) -> &'static str {
        match self {
            Managed::OnStart => "onstart",
            Managed::Always => "true",
        }
    }

    fn of(object: &Value) -> Option<Managed> {
        let label = object.label(MANAGED_LABEL);
        [Managed::OnStart, Managed::Always].into_iter().find(|managed| label == Some(managed.as_str()))
    }
}

/// A stored APIService.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiService {
    /// `<version>.<group>`.
    pub name: Str,
    pub version: GroupVersion,
    pub priority: Priority,
    /// Where requests go; None for what this server answers itself.
    pub backend: Option<Reference>,
    /// Whether the condition Available is True.
    pub available: bool,
    pub managed: Option<Managed>,
}

/// The Service that answers, and how it is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub namespace: String,
    pub name: String,
    pub port: u16,
    pub ca_bundle: Vec<u8>,
    pub insecure: bool,
}

impl ApiService {
    pub fn read(object: &Value) -> ApiService {
        let spec = object.field("spec");
        let priority = |field: &str| spec.field(field).as_int().unwrap_or(0);
        ApiService {
            name: object.name().into(),
            version: GroupVersion::new(spec.str_at(&["group"]), spec.str_at(&["version"])),
            priority: Priority { group: priority("groupPriorityMinimum"), version: priority("versionPriority") },
            backend: Reference::read(spec),
            available: condition(object).is_some_and(|found| found.str_at(&["status"]) == "True"),
            managed: Managed::of(object),
        }
    }

    /// One that is not stored, for what this server serves.
    pub fn implied(version: GroupVersion, priority: Priority) -> ApiService {
        ApiService { managed: None, ..ApiService::local(version, priority, Managed::Always) }
    }

    /// One that this server answers for.
    pub(crate) fn local(version: GroupVersion, priority: Priority, managed: Managed) -> ApiService {
        let name = name_of(&version);
        ApiService { name, version, priority, backend: None, available: true, managed: Some(managed) }
    }

    /// `spec` of a local one.
    pub(crate) fn local_spec(&self) -> Value {
        let mut spec = value!({
            "groupPriorityMinimum": (self.priority.group),
            "version": (self.version.version.clone()),
            "versionPriority": (self.priority.version),
        });
        if !self.version.group.is_empty() {
            spec.set(&["group"], self.version.group.clone());
        }
        spec
    }
}

impl Reference {
    fn read(spec: &Value) -> Option<Reference> {
        let service = spec.field("service");
        if service.is_null() {
            return None;
        }
        let bundle = spec.str_at(&["caBundle"]);
        Some(Reference {
            namespace: service.str_at(&["namespace"]).into(),
            name: service.str_at(&["name"]).into(),
            // What is stored was validated. If it is no port all the same, nothing can be reached there.
            port: service.field("port").as_int().map_or(443, |port| u16::try_from(port).unwrap_or(0)),
            // Without a bundle the system's authorities would be trusted, so one that does not decode stays, and is refused as PEM.
            ca_bundle: STANDARD.decode(bundle).unwrap_or_else(|_| bundle.as_bytes().to_vec()),
            insecure: spec.field("insecureSkipTLSVerify").as_bool() == Some(true),
        })
    }
}

/// The name of a group-version's APIService.
pub fn name_of(version: &GroupVersion) -> Str {
    format!("{}.{}", version.version, version.group).into()
}

/// The condition Available.
pub fn condition(object: &Value) -> Option<&Value> {
    object.list_at(&["status", "conditions"]).iter().find(|found| found.str_at(&["type"]) == "Available")
}

/// A group with its versions, the preferred one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: Str,
    pub versions: Vec<GroupVersion>,
}

/// Groups in the order that clients are to prefer them in: by priority, then by the name of their first APIService.
pub fn sorted(mut services: Vec<&ApiService>) -> Vec<Group> {
    services.sort_by(|a, b| b.priority.group.cmp(&a.priority.group).then_with(|| a.name.cmp(&b.name)));
    let mut groups: Vec<(&Str, Vec<&ApiService>)> = Vec::new();
    let mut places: hashbrown::HashMap<&Str, usize> = hashbrown::HashMap::new();
    for service in services {
        let group = &service.version.group;
        let at = *places.entry(group).or_insert_with(|| {
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(service);
    }
    let versions = |mut services: Vec<&ApiService>| {
        services.sort_by(|a, b| {
            let by_age = || compare_versions(&b.version.version, &a.version.version);
            b.priority.version.cmp(&a.priority.version).then_with(by_age)
        });
        services.into_iter().map(|service| service.version.clone()).collect()
    };
    groups.into_iter().map(|(name, services)| Group { name: name.clone(), versions: versions(services) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_versions_are_sorted_by_priority() {
        let service = |name: &str, group_priority: i64, version_priority: i64| {
            let (version, group) = name.split_once('.').unwrap();
            let priority = Priority { group: group_priority, version: version_priority };
            ApiService::local(GroupVersion::new(group, version), priority, Managed::Always)
        };
        let services = [
            service("v1.b", 100, 10),
            service("v2.b", 100, 10),
            service("v1beta1.b", 100, 30),
            service("v3alpha1.b", 100, 10),
            service("custom.b", 100, 20),
            service("v1.a", 100, 10),
            service("v1.c", 200, 1),
        ];
        let shown: Vec<String> = sorted(services.iter().collect())
            .iter()
            .map(|group| {
                let versions: Vec<&str> = group.versions.iter().map(|version| version.version.as_str()).collect();
                format!("{}: {}", group.name, versions.join(" "))
            })
            .collect();
        // `custom.b` is the first name among those of priority 100.
        assert_eq!(shown, ["c: v1", "b: v1beta1 custom v2 v1 v3alpha1", "a: v1"]);
    }

    #[test]
    fn services_are_read() {
        let object = value!({
            "metadata": {"name": "v1.g", "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}},
            "spec": {
                "group": "g", "version": "v1", "groupPriorityMinimum": 5, "versionPriority": 6, "caBundle": "YQ==",
                "service": {"namespace": "ns", "name": "s", "port": 8443},
            },
            "status": {"conditions": [{"type": "Available", "status": "False"}]},
        });
        let service = ApiService::read(&object);
        assert_eq!((service.priority, service.available), (Priority { group: 5, version: 6 }, false));
        assert_eq!(service.managed, Some(Managed::Always));
        let backend = service.backend.unwrap();
        assert_eq!((backend.port, backend.ca_bundle.as_slice(), backend.insecure), (8443, &b"a"[..], false));
    }
}
