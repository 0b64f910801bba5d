//! Counting anew: the status that a quota should have, whatever requests have been charged.

use object::{GroupResource, Value, value};
use registry::Context;

use super::evaluator::{Evaluator, count};
use crate::plugins::resources::{self, ResourceList};

/// Whether the status says what the quota allows; until it does, the quota lets everything through.
pub fn is_counted(quota: &Value) -> bool {
    resources::list(quota.at(&["status", "hard"])) == resources::list(quota.at(&["spec", "hard"]))
}

/// Which of these resources a quota counts.
pub fn counted<'a>(quota: &Value, resources: impl IntoIterator<Item = &'a GroupResource>) -> Vec<&'a GroupResource> {
    let hard = quota.at(&["spec", "hard"]).as_map();
    let names: Vec<&str> = hard.into_iter().flat_map(|hard| hard.keys()).collect();
    let is_counted = |resource: &&GroupResource| {
        let evaluator = Evaluator::of_resource(&resource.group, &resource.resource);
        evaluator.is_some_and(|evaluator| names.iter().any(|name| evaluator.counts(name)))
    };
    resources.into_iter().filter(is_counted).collect()
}

/// The status of a quota whose namespace has these objects.
pub fn status<'a>(
    cx: &Context<'_>,
    quota: &Value,
    objects: impl IntoIterator<Item = (&'a GroupResource, &'a [Value])>,
) -> Value {
    let hard = quota.at(&["spec", "hard"]);
    let mut used: ResourceList = resources::list(hard).into_keys().map(|name| (name, count(0))).collect();
    for (resource, objects) in objects {
        let Some(evaluator) = Evaluator::of_resource(&resource.group, &resource.resource) else { continue };
        for object in objects.iter().filter(|object| evaluator.in_scopes(cx, quota, object)) {
            let usage = evaluator.usage(cx, object).into_iter().filter(|(name, _)| used.contains_key(name)).collect();
            resources::add(&mut used, &usage);
        }
    }
    value!({ "hard": (hard.clone()), "used": (resources::to_value(&used)) })
}

/// Whether two statuses say the same.
pub fn same(a: &Value, b: &Value) -> bool {
    ["hard", "used"].iter().all(|field| resources::list(a.field(field)) == resources::list(b.field(field)))
}

#[cfg(test)]
mod tests {
    use object::Timestamp;
    use registry::Features;
    use request::User;

    use super::*;

    fn with_context<T>(work: impl FnOnce(&Context<'_>) -> T) -> T {
        let (user, features) = (User::default(), Features::default());
        let cx = Context::of_server(Timestamp::ZERO, &user, &features);
        work(&Context { namespace: "ns", subresource: "status", verb: "update", ..cx })
    }

    #[test]
    fn objects_are_counted_by_what_the_quota_names() {
        let quota = value!({"spec": {
            "hard": {"configmaps": "5", "count/deployments.apps": "1", "requests.cpu": "2", "services.nodeports": "1"}
        }});
        let all = ["configmaps", "pods", "secrets", "services"].map(|name| GroupResource::new("", name));
        let deployments = GroupResource::new("apps", "deployments");
        let found = counted(&quota, all.iter().chain([&deployments]));
        assert_eq!(found, [&all[0], &all[1], &all[3], &deployments]);
        let pod = |cpu: &str, phase: &str| {
            value!({
                "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}, "status": {"phase": phase}
            })
        };
        let pods = [pod("100m", "Running"), pod("1", "Pending"), pod("7", "Succeeded")];
        let maps = [value!({}), value!({})];
        let objects = [(&all[0], &maps[..]), (&all[1], &pods[..]), (&deployments, &[])];
        let got = with_context(|cx| status(cx, &quota, objects));
        let used = value!({
            "configmaps": "2", "count/deployments.apps": "0", "requests.cpu": "1100m", "services.nodeports": "0"
        });
        assert_eq!(got, value!({"hard": (quota.at(&["spec", "hard"]).clone()), "used": used}));
        assert!(!is_counted(&quota) && !same(quota.field("status"), &got));
    }

    #[test]
    fn scopes_leave_objects_out() {
        let quota = value!({"spec": {"hard": {"pods": "5"}, "scopes": ["Terminating"]}});
        let pods = [value!({"spec": {"activeDeadlineSeconds": 5}}), value!({"spec": {}})];
        let resource = GroupResource::new("", "pods");
        let got = with_context(|cx| status(cx, &quota, [(&resource, &pods[..])]));
        assert_eq!(got.at(&["used", "pods"]), &Value::from("1"));
    }
}
