//! Aggregated cluster roles: the rules of one with an aggregation rule are those of all cluster roles that its selectors name.
//! `admin`, `edit` and `view` are such roles.

use std::collections::BTreeSet;

use object::{Meta, Value, labels, value};
use tokio::sync::oneshot;

use crate::follow::follow;
use crate::queue::Queue;
use rest::client::{Client, Collection, Failure};

static ROLES: Collection = Collection::new("rbac.authorization.k8s.io", "v1", "clusterroles");
/// As upstream's controller calls itself.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Keeps the rules as they should be; tells `ready` once those of the roles that were there at the start are.
pub async fn run(client: Client, ready: oneshot::Sender<()>) {
    // Where the group is turned off there is nothing to look after.
    if client.api.catalog.load().stored("rbac.authorization.k8s.io", "clusterroles").is_none() {
        return;
    }
    let (queue, mut ready) = (Queue::new(), Some(ready));
    let hear = |_| {
        queue.add(());
        true
    };
    let work = async {
        loop {
            queue.next().await;
            match aggregate(&client).await {
                Ok(()) => {
                    queue.forget(&());
                    let _ = ready.take().map(|ready| ready.send(()));
                }
                Err(failure) => {
                    tracing::debug!(%failure, "cluster roles cannot be aggregated yet");
                    queue.retry(());
                }
            }
        }
    };
    tokio::join!(follow(&client, &ROLES, |_| true, hear), work);
}

/// Brings all aggregated roles up to date.
async fn aggregate(client: &Client) -> Result<(), Failure> {
    let (mut list, mut outcome) = (client.list_whole(&ROLES).await?, Ok(()));
    let mut roles = std::mem::take(list.slot(&["items"]).make_list());
    roles.sort_by(|a, b| a.name().cmp(b.name()));
    for at in settle(&mut roles) {
        let (name, rules) = (roles[at].name(), roles[at].list_at(&["rules"]).to_vec());
        let wanted = value!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules,
        });
        // One that cannot be written holds up no other.
        if let Err(failure) = client.apply(&ROLES.item(name), MANAGER, &wanted).await {
            tracing::warn!(name, %failure, "an aggregated cluster role cannot be written");
            outcome = Err(failure);
        }
    }
    outcome
}

/// Gives aggregated roles their rules and says where those are that changed. Such a role can be a part of another one: it takes as
/// many rounds as there are roles in a row, and never more than there are roles.
fn settle(roles: &mut [Value]) -> BTreeSet<usize> {
    let is_aggregated = |role: &Value| !role.list_at(&["aggregationRule", "clusterRoleSelectors"]).is_empty();
    let aggregated: Vec<usize> = (0..roles.len()).filter(|at| is_aggregated(&roles[*at])).collect();
    let mut changed = BTreeSet::new();
    for _ in &aggregated {
        let mut is_settled = true;
        for &at in &aggregated {
            let rules = rules_of(&roles[at], roles);
            if roles[at].list_at(&["rules"]) != rules.as_slice() {
                roles[at].set(&["rules"], rules);
                changed.insert(at);
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    changed
}

/// The rules of the roles that each selector names, in the order of their names, each rule once.
fn rules_of(role: &Value, roles: &[Value]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in role.list_at(&["aggregationRule", "clusterRoleSelectors"]) {
        // One that cannot be read was refused when the role was written.
        let Ok(selector) = labels::Selector::from_value(selector) else { continue };
        for part in roles.iter().filter(|part| part.name() != role.name() && selector.matches(part.labels())) {
            for rule in part.list_at(&["rules"]) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_once_and_by_name() {
        let rule = |verb: &str| value!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        let part = |name: &str, to: &str, verbs: &[&str]| {
            let rules: Vec<Value> = verbs.iter().map(|verb| rule(verb)).collect();
            let mut role = value!({"metadata": {"name": name}, "rules": rules});
            role.set(&["metadata", "labels", to], "true");
            role
        };
        let selecting = |label: &str| {
            let mut selector = Value::map();
            selector.set(&["matchLabels", label], "true");
            selector
        };
        let aggregated = |name: &str, to: &str, selected: &[&str]| {
            let mut role = part(name, to, &["own"]);
            let selectors: Vec<Value> = selected.iter().map(|label| selecting(label)).collect();
            role.set(&["aggregationRule", "clusterRoleSelectors"], selectors);
            role
        };
        let mut roles = [
            part("a", "to-view", &["get", "list"]),
            aggregated("admin", "to-nothing", &["to-admin"]),
            part("b", "to-view", &["list", "watch"]),
            aggregated("edit", "to-admin", &["to-edit", "to-none"]),
            part("update", "to-edit", &["update"]),
            aggregated("view", "to-edit", &["to-view"]),
        ];
        assert_eq!(settle(&mut roles).into_iter().collect::<Vec<_>>(), [1, 3, 5]);
        let view = ["get", "list", "watch"].map(rule);
        assert_eq!(roles[5].list_at(&["rules"]), view);
        for at in [1, 3] {
            assert_eq!(roles[at].list_at(&["rules"]), ["update", "get", "list", "watch"].map(rule));
        }
        assert!(settle(&mut roles).is_empty());
    }
}
