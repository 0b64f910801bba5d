//! Evicting a pod: what its disruption budget says about it.

use object::timestamp::Time;
use object::{Cause, GroupResource, Meta, Status, Timestamp, Value, value};
use registry::Error;

use super::prepare::set_condition;
use crate::common::{conditions, selector};

/// More evictions than these must be confirmed by the budget's controller first.
const MAX_DISRUPTED_PODS: usize = 2000;
const RETRY_SECONDS: u32 = 10;
const CAUSE: &str = "DisruptionBudget";

/// What an eviction comes to.
#[derive(Debug, PartialEq)]
pub enum Eviction {
    /// The pod goes and no budget is touched.
    Delete {
        /// The pod must still be in the version that was looked at, unless the request names a version itself: it may
        /// have become healthy in the meantime.
        same_version: bool,
        /// What to answer if it is not, where the request named none; otherwise the conflict is the answer, and where
        /// this is None the eviction starts over.
        on_conflict: Option<Status>,
    },
    /// The pod goes after this budget has been stored. If the budget has changed in the meantime, ask again with the
    /// new one. A dry run stores nothing.
    DeleteAfter { budget: Value },
}

/// Decides about a pod. `budgets` are all PodDisruptionBudgets of its namespace.
pub fn evict<'a>(
    pod: &Value,
    budgets: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
) -> Result<Eviction, Status> {
    let phase = pod.str_at(&["status", "phase"]);
    let is_over = matches!(phase, "Succeeded" | "Failed") || pod.is_deleting();
    if is_over || phase == "Pending" {
        return Ok(Eviction::Delete { same_version: !is_over, on_conflict: None });
    }
    let mut matching = budgets.into_iter().filter(|budget| covers(budget, pod));
    let Some(budget) = matching.next() else {
        return Ok(Eviction::Delete { same_version: false, on_conflict: None });
    };
    if matching.next().is_some() {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Error::Failed(message.into()).into());
    }
    if !is_ready(pod) && spares_unhealthy(budget) {
        return Ok(Eviction::Delete { same_version: true, on_conflict: Some(still_processed(budget.name())) });
    }
    take_one(budget, pod.name(), now).map(|budget| Eviction::DeleteAfter { budget })
}

/// The pod with the condition that tells why it goes.
pub fn mark_evicted(now: Timestamp, pod: &mut Value) {
    let condition = value!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    set_condition(now, pod, condition);
}

/// A selector that is no good covers nothing.
fn covers(budget: &Value, pod: &Value) -> bool {
    budget.namespace() == pod.namespace()
        && selector::compile(budget.at(&["spec", "selector"])).is_ok_and(|selector| selector::selects(&selector, pod))
}

fn is_ready(pod: &Value) -> bool {
    conditions::find(pod.list_at(&["status", "conditions"]), "Ready")
        .is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// Whether pods that are not healthy may go without counting.
fn spares_unhealthy(budget: &Value) -> bool {
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

fn number(budget: &Value, field: &str) -> i64 {
    budget.at(&["status", field]).as_int().unwrap_or(0)
}

/// The budget with one disruption less, or why there is none left.
fn take_one(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Status> {
    let (name, allowed) = (budget.name(), number(budget, "disruptionsAllowed"));
    if number(budget, "observedGeneration") < budget.generation() {
        return Err(still_processed(name));
    }
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(forbidden(name, why, why));
    }
    let disrupted = budget.at(&["status", "disruptedPods"]).as_map().map_or(0, |pods| pods.len());
    if disrupted > MAX_DISRUPTED_PODS {
        return Err(forbidden(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(too_many(0, used_up(budget)));
    }
    let mut taken = budget.clone();
    taken.set(&["status", "disruptionsAllowed"], allowed - 1);
    if allowed == 1 {
        let mut condition =
            value!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""});
        condition.keep(&["observedGeneration"], budget.field("status"));
        conditions::set(now, taken.slot(&["status", "conditions"]), condition);
    }
    taken.set(&["status", "disruptedPods", pod], Time(now).to_string());
    Ok(taken)
}

/// Why a budget has nothing left.
fn used_up(budget: &Value) -> String {
    let (name, healthy, desired) = (budget.name(), number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    let condition = conditions::find(budget.list_at(&["status", "conditions"]), "DisruptionAllowed");
    let refusal = condition
        .filter(|condition| condition.str_at(&["status"]) == "False")
        .map(|condition| (condition.str_at(&["reason"]), condition.str_at(&["message"])))
        .filter(|(_, message)| !message.is_empty());
    match refusal {
        Some(("SyncFailed", message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn still_processed(name: &str) -> Status {
    too_many(RETRY_SECONDS, format!("The disruption budget {name} is still being processed by the server."))
}

fn too_many(retry_seconds: u32, cause: String) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    because(Status::too_many_requests(message, retry_seconds), cause)
}

fn forbidden(name: &str, why: &str, cause: &str) -> Status {
    let status = Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why);
    because(status, format!("The disruption budget {name} does not allow evicting pods currently: {cause}"))
}

fn because(mut status: Status, message: String) -> Status {
    let cause = Cause { reason: CAUSE.to_string(), message, field: String::new() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    const NOW: Timestamp = Timestamp { secs: 1_700_000_000, nanos: 0 };
    const READY: &str =
        "metadata: {name: p, labels: {app: a}}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}";

    /// A budget for pods with the label `app: a`.
    fn budget(status: &str) -> Value {
        let spec = "{selector: {matchLabels: {app: a}}}";
        yaml(&format!("{{metadata: {{name: b, generation: 1}}, spec: {spec}, status: {{{status}}}}}"))
    }

    fn decide(pod: &str, budgets: &[Value]) -> Result<Eviction, Status> {
        evict(&yaml(&format!("{{{pod}}}")), budgets, NOW)
    }

    #[test]
    fn unguarded_pods_go() {
        let check = |pod: &str, same_version: bool| {
            let want = Eviction::Delete { same_version, on_conflict: None };
            assert_eq!(decide(pod, &[budget("")]), Ok(want), "{pod}");
        };
        check("metadata: {labels: {app: other}}, status: {phase: Running}", false);
        check("metadata: {labels: {app: a}}, status: {phase: Pending}", true);
        check("metadata: {labels: {app: a}}, status: {phase: Failed}", false);
        check("metadata: {labels: {app: a}, deletionTimestamp: x}, status: {phase: Running}", false);
        assert_eq!(decide(READY, &[]), Ok(Eviction::Delete { same_version: false, on_conflict: None }));
        assert_eq!(decide(READY, &[budget(""), budget("")]).map_err(|status| status.code), Err(500));
    }

    #[test]
    fn budgets_refuse() {
        let refusal = |status: &str| decide(READY, &[budget(status)]).expect_err("nothing is allowed");
        assert_eq!(
            refusal("observedGeneration: 0").to_value(),
            value!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Cannot evict pod as it would violate the pod's disruption budget.",
                "reason": "TooManyRequests",
                "details": {
                    "causes": [{
                        "reason": "DisruptionBudget",
                        "message": "The disruption budget b is still being processed by the server."
                    }],
                    "retryAfterSeconds": 10
                },
                "code": 429
            })
        );
        for (status, want) in [
            ("desiredHealthy: 3, currentHealthy: 2", "needs 3 healthy pods and has 2 currently"),
            ("desiredHealthy: 1, currentHealthy: 2", "does not allow evicting pods currently"),
            (
                "conditions: [{type: DisruptionAllowed, status: 'False', reason: SyncFailed, message: m}]",
                "does not allow evicting pods currently because it failed sync: m",
            ),
            (
                "currentHealthy: 1, conditions: [{type: DisruptionAllowed, status: 'False', reason: R, message: m}]",
                "does not allow evicting pods currently (R): m",
            ),
            ("disruptionsAllowed: -1", "does not allow evicting pods currently: pdb disruptions allowed is negative"),
        ] {
            let causes = refusal(&format!("observedGeneration: 1, {status}")).details.unwrap_or_default().causes;
            let messages: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
            assert_eq!(messages, [format!("The disruption budget b {want}")]);
        }
        assert_eq!(
            refusal("observedGeneration: 1, disruptionsAllowed: -1").message,
            r#"poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative"#
        );
    }

    #[test]
    fn budgets_give_what_they_have() {
        let Ok(Eviction::DeleteAfter { budget: taken }) =
            decide(READY, &[budget("observedGeneration: 1, disruptionsAllowed: 1")])
        else {
            panic!("a budget that allows a disruption gives it");
        };
        let now = Time(NOW).to_string();
        assert_eq!(
            *taken.field("status"),
            value!({
                "observedGeneration": 1, "disruptionsAllowed": 0, "disruptedPods": {"p": (now.as_str())},
                "conditions": [{
                    "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                    "observedGeneration": 1, "lastTransitionTime": (now.as_str())
                }]
            })
        );
        let unready = "metadata: {name: p, labels: {app: a}}, status: {phase: Running}";
        assert_eq!(
            decide(unready, &[budget("desiredHealthy: 1, currentHealthy: 1")]),
            Ok(Eviction::Delete { same_version: true, on_conflict: Some(still_processed("b")) })
        );
        let mut pod = yaml("{metadata: {name: p}}");
        mark_evicted(NOW, &mut pod);
        let condition = conditions::find(pod.list_at(&["status", "conditions"]), "DisruptionTarget");
        assert_eq!(condition.map(|condition| condition.str_at(&["reason"])), Some("EvictionByEvictionAPI"));
    }
}
