//! Cases for defaults and bounds.

use object::{Meta, Value, value};

use super::{ANNOTATION, LimitRanger};
use crate::plugins::testing::{World, create, update};

fn world(limits: Value) -> World {
    let range = value!({ "metadata": { "name": "r", "namespace": "ns" }, "spec": { "limits": limits } });
    World::default().with("", "limitranges", range)
}

fn pod(resources: Value) -> Value {
    value!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "resources": resources }] } })
}

#[test]
fn containers_get_defaults() {
    let world = world(value!([{
        "type": "Container",
        "default": { "cpu": "1", "memory": "1Gi" },
        "defaultRequest": { "cpu": "500m", "memory": "1Gi" },
    }]));
    let made = create(&LimitRanger, &world, "pods", pod(value!({ "limits": { "cpu": "2" } }))).expect("no bounds");
    let resources =
        value!({ "requests": { "cpu": "500m", "memory": "1Gi" }, "limits": { "cpu": "2", "memory": "1Gi" } });
    assert_eq!(made.object.list_at(&["spec", "containers"])[0].field("resources"), &resources);
    let note = "LimitRanger plugin set: cpu, memory request for container c; memory limit for container c";
    assert_eq!(made.object.annotation(ANNOTATION), Some(note));
}

#[test]
fn bounds_hold() {
    let container = |field: &str, amount: &str| {
        let mut limit = value!({ "type": "Container" });
        limit.set(&[field, "cpu"], amount);
        value!([limit])
    };
    let asks = |request: &str, limit: &str| {
        let mut resources = Value::map();
        for (field, amount) in
            [("requests", request), ("limits", limit)].iter().filter(|(_, amount)| !amount.is_empty())
        {
            resources.set(&[field, "cpu"], *amount);
        }
        resources
    };
    let cases = [
        (container("min", "500m"), asks("500m", "1"), ""),
        (container("min", "1"), asks("500m", ""), "minimum cpu usage per Container is 1, but request is 500m"),
        (container("min", "1"), asks("", "2"), "minimum cpu usage per Container is 1.  No request is specified"),
        (container("max", "1"), asks("1", "2"), "maximum cpu usage per Container is 1, but limit is 2"),
        (container("max", "1"), asks("1", ""), "maximum cpu usage per Container is 1.  No limit is specified"),
        (container("maxLimitRequestRatio", "2"), asks("1", "2"), ""),
        (
            container("maxLimitRequestRatio", "1500m"),
            asks("1", "2"),
            "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
        ),
        (
            container("maxLimitRequestRatio", "2"),
            asks("", "2"),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            value!([{ "type": "Pod", "min": { "cpu": "2" }, "max": { "cpu": "1" } }]),
            asks("1", "3"),
            "[minimum cpu usage per Pod is 2, but request is 1, maximum cpu usage per Pod is 1, but limit is 3]",
        ),
    ];
    for (limits, resources, why) in cases {
        let got = create(&LimitRanger, &world(limits), "pods", pod(resources)).err().unwrap_or_default();
        let expected = if why.is_empty() { String::new() } else { format!("pods \"p\" is forbidden: {why}") };
        assert_eq!(got, expected);
    }
}

#[test]
fn claims_have_bounds_and_pods_are_free_to_change() {
    let limits = value!([
        { "type": "PersistentVolumeClaim", "max": { "storage": "1Gi" } },
        { "type": "Container", "min": { "cpu": "1" } },
    ]);
    let claim = value!({ "metadata": { "name": "c" }, "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
    let why = "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi";
    let made = create(&LimitRanger, &world(limits.clone()), "persistentvolumeclaims", claim);
    assert_eq!(made.err(), Some(why.to_string()));
    let (new, old) = (pod(Value::map()), pod(Value::map()));
    assert!(update(&LimitRanger, &world(limits.clone()), "pods", new.clone(), old.clone()).is_ok());
    assert!(update(&LimitRanger, &world(limits), "pods/resize", new, old).is_err());
}
