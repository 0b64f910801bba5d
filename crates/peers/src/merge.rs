//! One discovery document of what several servers serve.

use std::collections::{BTreeMap, BTreeSet};

use object::Value;

/// The groups of all servers; None if that is what this server serves alone. Groups, versions and resources that any server
/// lists in some order stay in it.
pub fn merge(own_server: &str, own: &[Value], peers: &BTreeMap<String, Vec<Value>>) -> Option<Vec<Value>> {
    let mut servers: BTreeMap<&str, &[Value]> =
        peers.iter().map(|(server, groups)| (server.as_str(), groups.as_slice())).collect();
    servers.insert(own_server, own);
    if servers.len() == 1 {
        return None;
    }
    let own_names = names(own, &NAME_OF_GROUP);
    let (mut merged, mut orders) = (BTreeMap::new(), Vec::new());
    let mut changed = false;
    for groups in servers.into_values() {
        changed |= join(&mut merged, groups, &NAME_OF_GROUP, merge_versions);
        orders.push(names(groups, &NAME_OF_GROUP));
    }
    let same_order = orders.iter().all(|order| *order == own_names);
    if !changed && same_order {
        return None;
    }
    let order = if same_order { own_names } else { merge_orders(&orders) };
    Some(order.iter().filter_map(|name| merged.remove(name)).collect())
}

const NAME_OF_GROUP: [&str; 2] = ["metadata", "name"];

fn names(list: &[Value], path: &[&str]) -> Vec<String> {
    list.iter().map(|item| item.str_at(path).to_string()).collect()
}

/// Adds items to those known by name; what is known already is merged. True if merging made a difference.
fn join(
    known: &mut BTreeMap<String, Value>,
    items: &[Value],
    path: &[&str],
    merge: fn(&Value, &Value) -> Option<Value>,
) -> bool {
    let mut changed = false;
    for item in items {
        let name = item.str_at(path);
        match known.get(name).map(|there| merge(there, item)) {
            None => drop(known.insert(name.to_string(), item.clone())),
            Some(Some(merged)) => {
                known.insert(name.to_string(), merged);
                changed = true;
            }
            Some(None) => {}
        }
    }
    changed
}

fn merge_versions(a: &Value, b: &Value) -> Option<Value> {
    merge_lists(a, b, "versions", "version", merge_resources)
}

fn merge_resources(a: &Value, b: &Value) -> Option<Value> {
    merge_lists(a, b, "resources", "resource", merge_resource)
}

/// `a` with what `b` has more in a list; None if that is nothing.
fn merge_lists(
    a: &Value,
    b: &Value,
    list: &str,
    name: &str,
    merge: fn(&Value, &Value) -> Option<Value>,
) -> Option<Value> {
    let (first, second) = (a.list_at(&[list]), b.list_at(&[list]));
    let orders = [names(first, &[name]), names(second, &[name])];
    let mut known: BTreeMap<String, Value> =
        first.iter().map(|item| (item.str_at(&[name]).to_string(), item.clone())).collect();
    let changed = join(&mut known, second, &[name], merge);
    let same_order = orders[0] == orders[1];
    if !changed && same_order {
        return None;
    }
    let order = if same_order { orders[0].clone() } else { merge_orders(&orders) };
    let mut merged = a.clone();
    merged.set(&[list], order.iter().filter_map(|name| known.remove(name)).collect::<Vec<Value>>());
    Some(merged)
}

/// `a` with the verbs and subresources of both, sorted.
fn merge_resource(a: &Value, b: &Value) -> Option<Value> {
    if a == b {
        return None;
    }
    let mut merged = a.clone();
    let both = |list: &'static str| a.list_at(&[list]).iter().chain(b.list_at(&[list]));
    let verbs: BTreeSet<&str> = both("verbs").filter_map(Value::as_str).collect();
    if !verbs.is_empty() {
        merged.set(&["verbs"], verbs.into_iter().map(Value::from).collect::<Vec<_>>());
    }
    let parts: BTreeMap<&str, &Value> =
        both("subresources").map(|part| (part.str_at(&["subresource"]), part)).collect();
    if !parts.is_empty() {
        merged.set(&["subresources"], parts.into_values().cloned().collect::<Vec<_>>());
    }
    Some(merged)
}

/// All names in an order that agrees with every list, by name where the lists say nothing; by name alone where they
/// contradict each other.
fn merge_orders(lists: &[Vec<String>]) -> Vec<String> {
    let mut after: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in lists {
        for (at, name) in list.iter().enumerate() {
            let followers = after.entry(name).or_default();
            followers.extend(list.get(at + 1).map(String::as_str));
        }
    }
    let complete =
        lists.iter().find(|list| list.len() == after.len() && list.iter().collect::<BTreeSet<_>>().len() == list.len());
    if let Some(list) = complete {
        return list.clone();
    }
    let mut before: BTreeMap<&str, usize> = after.keys().map(|name| (*name, 0)).collect();
    for follower in after.values().flatten() {
        *before.entry(follower).or_default() += 1;
    }
    let mut free: BTreeSet<&str> = before.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    let mut ordered = Vec::with_capacity(after.len());
    while let Some(name) = free.pop_first() {
        ordered.push(name.to_string());
        for follower in after.get(name).into_iter().flatten() {
            let count = before.entry(follower).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                free.insert(follower);
            }
        }
    }
    match ordered.len() == after.len() {
        true => ordered,
        false => after.keys().map(|name| name.to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    fn group(name: &str, version: &str, resources: &[(&str, &[&str])]) -> Value {
        let resources: Vec<Value> = resources
            .iter()
            .map(|(resource, verbs)| {
                let verbs: Vec<Value> = verbs.iter().map(|verb| Value::from(*verb)).collect();
                value!({"resource": (*resource), "verbs": verbs})
            })
            .collect();
        value!({"metadata": {"name": name}, "versions": [{"version": version, "resources": resources}]})
    }

    fn shown(groups: &[Value]) -> Vec<String> {
        let mut lines = Vec::new();
        for group in groups {
            for version in group.list_at(&["versions"]) {
                for resource in version.list_at(&["resources"]) {
                    let verbs: Vec<&str> = resource.list_at(&["verbs"]).iter().filter_map(Value::as_str).collect();
                    let (group, version) = (group.str_at(&NAME_OF_GROUP), version.str_at(&["version"]));
                    lines.push(format!("{group}/{version} {} {}", resource.str_at(&["resource"]), verbs.join(",")));
                }
            }
        }
        lines
    }

    #[test]
    fn what_any_server_serves_is_listed() {
        let own = [group("apps", "v1", &[("deployments", &["get"])])];
        let check = |peer: Vec<Value>, want: Option<&[&str]>| {
            let merged = merge("b", &own, &BTreeMap::from([("a".to_string(), peer)]));
            assert_eq!(merged.as_deref().map(shown), want.map(|lines| lines.iter().map(|l| l.to_string()).collect()));
        };
        check(own.to_vec(), None);
        check(
            vec![own[0].clone(), group("batch", "v1", &[("jobs", &["get"])])],
            Some(&["apps/v1 deployments get", "batch/v1 jobs get"]),
        );
        check(vec![group("apps", "v1", &[("deployments", &["list", "get"])])], Some(&["apps/v1 deployments get,list"]));
        check(
            vec![group("apps", "v2", &[("deployments", &["get"])])],
            Some(&["apps/v1 deployments get", "apps/v2 deployments get"]),
        );
        check(
            vec![group("apps", "v1", &[("deployments", &["get"]), ("extras", &["get"])])],
            Some(&["apps/v1 deployments get", "apps/v1 extras get"]),
        );
        assert_eq!(merge("b", &own, &BTreeMap::new()), None);
    }

    #[test]
    fn orders_are_kept_where_they_agree() {
        for (lists, want) in [
            (vec![vec!["a", "b", "c"], vec!["b", "c"]], vec!["a", "b", "c"]),
            (vec![vec!["a", "c"], vec!["b", "c"]], vec!["a", "b", "c"]),
            (vec![vec!["z", "y"], vec!["y", "x"]], vec!["z", "y", "x"]),
            (vec![vec!["b", "a", "c"], vec!["a", "b", "d"]], vec!["a", "b", "c", "d"]),
        ] {
            let lists: Vec<Vec<String>> =
                lists.iter().map(|list| list.iter().map(|name| name.to_string()).collect()).collect();
            assert_eq!(merge_orders(&lists), want, "{lists:?}");
        }
    }
}
