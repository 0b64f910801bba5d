//! Whether somebody grants more than they have: rules against rules, without any knowledge of where they come from.

use std::collections::{BTreeMap, BTreeSet};

use object::{Value, quote};

/// Why creating or changing a role with `rules` would be an escalation for a user who has `held`; None if it is not.
pub fn refusal(user: &str, groups: &[String], held: &[Value], rules: &[Value]) -> Option<String> {
    let held: Vec<Rule> = held.iter().map(Rule::of).collect();
    let parts = rules.iter().map(Rule::of).flat_map(|rule| rule.parts());
    let missing: Vec<Rule> = parts.filter(|part| !held.iter().any(|rule| rule.covers(part))).collect();
    if missing.is_empty() {
        return None;
    }
    let shown: BTreeSet<String> = compact(missing).iter().map(Rule::shown).collect();
    let shown = shown.into_iter().collect::<Vec<_>>().join("\n");
    let user = quote(user);
    let groups = quoted(groups);
    Some(format!("user {user} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{shown}"))
}

/// The rules that somebody must hold to write an aggregation rule, which may gather anything.
pub fn full_authority() -> Vec<Value> {
    vec![
        object::value!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        object::value!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
    ]
}

/// What somebody without [`full_authority`] who writes an aggregation rule is told.
pub const AGGREGATION_REFUSAL: &str = "must have cluster-admin privileges to use the aggregationRule";

#[derive(Clone, Debug, Default)]
struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    urls: Vec<String>,
}

impl Rule {
    fn of(rule: &Value) -> Rule {
        let strings = |field: &str| {
            rule.list_at(&[field]).iter().filter_map(Value::as_str).map(str::to_string).collect::<Vec<String>>()
        };
        Rule {
            verbs: strings("verbs"),
            groups: strings("apiGroups"),
            resources: strings("resources"),
            names: strings("resourceNames"),
            urls: strings("nonResourceURLs"),
        }
    }

    /// The rule as rules with one verb, one resource and so on each.
    fn parts(self) -> Vec<Rule> {
        let mut parts = Vec::new();
        let one = |text: &String| vec![text.clone()];
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part =
                        Rule { verbs: one(verb), groups: one(group), resources: one(resource), ..Rule::default() };
                    if self.names.is_empty() {
                        parts.push(part);
                    } else {
                        parts.extend(self.names.iter().map(|name| Rule { names: one(name), ..part.clone() }));
                    }
                }
            }
        }
        for url in &self.urls {
            let part = |verb| Rule { verbs: one(verb), urls: one(url), ..Rule::default() };
            parts.extend(self.verbs.iter().map(part));
        }
        parts
    }

    fn covers(&self, part: &Rule) -> bool {
        let all = |set: &[String], of: &[String]| has(set, "*") || of.iter().all(|item| has(set, item));
        let names = self.names.is_empty() || (!part.names.is_empty() && part.names.iter().all(|n| has(&self.names, n)));
        all(&self.verbs, &part.verbs)
            && all(&self.groups, &part.groups)
            && (has(&self.resources, "*") || part.resources.iter().all(|resource| self.covers_resource(resource)))
            && names
            && part.urls.iter().all(|url| self.urls.iter().any(|owned| covers_url(owned, url)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let any_of = |sub: &str| has(&self.resources, &format!("*/{sub}"));
        has(&self.resources, resource) || resource.split_once('/').is_some_and(|(_, sub)| any_of(sub))
    }

    fn shown(&self) -> String {
        let fields = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown = fields.iter().filter(|(_, items)| !items.is_empty());
        let shown: Vec<String> = shown.map(|(name, items)| format!("{name}:{}", quoted(items))).collect();
        format!("{{{}}}", shown.join(", "))
    }
}

/// Brings together the verbs on the same resource.
fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let (mut by_resource, mut others) = (BTreeMap::<_, Rule>::new(), Vec::new());
    for rule in rules {
        if !rule.urls.is_empty() {
            others.push(rule);
            continue;
        }
        let key = (rule.groups.clone(), rule.resources.clone(), rule.names.clone());
        match by_resource.get_mut(&key) {
            Some(known) => known.verbs.extend(rule.verbs),
            None => {
                by_resource.insert(key, rule);
            }
        }
    }
    others.extend(by_resource.into_values());
    others
}

fn has(set: &[String], item: &str) -> bool {
    set.iter().any(|other| other == item)
}

fn covers_url(owned: &str, url: &str) -> bool {
    owned == url || (owned.ends_with('*') && url.starts_with(owned.trim_end_matches('*')))
}

fn quoted(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
    format!("[{}]", items.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[track_caller]
    fn check(held: &str, rules: &str, want: &str) {
        let list = |text: &str| yaml(&format!("rules: {text}")).list_at(&["rules"]).to_vec();
        let groups = ["devs".to_string(), "system:authenticated".to_string()];
        let got = refusal("alice", &groups, &list(held), &list(rules)).unwrap_or_default();
        let got = got.replace(
            "user \"alice\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
             currently held:\n",
            "",
        );
        assert_eq!(got, want);
    }

    #[test]
    fn only_what_is_held_can_be_granted() {
        let secrets = "[{apiGroups: [''], resources: [secrets], verbs: ['*']}]";
        check("[]", secrets, "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"*\"]}");
        check("[{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]", secrets, "");
        check(secrets, "[{apiGroups: [''], resources: [secrets], verbs: [get, list]}]", "");
        check(
            "[{apiGroups: [''], resources: ['*/log'], verbs: [get]}]",
            "[{apiGroups: [''], resources: [pods/log, pods], verbs: [get, list]}]",
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
             {APIGroups:[\"\"], Resources:[\"pods/log\"], Verbs:[\"list\"]}",
        );
        check(
            "[{nonResourceURLs: [/api/*], verbs: [get]}]",
            "[{nonResourceURLs: [/api/a, /b], verbs: [get]}]",
            "{NonResourceURLs:[\"/b\"], Verbs:[\"get\"]}",
        );
        check(
            "[{apiGroups: [''], resources: [secrets], resourceNames: [a], verbs: [get]}]",
            "[{apiGroups: [''], resources: [secrets], verbs: [get]}]",
            "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}",
        );
    }
}
