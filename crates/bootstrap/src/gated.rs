//! What default roles and bindings have only with a feature gate.

use object::{Meta, Value};
use registry::Features;

use crate::objects::{json, rows};

const TABLE: &str = include_str!("../data/gated.txt");

/// Adds what the gates that are on bring, and removes what the default objects have because of gates that are off.
pub fn apply(features: &Features, objects: &mut Vec<(&'static str, Value)>) {
    for GatedLine { gates, change } in lines() {
        let is_on = gates.split('+').all(|gate| features.enabled(gate));
        match change {
            GatedChange::Object { resource, object } => {
                if is_on {
                    objects.push((resource, object));
                }
            }
            GatedChange::Only { resource, name } => {
                objects.retain(|(of, object)| is_on || *of != resource || object.name() != name);
            }
            GatedChange::Rule { role, at, rule } => {
                let Some(rules) = role_in(objects, role) else { continue };
                let rules = rules.slot(&["rules"]).make_list();
                let found = rules.iter().position(|known| *known == rule);
                match (is_on, found) {
                    (true, None) => rules.insert(at.unwrap_or(rules.len()).min(rules.len()), rule),
                    (false, Some(found)) => _ = rules.remove(found),
                    (true, Some(_)) | (false, None) => {}
                }
            }
            GatedChange::Url { role, path } => {
                let Some(role) = role_in(objects, role).filter(|_| !is_on) else { continue };
                for rule in role.slot(&["rules"]).make_list() {
                    rule.slot(&["nonResourceURLs"]).make_list().retain(|url| url.as_str() != Some(path));
                }
            }
        }
    }
}

fn role_in<'o>(objects: &'o mut [(&'static str, Value)], name: &str) -> Option<&'o mut Value> {
    let roles = objects.iter_mut().filter(|(resource, _)| *resource == "clusterroles");
    roles.map(|(_, role)| role).find(|role| role.name() == name)
}

/// A line of the table.
struct GatedLine {
    /// Several are joined by `+`.
    gates: &'static str,
    change: GatedChange,
}

enum GatedChange {
    Rule { role: &'static str, at: Option<usize>, rule: Value },
    Url { role: &'static str, path: &'static str },
    Only { resource: &'static str, name: &'static str },
    Object { resource: &'static str, object: Value },
}

fn lines() -> impl Iterator<Item = GatedLine> {
    rows(TABLE).filter_map(parse)
}

fn parse(line: &'static str) -> Option<GatedLine> {
    let (gates, rest) = line.split_once(' ')?;
    let (what, rest) = rest.split_once(' ')?;
    let (first, rest) = rest.split_once(' ')?;
    let change = match what {
        "rule" => {
            let (at, rule) = rest.split_once(' ')?;
            GatedChange::Rule { role: first, at: at.parse().ok(), rule: json(rule)? }
        }
        "url" => GatedChange::Url { role: first, path: rest },
        "only" => GatedChange::Only { resource: first, name: rest },
        "object" => GatedChange::Object { resource: first, object: json(rest)? },
        _ => return None,
    };
    Some(GatedLine { gates, change })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;

    fn with(gates: &str) -> Vec<(&'static str, Value)> {
        let settings = gates.split(',').filter_map(|setting| setting.split_once('='));
        let settings: Vec<_> = settings.map(|(gate, value)| (gate.to_string(), value == "true")).collect();
        let mut features = Features::default();
        features.set(&settings).expect(gates);
        let mut objects = objects::defaults().collect();
        apply(&features, &mut objects);
        objects
    }

    #[test]
    fn every_line_is_understood_and_names_what_exists() {
        assert_eq!(lines().count(), rows(TABLE).count());
        let known: Vec<_> = objects::defaults().collect();
        for line in lines() {
            let (resource, name) = match &line.change {
                GatedChange::Rule { role, .. } | GatedChange::Url { role, .. } => ("clusterroles", *role),
                GatedChange::Only { resource, name } => (*resource, *name),
                GatedChange::Object { .. } => continue,
            };
            assert!(known.iter().any(|(of, object)| *of == resource && object.name() == name), "{name}");
        }
    }

    #[test]
    fn default_gates_change_nothing() {
        let defaults: Vec<_> = objects::defaults().collect();
        assert!(with("") == defaults);
    }

    #[test]
    fn gates_bring_and_take_rules_and_roles() {
        let rules = |objects: &[(&str, Value)], role: &str| {
            let mut roles =
                objects.iter().filter(|(resource, object)| *resource == "clusterroles" && object.name() == role);
            roles.next().map(|(_, role)| role.list_at(&["rules"]).len())
        };
        let before = with("");
        for (gates, role, more) in [
            ("GenericWorkload=true", "system:kube-scheduler", 2),
            ("GenericWorkload=true,DRAWorkloadResourceClaims=true", "system:controller:resource-claim-controller", 2),
            ("CSIVolumeHealth=true", "system:node", 1),
            ("PodCertificateRequest=false", "system:node", -1),
            ("DRADeviceTaintRules=false", "system:controller:device-taint-eviction-controller", -2),
        ] {
            let expected = rules(&before, role).and_then(|count| count.checked_add_signed(more));
            assert_eq!(rules(&with(gates), role), expected, "{gates}");
        }
        for (gates, role, is_there) in [
            ("", "system:controller:podgroup-protection-controller", false),
            ("GenericWorkload=true", "system:controller:podgroup-protection-controller", true),
            ("StorageVersionAPI=true", "system:controller:storage-version-garbage-collector", true),
            ("PodCertificateRequest=false", "system:controller:podcertificaterequestcleaner", false),
        ] {
            let objects = with(gates);
            assert_eq!(rules(&objects, role).is_some(), is_there, "{gates}");
            let is_bound =
                |(resource, object): &(&str, Value)| *resource == "clusterrolebindings" && object.name() == role;
            assert_eq!(objects.iter().any(is_bound), is_there, "{gates}");
        }
        let text = format!("{:?}", with("ComponentFlagz=false"));
        assert!(!text.contains("/flagz") && text.contains("/statusz"));
    }
}
