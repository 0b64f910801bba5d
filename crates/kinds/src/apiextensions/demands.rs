//! What validation demands of a definition. An update may keep what the stored definition has, although a new one could not
//! have it.

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Errors, Value};

use super::schemas::{any_part, each_schema};
use super::{conversion, defaults, openapi, structural, validate};
use crate::common::checks::same;

/// New expressions may use what the release before this one knows.
const NEW_EXPRESSIONS: cel::library::Version = cel::library::Version { major: 1, minor: 36 };

pub struct Demands {
    /// Schemas may have defaults.
    pub defaults: bool,
    /// One of the versions of conversion reviews must be known.
    pub known_reviews: bool,
    /// Every version must have a schema.
    pub schemas: bool,
    pub known_types: bool,
    /// Schemas must be structural, even where unknown fields are preserved.
    pub structural: bool,
    pub pruned_defaults: bool,
    /// Items of sets must be atomic.
    pub atomic_sets: bool,
    /// Keys of list items must be required or have a default, and not be nullable.
    pub list_keys: bool,
    pub valid_ca_bundle: bool,
    /// `preserveUnknownFields` may not be true.
    pub prunes: bool,
    /// Rules and message expressions of the stored definition, which may use everything the server knows.
    expressions: BTreeSet<String>,
    /// Versions whose schema is as it was: what their rules cost was accepted before.
    unchanged: BTreeSet<String>,
    /// Versions that have too many selectable fields, as they had before.
    many_selectable: BTreeSet<String>,
}

impl Demands {
    /// Of a definition that is created through this version of the API.
    pub fn creation(version: &str) -> Demands {
        // v1beta1 is from before structural schemas.
        let is_v1 = version != "v1beta1";
        Demands {
            defaults: is_v1,
            known_reviews: true,
            schemas: is_v1,
            known_types: is_v1,
            structural: is_v1,
            pruned_defaults: true,
            atomic_sets: true,
            list_keys: true,
            // The definition is not established yet; it will not be before the bundle is valid.
            valid_ca_bundle: false,
            prunes: is_v1,
            expressions: BTreeSet::new(),
            unchanged: BTreeSet::new(),
            many_selectable: BTreeSet::new(),
        }
    }

    /// Of an update; both definitions are in the form of v1.
    pub fn update(version: &str, new: &Cursor, old: &Cursor, is_established: bool) -> Demands {
        let (spec, before) = (new.field("spec"), old.field("spec"));
        let created = Demands::creation(version);
        let had = |wrong: &dyn Fn(&Value) -> bool| each_schema(&before).any(wrong);
        let reviews = before.at(&["conversion", "webhook", "conversionReviewVersions"]);
        let has_schemas = before.field("versions").each().all(|v| v.at(&["schema", "openAPIV3Schema"]).is_set());
        Demands {
            defaults: created.defaults || had(&|schema| any_part(schema, &|part| !part.field("default").is_null())),
            known_reviews: reviews.is_empty() || conversion::knows_one(&reviews),
            schemas: created.schemas && has_schemas,
            known_types: created.known_types && !had(&|schema| any_part(schema, &openapi::has_unknown_type)),
            structural: created.structural && !had(&|schema| !structural::is_structural(schema)),
            pruned_defaults: !had(&defaults::has_unpruned),
            atomic_sets: !had(&|schema| any_part(schema, &openapi::is_set_of_granular)),
            list_keys: !had(&|schema| any_part(schema, &has_bad_keys)),
            valid_ca_bundle: is_established && conversion::is_ca_bundle_valid(&before),
            prunes: created.prunes && !before.field("preserveUnknownFields").bool(),
            expressions: expressions(&before),
            unchanged: alike(&spec, &before, |version| version.at(&["schema", "openAPIV3Schema"])),
            many_selectable: many_selectable(&spec, &before),
        }
    }

    /// How an expression is compiled.
    pub fn mode(&self, expression: &str) -> cel::Mode {
        if self.expressions.contains(expression) { cel::Mode::Stored } else { cel::Mode::New(NEW_EXPRESSIONS) }
    }

    pub fn is_unchanged(&self, version: &str) -> bool {
        self.unchanged.contains(version)
    }

    pub fn allows_many_selectable(&self, version: &str) -> bool {
        self.many_selectable.contains(version)
    }
}

fn has_bad_keys(schema: &Value) -> bool {
    let mut errors = Errors::new();
    openapi::validate_key_properties(&Cursor::root(schema), &mut errors);
    !errors.is_empty()
}

/// The rules and message expressions of a spec in the form of v1.
fn expressions(spec: &Cursor) -> BTreeSet<String> {
    let all = std::cell::RefCell::new(BTreeSet::new());
    for schema in each_schema(spec) {
        any_part(schema, &|part| {
            for rule in part.list_at(&["x-kubernetes-validations"]) {
                let texts = ["rule", "messageExpression"].into_iter().filter_map(|field| rule.field(field).as_str());
                all.borrow_mut().extend(texts.map(str::to_string));
            }
            false
        });
    }
    all.into_inner()
}

/// The versions that have a part alike in both specs.
fn alike<'a>(spec: &Cursor<'a>, before: &Cursor<'a>, part: fn(&Cursor<'a>) -> Cursor<'a>) -> BTreeSet<String> {
    let known = by_name(before);
    let is_alike = |version: &Cursor<'a>| {
        let known = known.get(version.field("name").str());
        known.is_some_and(|known| same(part(version).value(), part(known).value()))
    };
    let versions = spec.field("versions");
    versions.each().filter(is_alike).map(|version| version.field("name").str().to_string()).collect()
}

/// The versions of a spec by their name; the first of those that have the same.
fn by_name<'a>(spec: &Cursor<'a>) -> BTreeMap<&'a str, Cursor<'a>> {
    let mut versions = BTreeMap::new();
    for version in spec.field("versions").each() {
        versions.entry(version.field("name").str()).or_insert(version);
    }
    versions
}

fn many_selectable(spec: &Cursor, before: &Cursor) -> BTreeSet<String> {
    let mut kept = alike(spec, before, |version| version.field("selectableFields"));
    let has_many = |version: &Cursor| version.field("selectableFields").len() > validate::SELECTABLE_FIELDS_MAX;
    let versions = spec.field("versions");
    let many: BTreeSet<&str> = versions.each().filter(has_many).map(|version| version.field("name").str()).collect();
    kept.retain(|name| many.contains(name.as_str()));
    kept
}
