//! Whether objects that are converted by rules come back as they were: tried with generated objects when a definition is written.

use std::sync::Arc;

use cel::conversion::{ANNOTATION, ConversionRules};
use cel::rules::{Budget, Ratchet, Validator};
use object::{Cursor, Errors, GroupVersion, Meta, Path, Str, Value};
use registry::Shape;
use sha2::{Digest, Sha256};

use super::generate::ObjectGenerator;
use super::rules::convert;
use crate::codec::Schemas;
use crate::definition::openapi_of;
use crate::status::Condition;

/// The condition that tells.
pub const CONDITION: &str = "ConversionRules";
/// How many objects are generated of a version for one way.
const OBJECTS: usize = 40;
/// The most findings that the condition has.
const MAX_FINDINGS: usize = 4;
/// The longest value that a finding shows.
const MAX_SHOWN: usize = 60;

/// Tells one state of rules and schemas from another; the condition's message ends with it. None for definitions without rules.
pub fn state_of(definition: &Value) -> Option<String> {
    let text = definition.annotation(ANNOTATION)?;
    let mut encoded = Vec::new();
    codec::json::encode(definition.at(&["spec", "versions"]), None, &mut encoded);
    let hash = Sha256::new().chain_update(text.as_bytes()).chain_update([0]).chain_update(&encoded).finalize();
    let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Some(format!(" (rules {hash})"))
}

/// The condition of a definition with rules, in the form of v1. This takes long, up to a second.
pub fn prove(definition: &Value) -> Option<Condition> {
    let state = state_of(definition)?;
    let pool = cel::Pool::default();
    let (status, reason, message) = match ConversionRules::read(definition, &pool)? {
        Err(errors) => (false, "Invalid", format!("the rules are not used: {}", errors.aggregate())),
        Ok(rules) => ProofRun::new(definition, &rules, &pool).run(),
    };
    Some(Condition::new(CONDITION, status, reason, message + &state))
}

struct ProofRun<'p> {
    group: Str,
    kind: Str,
    is_namespaced: bool,
    rules: &'p ConversionRules,
    schemas: Schemas,
    validators: Vec<Option<Validator>>,
    generator: ObjectGenerator,
    /// Whether conversion failed or gave what is not valid, or whether it lost something.
    fails: bool,
    findings: Vec<String>,
    objects: usize,
}

impl<'p> ProofRun<'p> {
    fn new(definition: &Value, rules: &'p ConversionRules, pool: &cel::Pool) -> ProofRun<'p> {
        let spec = definition.field("spec");
        let names = spec.list_at(&["versions"]).iter().map(|version| version.str_at(&["name"]));
        let preserve_unknown = spec.field("preserveUnknownFields").as_bool() == Some(true);
        let openapi: Vec<(Str, Value)> = names.map(|name| (Str::from(name), openapi_of(definition, name))).collect();
        let versions = openapi.iter().map(|(name, openapi)| {
            let (types, node) = schema::from_openapi(openapi, preserve_unknown);
            (name.clone(), Shape::new(Arc::new(types), node))
        });
        ProofRun {
            group: spec.str_at(&["group"]).into(),
            kind: spec.str_at(&["names", "kind"]).into(),
            is_namespaced: spec.str_at(&["scope"]) == "Namespaced",
            rules,
            schemas: Schemas { versions: versions.collect(), preserve_unknown },
            validators: openapi.iter().map(|(_, openapi)| Validator::new(openapi, true, pool)).collect(),
            generator: ObjectGenerator::new(1),
            fails: false,
            findings: Vec::new(),
            objects: 0,
        }
    }

    fn run(mut self) -> (bool, &'static str, String) {
        let hub = self.rules.hub().to_string();
        for spoke in self.rules.spokes().map(str::to_string).collect::<Vec<_>>() {
            self.both_ways(&spoke, &hub);
            self.both_ways(&hub, &spoke);
        }
        let missing = match &self.generator.missing[..] {
            [] => String::new(),
            missing => format!("; no values were found for {}", shortened(&missing.join(", "))),
        };
        match (self.objects, self.findings.is_empty()) {
            (0, _) => (false, "NotTried", format!("no object could be generated that is valid{missing}")),
            (objects, true) => (
                true,
                "RoundTrips",
                format!("{objects} generated objects came back from another version as they were{missing}"),
            ),
            (_, false) => {
                let reason = if self.fails { "Fails" } else { "Loses" };
                (false, reason, format!("{}{missing}", self.findings.join("; ")))
            }
        }
    }

    /// Converts generated objects of one version to the other and back. The first that is wrong is told.
    fn both_ways(&mut self, from: &str, to: &str) {
        let Some(schema) = self.schemas.get(from).cloned() else { return };
        for number in 0..OBJECTS {
            if self.findings.len() >= MAX_FINDINGS {
                return;
            }
            let Some(mut object) = self.generator.object(schema.schema(), number) else { continue };
            object.set(&["apiVersion"], GroupVersion::new(self.group.clone(), from).to_string());
            object.set(&["kind"], self.kind.as_str());
            if self.is_namespaced {
                object.set(&["metadata", "namespace"], "default");
            }
            self.settle(&mut object, from);
            if !self.problems(&object, from).is_empty() {
                continue;
            }
            self.objects += 1;
            if let Err(finding) = self.there_and_back(&object, from, to) {
                self.findings.push(finding);
                return;
            }
        }
    }

    fn there_and_back(&mut self, object: &Value, from: &str, to: &str) -> Result<(), String> {
        let there = self.converted(object, to).map_err(|why| format!("{from} to {to}: {why}"));
        let there = there.inspect_err(|_| self.fails = true)?;
        let problems = self.problems(&there, to);
        if !problems.is_empty() {
            self.fails = true;
            return Err(format!("{from} to {to} gives what is not valid: {}", shortened(&problems.aggregate())));
        }
        let back = self.converted(&there, from).map_err(|why| format!("{from} to {to} to {from}: {why}"));
        let back = back.inspect_err(|_| self.fails = true)?;
        match difference(object, &back, Path::root()) {
            None => Ok(()),
            Some((path, before, after)) => {
                let (before, after) = (shown(&before), shown(&after));
                Err(format!("{from} to {to} to {from}: {path} was {before} and is {after}"))
            }
        }
    }

    /// As a client reads the object and writes it back: pruned, and with defaults.
    fn converted(&self, object: &Value, to: &str) -> Result<Value, String> {
        let to_version = GroupVersion::new(self.group.clone(), to);
        let mut converted = convert(self.rules, &self.schemas, object, &to_version)?;
        self.schemas.prune(&mut converted, &to_version);
        self.settle(&mut converted, to);
        Ok(converted)
    }

    fn settle(&self, object: &mut Value, version: &str) {
        if let Some(shape) = self.schemas.get(version) {
            schema::default(shape.schema(), object);
        }
    }

    /// Everything that validation would say about an object.
    fn problems(&self, object: &Value, version: &str) -> Errors {
        let mut errors = Errors::new();
        let at = self.schemas.versions.iter().position(|(name, _)| name == version);
        let Some((at, (_, shape))) = at.and_then(|at| Some((at, self.schemas.versions.get(at)?))) else {
            return errors;
        };
        errors.extend(schema::validate(shape.schema(), object));
        errors.extend(schema::validate_lists(shape.schema(), object));
        if errors.is_empty()
            && let Some(Some(validator)) = self.validators.get(at)
        {
            let cursor = Cursor::root(object);
            validator.validate(cursor.path(), object, None, Ratchet::none(), &mut Budget::default(), &mut errors);
        }
        errors
    }
}

/// The first place where two values differ, and what is there.
fn difference(before: &Value, after: &Value, path: Path) -> Option<(Path, Value, Value)> {
    match (before, after) {
        (Value::Map(first), Value::Map(second)) => {
            let added = second.keys().filter(|name| first.get(name).is_none());
            first.keys().chain(added).find_map(|name| {
                let path = if path.is_root() { Path::of(name) } else { path.field(name) };
                difference(before.field(name), after.field(name), path)
            })
        }
        (Value::List(first), Value::List(second)) if first.len() == second.len() => {
            let mut pairs = first.iter().zip(second).enumerate();
            pairs.find_map(|(at, (before, after))| difference(before, after, path.index(at)))
        }
        _ if before == after => None,
        _ => Some((path, before.clone(), after.clone())),
    }
}

fn shown(value: &Value) -> String {
    let mut text = Vec::new();
    codec::json::encode(value, None, &mut text);
    shortened(&String::from_utf8_lossy(&text))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        None => text.to_string(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
    }
}
