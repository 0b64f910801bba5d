//! The EndpointSlice of the `kubernetes` Service, made of its Endpoints.

use std::net::IpAddr;

use object::{Meta, Value, value};

use super::NAMESPACE;
use rest::client::{Client, Collection, Failure};

static SLICES: Collection = Collection::new("discovery.k8s.io", "v1", "endpointslices");

/// Creates the slice or brings it up to date.
pub async fn ensure(client: &Client, endpoints: &Value) -> Result<(), Failure> {
    let wanted = slice_of(endpoints);
    let slices = SLICES.within(NAMESPACE);
    let item = slices.item(wanted.name());
    let current = match client.get(&item).await {
        Ok(current) => current,
        Err(failure) if failure.is_not_found() => {
            return client.create(&slices, &wanted).await.map(drop).or_else(Failure::unless_exists);
        }
        Err(failure) => return Err(failure),
    };
    if current.field("addressType") != wanted.field("addressType") {
        // The type of a slice's addresses cannot be changed.
        client.delete(&item, &value!({"apiVersion": "v1", "kind": "DeleteOptions"})).await?;
        return client.create(&slices, &wanted).await.map(drop);
    }
    let same_lists = ["endpoints", "ports"].iter().all(|list| current.list_at(&[list]) == wanted.list_at(&[list]));
    if same_lists && current.at(&["metadata", "labels"]) == wanted.at(&["metadata", "labels"]) {
        return Ok(());
    }
    client.replace(&item, &wanted).await.map(drop)
}

/// A slice holds addresses of one IP family: IPv6 if all are, otherwise those that are IPv4.
fn slice_of(endpoints: &Value) -> Value {
    let subset = endpoints.list_at(&["subsets"]).first().cloned().unwrap_or_default();
    let addresses: Vec<&str> = subset.list_at(&["addresses"]).iter().map(|address| address.str_at(&["ip"])).collect();
    let is_v6 = |address: &&str| address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
    let all_v6 = !addresses.is_empty() && addresses.iter().all(is_v6);
    let listed = addresses.iter().filter(|address| is_v6(address) == all_v6);
    let listed: Vec<Value> =
        listed.map(|address| value!({"addresses": [(*address)], "conditions": {"ready": true}})).collect();
    value!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": (endpoints.name()), "namespace": (endpoints.namespace()),
            "labels": {"kubernetes.io/service-name": (endpoints.name())}
        },
        "addressType": (if all_v6 { "IPv6" } else { "IPv4" }),
        "endpoints": (listed),
        "ports": (subset.list_at(&["ports"]).to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_addresses_of_one_family() {
        for (addresses, kind, listed) in [
            (&["10.0.0.1", "10.0.0.2"][..], "IPv4", &["10.0.0.1", "10.0.0.2"][..]),
            (&["fd00::1"], "IPv6", &["fd00::1"]),
            (&["10.0.0.1", "fd00::1"], "IPv4", &["10.0.0.1"]),
            (&[], "IPv4", &[]),
        ] {
            let addresses: Vec<Value> = addresses.iter().map(|ip| value!({"ip": (*ip)})).collect();
            let ports = value!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
            let subsets = value!([{"addresses": (addresses), "ports": (ports.clone())}]);
            let slice = slice_of(&value!({"metadata": {"name": "kubernetes"}, "subsets": (subsets)}));
            assert_eq!(slice.str_at(&["addressType"]), kind);
            assert_eq!(slice.field("ports"), &ports);
            let got: Vec<&str> = slice
                .list_at(&["endpoints"])
                .iter()
                .filter_map(|endpoint| endpoint.list_at(&["addresses"]).first().and_then(Value::as_str))
                .collect();
            assert_eq!(got, listed);
        }
    }
}
