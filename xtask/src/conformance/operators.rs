//! Operators that people run, from their published modules, on ferrokube and on kube-apiserver: cert-manager's controllers behind
//! its own admission webhook, and prometheus-operator. They do their work, and complain about nothing that they do not complain
//! about on kube-apiserver.

use std::path::Path;
use std::process::Command;

use super::compare::{self, Recorder};
use super::lab::{Lab, Server, free_port, standard_output, succeed};
use crate::components;

const CERT_MANAGER: &str = "github.com/cert-manager/cert-manager";
const PROMETHEUS: &str = "github.com/prometheus-operator/prometheus-operator";

pub fn run() -> Result<String, String> {
    let issued = play("cert-manager", CERT_MANAGER, "deploy/crds", issue)?;
    let monitored = play("prometheus-operator", PROMETHEUS, "example/prometheus-operator-crd", monitor)?;
    Ok(format!(
        "{issued} outputs of cert-manager with its webhook and {monitored} of prometheus-operator as on kube-apiserver"
    ))
}

/// What an operator is given to do, with its binary and the folder of its definitions.
type Play = fn(&mut Lab, &Server, &Path, &Path, &mut Recorder) -> Result<(), String>;

fn play(name: &str, module: &str, definitions: &str, play: Play) -> Result<usize, String> {
    let binary = components::ensure(&[name])?.remove(name).ok_or("the component was not built")?;
    let definitions = components::module_folder(name, module)?.join(definitions);
    let flags = |_: &Lab| Ok(vec!["--disable-admission-plugins=ServiceAccount".to_string()]);
    compare::both(name, flags, |lab, server| {
        let mut recorder = Recorder::new(server)?;
        play(lab, server, &binary, &definitions, &mut recorder)?;
        Ok(recorder.printed)
    })
}

/// cert-manager issues from a self-signed issuer and from the authority that this one made.
fn issue(
    lab: &mut Lab,
    server: &Server,
    binary: &Path,
    definitions: &Path,
    recorder: &mut Recorder,
) -> Result<(), String> {
    recorder.show(&format!("apply --server-side -f {}", definitions.display()));
    recorder.kubectl.run("wait --for=condition=Established crd --all")?;
    recorder.kubectl.run("create namespace cert-manager")?;
    let (port, health) = (free_port()?.to_string(), free_port()?.to_string());
    let mut webhook = Command::new(binary);
    webhook.env("KUBECONFIG", &server.kubeconfig).args(["webhook", "-port", &port, "-health-port", &health]);
    lab.spawn("cert-manager-webhook", &mut webhook)?;
    let authority = r"get secret -n cert-manager cert-manager-webhook-ca -o jsonpath={.data.ca\.crt}";
    recorder.kubectl.wait(authority, |text| text.starts_with("LS0t"))?;
    let authority = recorder.kubectl.run(authority)?;
    recorder.kubectl.apply(&WEBHOOKS.replace("CA", authority.trim()).replace("PORT", &port))?;
    let issuer = lab.folder.join("issuer.yaml");
    std::fs::write(&issuer, ISSUER).map_err(|error| error.to_string())?;
    let probe = format!("create --dry-run=server -o name -f {}", issuer.display());
    recorder.kubectl.wait(&probe, |text| text == "issuer.cert-manager.io/self-signed")?;
    let mut controller = Command::new(binary);
    lab.spawn("cert-manager-controller", controller.env("KUBECONFIG", &server.kubeconfig).arg("controller"))?;
    recorder.apply(ISSUER);
    let ready = "get certificate NAME -o jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    for (name, manifest) in [("authority", AUTHORITY), ("leaf", LEAF)] {
        recorder.apply(manifest);
        recorder.kubectl.wait(&ready.replace("NAME", name), |status| status == "True")?;
    }
    verify(lab, recorder)?;
    for refused in REFUSED {
        recorder.apply(refused);
    }
    // A renewal: what is asked for changed.
    recorder.show(r#"patch certificate leaf --type=merge -p {"spec":{"dnsNames":["changed.example.com"]}}"#);
    recorder.kubectl.wait("get certificate leaf -o jsonpath={.status.revision}", |revision| revision == "2")?;
    recorder.kubectl.wait(&ready.replace("NAME", "leaf"), |status| status == "True")?;
    verify(lab, recorder)?;
    for line in ISSUED {
        recorder.show(line);
    }
    recorder.complaints(&lab.log("cert-manager-webhook"))?;
    recorder.complaints(&lab.log("cert-manager-controller"))
}

/// openssl, which had no part in the issuing, believes the certificate.
fn verify(lab: &Lab, recorder: &Recorder) -> Result<(), String> {
    for (field, file) in [("ca", "issued-ca.crt"), ("tls", "issued.crt")] {
        let encoded = lab.folder.join("issued.base64");
        let text = recorder.kubectl.run(&format!(r"get secret leaf -o jsonpath={{.data.{field}\.crt}}"))?;
        std::fs::write(&encoded, text).map_err(|error| error.to_string())?;
        let decoded = standard_output("base64", Command::new("base64").arg("--decode").arg(encoded))?;
        std::fs::write(lab.folder.join(file), decoded).map_err(|error| error.to_string())?;
    }
    let (ca, leaf) = (lab.folder.join("issued-ca.crt"), lab.folder.join("issued.crt"));
    succeed("openssl verify", Command::new("openssl").arg("verify").arg("-CAfile").arg(ca).arg(leaf)).map(drop)
}

/// prometheus-operator makes StatefulSets, Services and configuration out of its kinds.
fn monitor(
    lab: &mut Lab,
    server: &Server,
    binary: &Path,
    definitions: &Path,
    recorder: &mut Recorder,
) -> Result<(), String> {
    recorder.show(&format!("apply --server-side -f {}", definitions.display()));
    recorder.kubectl.run("wait --for=condition=Established crd --all")?;
    let mut operator = Command::new(binary);
    operator.env("KUBECONFIG", &server.kubeconfig);
    operator.arg(format!("--web.listen-address=127.0.0.1:{}", free_port()?));
    lab.spawn("prometheus-operator", &mut operator)?;
    recorder.apply(MONITORING);
    for set in ["prometheus-main", "alertmanager-main"] {
        recorder.kubectl.wait(&format!("get statefulset {set} -o name"), |name| name.starts_with("statefulset"))?;
    }
    recorder.kubectl.wait("get secret prometheus-main -o name", |name| name.starts_with("secret"))?;
    let reconciled = "get prometheus main -o jsonpath={.status.conditions[?(@.type==\"Reconciled\")].status}";
    recorder.kubectl.wait(reconciled, |status| status == "True")?;
    // Its scale is the number of shards, which are StatefulSets.
    recorder.show("scale prometheus main --replicas=2");
    let shard = "get statefulset prometheus-main-shard-1 -o name";
    recorder.kubectl.wait(shard, |name| name.starts_with("statefulset"))?;
    for line in MONITORED {
        recorder.show(line);
    }
    recorder.complaints(&lab.log("prometheus-operator"))
}

const WEBHOOKS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: cert-manager-webhook}
webhooks:
- name: webhook.cert-manager.io
  rules: [{apiGroups: [cert-manager.io], apiVersions: [v1], operations: [CREATE], resources: [certificaterequests]}]
  admissionReviewVersions: [v1]
  matchPolicy: Equivalent
  failurePolicy: Fail
  sideEffects: None
  clientConfig: {url: 'https://localhost:PORT/mutate', caBundle: CA}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: cert-manager-webhook}
webhooks:
- name: webhook.cert-manager.io
  rules: [{apiGroups: [cert-manager.io, acme.cert-manager.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ['*/*']}]
  admissionReviewVersions: [v1]
  matchPolicy: Equivalent
  failurePolicy: Fail
  sideEffects: None
  clientConfig: {url: 'https://localhost:PORT/validate', caBundle: CA}
"#;

const ISSUER: &str = "{apiVersion: cert-manager.io/v1, kind: Issuer, \
                      metadata: {name: self-signed, namespace: default}, spec: {selfSigned: {}}}\n";

const AUTHORITY: &str = "
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: authority}
spec:
  isCA: true
  commonName: authority
  secretName: authority
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: self-signed, kind: Issuer, group: cert-manager.io}
";

const LEAF: &str = "
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: authority}
spec: {ca: {secretName: authority}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: leaf}
spec:
  dnsNames: [leaf.example.com]
  secretName: leaf
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: authority}
";

/// Refused by the definition's schema, or by the webhook.
const REFUSED: [&str; 3] = [
    "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: bad}, spec: {secretName: bad, \
     issuerRef: {name: authority}}}\n",
    "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: bad}, spec: {secretName: bad, \
     dnsNames: [a.example.com], duration: 1s, usages: [nothing], issuerRef: {name: authority}}}\n",
    "{apiVersion: cert-manager.io/v1, kind: CertificateRequest, metadata: {name: bad}, spec: {request: bm90aGluZw==, \
     issuerRef: {name: authority}}}\n",
];

const ISSUED: [&str; 8] = [
    "get certificates -o custom-columns=N:.metadata.name,R:.status.revision,C:.status.conditions[*].reason",
    "get issuers -o custom-columns=N:.metadata.name,C:.status.conditions[*].reason",
    "get certificaterequests -o jsonpath={.items[*].spec.username}{.items[*].spec.issuerRef.name}",
    "get certificaterequests -o name",
    "get certificaterequests --as=nobody",
    "get secret leaf -o jsonpath={.type}{.metadata.annotations}",
    "get certificate leaf -o jsonpath={.spec}",
    "explain certificate.spec.privateKey",
];

const MONITORING: &str = "
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: main}
spec: {replicas: 2, serviceMonitorSelector: {}, ruleSelector: {}, resources: {requests: {memory: 400Mi}}}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: app}
spec: {selector: {matchLabels: {app: web}}, endpoints: [{port: http, interval: 30s}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: rules}
spec: {groups: [{name: a, rules: [{alert: Down, expr: up == 0, for: 5m}]}]}
---
apiVersion: monitoring.coreos.com/v1
kind: Alertmanager
metadata: {name: main}
spec: {replicas: 1}
";

const MONITORED: [&str; 9] = [
    "get statefulsets -o custom-columns=N:.metadata.name,R:.spec.replicas,I:.spec.template.spec.containers[*].image",
    "get statefulset prometheus-main -o jsonpath={.spec.template.spec}",
    "get statefulset alertmanager-main -o jsonpath={.spec.template.spec}",
    "get secret prometheus-main -o jsonpath={.data}",
    "get configmaps -l prometheus-name=main -o jsonpath={.items[*].data}",
    "get services -o name",
    "get prometheus,alertmanager -o custom-columns=N:.metadata.name,D:.spec.replicas,A:.status.availableReplicas",
    "get prometheus main -o jsonpath={.status.selector}{.status.conditions[*].reason}",
    "explain servicemonitor.spec.endpoints.interval",
];
