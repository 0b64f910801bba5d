//! Whether a user grants more than they have: rules against rules, without any knowledge of where they come from.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use object::quote;
use request::Rule;

/// Why creating or changing a role with `rules` would be an escalation for a user who has `held`; None if it is not.
pub fn refusal(user: &str, groups: &[String], held: &[Rule], rules: &[Rule]) -> Option<String> {
    let held: Vec<Held> = held.iter().cloned().map(Held::of).collect();
    let missing = missing(&held, rules);
    if missing.is_empty() {
        return None;
    }
    let lines: BTreeSet<String> = compact(missing).iter().map(shown).collect();
    let shown = lines.into_iter().collect::<Vec<_>>().join("\n");
    let user = quote(user);
    let groups = quoted(groups);
    Some(format!("user {user} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{shown}"))
}

/// The rules that `held` do not cover, taken apart into rules with one verb, one resource and so on each.
pub fn not_covered(held: &[Rule], rules: &[Rule]) -> Vec<Rule> {
    let held: Vec<Held> = held.iter().cloned().map(Held::of).collect();
    missing(&held, rules)
}

/// How many parts the rules of one role are taken apart into. A rule has as many parts as the product of its lists, so a few
/// kilobytes can say billions.
const PARTS_MAX: usize = 50_000;

/// What is not held. A rule that cannot be taken apart any more counts as not held as a whole.
fn missing(held: &[Held], rules: &[Rule]) -> Vec<Rule> {
    let mut missing = Vec::new();
    let mut parts_left = PARTS_MAX;
    for rule in rules.iter().cloned().map(without_repeats) {
        if held.iter().any(|held| held.covers(&rule)) {
            continue;
        }
        match parts_left.checked_sub(part_count(&rule)) {
            Some(left) => {
                parts_left = left;
                missing.extend(parts(&rule).into_iter().filter(|part| !held.iter().any(|held| held.covers(part))));
            }
            None => missing.push(rule),
        }
    }
    missing
}

/// The rules that a user must hold to write an aggregation rule, which may gather anything.
pub fn full_authority() -> [Rule; 2] {
    let all = || vec!["*".to_string()];
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), urls: all(), ..Rule::default() },
    ]
}

/// The error for a user without [`full_authority`] who writes an aggregation rule.
pub const AGGREGATION_REFUSAL: &str = "must have cluster-admin privileges to use the aggregationRule";

fn without_repeats(mut rule: Rule) -> Rule {
    for list in [&mut rule.verbs, &mut rule.groups, &mut rule.resources, &mut rule.names, &mut rule.urls] {
        let mut seen = HashSet::new();
        list.retain(|item| seen.insert(item.clone()));
    }
    rule
}

fn part_count(rule: &Rule) -> usize {
    let lists = [&rule.groups, &rule.resources, &rule.verbs].map(Vec::len);
    let product = lists.iter().fold(rule.names.len().max(1), |product, len| product.saturating_mul(*len));
    product.saturating_add(rule.urls.len().saturating_mul(rule.verbs.len()))
}

/// The rule as rules with one verb, one resource and so on each.
fn parts(rule: &Rule) -> Vec<Rule> {
    let mut parts = Vec::new();
    let one = |text: &String| vec![text.clone()];
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = Rule { verbs: one(verb), groups: one(group), resources: one(resource), ..Rule::default() };
                if rule.names.is_empty() {
                    parts.push(part);
                } else {
                    parts.extend(rule.names.iter().map(|name| Rule { names: one(name), ..part.clone() }));
                }
            }
        }
    }
    for url in &rule.urls {
        let part = |verb| Rule { verbs: one(verb), urls: one(url), ..Rule::default() };
        parts.extend(rule.verbs.iter().map(part));
    }
    parts
}

fn shown(rule: &Rule) -> String {
    let fields = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.urls),
        ("ResourceNames", &rule.names),
        ("Verbs", &rule.verbs),
    ];
    let shown = fields.iter().filter(|(_, items)| !items.is_empty());
    let shown: Vec<String> = shown.map(|(name, items)| format!("{name}:{}", quoted(items))).collect();
    format!("{{{}}}", shown.join(", "))
}

/// A rule that the user has, with its lists as sets.
struct Held {
    verbs: HashSet<String>,
    groups: HashSet<String>,
    resources: HashSet<String>,
    names: HashSet<String>,
    urls: Vec<String>,
}

impl Held {
    fn of(rule: Rule) -> Held {
        let Rule { verbs, groups, resources, names, urls } = rule;
        let set = |list: Vec<String>| list.into_iter().collect();
        Held { verbs: set(verbs), groups: set(groups), resources: set(resources), names: set(names), urls }
    }

    /// Whether everything that `rule` allows is allowed by this rule alone.
    fn covers(&self, rule: &Rule) -> bool {
        let all = |set: &HashSet<String>, of: &[String]| set.contains("*") || of.iter().all(|item| set.contains(item));
        let names =
            self.names.is_empty() || (!rule.names.is_empty() && rule.names.iter().all(|n| self.names.contains(n)));
        all(&self.verbs, &rule.verbs)
            && all(&self.groups, &rule.groups)
            && (self.resources.contains("*") || rule.resources.iter().all(|resource| self.covers_resource(resource)))
            && names
            && rule.urls.iter().all(|url| self.urls.iter().any(|owned| covers_url(owned, url)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let any_of = |sub: &str| self.resources.contains(&format!("*/{sub}"));
        self.resources.contains(resource) || resource.split_once('/').is_some_and(|(_, sub)| any_of(sub))
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
        let list =
            |text: &str| yaml(&format!("rules: {text}")).list_at(&["rules"]).iter().map(Rule::of).collect::<Vec<_>>();
        let groups = ["devs".to_string(), "system:authenticated".to_string()];
        let got = refusal("alice", &groups, &list(held), &list(rules)).unwrap_or_default();
        let got = got.replace(
            "user \"alice\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
             currently held:\n",
            "",
        );
        assert_eq!(got, want);
    }

    /// Rules with more parts than can be compared are refused, unless one rule covers them.
    #[test]
    fn rules_that_say_billions_are_not_taken_apart() {
        let many = (0..2000).map(|i| format!("x{i}")).collect::<Vec<_>>().join(", ");
        let rule = format!("[{{apiGroups: [{many}], resources: [{many}], verbs: [{many}]}}]");
        check("[{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]", &rule, "");
        let list =
            |text: &str| yaml(&format!("rules: {text}")).list_at(&["rules"]).iter().map(Rule::of).collect::<Vec<_>>();
        assert!(refusal("alice", &[], &[], &list(&rule)).is_some_and(|message| message.contains("\"x1999\"")));
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
