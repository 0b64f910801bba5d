use super::*;

#[test]
fn types_and_fields_are_described() {
    for (definition, field, begins, ends) in [
        ("io.k8s.api.core.v1.Pod", "", "Pod is a collection of containers", "onto hosts."),
        ("io.k8s.api.core.v1.Pod", "spec", "Specification of the desired behavior of the pod.", "#spec-and-status"),
        ("io.k8s.api.core.v1.Pod", "apiVersion", "APIVersion defines", "#resources"),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
            "name",
            "Name must be unique within a namespace.",
            "#names",
        ),
        ("io.k8s.api.core.v1.Container", "ports", "List of ports to expose", "Cannot be updated."),
        ("io.k8s.api.core.v1.PodList", "kind", "Kind is a string value", "#types-kinds"),
        // Escapes of the source are text here.
        (
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            "",
            "Quantity is a fixed-point",
            "fixed point implementation.",
        ),
        (
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
            "format",
            "format is an OpenAPI",
            "",
        ),
        // Parameters of operations are fields of their option kinds.
        ("ListOptions", "continue", "The continue option", "any modifications."),
        ("ListOptions", "allowWatchBookmarks", "allowWatchBookmarks requests", "this field is ignored."),
        ("PodLogOptions", "insecureSkipTLSVerifyBackend", "insecureSkipTLSVerifyBackend indicates", ""),
    ] {
        let text = of(definition, field).unwrap_or_else(|| panic!("{definition}.{field} has no description"));
        assert!(text.starts_with(begins) && text.ends_with(ends), "{definition}.{field}: {text:?}");
    }
    assert!(of("io.k8s.apimachinery.pkg.api.resource.Quantity", "").is_some_and(|t| t.contains("\n\n\t(Note that")));
}

#[test]
fn what_is_not_there_is_none() {
    assert_eq!(of("io.k8s.api.core.v1.Pod", "nope"), None);
    assert_eq!(of("nope", ""), None);
}

#[test]
fn an_empty_file_has_no_descriptions() {
    assert!(unpack(b"").is_none());
    let empty = [0x01, 0x01, 0x00, 0xfe, 0xff, b'\n'];
    assert!(unpack(&empty).is_some_and(|unpacked| unpacked.index.is_empty()));
}
