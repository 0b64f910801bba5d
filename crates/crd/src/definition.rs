//! [`Definition`]: what a stored CustomResourceDefinition says, read once for each change.

use cel::conversion::ANNOTATION;
use object::{GroupVersion, Meta, Str, Value};
use registry::ScalePaths;

use crate::finalize::FINALIZER;
use crate::names::Names;
use crate::status;

/// A definition, without its schemas: those are read again from the stored bytes when they are needed.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    pub name: Str,
    pub uid: Str,
    pub generation: i64,
    pub group: Str,
    pub namespaced: bool,
    pub preserve_unknown: bool,
    /// Objects cannot be created any more, because the definition is being deleted.
    pub terminating: bool,
    pub established: bool,
    /// It is being deleted and its objects have to go first.
    pub finalizing: bool,
    /// `spec.names`.
    pub requested: Names,
    /// `status.acceptedNames`.
    pub accepted: Names,
    pub versions: Vec<Version>,
    /// How objects are converted between versions; None where only the version's name changes.
    pub webhook: Option<ConversionWebhook>,
    /// The annotation with conversion rules.
    pub conversion_rules: Option<Str>,
}

/// `spec.conversion.webhook`.
#[derive(Clone, Debug)]
pub struct ConversionWebhook {
    /// The name of the definition.
    pub definition: Str,
    pub client_config: Value,
    pub review_versions: Vec<Str>,
}

#[derive(Clone, Debug)]
pub struct Version {
    pub name: Str,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub deprecation_warning: Option<Str>,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    pub columns: Vec<PrinterColumn>,
    /// Paths such as `.spec.color`.
    pub selectable_fields: Vec<Str>,
}

/// One of `additionalPrinterColumns`.
#[derive(Clone, Debug, Default)]
pub struct PrinterColumn {
    pub name: Str,
    pub kind: Str,
    pub format: Str,
    pub description: Str,
    pub priority: i64,
    pub path: Str,
}

impl Definition {
    /// Reads a definition in the form of apiextensions.k8s.io/v1.
    pub fn read(object: &Value) -> Definition {
        let spec = object.field("spec");
        Definition {
            name: object.name().into(),
            uid: object.uid().into(),
            generation: object.generation(),
            group: spec.str_at(&["group"]).into(),
            namespaced: spec.str_at(&["scope"]) == "Namespaced",
            preserve_unknown: spec.field("preserveUnknownFields").as_bool() == Some(true),
            terminating: object.is_deleting() || status::is_true(object, "Terminating"),
            established: status::is_true(object, "Established"),
            finalizing: object.is_deleting() && object.finalizers().any(|held| held == FINALIZER),
            requested: Names::read(spec.field("names")),
            accepted: Names::read(object.at(&["status", "acceptedNames"])),
            versions: spec.list_at(&["versions"]).iter().map(Version::read).collect(),
            webhook: Some(spec.field("conversion"))
                .filter(|conversion| conversion.str_at(&["strategy"]) == "Webhook")
                .map(|conversion| ConversionWebhook::read(object.name(), conversion.field("webhook"))),
            conversion_rules: object.annotation(ANNOTATION).map(Str::from),
        }
    }

    /// The group-versions that clients can use it in.
    pub fn served_versions(&self) -> Vec<GroupVersion> {
        let served = self.versions.iter().filter(|version| version.served);
        served.map(|version| GroupVersion::new(self.group.clone(), version.name.clone())).collect()
    }

    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl ConversionWebhook {
    fn read(definition: &str, webhook: &Value) -> ConversionWebhook {
        let versions = webhook.list_at(&["conversionReviewVersions"]).iter().filter_map(Value::as_str);
        ConversionWebhook {
            definition: definition.into(),
            client_config: webhook.field("clientConfig").clone(),
            review_versions: versions.map(Str::from).collect(),
        }
    }
}

impl Version {
    fn read(version: &Value) -> Version {
        let flag = |field: &str| version.field(field).as_bool() == Some(true);
        let subresources = version.field("subresources");
        let set = |value: &Value| !value.is_null();
        Version {
            name: version.str_at(&["name"]).into(),
            served: flag("served"),
            storage: flag("storage"),
            deprecated: flag("deprecated"),
            deprecation_warning: version.field("deprecationWarning").as_str().map(Str::from),
            has_status: set(subresources.field("status")),
            scale: Some(subresources.field("scale")).filter(|scale| set(scale)).map(scale_paths),
            columns: version.list_at(&["additionalPrinterColumns"]).iter().map(PrinterColumn::read).collect(),
            selectable_fields: version
                .list_at(&["selectableFields"])
                .iter()
                .map(|field| Str::from(field.str_at(&["jsonPath"])))
                .collect(),
        }
    }
}

impl PrinterColumn {
    fn read(column: &Value) -> PrinterColumn {
        let text = |field: &str| Str::from(column.str_at(&[field]));
        PrinterColumn {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column.field("priority").as_int().unwrap_or(0),
            path: text("jsonPath"),
        }
    }
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |field: &str| {
        let path = scale.str_at(&[field]);
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() { Vec::new() } else { path.split('.').map(Str::from).collect() }
    };
    ScalePaths {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: path("labelSelectorPath"),
    }
}

/// The `openAPIV3Schema` of a version in a definition of the form of v1; null if there is none.
pub fn openapi_of(object: &Value, version: &str) -> Value {
    let versions = object.list_at(&["spec", "versions"]);
    let found = versions.iter().find(|stated| stated.str_at(&["name"]) == version);
    found.map(|version| version.at(&["schema", "openAPIV3Schema"]).clone()).unwrap_or_default()
}
