//! [`Matcher`]: which requests a webhook or a policy is about: rules, scopes, selectors and matchPolicy.

use object::labels::Selector;
use object::{GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, Meta, Status, Str, Value};

use crate::{Attributes, Operation};

/// `rules` or `resourceRules`, `namespaceSelector`, `objectSelector` and `matchPolicy`, compiled.
#[derive(Debug)]
pub struct Matcher {
    rules: Vec<MatchedRule>,
    /// A policy or binding without rules matches every resource; a webhook none.
    takes_everything: bool,
    /// `excludeResourceRules` of policies.
    excluded: Vec<MatchedRule>,
    /// Err is why the selector cannot be used, told when a request depends on it.
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    /// `matchPolicy: Equivalent`.
    equivalent: bool,
}

#[derive(Debug)]
struct MatchedRule {
    groups: Vec<Str>,
    versions: Vec<Str>,
    /// Resources and subresources.
    resources: Vec<(Str, Str)>,
    operations: Vec<Str>,
    /// `resourceNames` of policies; empty for all.
    names: Vec<Str>,
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
    /// One that validation does not let through.
    Unknown,
}

/// As what a request matches: in its own version, or in another one that means the same objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    pub resource: GroupVersionResource,
    pub kind: GroupVersionKind,
}

impl Matcher {
    /// Reads a webhook.
    pub fn of_webhook(webhook: &Value) -> Matcher {
        Matcher::new(webhook, webhook.list_at(&["rules"]), &[])
    }

    /// Reads a policy's `matchConstraints` or a binding's `matchResources`.
    pub fn of_policy(constraints: &Value) -> Matcher {
        let (rules, excluded) = ("resourceRules", "excludeResourceRules");
        let rules = constraints.list_at(&[rules]);
        let matcher = Matcher::new(constraints, rules, constraints.list_at(&[excluded]));
        Matcher { takes_everything: rules.is_empty(), ..matcher }
    }

    fn new(spec: &Value, rules: &[Value], excluded: &[Value]) -> Matcher {
        let selector = |field: &str| match spec.field(field) {
            Value::Null => Ok(Selector::everything()),
            selector => Selector::from_value(selector).map_err(|error| error.to_string()),
        };
        Matcher {
            rules: rules.iter().map(MatchedRule::read).collect(),
            takes_everything: false,
            excluded: excluded.iter().map(MatchedRule::read).collect(),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            equivalent: spec.str_at(&["matchPolicy"]) == "Equivalent",
        }
    }

    /// The resources that rules name; None if every resource can match.
    pub(crate) fn resources(&self) -> Option<Vec<&Str>> {
        let resources = self.rules.iter().flat_map(|rule| &rule.resources).map(|(resource, _)| resource);
        let resources: Vec<&Str> = resources.collect();
        let all = self.takes_everything || resources.iter().any(|resource| *resource == "*");
        (!all).then_some(resources)
    }

    /// Whether a request matches, and as what. `object` and `old` are as they are now, in any version.
    pub fn matches(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Matched>, Status> {
        // Rules first: they are cheap and decide most requests. What a selector has to complain about is told only for
        // requests that the rules match, as upstream does.
        let matched = if self.takes_everything {
            Matched { resource: attributes.resource.clone(), kind: attributes.kind.clone() }
        } else {
            let Some(matched) = self.by_rules(&self.rules, attributes)? else { return Ok(None) };
            matched
        };
        if !self.excluded.is_empty() && self.by_rules(&self.excluded, attributes)?.is_some() {
            return Ok(None);
        }
        let namespaces = self.in_namespace(attributes, object);
        if matches!(namespaces, Ok(false)) {
            return Ok(None);
        }
        let objects = self.of_object(object, old);
        if matches!(objects, Ok(false)) {
            return Ok(None);
        }
        namespaces.and(objects)?;
        Ok(Some(matched))
    }

    fn by_rules(&self, rules: &[MatchedRule], attributes: &Attributes<'_>) -> Result<Option<Matched>, Status> {
        let own = attributes.resource;
        if rules.iter().any(|rule| rule.matches(attributes, own)) {
            return Ok(Some(Matched { resource: own.clone(), kind: attributes.kind.clone() }));
        }
        if !self.equivalent {
            return Ok(None);
        }
        for rule in rules.iter().filter(|rule| rule.matches_besides_version(attributes)) {
            let others = equivalents(attributes);
            if let Some(other) = others.iter().find(|other| rule.matches(attributes, &other.resource)) {
                return Ok(Some(other.clone()));
            }
        }
        Ok(None)
    }

    fn in_namespace(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<bool, Status> {
        let is_namespace = attributes.resource.resource == "namespaces";
        if attributes.cx.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && attributes.subresource.is_empty() && written {
            return Ok(object.is_some_and(|object| selects(selector, object)));
        }
        let name = attributes.cx.namespace;
        let namespace = attributes.cx.lookup.get("", "namespaces", "", name);
        let namespace = namespace.ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
        Ok(selects(selector, &namespace))
    }

    fn of_object(&self, object: Option<&Value>, old: Option<&Value>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        let has_metadata = |object: &&Value| object.metadata().as_map().is_some();
        let selected = [object, old].into_iter().flatten().filter(has_metadata).any(|object| selects(selector, object));
        Ok(selector.is_empty() || selected)
    }
}

fn selects(selector: &Selector, object: &Value) -> bool {
    selector.matches(object.labels())
}

/// The other group-versions in which the same objects are served, with what their kind is called there.
fn equivalents(attributes: &Attributes<'_>) -> Vec<Matched> {
    let catalog = attributes.cx.catalog;
    let own = attributes.resource;
    let Some(resource) = catalog.get(&own.group, &own.version, &own.resource) else { return Vec::new() };
    let same_objects = |other: &registry::Resource| match (&resource.storage, &other.storage) {
        (Some(a), Some(b)) => a.prefix == b.prefix,
        (None, None) => other.resource.group == own.group,
        _ => false,
    };
    // Custom resources have other versions in their own group only; built-in group-versions come first in the catalog.
    let versions: Vec<&GroupVersion> = match resource.is_custom() {
        true => catalog.versions().iter().filter(|version| version.group == own.group).collect(),
        false => catalog.versions().iter().take_while(|version| catalog.has_builtin(version)).collect(),
    };
    let versions = versions.into_iter();
    let others = versions.filter_map(|version| catalog.get(&version.group, &version.version, &own.resource));
    let others = others.filter(|other| other.resource != *own && same_objects(other));
    others
        .filter_map(|other| {
            let kind = match attributes.subresource {
                "" => other.kind.clone(),
                name => other.subresource(name)?.kind.clone(),
            };
            Some(Matched { resource: other.resource.clone(), kind })
        })
        .collect()
}

impl MatchedRule {
    fn read(rule: &Value) -> MatchedRule {
        let texts = |field: &str| -> Vec<Str> {
            rule.list_at(&[field]).iter().filter_map(Value::as_str).map(Str::from).collect()
        };
        let split = |name: &Str| match name.split_once('/') {
            Some((resource, subresource)) => (resource.into(), subresource.into()),
            None => (name.clone(), Str::default()),
        };
        MatchedRule {
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources").iter().map(split).collect(),
            operations: texts("operations"),
            names: texts("resourceNames"),
            scope: match rule.str_at(&["scope"]) {
                "" | "*" => Scope::All,
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => Scope::Unknown,
            },
        }
    }

    fn matches(&self, attributes: &Attributes<'_>, resource: &GroupVersionResource) -> bool {
        self.matches_besides_version(attributes)
            && exact_or_any(&self.groups, &resource.group)
            && exact_or_any(&self.versions, &resource.version)
    }

    fn matches_besides_version(&self, attributes: &Attributes<'_>) -> bool {
        exact_or_any(&self.operations, attributes.operation.as_str())
            && self.resources.iter().any(|(resource, subresource)| {
                (resource == "*" || *resource == attributes.resource.resource)
                    && (subresource == "*" || *subresource == attributes.subresource)
            })
            && self.matches_scope(attributes)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }

    fn matches_scope(&self, attributes: &Attributes<'_>) -> bool {
        let resource = attributes.resource;
        let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
        let is_cluster = is_namespace || attributes.cx.namespace.is_empty();
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => !is_cluster,
            Scope::Cluster => is_cluster,
            Scope::Unknown => false,
        }
    }
}

fn exact_or_any(items: &[Str], wanted: &str) -> bool {
    items.iter().any(|item| item == "*" || item == wanted)
}
