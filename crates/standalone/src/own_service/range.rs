//! The default ServiceCIDR, `kubernetes`: made of `--service-cluster-ip-range`.

use object::timestamp::Time;
use object::{Meta, Value, value};

use rest::client::{Client, Collection, Failure};

static RANGES: Collection = Collection::new("networking.k8s.io", "v1", "servicecidrs");
const NAME: &str = "kubernetes";
const MANAGER: &str = "kubernetes-service-cidr-controller";

/// The change that the stored object needs.
#[derive(Debug, PartialEq)]
enum Step {
    Nothing,
    /// From one IP family to two, which is the only change of ranges that is allowed.
    AddFamily,
    MarkReady,
    /// Another server has other ranges, or an administrator wants others.
    Differs,
    /// Something else has set the condition to False; it is not overwritten.
    NotReady,
}

/// Creates the range if there is none, adds a second IP family that was configured since, and marks it as ready.
pub async fn keep(client: &Client, ranges: &[String]) -> Result<(), Failure> {
    let item = RANGES.item(NAME);
    let range = match client.get(&item).await {
        Ok(range) => range,
        Err(failure) if failure.is_not_found() => {
            let created = client.create(&RANGES, &object(ranges)).await;
            created.map(drop).or_else(Failure::unless_exists)?;
            client.get(&item).await?
        }
        Err(failure) => return Err(failure),
    };
    match next_step(&range, ranges) {
        Step::Nothing => {}
        Step::AddFamily => {
            tracing::info!(ranges = ranges.join(","), "the default ServiceCIDR becomes dual-stack");
            let mut range = range;
            range.set(&["spec", "cidrs"], ranges.to_vec());
            client.replace(&item, &range).await?;
        }
        Step::MarkReady => {
            let now = Time(client.api.clock.now()).to_string();
            client.apply(&item.part("status"), MANAGER, &ready(&now)).await?;
        }
        Step::Differs => tracing::warn!(configured = ranges.join(","), "the default ServiceCIDR has other ranges"),
        Step::NotReady => tracing::warn!("the default ServiceCIDR is not ready, although its ranges are as configured"),
    }
    Ok(())
}

fn next_step(range: &Value, ranges: &[String]) -> Step {
    let cidrs: Vec<&str> = range.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str).collect();
    if let ([only], [first, _]) = (cidrs.as_slice(), ranges)
        && only == first
    {
        return Step::AddFamily;
    }
    if range.is_deleting() {
        return Step::Nothing;
    }
    if cidrs != ranges {
        return Step::Differs;
    }
    let conditions = range.list_at(&["status", "conditions"]);
    match conditions.iter().find(|condition| condition.str_at(&["type"]) == "Ready").map(|c| c.str_at(&["status"])) {
        Some("True") => Step::Nothing,
        Some("False") => Step::NotReady,
        _ => Step::MarkReady,
    }
}

fn object(ranges: &[String]) -> Value {
    value!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": NAME},
        "spec": {"cidrs": (ranges.to_vec())}
    })
}

fn ready(now: &str) -> Value {
    value!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": NAME},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": now,
            "message": "Kubernetes default Service CIDR is ready"
        }]}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_get_a_second_family_and_are_marked_as_ready_once() {
        let ranges = |list: &[&str]| -> Vec<String> { list.iter().map(|range| range.to_string()).collect() };
        let (v4, both) = (&["10.0.0.0/24"][..], &["10.0.0.0/24", "fd00::/112"][..]);
        for (stored, status, configured, want) in [
            (v4, "", v4, Step::MarkReady),
            (v4, "Unknown", v4, Step::MarkReady),
            (v4, "True", v4, Step::Nothing),
            (v4, "False", v4, Step::NotReady),
            (v4, "True", both, Step::AddFamily),
            (both, "", both, Step::MarkReady),
            (both, "True", v4, Step::Differs),
            (&["10.0.1.0/24"], "", both, Step::Differs),
        ] {
            let mut range = object(&ranges(stored));
            if !status.is_empty() {
                range.set(&["status", "conditions"], vec![value!({"type": "Ready", "status": status})]);
            }
            assert_eq!(next_step(&range, &ranges(configured)), want, "{stored:?} {status} {configured:?}");
            range.set_meta_str("deletionTimestamp", "2026-01-01T00:00:00Z");
            let adds = want == Step::AddFamily;
            assert_eq!(next_step(&range, &ranges(configured)) == Step::Nothing, !adds, "a range that is being deleted");
        }
    }
}
