//! [`Rule`]: which requests a role allows, as RBAC writes it and as a review lists it.

use object::Value;

use crate::Access;

/// One rule of a role: any of the verbs on any of the resources of any of the groups, or on any of the paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    /// Empty for objects of any name.
    pub names: Vec<String>,
    /// Paths that are no resources.
    pub urls: Vec<String>,
}

impl Rule {
    /// Reads a PolicyRule.
    pub fn of(value: &Value) -> Rule {
        let strings = |field: &str| {
            value.list_at(&[field]).iter().filter_map(Value::as_str).map(str::to_string).collect::<Vec<String>>()
        };
        Rule {
            verbs: strings("verbs"),
            groups: strings("apiGroups"),
            resources: strings("resources"),
            names: strings("resourceNames"),
            urls: strings("nonResourceURLs"),
        }
    }

    /// The rule as a PolicyRule.
    pub fn to_value(&self) -> Value {
        let fields = [
            ("apiGroups", &self.groups),
            ("nonResourceURLs", &self.urls),
            ("resourceNames", &self.names),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
        ];
        let mut rule = Value::map();
        for (name, items) in fields.into_iter().filter(|(_, items)| !items.is_empty()) {
            *rule.slot(&[name]) = Value::from(items.clone());
        }
        rule
    }

    /// Whether the rule allows a request.
    pub fn allows(&self, access: &Access<'_>) -> bool {
        let is_named = || self.names.is_empty() || self.names.iter().any(|name| name == access.name);
        self.covers(access) && (!access.is_resource || is_named())
    }

    /// Whether the rule allows a request for an object with some name.
    pub fn covers(&self, access: &Access<'_>) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        if !has(&self.verbs, access.verb) {
            return false;
        }
        if !access.is_resource {
            return self.urls.iter().any(|url| url_matches(url, access.path));
        }
        has(&self.groups, access.group) && self.resources.iter().any(|resource| resource_matches(resource, access))
    }
}

fn url_matches(pattern: &str, path: &str) -> bool {
    pattern == "*" || pattern == path || pattern.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

/// `pods`, `pods/log`, `*`, and `*/scale` for a subresource of anything.
fn resource_matches(pattern: &str, access: &Access<'_>) -> bool {
    if pattern == "*" {
        return true;
    }
    match access.subresource {
        "" => pattern == access.resource,
        subresource => match pattern.split_once('/') {
            Some(("*", part)) => part == subresource,
            Some((resource, part)) => resource == access.resource && part == subresource,
            None => false,
        },
    }
}
