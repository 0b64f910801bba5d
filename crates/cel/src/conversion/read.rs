//! Reading the rules of a definition.

use std::sync::Arc;

use hashbrown::HashSet;
use object::{Errors, Meta, Path, Str, Value};
use schema::Schema;

use super::field::RulePath;
use super::{ANNOTATION, ConversionRule, ConversionRules, ConversionWay, MAX_RULES, RuleChange, Spoke};
use crate::decl::Decl;
use crate::environment::{Declarations, Environment};
use crate::pool::{Pool, Pooled};
use crate::types::Type;

impl ConversionRules {
    /// Compiles the rules of a definition in the form of v1; None if it has none. Expressions of the pool are shared.
    pub fn read(definition: &Value, pool: &Pool) -> Option<Result<ConversionRules, Errors>> {
        let text = definition.annotation(ANNOTATION)?;
        let path = Path::of("metadata.annotations").key(ANNOTATION);
        let mut reader = RulesReader { definition, pool, errors: Errors::new() };
        let rules = reader.rules(text, &path);
        Some(match rules {
            Some(rules) if reader.errors.is_empty() => Ok(rules),
            _ => Err(reader.errors),
        })
    }
}

struct RulesReader<'r> {
    definition: &'r Value,
    pool: &'r Pool,
    errors: Errors,
}

/// The expressions of one direction are about objects of one version.
struct SpokeType<'s> {
    decl: &'s Arc<Decl>,
    /// Tells it apart from other versions.
    fingerprint: String,
}

impl RulesReader<'_> {
    fn rules(&mut self, text: &str, path: &Path) -> Option<ConversionRules> {
        let mut notes = codec::Notes::collect();
        let read = codec::yaml::decode(text.as_bytes(), None, &mut notes);
        let rules = match read {
            Ok(rules) if notes.is_empty() => rules,
            Ok(_) => return self.refuse(path, "", notes.messages().join(", ")),
            Err(error) => return self.refuse(path, "", error.to_string()),
        };
        self.known_fields(&rules, path, &["hub", "versions"])?;
        let hub = self.text(&rules, "hub", path)?;
        let names: Vec<Str> = self.definition.list_at(&["spec", "versions"]).iter().map(name_of).collect();
        let known: Vec<&str> = names.iter().map(Str::as_str).collect();
        if !names.contains(&hub) {
            self.errors.not_supported(&path.field("hub"), hub.as_str(), &known);
            return None;
        }
        let below = path.field("versions");
        let Some(versions) = rules.field("versions").as_map() else {
            self.errors.required(&below, "the versions that are converted to and from the hub");
            return None;
        };
        let mut spokes = Vec::new();
        for (version, rules) in versions.iter() {
            let path = below.key(version);
            if version == hub || !known.contains(&version) {
                let others: Vec<&str> = known.iter().copied().filter(|name| *name != hub).collect();
                self.errors.not_supported(&path, version, &others);
                continue;
            }
            spokes.extend(self.spoke(version, &hub, rules, &path));
        }
        Some(ConversionRules { hub, spokes })
    }

    fn spoke(&mut self, version: &str, hub: &str, rules: &Value, path: &Path) -> Option<Spoke> {
        self.known_fields(rules, path, &["renames", "toHub", "fromHub", "keeps"])?;
        let renames = self.renames(rules.field("renames"), &path.field("renames"));
        let renamed = |from_hub: bool| {
            let rename = renames.iter().map(move |(own, hub)| match from_hub {
                true => RuleChange::Move(hub.clone(), own.clone()),
                false => RuleChange::Move(own.clone(), hub.clone()),
            });
            rename.map(|change| ConversionRule { when: None, change }).collect()
        };
        let to_hub = self.way(version, renamed(false), rules.field("toHub"), &path.field("toHub"));
        let from_hub = self.way(hub, renamed(true), rules.field("fromHub"), &path.field("fromHub"));
        let keeps = self.keeps(rules.field("keeps"), &path.field("keeps"));
        Some(Spoke { version: version.into(), to_hub, from_hub, keeps })
    }

    /// Pairs of a field of the version and one of the hub.
    fn renames(&mut self, renames: &Value, path: &Path) -> Vec<(RulePath, RulePath)> {
        if !renames.is_null() && renames.as_map().is_none() {
            self.errors.invalid(path, renames.clone(), "must be a map from a field of the version to one of the hub");
        }
        let mut read = Vec::new();
        let mut seen = HashSet::new();
        for (own, hub) in renames.as_map().into_iter().flat_map(|map| map.iter()) {
            let path = path.key(own);
            let Some(hub) = hub.as_str() else {
                self.errors.invalid(&path, hub.clone(), "must be a field");
                continue;
            };
            let pair = (self.path(own, &path), self.path(hub, &path));
            let (Some(own), Some(hub)) = pair else { continue };
            if !own.is_beside(&hub) {
                self.errors.invalid(&path, hub.to_string(), "must be a field of the same item");
            }
            // Renames are carried out one after the other, so that no field may be in two of them.
            for name in [&own, &hub] {
                if !seen.insert(name.to_string()) {
                    self.errors.invalid(&path, name.to_string(), "is in more than one rename");
                }
            }
            read.push((own, hub));
        }
        read
    }

    fn keeps(&mut self, keeps: &Value, path: &Path) -> Vec<RulePath> {
        let mut read = Vec::new();
        for (at, field) in self.list(keeps, path).iter().enumerate() {
            let path = path.index(at);
            match field.as_str().and_then(|text| self.path(text, &path)) {
                Some(field) if field.has_items() => {
                    self.errors.invalid(&path, field.to_string(), "values of single items cannot be kept");
                }
                Some(field) => read.push(field),
                None if field.as_str().is_none() => self.errors.invalid(&path, field.clone(), "must be a field"),
                None => {}
            }
        }
        read
    }

    /// The rules of one direction, after those that are there already. Objects come from a version.
    fn way(&mut self, from: &str, mut rules: Vec<ConversionRule>, stated: &Value, path: &Path) -> ConversionWay {
        let decl = self.decl(from);
        let source = SpokeType { decl: &decl, fingerprint: decl.fingerprint() };
        let stated = self.list(stated, path);
        if stated.len() + rules.len() > MAX_RULES {
            self.errors.too_many(path, stated.len() + rules.len(), MAX_RULES);
            return ConversionWay { from: decl, rules: Vec::new() };
        }
        for (at, rule) in stated.iter().enumerate() {
            rules.extend(self.rule(rule, &source, &path.index(at)));
        }
        ConversionWay { from: decl, rules }
    }

    fn rule(&mut self, rule: &Value, source: &SpokeType<'_>, path: &Path) -> Option<ConversionRule> {
        self.known_fields(rule, path, &["set", "move", "remove", "to", "when"])?;
        let verbs: Vec<&str> = ["set", "move", "remove"].into_iter().filter(|verb| rule.get(verb).is_some()).collect();
        let [verb] = verbs[..] else {
            return self.refuse(path, &verbs.join(" "), "must have one of set, move and remove");
        };
        let field = self.text(rule, verb, path)?;
        let field = self.path(&field, &path.field(verb))?;
        let to = path.field("to");
        let change = match verb {
            "set" => {
                let text = self.text(rule, "to", path)?;
                let expression = self.compile(&text, source, &field, &to)?;
                RuleChange::Set(field.clone(), expression)
            }
            "move" => {
                let text = self.text(rule, "to", path)?;
                let target = self.path(&text, &to)?;
                if !field.is_beside(&target) {
                    return self.refuse(&to, &text, "must be a field of the same item");
                }
                RuleChange::Move(field.clone(), target)
            }
            _ if rule.get("to").is_some() => return self.refuse(&to, "", "must not be set with remove"),
            _ => RuleChange::Remove(field.clone()),
        };
        let at = path.field("when");
        let when = match rule.get("when") {
            None => None,
            Some(_) => {
                let text = self.text(rule, "when", path)?;
                let expression = self.compile(&text, source, &field, &at)?;
                if !matches!(expression.expression.ty, Type::Bool | Type::Dyn) {
                    return self.refuse(&at, &text, "must evaluate to a bool");
                }
                Some(expression)
            }
        };
        Some(ConversionRule { when, change })
    }

    /// An expression over `self`, the object as it came, and for the fields of items over `item`, as it is so far.
    fn compile(&mut self, text: &str, source: &SpokeType<'_>, field: &RulePath, path: &Path) -> Option<Arc<Pooled>> {
        let Some(mut declarations) = Declarations::new().declared("self", source.decl) else {
            return self.refuse(path, text, "the version has no schema");
        };
        if field.has_items() {
            declarations = declarations.variable_of("item", Type::Dyn);
        }
        let types = format!("conversion {} {}", field.has_items(), source.fingerprint);
        match self.pool.expression(text, &Environment::conversion(), &declarations, &types) {
            Err(error) => self.refuse(path, text, format!("compilation failed: {error}")),
            Ok(expression) => match &expression.expression.program {
                Err(error) => self.refuse(path, text, format!("program instantiation failed: {error}")),
                Ok(_) => Some(expression),
            },
        }
    }

    fn decl(&self, version: &str) -> Arc<Decl> {
        let versions = self.definition.list_at(&["spec", "versions"]);
        let stated = versions.iter().find(|stated| name_of(stated) == version).unwrap_or(&Value::Null);
        let preserves = self.definition.at(&["spec", "preserveUnknownFields"]).as_bool() == Some(true);
        let (types, node) = schema::from_openapi(stated.at(&["schema", "openAPIV3Schema"]), preserves);
        Decl::for_conversion(Schema::new(&types, &node), "self")
    }

    fn path(&mut self, text: &str, path: &Path) -> Option<RulePath> {
        match RulePath::parse(text) {
            Ok(read) => Some(read),
            Err(why) => self.refuse(path, text, why),
        }
    }

    fn text(&mut self, rules: &Value, key: &str, path: &Path) -> Option<Str> {
        match rules.field(key) {
            Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
            Value::Null | Value::String(_) => {
                self.errors.required(&path.field(key), "");
                None
            }
            other => {
                self.errors.invalid(&path.field(key), other.clone(), "must be a text");
                None
            }
        }
    }

    fn list<'v>(&mut self, value: &'v Value, path: &Path) -> &'v [Value] {
        if !value.is_null() && value.as_list().is_none() {
            self.errors.invalid(path, value.clone(), "must be a list");
        }
        value.as_list().unwrap_or_default()
    }

    /// Refuses what is no map and fields that nothing reads. None if it was refused.
    fn known_fields(&mut self, value: &Value, path: &Path, known: &[&str]) -> Option<()> {
        let Some(map) = value.as_map() else {
            self.errors.invalid(path, value.clone(), "must be a map");
            return None;
        };
        let before = self.errors.len();
        for name in map.keys().filter(|name| !known.contains(name)) {
            self.errors.not_supported(path, name, known);
        }
        (self.errors.len() == before).then_some(())
    }

    fn refuse<T>(&mut self, path: &Path, value: &str, why: impl Into<String>) -> Option<T> {
        self.errors.invalid(path, value, why);
        None
    }
}

fn name_of(version: &Value) -> Str {
    version.str_at(&["name"]).into()
}
