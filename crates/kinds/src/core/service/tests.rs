use std::sync::Arc;

use async_trait::async_trait;
use object::{Meta, Status, Value};
use registry::OwnClient;

use super::allocation::PortRange;
use super::*;
use crate::check::Check;

/// A store in which everything is free.
struct Free;

#[async_trait]
impl OwnClient for Free {
    async fn create(&self, _: &str, _: &str, _: Value) -> Result<bool, Status> {
        Ok(true)
    }

    async fn delete(&self, _: &str, _: &str, _: &str) -> Result<(), Status> {
        Ok(())
    }

    async fn store_node_ports(&self, _: &Value, _: Option<u64>) -> Result<Option<u64>, Status> {
        Ok(Some(1))
    }
}

const BASE: &str = "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: ns}, spec: {selector: {a: b}, ports: [{port: 80}]}}";

fn check() -> Check {
    with_ranges(&["10.0.0.0/24"])
}

fn with_ranges(ranges: &[&str]) -> Check {
    let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let allocation = Allocation::new(&ranges, PortRange::DEFAULT, Arc::new(Free));
    let mut check = Check::new(Service::new(Arc::new(allocation)), BASE);
    let cidrs = format!("{{metadata: {{name: kubernetes}}, spec: {{cidrs: ['{}']}}}}", ranges.join("', '"));
    check.world.add("networking.k8s.io", "servicecidrs", &cidrs);
    check
}

const ADDRESSED: &str =
    "{spec: {clusterIP: 10.0.0.7, clusterIPs: [10.0.0.7], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}}";

#[test]
fn defaults_depend_on_the_type() {
    let check = check();
    let stored = check.try_create("spec: {clusterIP: 10.0.0.7}").unwrap();
    assert_eq!(
        stored.field("spec"),
        check
            .object(
                "{spec: {clusterIP: 10.0.0.7, clusterIPs: [10.0.0.7], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack,
                  type: ClusterIP, sessionAffinity: None, internalTrafficPolicy: Cluster,
                  ports: [{port: 80, protocol: TCP, targetPort: 80}]}}"
            )
            .field("spec")
    );
    let stored = check
        .try_create("spec: {type: LoadBalancer, externalTrafficPolicy: Local, sessionAffinity: ClientIP}")
        .unwrap();
    let spec = stored.field("spec");
    assert_eq!(spec.at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"]), &Value::Int(10800));
    assert_eq!(spec.field("allocateLoadBalancerNodePorts"), &Value::Bool(true));
    assert!(spec.field("healthCheckNodePort").as_int().is_some());
    assert!(spec.list_at(&["ports"])[0].field("nodePort").as_int().is_some());
    let stored = check
        .try_create("spec: {type: ExternalName, externalName: a.b, internalTrafficPolicy: Local, ports: null}")
        .unwrap();
    assert!(stored.at(&["spec", "clusterIP"]).is_null());
}

#[test]
fn headless_services_without_selectors_are_of_both_families() {
    let stored = check().try_create("spec: {clusterIP: None, selector: null}").unwrap();
    assert_eq!(stored.at(&["spec", "ipFamilies"]), &Value::from(vec!["IPv4", "IPv6"]));
    assert_eq!(stored.str_at(&["spec", "ipFamilyPolicy"]), "RequireDualStack");
    let stored = check().try_create("spec: {clusterIP: None}").unwrap();
    assert_eq!(stored.at(&["spec", "ipFamilies"]), &Value::from(vec!["IPv4"]));
}

#[test]
fn families_are_the_clusters() {
    let dual = with_ranges(&["10.0.0.0/24", "fd00::/112"]);
    for (policy, want) in [("SingleStack", 1), ("PreferDualStack", 2), ("RequireDualStack", 2)] {
        let stored = dual.try_create(&format!("spec: {{ipFamilyPolicy: {policy}}}")).unwrap();
        assert_eq!(stored.list_at(&["spec", "clusterIPs"]).len(), want, "{policy}");
    }
    check().create(&[
        ("spec: {ipFamilyPolicy: PreferDualStack}", ""),
        (
            "spec: {ipFamilyPolicy: RequireDualStack}",
            "422 Service \"a\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            "spec: {ipFamilies: [IPv6]}",
            "422 Service \"a\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            "spec: {ipFamilies: [IPv4, IPv6]}",
            "422 Service \"a\" is invalid: spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            "spec: {clusterIP: 'fd00::1'}",
            "422 Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            "spec: {clusterIP: nonsense}",
            "422 Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
    ]);
}

#[test]
fn ports_are_checked() {
    check().create(&[
        ("spec: {ports: null}", "spec.ports: Required value"),
        (
            "spec: {ports: [null]}",
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
             spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            "spec: {ports: [{port: 80, name: a}, {port: 80, name: a, protocol: X, targetPort: '-'}]}",
            r#"spec.ports[1].name: Duplicate value: "a"
            spec.ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
            spec.ports[1].targetPort: Invalid value: "-": must contain at least one letter (a-z)
            spec.ports[1].targetPort: Invalid value: "-": must not begin or end with a hyphen"#,
        ),
        (
            "spec: {ports: [{port: 80, name: a, nodePort: 30001}, {port: 80, name: b}]}",
            r#"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'
            spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
        ),
        (
            "spec: {type: NodePort, ports: [{port: 80, name: a, nodePort: 30001}, {port: 81, name: b, nodePort: 30001}]}",
            "422 Service \"a\" is invalid: spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
    ]);
}

#[test]
fn types_have_their_fields() {
    check().create(&[
        (
            "spec: {type: Odd}",
            r#"spec.type: Unsupported value: "Odd": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#,
        ),
        (
            "spec: {type: ExternalName, clusterIP: 10.0.0.1, ipFamilyPolicy: SingleStack}",
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services
             spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services
             spec.externalName: Required value",
        ),
        ("spec: {type: ExternalName, externalName: a.b.}", ""),
        ("spec: {type: NodePort, clusterIP: None}", "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"),
        (
            "spec: {externalTrafficPolicy: Local, healthCheckNodePort: 30000, loadBalancerClass: a, allocateLoadBalancerNodePorts: true, loadBalancerSourceRanges: [10.0.0.0/8]}",
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'
             spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'
             spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'
             spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services
             spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ),
        (
            "spec: {type: LoadBalancer, loadBalancerSourceRanges: [' 10.0.0.0/8 ', 10.0.0.1/8]}",
            "spec.LoadBalancerSourceRanges[1]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
        ),
        (
            "{metadata: {annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: nope}}, spec: {type: LoadBalancer}}",
            "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: \"nope\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ),
        (
            "spec: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}}",
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400",
        ),
        (
            "spec: {externalIPs: [127.0.0.1, x]}",
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)
             spec.externalIPs[1]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            "spec: {trafficDistribution: Odd, internalTrafficPolicy: Odd}",
            r#"spec.internalTrafficPolicy: Unsupported value: "Odd": supported values: "Cluster", "Local"
            spec.trafficDistribution: Unsupported value: "Odd": supported values: "PreferClose", "PreferSameZone", "PreferSameNode""#,
        ),
    ]);
}

#[test]
fn allocated_fields_may_be_left_out_of_updates() {
    let check = check();
    let stored = check.try_update(ADDRESSED, "metadata: {labels: {x: z}}").unwrap();
    assert_eq!(stored.at(&["spec", "clusterIPs"]), &Value::from(vec!["10.0.0.7"]));
    let ported = "{spec: {type: NodePort, clusterIP: 10.0.0.7, clusterIPs: [10.0.0.7], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack,
        ports: [{port: 80, nodePort: 30007}]}}";
    let stored = check.try_update(ported, "spec: {type: NodePort}").unwrap();
    assert_eq!(stored.list_at(&["spec", "ports"])[0].field("nodePort"), &Value::Int(30007));
    // Changing the type lets go of what the new one has no use for.
    let stored = check.try_update(ported, &ported.replace("type: NodePort", "type: ClusterIP")).unwrap();
    assert!(stored.list_at(&["spec", "ports"])[0].field("nodePort").is_null());
    let named = ADDRESSED.replace("spec: {", "spec: {type: ExternalName, externalName: a.b, ");
    let stored = check.try_update(ADDRESSED, &named).unwrap();
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert!(stored.at(&["spec", field]).is_null(), "{field}");
    }
}

#[test]
fn addresses_stay() {
    check().update(&[
        (
            ADDRESSED,
            "spec: {clusterIP: 10.0.0.8, clusterIPs: [10.0.0.8]}",
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.8\"]: may not change once set",
        ),
        (
            ADDRESSED,
            "spec: {clusterIP: None, selector: null, ipFamilyPolicy: PreferDualStack}",
            "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
        ),
        (
            ADDRESSED,
            "spec: {clusterIP: None}",
            "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
        ),
        (
            "spec: {type: LoadBalancer, loadBalancerClass: a.b/c}",
            "spec: {type: LoadBalancer, loadBalancerClass: a.b/d}",
            "spec.loadBalancerClass: Invalid value: \"a.b/d\": may not change once set",
        ),
    ]);
}

#[test]
fn a_second_address_comes_and_goes_with_the_policy() {
    let dual = with_ranges(&["10.0.0.0/24", "fd00::/112"]);
    let stored = dual.try_update(ADDRESSED, &ADDRESSED.replace("SingleStack", "PreferDualStack")).unwrap();
    assert_eq!(stored.list_at(&["spec", "clusterIPs"]).len(), 2);
    let two = "{spec: {clusterIP: 10.0.0.7, clusterIPs: [10.0.0.7, 'fd00::7'], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack}}";
    let stored = dual.try_update(two, &two.replace("RequireDualStack", "SingleStack")).unwrap();
    assert_eq!(stored.at(&["spec", "clusterIPs"]), &Value::from(vec!["10.0.0.7"]));
    dual.update(&[(
        two,
        &two.replace(", 'fd00::7'", ""),
        "422 Service \"a\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP",
    )]);
}

#[test]
fn load_balancers_report_where_they_are() {
    let balancer = "spec: {type: LoadBalancer}";
    let with =
        |ingress: &str| format!("{{spec: {{type: LoadBalancer}}, status: {{loadBalancer: {{ingress: [{ingress}]}}}}}}");
    check().update_status(&[
        (balancer, &with("{ip: 1.2.3.4}"), ""),
        (balancer, &with("{hostname: a.b}"), ""),
        (
            balancer,
            &with("{ip: x, ipMode: Odd}, {ipMode: VIP, hostname: 1.2.3.4}"),
            r#"status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            status.loadBalancer.ingress[0].ipMode: Unsupported value: "Odd": supported values: "Proxy", "VIP"
            status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set
            status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#,
        ),
        (
            "",
            "status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}",
            "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
        ),
    ]);
}

#[test]
fn warnings_tell_what_is_ignored() {
    check().warnings(&[
        ("", &[]),
        (
            "spec: {clusterIP: None, externalIPs: [10.1.1.1], sessionAffinity: ClientIP}",
            &[
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ],
        ),
        (
            "spec: {externalIPs: ['1.02.3.4'], externalName: a, trafficDistribution: PreferClose}",
            &[
                "spec.externalIPs[0]: non-standard IP address \"1.02.3.4\" is invalid: use \"1.2.3.4\"",
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ],
        ),
    ]);
}

#[test]
fn cells_show_addresses_and_ports() {
    check().cells(&[
        ("spec: {clusterIPs: [10.0.0.7]}", "a ClusterIP 10.0.0.7 <none> 80/TCP <unknown> a=b"),
        (
            "{spec: {type: LoadBalancer, selector: null, ports: [{port: 80, nodePort: 30001}, {port: 53, protocol: UDP}]},
              status: {loadBalancer: {ingress: [{hostname: z}, {ip: 1.1.1.1}]}}}",
            "a LoadBalancer <none> 1.1.1.1,z 80:30001/TCP,53/UDP <unknown> <none>",
        ),
        ("spec: {type: LoadBalancer}", "a LoadBalancer <none> <pending> 80/TCP <unknown> a=b"),
        ("spec: {type: ExternalName, externalName: x.io, ports: null}", "a ExternalName <none> x.io <none> <unknown> a=b"),
    ]);
}

#[test]
fn names_are_labels() {
    let check = check();
    assert!(check.object("").name() == "a");
    assert!((FACTS.name)("1a", false).is_empty());
    assert!(!(FACTS.name)("a.b", false).is_empty());
}
