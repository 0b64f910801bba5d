//! Rules of a CustomResourceDefinition's spec and status.
//!
//! Upstream checks a form of the object in which what all versions have alike stands at the top of the spec; the paths of
//! its errors say so, and ours follow.

use std::collections::BTreeSet;

use object::{Cursor, Errors, Meta, Path, Value, names};

use super::{defaults, field_path, openapi, structural};
use crate::admissionregistration::webhook_client;
use crate::common::checks::{Checks, IMMUTABLE, same};
use crate::common::internal;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const WARNING_MAX_BYTES: usize = 256;
const SELECTABLE_FIELDS_MAX: usize = 8;
const APPROVAL: &str = "api-approved.kubernetes.io";

/// `known` are the expressions that the stored definition has, which may use everything the server knows.
pub fn spec(spec: &Cursor, require_known_review: bool, known: &Expressions, errors: &mut Errors) {
    let (group, versions) = (spec.field("group"), spec.field("versions"));
    if group.require(errors) {
        let messages = names::dns1123_subdomain(group.str());
        if !messages.is_empty() {
            group.bad(errors, messages.join(","));
        } else if !group.str().contains('.') {
            group.bad(errors, "should be a domain with at least one dot");
        }
    }
    spec.field("scope").require_one_of(errors, &["Cluster", "Namespaced"]);
    for version in versions.each() {
        let schema = version.at(&["schema", "openAPIV3Schema"]);
        if !schema.is_set() {
            schema.required(errors, "");
        }
    }
    let shared = Shared::of(&versions);
    for version in versions.each() {
        validate_version(&version, &shared, known, errors);
    }
    validate_version_list(&versions, &shared, errors);
    if let Some(first) = versions.each().next().filter(|first| !first.field("name").is_empty()) {
        let messages = names::dns1035_label(first.field("name").str());
        if !messages.is_empty() {
            errors.invalid(&spec.path().field("version"), first.field("name").str(), messages.join(","));
        }
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        spec.at(&["names", name]).require(errors);
    }
    names(&spec.field("names"), errors);
    if let Some(first) = versions.each().next() {
        let top = |field: &str| Cursor::new(first.field(field).value(), spec.path().field(field));
        let schema = first.at(&["schema", "openAPIV3Schema"]);
        if shared.schema && schema.is_set() {
            let path = spec.path().field("validation").field("openAPIV3Schema");
            let has_status = versions.each().any(|version| version.at(&["subresources", "status"]).is_set());
            validate_schema(&Cursor::new(schema.value(), path), has_status, known, errors);
        }
        if shared.subresources {
            validate_scale(&top("subresources"), errors);
        }
        if shared.columns {
            top("additionalPrinterColumns").each().for_each(|column| validate_column(&column, errors));
        }
        if shared.selectable {
            validate_selectable(&top("selectableFields"), schema.value(), errors);
        }
    }
    validate_conversion(&spec.field("conversion"), require_known_review, errors);
}

/// Expressions of a stored definition.
#[derive(Default)]
pub struct Expressions(BTreeSet<String>);

impl Expressions {
    /// The rules and message expressions of a spec in the form of v1.
    pub fn of(spec: &Cursor) -> Expressions {
        let mut all = BTreeSet::new();
        for version in spec.field("versions").each() {
            collect_expressions(version.at(&["schema", "openAPIV3Schema"]).value(), &mut all, 0);
        }
        Expressions(all)
    }

    fn mode(&self, text: &str) -> cel::Mode {
        if self.0.contains(text) { cel::Mode::Stored } else { cel::Mode::New(NEW_EXPRESSIONS) }
    }
}

/// New expressions may use what the release before this one knows.
const NEW_EXPRESSIONS: cel::library::Version = cel::library::Version { major: 1, minor: 36 };
const MAX_DEPTH: usize = 100;

fn collect_expressions(schema: &Value, all: &mut BTreeSet<String>, depth: usize) {
    let Some(map) = schema.as_map().filter(|_| depth <= MAX_DEPTH) else { return };
    for rule in schema.list_at(&["x-kubernetes-validations"]) {
        for field in ["rule", "messageExpression"] {
            all.extend(rule.field(field).as_str().map(str::to_string));
        }
    }
    for (name, value) in map.iter() {
        match name {
            "properties" => {
                for (_, property) in value.as_map().into_iter().flat_map(|map| map.iter()) {
                    collect_expressions(property, all, depth + 1);
                }
            }
            "items" | "additionalProperties" | "not" => collect_expressions(value, all, depth + 1),
            "allOf" | "anyOf" | "oneOf" => {
                let branches = value.as_list().into_iter().flatten();
                branches.for_each(|branch| collect_expressions(branch, all, depth + 1));
            }
            _ => {}
        }
    }
}

/// What every version has, and has alike.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    fn of(versions: &Cursor) -> Shared {
        let alike = |field: &str| {
            let first = versions.index(0).field(field);
            !first.is_empty() && versions.each().all(|version| same(version.field(field).value(), first.value()))
        };
        // An empty map of subresources or an empty schema is still one.
        let set = |field: &str| {
            let first = versions.index(0).field(field);
            first.is_set() && versions.each().all(|version| version.field(field).value() == first.value())
        };
        Shared {
            schema: set("schema"),
            subresources: set("subresources"),
            columns: alike("additionalPrinterColumns"),
            selectable: alike("selectableFields"),
        }
    }
}

fn validate_version(version: &Cursor, shared: &Shared, known: &Expressions, errors: &mut Errors) {
    let (name, warning) = (version.field("name"), version.field("deprecationWarning"));
    let messages = names::dns1035_label(name.str());
    if !messages.is_empty() {
        name.bad(errors, messages.join(","));
    }
    for message in deprecation_warning(version.field("deprecated").bool(), warning.opt_str()) {
        warning.bad(errors, message);
    }
    let schema = version.at(&["schema", "openAPIV3Schema"]);
    if !shared.schema && schema.is_set() {
        validate_schema(&schema, version.at(&["subresources", "status"]).is_set(), known, errors);
    }
    if !shared.subresources {
        validate_scale(&version.field("subresources"), errors);
    }
    if !shared.columns {
        version.field("additionalPrinterColumns").each().for_each(|column| validate_column(&column, errors));
    }
    if !shared.selectable {
        validate_selectable(&version.field("selectableFields"), schema.value(), errors);
    }
}

/// Fields that selectors may use: plain values that the schema knows.
fn validate_selectable(fields: &Cursor, schema: &Value, errors: &mut Errors) {
    let mut unique = BTreeSet::new();
    for field in fields.each() {
        let path = field.field("jsonPath");
        if !path.require(errors) {
            continue;
        }
        match field_path::find(path.str(), schema, false) {
            Err(why) => path.bad(errors, format!("is an invalid path: {why}")),
            Ok((at, found)) => {
                let at = at.to_string();
                if at == "metadata" || at.starts_with("metadata.") {
                    path.bad(errors, "must not point to fields in metadata");
                }
                if !matches!(found.str_at(&["type"]), "string" | "boolean" | "integer") {
                    let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                                  with formats are allowed.";
                    path.bad(errors, detail);
                }
                if !unique.insert(at) {
                    path.duplicate(errors);
                }
            }
        }
    }
    if unique.len() > SELECTABLE_FIELDS_MAX {
        errors.too_many(fields.path(), unique.len(), SELECTABLE_FIELDS_MAX);
    }
}

fn validate_schema(schema: &Cursor, has_status: bool, known: &Expressions, errors: &mut Errors) {
    openapi::validate_root(schema, has_status, errors);
    // What has no structural form at all is told by the rules about every schema.
    let mut is_structural = structural::is_convertible(schema.value()) && structural::validate(schema, errors);
    if is_structural {
        let before = errors.len();
        defaults::validate(schema, errors);
        is_structural = errors.len() == before;
    }
    openapi::validate(schema, errors);
    if is_structural {
        cel::rules::check_definition(schema.value(), schema.path(), &|text| known.mode(text), errors);
    }
}

fn deprecation_warning(deprecated: bool, warning: Option<&str>) -> Vec<String> {
    let Some(warning) = warning else { return Vec::new() };
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_string()];
    }
    let mut messages = Vec::new();
    if warning.len() > WARNING_MAX_BYTES {
        messages.push(format!("must be <= {WARNING_MAX_BYTES} characters long"));
    }
    if warning.is_empty() {
        messages.push("must not be an empty string".to_string());
    }
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| !object::is_print(*c)) {
        let rule = "must only contain printable UTF-8 characters";
        messages.push(format!("{rule}; non-printable character found at index {i}"));
    }
    messages
}

fn validate_version_list(versions: &Cursor, shared: &Shared, errors: &mut Errors) {
    let names: BTreeSet<&str> = versions.each().map(|version| version.field("name").str()).collect();
    let storage = versions.each().filter(|version| version.field("storage").bool()).count();
    let mut report = |detail: &str| versions.invalid_as(errors, shown(versions, shared), detail);
    if names.len() < versions.len() {
        report("must contain unique version names");
    }
    if storage != 1 {
        report("must have exactly one version marked as storage version");
    }
}

/// The versions as upstream has them: without what has gone to the top of the spec.
fn shown(versions: &Cursor, shared: &Shared) -> object::BadValue {
    let mut list = versions.value().clone();
    for version in list.as_list_mut().into_iter().flatten() {
        let gone = [
            ("schema", shared.schema),
            ("subresources", shared.subresources),
            ("additionalPrinterColumns", shared.columns),
        ];
        for (field, _) in gone.iter().filter(|(_, gone)| *gone) {
            version.remove(&[field]);
        }
    }
    let shown = list.as_list().unwrap_or(&[]).iter().map(|v| internal::shown("CustomResourceDefinitionVersion", v));
    let shown: Vec<String> =
        shown.filter_map(|value| if let object::BadValue::Raw(text) = value { Some(text) } else { None }).collect();
    object::BadValue::Raw(if versions.is_set() { format!("[{}]", shown.join(",")) } else { "null".to_string() })
}

pub fn names(names_field: &Cursor, errors: &mut Errors) {
    let mut check = |field: &Cursor, lower: bool| {
        let text = if lower { field.str().to_lowercase() } else { field.str().to_string() };
        let messages = names::dns1035_label(&text);
        if !messages.is_empty() {
            let intro = if lower { "may have mixed case, but should otherwise match: " } else { "" };
            field.bad(errors, format!("{intro}{}", messages.join(",")));
        }
    };
    for (name, lower) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        if !names_field.field(name).is_empty() {
            check(&names_field.field(name), lower);
        }
    }
    names_field.field("shortNames").each().for_each(|name| check(&name, false));
    let (kind, list) = (names_field.field("kind"), names_field.field("listKind"));
    if !kind.is_empty() && kind.str() == list.str() {
        list.bad(errors, "kind and listKind may not be the same");
    }
    for category in names_field.field("categories").each() {
        let messages = names::dns1035_label(category.str());
        if !messages.is_empty() {
            category.bad(errors, messages.join(","));
        }
    }
}

fn validate_scale(subresources: &Cursor, errors: &mut Errors) {
    let scale = subresources.field("scale");
    if !scale.is_set() {
        return;
    }
    // Upstream writes the two names as one.
    let at =
        |field: &str| Cursor::new(scale.field(field).value(), subresources.path().field(&format!("scale.{field}")));
    for (field, prefix, wanted) in
        [("specReplicasPath", ".spec.", "under .spec"), ("statusReplicasPath", ".status.", "under .status")]
    {
        let field = at(field);
        if field.require(errors) && validate_path(&field, errors) && !field.str().starts_with(prefix) {
            field.bad(errors, format!("should be a json path {wanted}"));
        }
    }
    let selector = at("labelSelectorPath");
    let fine = selector.str().starts_with(".spec.") || selector.str().starts_with(".status.");
    if !selector.is_empty() && validate_path(&selector, errors) && !fine {
        selector.bad(errors, "should be a json path under either .spec or .status");
    }
}

/// A path to a field; says whether it is one.
fn validate_path(path: &Cursor, errors: &mut Errors) -> bool {
    let fine = path.str().starts_with('.');
    if !fine {
        path.bad(errors, "must be a simple json path starting with .");
    }
    fine
}

fn validate_column(column: &Cursor, errors: &mut Errors) {
    let (kind, format) = (column.field("type"), column.field("format"));
    column.field("name").require(errors);
    let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        kind.required(errors, detail);
    } else if !COLUMN_TYPES.contains(&kind.str()) {
        kind.bad(errors, detail);
    }
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format.str()) {
        format.bad(errors, format!("must be one of {}", COLUMN_FORMATS.join(",")));
    }
    let path = Cursor::new(column.field("jsonPath").value(), column.path().field("JSONPath"));
    if path.require(errors) {
        validate_path(&path, errors);
    }
}

/// Whether a stored conversion names a version of reviews that we know; one that does not may stay so.
pub fn recognizes_reviews(spec: &Cursor) -> bool {
    let versions = spec.at(&["conversion", "webhook", "conversionReviewVersions"]);
    versions.is_empty() || versions.strs().any(|version| REVIEW_VERSIONS.contains(&version))
}

fn validate_conversion(conversion: &Cursor, require_known_review: bool, errors: &mut Errors) {
    if !conversion.is_set() {
        return;
    }
    let strategy = conversion.field("strategy");
    strategy.require_one_of(errors, &["None", "Webhook"]);
    let webhook = conversion.field("webhook");
    let at = |from: &str, shown: &str| Cursor::new(webhook.field(from).value(), conversion.path().field(shown));
    let config = at("clientConfig", "webhookClientConfig");
    let versions = at("conversionReviewVersions", "conversionReviewVersions");
    if strategy.str() != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_set() {
            config.forbidden(errors, detail);
        }
        if !versions.is_empty() {
            versions.forbidden(errors, detail);
        }
        return;
    }
    if config.is_set() {
        webhook_client::validate(&config, errors);
    } else {
        config.required(errors, "required when strategy is set to Webhook");
    }
    validate_reviews(&versions, require_known_review, errors);
}

fn validate_reviews(versions: &Cursor, require_known: bool, errors: &mut Errors) {
    if versions.is_empty() {
        return versions.required(errors, "");
    }
    let mut seen = BTreeSet::new();
    for version in versions.each() {
        if seen.insert(version.str()) {
            version.check(errors, names::dns1035_label);
        } else {
            version.bad(errors, "duplicate version");
        }
    }
    if require_known && !REVIEW_VERSIONS.iter().any(|version| seen.contains(version)) {
        versions.invalid(errors, format!("must include at least one of {}", REVIEW_VERSIONS.join(", ")));
    }
}

/// Fields that an update may not change; some only once the definition is established.
pub fn immutable_names(spec: &Cursor, old: &Cursor, established: bool, errors: &mut Errors) {
    let always: [&[&str]; 2] = [&["group"], &["names", "plural"]];
    let settled: [&[&str]; 2] = [&["scope"], &["names", "kind"]];
    let settled = settled.into_iter().filter(|_| established);
    for path in settled.chain(always) {
        if spec.at(path).str() != old.at(path).str() {
            spec.at(path).bad(errors, IMMUTABLE);
        }
    }
}

pub fn status(object: &Cursor, errors: &mut Errors) {
    names(&object.at(&["status", "acceptedNames"]), errors);
    let stored = object.at(&["status", "storedVersions"]);
    if stored.is_empty() {
        return stored.invalid(errors, "must have at least one stored version");
    }
    let versions = object.at(&["spec", "versions"]);
    // A stored version counts for one version of that name only.
    let mut left: BTreeSet<&str> = stored.strs().collect();
    for version in versions.each() {
        let name = version.field("name").str();
        if !left.remove(name) && version.field("storage").bool() {
            stored.invalid(errors, format!("must have the storage version {name}"));
        }
    }
    for version in stored.each() {
        let name = version.str();
        if left.remove(name) {
            version.bad(
                errors,
                format!(
                    "missing from spec.versions; {name} was previously a storage version, and must remain in \
                     spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                     {name} from status.storedVersions"
                ),
            );
        }
    }
}

/// Groups of the community need a word from it.
pub fn approval(object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let group = object.at(&["spec", "group"]).str();
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let state = Approval::of(object.value());
    if !is_protected || old.is_some_and(|old| Approval::of(old.value()) == state) {
        return;
    }
    let path = Path::of("metadata.annotations").key(APPROVAL);
    match state {
        Approval::Fine => {}
        Approval::Missing => {
            let see = "see https://github.com/kubernetes/enhancements/pull/1111";
            errors.required(&path, format!("protected groups must have approval annotation {APPROVAL:?}, {see}"));
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \
                 \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
            );
            errors.invalid(&path, object.value().annotation(APPROVAL).unwrap_or(""), detail);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Fine,
    Invalid,
}

impl Approval {
    fn of(object: &Value) -> Approval {
        match object.annotation(APPROVAL).unwrap_or("") {
            "" => Approval::Missing,
            text if text.starts_with("unapproved") => Approval::Fine,
            text if text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()) => {
                Approval::Fine
            }
            _ => Approval::Invalid,
        }
    }
}
