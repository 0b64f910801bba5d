//! Rules of a CustomResourceDefinition's spec and status.
//!
//! Upstream checks a form of the object in which what all versions have alike stands at the top of the spec; the paths of
//! its errors say so, and ours follow.

use std::borrow::Cow;
use std::collections::BTreeSet;

use object::{Cursor, Errors, Path, Value, names};

use super::demands::Demands;
use super::schemas::{any_part, each_schema};
use super::{conversion, defaults, field_path, openapi, structural};
use crate::common::checks::{Checks, IMMUTABLE, same};
use crate::common::internal;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const WARNING_MAX_BYTES: usize = 256;
pub const SELECTABLE_FIELDS_MAX: usize = 8;

/// Checks a spec in the form of v1. `stored` is the same spec in the form that is stored.
pub fn spec(spec: &Cursor, stored: &Cursor, demands: &Demands, errors: &mut Errors) {
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
    require_schemas(spec, demands, errors);
    let preserves = spec.field("preserveUnknownFields");
    let has = |predicate: &dyn Fn(&Value) -> bool| each_schema(spec).any(|schema| any_part(schema, predicate));
    let has_defaults = demands.defaults && has(&|part| !part.field("default").is_null());
    if has_defaults && preserves.bool() {
        preserves.invalid(errors, "must be false in order to use defaults in the schema");
    }
    let must_be_structural = demands.structural || !preserves.bool() || has_defaults || has(&has_extensions);
    let rules = SchemaRules { demands, must_be_structural };
    let shared = Shared::of(&versions);
    for version in versions.each() {
        validate_version(&version, &shared, &rules, errors);
    }
    exclusive_parts(stored, errors);
    validate_version_list(&versions, &shared, errors);
    if let Some(first) = versions.each().next().filter(|first| !first.field("name").is_empty()) {
        let messages = names::dns1035_label(first.field("name").str());
        if !messages.is_empty() {
            errors.invalid(&spec.path().field("version"), first.field("name").str(), messages.join(","));
        }
        let stated = stored.field("version");
        if !stated.is_empty() && stated.str() != first.field("name").str() {
            stated.bad(errors, "must match the first version in spec.versions");
        }
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        spec.at(&["names", name]).require(errors);
    }
    names(&spec.field("names"), errors);
    if let Some(first) = versions.each().next() {
        let top = |field: &'static str| Cursor::new(first.field(field).value(), spec.path().field(field));
        let schema = first.at(&["schema", "openAPIV3Schema"]);
        if shared.schema && schema.is_set() {
            let path = spec.path().field("validation").field("openAPIV3Schema");
            let has_status = versions.each().any(|version| version.at(&["subresources", "status"]).is_set());
            let name = first.field("name").str();
            validate_schema(&Cursor::new(schema.value(), path), has_status, &rules, name, errors);
        }
        if shared.subresources {
            validate_scale(&top("subresources"), errors);
        }
        if shared.columns {
            top("additionalPrinterColumns").each().for_each(|column| validate_column(&column, errors));
        }
        if shared.selectable {
            let allows_many = demands.allows_many_selectable(first.field("name").str());
            validate_selectable(&top("selectableFields"), schema.value(), allows_many, errors);
        }
    }
    conversion::validate(spec, demands, errors);
}

/// Every version needs a schema; where stored ones have none, only what is served and pruned does.
fn require_schemas(spec: &Cursor, demands: &Demands, errors: &mut Errors) {
    let prunes = !spec.field("preserveUnknownFields").bool();
    for version in spec.field("versions").each() {
        let schema = version.at(&["schema", "openAPIV3Schema"]);
        if schema.is_set() {
            continue;
        }
        if demands.schemas {
            schema.required(errors, "");
        } else if prunes && version.field("served").bool() {
            schema.required(errors, "because otherwise all fields are pruned");
        }
    }
}

/// Whether a schema uses what only structural schemas can have.
fn has_extensions(schema: &Value) -> bool {
    let flag = |name: &str| schema.field(name).as_bool() == Some(true);
    flag("x-kubernetes-embedded-resource")
        || flag("x-kubernetes-int-or-string")
        || !schema.field("x-kubernetes-preserve-unknown-fields").is_null()
        || !schema.field("x-kubernetes-list-map-keys").is_empty()
        || !schema.field("x-kubernetes-list-type").is_null()
        || !schema.field("x-kubernetes-validations").is_empty()
}

/// What the stored form has at the top of the spec is not in versions as well, nor is it the same in all of them. Only
/// clients of v1beta1 can write such a spec.
fn exclusive_parts(stored: &Cursor, errors: &mut Errors) {
    let versions = stored.field("versions");
    let parts = [
        ("validation", "schema", "schemas"),
        ("subresources", "subresources", "subresources"),
        ("additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns"),
    ];
    for (top, of_version, words) in parts {
        if stored.field(top).is_set() && versions.each().any(|version| version.field(of_version).is_set()) {
            let detail = format!("top-level and per-version {words} are mutually exclusive");
            stored.field(top).forbidden(errors, detail);
        }
    }
    for (top, of_version, words) in parts {
        let first = versions.index(0).field(of_version);
        if first.is_set() && versions.each().all(|version| version.field(of_version).value() == first.value()) {
            let detail = format!(
                "per-version {words} may not all be set to identical values (top-level {top} should be used instead)"
            );
            versions.invalid_as(errors, shown(&versions, None), detail);
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

fn validate_version(version: &Cursor, shared: &Shared, rules: &SchemaRules<'_>, errors: &mut Errors) {
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
        validate_schema(&schema, version.at(&["subresources", "status"]).is_set(), rules, name.str(), errors);
    }
    if !shared.subresources {
        validate_scale(&version.field("subresources"), errors);
    }
    if !shared.columns {
        version.field("additionalPrinterColumns").each().for_each(|column| validate_column(&column, errors));
    }
    if !shared.selectable {
        let allows_many = rules.demands.allows_many_selectable(name.str());
        validate_selectable(&version.field("selectableFields"), schema.value(), allows_many, errors);
    }
}

/// Fields that selectors may use: plain values that the schema knows.
fn validate_selectable(fields: &Cursor, schema: &Value, allows_many: bool, errors: &mut Errors) {
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
    if unique.len() > SELECTABLE_FIELDS_MAX && !allows_many {
        errors.too_many(fields.path(), unique.len(), SELECTABLE_FIELDS_MAX);
    }
}

/// What is checked of every schema of a definition.
struct SchemaRules<'d> {
    demands: &'d Demands,
    must_be_structural: bool,
}

fn validate_schema(schema: &Cursor, has_status: bool, rules: &SchemaRules<'_>, version: &str, errors: &mut Errors) {
    let before = errors.len();
    openapi::validate_root(schema, has_status, errors);
    let convertible = structural::is_convertible(schema.value());
    let mut has_rules = false;
    if rules.must_be_structural && convertible.is_ok() {
        let found = errors.len();
        if structural::validate(schema, errors) {
            defaults::validate(schema, rules.demands.pruned_defaults, errors);
        }
        has_rules = errors.len() == found;
    }
    let found = errors.len();
    openapi::validate(schema, rules.demands, errors);
    if has_rules {
        let costs_count = !rules.demands.is_unchanged(version);
        let mode = |text: &str| rules.demands.mode(text);
        let broken: Vec<String> = errors.iter().skip(found).map(|error| error.field.clone()).collect();
        let mut checked = Cow::Borrowed(schema.value());
        if !broken.is_empty() {
            drop_rules_around(checked.to_mut(), schema.path(), &broken);
        }
        cel::rules::check_definition(&checked, schema.path(), &mode, costs_count, errors);
    }
    // Most of what has no structural form is told by the rules about every schema.
    if let Err(why) = convertible.as_ref().map_err(String::as_str)
        && rules.must_be_structural
        && errors.len() == before
    {
        schema.invalid_as(errors, "", why);
    }
}

/// Removes the rules of schemas that have an error in them or below: upstream does not look at such expressions.
fn drop_rules_around(schema: &mut Value, path: &Path, broken: &[String]) {
    let own = path.to_string();
    let is_inside =
        |field: &String| field.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    if !broken.iter().any(is_inside) {
        return;
    }
    schema.remove(&["x-kubernetes-validations"]);
    for name in ["additionalProperties", "items"] {
        if let Some(nested) = schema.get_mut(name).filter(|nested| nested.as_map().is_some()) {
            drop_rules_around(nested, &path.field(name), broken);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_map_mut);
    for (name, property) in properties.into_iter().flat_map(|map| map.iter_mut()) {
        drop_rules_around(property, &path.field("properties").key(name), broken);
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
    let mut report = |detail: &str| versions.invalid_as(errors, shown(versions, Some(shared)), detail);
    if names.len() < versions.len() {
        report("must contain unique version names");
    }
    if storage != 1 {
        report("must have exactly one version marked as storage version");
    }
}

/// The versions as upstream has them: without what has gone to the top of the spec.
fn shown(versions: &Cursor, shared: Option<&Shared>) -> object::BadValue {
    let mut list = versions.value().clone();
    let Some(shared) = shared else { return shown_list(&list) };
    for version in list.as_list_mut().into_iter().flatten() {
        let gone = [
            ("schema", shared.schema),
            ("subresources", shared.subresources),
            ("additionalPrinterColumns", shared.columns),
            ("selectableFields", shared.selectable),
        ];
        for (field, _) in gone.iter().filter(|(_, gone)| *gone) {
            version.remove(&[field]);
        }
    }
    shown_list(&list)
}

fn shown_list(versions: &Value) -> object::BadValue {
    let shown = versions.as_list().unwrap_or(&[]).iter();
    let shown: Vec<String> = shown.map(|v| internal::compact("CustomResourceDefinitionVersion", v)).collect();
    object::BadValue::Raw(if versions.is_null() { "null".to_string() } else { format!("[{}]", shown.join(",")) })
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
    let at = |field: &'static str| {
        Cursor::new(scale.field(field).value(), subresources.path().field(&format!("scale.{field}")))
    };
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
