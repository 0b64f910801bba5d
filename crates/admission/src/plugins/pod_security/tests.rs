//! Cases for levels, versions and messages.

use object::{Value, value};

use super::PodSecurity;
use crate::Plugin;
use crate::plugins::testing::{World, create, update};

const RESTRICTED_BARE: &str = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

fn world(labels: &[(&str, &str)]) -> World {
    World::default().with("", "namespaces", namespace(labels))
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    let mut namespace = value!({ "metadata": { "name": "ns" } });
    for (mode, level) in labels {
        let label = format!("pod-security.kubernetes.io/{mode}");
        namespace.set(&["metadata", "labels", &label], *level);
    }
    namespace
}

fn pod(spec: Value) -> Value {
    value!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": spec })
}

fn bare() -> Value {
    value!({ "containers": [{ "name": "c", "image": "i" }] })
}

/// A container of this security context, in a pod of that one.
fn contexts(container: Value, pod: Value) -> Value {
    value!({ "containers": [{ "name": "c", "securityContext": container }], "securityContext": pod })
}

#[test]
fn enforced_levels_refuse_pods() {
    let hardened = contexts(
        value!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] } }),
        value!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } }),
    );
    let bad_context = contexts(
        value!({
            "privileged": true,
            "procMount": "Unmasked",
            "capabilities": { "add": ["SYS_TIME", "NET_ADMIN", "CHOWN"] },
            "seLinuxOptions": { "type": "bad_t", "user": "u" },
            "seccompProfile": { "type": "Unconfined" },
        }),
        value!({
            "sysctls": [{ "name": "kernel.msgmax" }, { "name": "net.ipv4.tcp_rmem" }],
            "windowsOptions": { "hostProcess": true },
            "appArmorProfile": { "type": "Unconfined" },
        }),
    );
    let bad_host = value!({
        "hostNetwork": true,
        "hostIPC": true,
        "volumes": [{ "name": "h", "hostPath": {} }, { "name": "n", "nfs": {} }],
        "containers": [
            { "name": "a", "ports": [{ "hostPort": 90 }, { "hostPort": 100 }] },
            { "name": "b", "ports": [{ "hostPort": 90 }], "livenessProbe": { "httpGet": { "host": "h" } } },
        ],
    });
    let root = contexts(
        value!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "runAsUser": 0 }),
        value!({ "runAsNonRoot": false, "runAsUser": 0, "seccompProfile": { "type": "Localhost" } }),
    );
    let mut windows = contexts(value!({ "runAsNonRoot": true }), Value::map());
    windows.set(&["os", "name"], "windows");
    let mut user_namespace = root.clone();
    user_namespace.set(&["hostUsers"], false);
    let cases: Vec<(&str, &str, Value, &str)> = vec![
        ("privileged", "latest", bad_host.clone(), ""),
        ("baseline", "latest", bare(), ""),
        ("restricted", "latest", hardened, ""),
        ("restricted", "latest", bare(), RESTRICTED_BARE),
        (
            "restricted",
            "v1.7",
            bare(),
            "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)",
        ),
        (
            "baseline",
            "v1.31",
            bad_context,
            "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\"), \
             non-default capabilities (container \"c\" must not include \"NET_ADMIN\", \"SYS_TIME\" in securityContext.capabilities.add), \
             privileged (container \"c\" must not set securityContext.privileged=true), \
             procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\"), \
             seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"bad_t\"; user may not be set), \
             seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\"), \
             forbidden sysctls (kernel.msgmax, net.ipv4.tcp_rmem), \
             hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            "baseline",
            "v1.99",
            bad_host.clone(),
            "host namespaces (hostNetwork=true, hostIPC=true), hostPath volumes (volume \"h\"), \
             hostPort (containers \"a\", \"b\" use hostPorts 100, 90), \
             probe or lifecycle host (container \"b\" uses probe or lifecycle host \"h\")",
        ),
        (
            "restricted",
            "v1.0",
            bad_host,
            "host namespaces (hostNetwork=true, hostIPC=true), hostPort (containers \"a\", \"b\" use hostPorts 100, 90), \
             restricted volume types (volumes \"h\", \"n\" use restricted volume types \"hostPath\", \"nfs\"), \
             runAsNonRoot != true (pod or containers \"a\", \"b\" must set securityContext.runAsNonRoot=true)",
        ),
        (
            "restricted",
            "latest",
            root,
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), \
             runAsUser=0 (pod and container \"c\" must not set runAsUser=0)",
        ),
        ("restricted", "v1.35", user_namespace, ""),
        ("restricted", "v1.25", windows, ""),
    ];
    for (level, version, spec, violations) in cases {
        let world = world(&[("enforce", level), ("enforce-version", version)]);
        let got = create(&PodSecurity::default(), &world, "pods", pod(spec));
        let why = format!("pods \"p\" is forbidden: violates PodSecurity \"{level}:{version}\": {violations}");
        assert_eq!(got.err().unwrap_or_default(), if violations.is_empty() { String::new() } else { why });
    }
}

#[test]
fn templates_and_pods_are_warned_about() {
    let warning = |level: &str| vec![format!("would violate PodSecurity \"{level}\": {RESTRICTED_BARE}")];
    let deployment = value!({ "metadata": { "name": "d" }, "spec": { "template": { "spec": (bare()) } } });
    let job = value!({ "spec": { "jobTemplate": { "spec": { "template": { "spec": (bare()) } } } } });
    type Case = (&'static [(&'static str, &'static str)], &'static str, Value, Vec<String>);
    let cases: Vec<Case> = vec![
        (&[("warn", "restricted")], "pods", pod(bare()), warning("restricted:latest")),
        (&[("warn", "restricted")], "pods/status", pod(bare()), vec![]),
        (&[("warn", "restricted"), ("warn-version", "v1.30")], "cronjobs.batch", job, warning("restricted:v1.30")),
        // What is enforced is warned about where it is not enforced, unless the namespace says otherwise.
        (&[("enforce", "restricted")], "deployments.apps", deployment.clone(), warning("restricted:latest")),
        (&[("enforce", "restricted"), ("warn", "privileged")], "deployments.apps", deployment.clone(), vec![]),
        (&[("warn", "nonsense")], "deployments.apps", deployment, vec![]),
    ];
    for (labels, resource, object, warnings) in cases {
        let got = create(&PodSecurity::default(), &world(labels), resource, object).map(|made| made.warnings);
        assert_eq!(got, Ok(warnings), "{labels:?} {resource}");
    }
}

#[test]
fn only_new_images_are_looked_at_in_updates() {
    let world = world(&[("enforce", "restricted")]);
    let mut labelled = pod(bare());
    labelled.set(&["metadata", "labels", "a"], "b");
    assert!(update(&PodSecurity::default(), &world, "pods", labelled, pod(bare())).is_ok());
    let other = value!({ "containers": [{ "name": "c", "image": "j" }] });
    assert!(update(&PodSecurity::default(), &world, "pods", pod(other), pod(bare())).is_err());
    let mut debugged = pod(bare());
    debugged.set(&["spec", "ephemeralContainers"], vec![value!({ "name": "e" })]);
    assert!(update(&PodSecurity::default(), &world, "pods/ephemeralcontainers", debugged, pod(bare())).is_err());
}

#[test]
fn labels_of_namespaces_are_checked() {
    let bad = namespace(&[("enforce", "strict"), ("warn-version", "v1.01")]);
    let why = "Namespace \"ns\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v1.01\": must be \"latest\" or \"v1.x\"]";
    let made = create(&PodSecurity::default(), &World::default(), "namespaces", bad.clone());
    assert_eq!(made.err(), Some(why.to_string()));
    assert!(update(&PodSecurity::default(), &World::default(), "namespaces", bad.clone(), bad).is_ok());
}

#[test]
fn stricter_namespaces_list_their_violations() {
    let named = |name: &str, spec: Value| value!({ "metadata": { "name": name, "namespace": "ns" }, "spec": spec });
    let mut world = World::default();
    for name in ["b", "a", "c"] {
        world = world.with("", "pods", named(name, value!({ "hostPID": true })));
    }
    world =
        world.with("", "pods", named("d", value!({ "hostPID": true, "volumes": [{ "name": "v", "hostPath": {} }] })));
    let warnings = vec![
        "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"".to_string(),
        "a (and 2 other pods): host namespaces".to_string(),
        "d: host namespaces, hostPath volumes".to_string(),
    ];
    let cases =
        [("privileged", "baseline", warnings), ("restricted", "baseline", vec![]), ("baseline", "privileged", vec![])];
    for (before, after, warnings) in cases {
        let (new, old) = (namespace(&[("enforce", after)]), namespace(&[("enforce", before)]));
        assert_eq!(
            update(&PodSecurity::default(), &world, "namespaces", new, old).map(|made| made.warnings),
            Ok(warnings)
        );
    }
}

#[test]
fn configuration_sets_defaults_and_exemptions() {
    let text = b"{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{name: PodSecurity, configuration: {
        apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration,
        defaults: {enforce: restricted}, exemptions: {runtimeClasses: [safe], namespaces: [other]}}}]}";
    let config = crate::Configuration::parse(text, |_| Ok(Vec::new())).unwrap();
    let plugin = PodSecurity::new(&config).unwrap();
    let world = world(&[]);
    assert!(create(&plugin, &world, "pods", pod(bare())).is_err());
    let mut safe = bare();
    safe.set(&["runtimeClassName"], "safe");
    assert!(create(&plugin, &world, "pods", pod(safe)).is_ok());
    let broken = String::from_utf8_lossy(text).replace("restricted", "odd").replace("[other]", "[UPPER, other, other]");
    let config = crate::Configuration::parse(broken.as_bytes(), |_| Ok(Vec::new())).unwrap();
    let error = PodSecurity::new(&config).err().unwrap();
    for part in ["defaults.enforce: Invalid value: \"odd\"", "exemptions.namespaces[0]", "Duplicate value: \"other\""] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn evaluations_are_noted_and_counted() {
    let plugin = PodSecurity { exempt_namespaces: vec!["none".into()], ..PodSecurity::default() };
    for (labels, notes) in [
        (&[][..], vec![("enforce-policy", "privileged:latest".to_string())]),
        (
            &[("enforce", "baseline"), ("audit", "restricted"), ("warn", "privileged")],
            vec![
                ("enforce-policy", "baseline:latest".to_string()),
                ("audit-violations", format!("would violate PodSecurity \"restricted:latest\": {RESTRICTED_BARE}")),
            ],
        ),
    ] {
        let made = create(&plugin, &world(labels), "pods", pod(bare())).unwrap();
        let want: Vec<(String, String)> =
            notes.into_iter().map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), value)).collect();
        assert_eq!(made.annotations, want, "{labels:?}");
    }
    assert!(create(&plugin, &world(&[("enforce", "restricted")]), "pods", pod(bare())).is_err());
    let exempt = PodSecurity { exempt_namespaces: vec!["ns".into()], ..PodSecurity::default() };
    create(&exempt, &world(&[("enforce", "restricted")]), "pods", pod(bare())).unwrap();
    let series = |plugin: &PodSecurity| {
        let mut out = String::new();
        plugin.write_metrics(&mut out).unwrap();
        out.lines()
            .filter(|line| !line.starts_with('#') && !line.ends_with(" 0"))
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    let request = r#"request_operation="create",resource="pod",subresource="""#;
    let evaluated = |decision: &str, mode: &str, level: &str| {
        format!(
            r#"pod_security_evaluations_total{{decision="{decision}",mode="{mode}",policy_level="{level}",policy_version="latest",{request}}} 1"#
        )
    };
    let want = [
        evaluated("allow", "enforce", "baseline"),
        evaluated("allow", "enforce", "privileged"),
        evaluated("deny", "audit", "restricted"),
        evaluated("deny", "enforce", "restricted"),
    ];
    assert_eq!(series(&plugin), want);
    assert_eq!(series(&exempt), [format!("pod_security_exemptions_total{{{request}}} 1")]);
}
