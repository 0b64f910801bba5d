//! The checked-in table: what is served, and what stands behind it.

use super::*;

#[test]
fn kinds_are_found_by_name() {
    let builtin = builtin();
    assert!(builtin.types().structs().count() > 1300);
    assert_eq!(builtin.kind("", "v1", "Pod").unwrap().list.as_deref(), Some("PodList"));
    assert!(builtin.kind("apps", "v1", "Pod").is_none());
    let schema = builtin.schema(&GroupVersionKind::new("apps", "v1", "Deployment")).unwrap();
    assert_eq!(schema.as_struct().unwrap().name, "io.k8s.api.apps.v1.Deployment");
    // Options are registered in every group version, but not in made-up ones.
    assert!(builtin.kind("apps", "v1", "DeleteOptions").is_some());
    assert!(builtin.kind("nope", "v1", "DeleteOptions").is_none());
    for kind in [
        ("meta.k8s.io", "v1", "Table"),
        ("meta.k8s.io", "v1", "PartialObjectMetadataList"),
        ("", "v1", "Status"),
        ("", "v1", "APIResourceList"),
        ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"),
        ("admission.k8s.io", "v1", "AdmissionReview"),
        ("audit.k8s.io", "v1", "Event"),
        ("apiserver.config.k8s.io", "v1", "EncryptionConfiguration"),
    ] {
        assert!(builtin.kind(kind.0, kind.1, kind.2).is_some(), "{kind:?}");
    }
}

#[test]
fn resources_are_as_discovery_tells() {
    let builtin = builtin();
    let versions = || builtin.groups().iter().flat_map(|g| &g.versions);
    assert_eq!(versions().filter(|v| v.enabled).count(), 23);
    assert!(versions().count() > 23);
    let pods = builtin.resource("", "v1", "pods").unwrap();
    assert_eq!((pods.singular.as_str(), pods.namespaced, pods.enabled), ("pod", true, true));
    assert_eq!((pods.short_names.as_slice(), pods.categories.as_slice()), (&["po".into()][..], &["all".into()][..]));
    let subresource = |name: &str| pods.subresources.iter().find(|s| s.name == name).unwrap();
    assert_eq!(subresource("eviction").kind, GroupVersionKind::new("policy", "v1", "Eviction"));
    assert_eq!(subresource("status").kind, GroupVersionKind::new("", "v1", "Pod"));
    let wide: Vec<&str> = pods.columns.iter().filter(|c| c.priority > 0).map(|c| c.name.as_str()).collect();
    assert_eq!(wide, ["IP", "Node", "Nominated Node", "Readiness Gates"]);
    assert!(!builtin.resource("resource.k8s.io", "v1beta2", "resourceslices").unwrap().enabled);
}

#[test]
fn what_is_stored_may_be_of_another_version_or_group() {
    for (group, version, resource, stored) in [
        ("events.k8s.io", "v1", "events", Some(("", "v1", "Event"))),
        ("autoscaling", "v1", "horizontalpodautoscalers", Some(("autoscaling", "v2", "HorizontalPodAutoscaler"))),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            Some(("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition")),
        ),
        ("authentication.k8s.io", "v1", "tokenreviews", None),
    ] {
        let found = builtin().resource(group, version, resource).unwrap();
        let stored = stored.map(|(group, version, kind)| GroupVersionKind::new(group, version, kind));
        assert_eq!(found.stored, stored, "{resource}.{group}");
        assert_eq!(found.storage_version_hash.is_empty(), stored.is_none());
    }
}

#[test]
fn every_stored_kind_and_every_served_kind_is_known() {
    for resource in builtin().resources() {
        let kinds = resource.stored.iter().chain([&resource.kind]).chain(resource.subresources.iter().map(|s| &s.kind));
        for kind in kinds {
            assert!(builtin().schema(kind).is_some(), "{}: {kind}", resource.name);
        }
    }
}
