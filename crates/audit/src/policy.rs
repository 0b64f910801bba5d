//! [`Policy`]: which requests are recorded, and how fully.

use codec::Notes;
use object::names::name_is_dns_subdomain;
use object::{Cursor, Errors, Str, Value};
use request::{RequestInfo, User};

use crate::event::Stage;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

impl Level {
    const ALL: [(&'static str, Level); 4] = [
        ("None", Level::None),
        ("Metadata", Level::Metadata),
        ("Request", Level::Request),
        ("RequestResponse", Level::RequestResponse),
    ];

    pub fn as_str(self) -> &'static str {
        Level::ALL.iter().find(|(_, level)| *level == self).map_or("", |(name, _)| name)
    }

    fn parse(text: &str) -> Option<Level> {
        Level::ALL.iter().find(|(name, _)| *name == text).map(|(_, level)| *level)
    }
}

/// The policy's decision about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub level: Level,
    pub omit_stages: Stages,
    pub omit_managed_fields: bool,
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }

    fn read(list: &[Value]) -> Stages {
        let stages = list.iter().filter_map(|stage| Stage::parse(stage.as_str()?));
        Stages(stages.fold(0, |set, stage| set | 1 << stage as u8))
    }

    fn union(self, other: Stages) -> Stages {
        Stages(self.0 | other.0)
    }
}

/// A policy that can be evaluated. The first rule that matches decides; a request that none matches is not recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    rules: Vec<PolicyRule>,
}

#[derive(Clone, Debug, PartialEq)]
struct PolicyRule {
    decision: Decision,
    users: Vec<Str>,
    groups: Vec<Str>,
    verbs: Vec<Str>,
    namespaces: Vec<Str>,
    resources: Vec<GroupResources>,
    paths: Vec<Str>,
}

#[derive(Clone, Debug, PartialEq)]
struct GroupResources {
    group: Str,
    resources: Vec<Str>,
    names: Vec<Str>,
}

/// Why a policy file cannot be used, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("failed decoding: {0}")]
    Decoding(codec::DecodeError),
    #[error("unknown group version field {0} in policy")]
    Version(String),
    #[error("{}", .0.aggregate())]
    Invalid(Errors),
    #[error("loaded illegal policy with 0 rules")]
    NoRules,
}

impl Policy {
    /// Records the metadata of every request.
    pub fn metadata() -> Policy {
        let decision = Decision { level: Level::Metadata, omit_stages: Stages::default(), omit_managed_fields: false };
        let (users, groups, verbs, namespaces) = Default::default();
        let (resources, paths) = Default::default();
        Policy { rules: vec![PolicyRule { decision, users, groups, verbs, namespaces, resources, paths }] }
    }

    /// Reads a policy file, YAML or JSON.
    pub fn read(text: &[u8]) -> Result<Policy, PolicyError> {
        let object = codec::yaml::decode(text, None, &mut Notes::ignore()).map_err(PolicyError::Decoding)?;
        let (version, kind) = (object.str_at(&["apiVersion"]), object.str_at(&["kind"]));
        if version != "audit.k8s.io/v1" || kind != "Policy" {
            let version = version.split_once('/').map_or(("", version), |(group, version)| (group, version));
            return Err(PolicyError::Version(format!("{}/{}, Kind={kind}", version.0, version.1)));
        }
        let errors = validate(&Cursor::root(&object));
        if !errors.is_empty() {
            return Err(PolicyError::Invalid(errors));
        }
        let omit_stages = Stages::read(object.list_at(&["omitStages"]));
        let omit_managed_fields = object.field("omitManagedFields").as_bool().unwrap_or(false);
        let defaults = Decision { level: Level::None, omit_stages, omit_managed_fields };
        let rules: Vec<PolicyRule> =
            object.list_at(&["rules"]).iter().map(|rule| PolicyRule::read(rule, defaults)).collect();
        if rules.is_empty() { Err(PolicyError::NoRules) } else { Ok(Policy { rules }) }
    }

    /// The level and stages at which this request is recorded; None for none.
    pub fn evaluate(&self, info: &RequestInfo, user: &User) -> Option<Decision> {
        let (_, decision) = self.rule_for(info, user)?;
        (decision.level > Level::None).then_some(decision)
    }

    /// The place of the first rule that matches the request, and its decision, which may be that nothing is recorded.
    pub fn rule_for(&self, info: &RequestInfo, user: &User) -> Option<(usize, Decision)> {
        let (at, rule) = self.rules.iter().enumerate().find(|(_, rule)| rule.matches(info, user))?;
        Some((at, rule.decision))
    }
}

impl PolicyRule {
    fn read(rule: &Value, defaults: Decision) -> PolicyRule {
        let stages = Stages::read(rule.list_at(&["omitStages"]));
        let resources = |entry: &Value| GroupResources {
            group: entry.str_at(&["group"]).into(),
            resources: strings(entry, "resources"),
            names: strings(entry, "resourceNames"),
        };
        PolicyRule {
            decision: Decision {
                level: Level::parse(rule.str_at(&["level"])).unwrap_or(Level::None),
                omit_stages: defaults.omit_stages.union(stages),
                omit_managed_fields: rule.field("omitManagedFields").as_bool().unwrap_or(defaults.omit_managed_fields),
            },
            users: strings(rule, "users"),
            groups: strings(rule, "userGroups"),
            verbs: strings(rule, "verbs"),
            namespaces: strings(rule, "namespaces"),
            resources: rule.list_at(&["resources"]).iter().map(resources).collect(),
            paths: strings(rule, "nonResourceURLs"),
        }
    }

    fn matches(&self, info: &RequestInfo, user: &User) -> bool {
        let fits = |list: &[Str], value: &str| list.is_empty() || list.iter().any(|entry| entry == value);
        let is_member = self.groups.is_empty() || self.groups.iter().any(|group| user.is_member(group));
        if !fits(&self.users, &user.name) || !is_member || !fits(&self.verbs, info.verb.as_str()) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.is_resource
                && fits(&self.namespaces, &info.namespace)
                && (self.resources.is_empty() || self.resources.iter().any(|entry| entry.matches(info)));
        }
        self.paths.is_empty() || !info.is_resource && self.paths.iter().any(|rule| path_matches(rule, &info.path))
    }
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo) -> bool {
        if self.group != "*" && self.group != info.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let is_named = self.names.is_empty() || self.names.iter().any(|name| *name == info.name);
        is_named && self.resources.iter().any(|rule| resource_matches(rule, info))
    }
}

/// `pods`, `pods/log`, `pods/*`, `*/status` or `*`.
fn resource_matches(rule: &str, info: &RequestInfo) -> bool {
    match rule.split_once('/') {
        None => rule == "*" || (info.subresource.is_empty() && rule == info.resource),
        Some((resource, "*")) if resource == info.resource => true,
        Some(("*", part)) => !info.subresource.is_empty() && part == info.subresource,
        Some((resource, part)) => resource == info.resource && !part.is_empty() && part == info.subresource,
    }
}

fn path_matches(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*'))
}

fn strings(value: &Value, field: &str) -> Vec<Str> {
    value.list_at(&[field]).iter().filter_map(|item| item.as_str().map(Str::from)).collect()
}

fn validate(policy: &Cursor) -> Errors {
    let mut errors = Errors::new();
    validate_stages(&policy.field("omitStages"), &mut errors);
    for rule in policy.field("rules").each() {
        let level = rule.field("level");
        match level.str() {
            "" => level.required(&mut errors, ""),
            _ => {
                level.one_of(&mut errors, &Level::ALL.map(|(name, _)| name));
            }
        }
        let paths = rule.field("nonResourceURLs");
        paths.each().for_each(|path| validate_path(&path, &mut errors));
        validate_resources(&rule.field("resources"), &mut errors);
        validate_stages(&rule.field("omitStages"), &mut errors);
        let names_resources = !rule.field("resources").is_empty() || !rule.field("namespaces").is_empty();
        if !paths.is_empty() && names_resources {
            paths.invalid(&mut errors, "rules cannot apply to both regular resources and non-resource URLs");
        }
    }
    errors
}

fn validate_path(path: &Cursor, errors: &mut Errors) {
    let text = path.str();
    if text == "*" {
        return;
    }
    if !text.starts_with('/') {
        path.invalid(errors, "non-resource URL rules must begin with a '/' character");
    }
    if text.strip_suffix('*').unwrap_or(text).contains('*') {
        path.invalid(errors, "non-resource URL wildcards '*' must be the final character of the rule");
    }
}

/// Upstream reports these at the list, not at the entry.
fn validate_resources(resources: &Cursor, errors: &mut Errors) {
    for entry in resources.each() {
        let group = entry.field("group").str();
        if !group.is_empty() && group != "*" {
            let messages = name_is_dns_subdomain(group, false);
            if !messages.is_empty() {
                errors.invalid(&resources.path().field("group"), group, messages.join(","));
            }
        }
        let names = entry.field("resourceNames");
        if !names.is_empty() && entry.field("resources").is_empty() {
            let path = resources.path().field("resourceNames");
            errors.invalid(
                &path,
                object::BadValue::json(names.value()),
                "using resourceNames requires at least one resource",
            );
        }
    }
}

fn validate_stages(stages: &Cursor, errors: &mut Errors) {
    for stage in stages.each().filter(|stage| Stage::parse(stage.str()).is_none()) {
        stage.invalid(errors, format!("allowed stages are {}", Stage::ALL.map(|stage| stage.as_str()).join(",")));
    }
}

#[cfg(test)]
mod tests;
