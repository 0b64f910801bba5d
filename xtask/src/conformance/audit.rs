//! The same requests to kube-apiserver and to ferrokube under several audit policies: both must record the same events.

use std::process::Command;

use super::lab::{Lab, TOKEN, succeed, target_folder};
use crate::components;

/// Name and rules of each policy.
const POLICIES: &[(&str, &str)] = &[
    ("metadata", "rules: [{level: Metadata}]"),
    ("request-response", "rules: [{level: RequestResponse}]"),
    ("request", "omitStages: [RequestReceived]\nrules: [{level: Request}]"),
    (
        "rules",
        "rules:
- {level: None, users: [plain], verbs: [get], nonResourceURLs: ['/healthz*', /version]}
- {level: None, nonResourceURLs: [/livez]}
- {level: Metadata, omitStages: [RequestReceived], resources: [{group: '', resources: [secrets, configmaps/status, serviceaccounts/token]}]}
- {level: RequestResponse, resources: [{group: '', resources: ['pods/*']}]}
- {level: Request, resources: [{group: '', resources: [configmaps], resourceNames: [c1]}], namespaces: [aud]}
- {level: None, userGroups: ['system:unauthenticated'], namespaces: ['']}
- {level: Metadata, verbs: [watch, list]}
- {level: RequestResponse, resources: [{group: apps}, {group: example.com}, {group: '', resources: ['*/scale']}]}
- {level: Metadata, omitStages: [ResponseStarted, RequestReceived]}",
    ),
    (
        "managed-fields",
        "omitManagedFields: true
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: RequestResponse, omitManagedFields: false, resources: [{group: '', resources: [configmaps]}]}
- {level: RequestResponse}",
    ),
];

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl"])?;
    crate::test::cargo_run(&["build", "--package", "ferrokube-difftest", "--bin", "audit"])?;
    let mut told = Vec::new();
    let mut failed = false;
    for (name, rules) in POLICIES {
        let mut lab = Lab::new(&format!("audit-{name}"))?;
        let policy = lab.folder.join("policy.yaml");
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}\n");
        std::fs::write(&policy, text).map_err(|error| error.to_string())?;
        let flags = |log: &std::path::Path| {
            let policy = format!("--audit-policy-file={}", policy.display());
            let disabled = "--disable-admission-plugins=ServiceAccount".to_string();
            [policy, format!("--audit-log-path={}", log.display()), disabled]
        };
        let (their_log, our_log) = (lab.folder.join("theirs.jsonl"), lab.folder.join("ours.jsonl"));
        let etcd = lab.etcd(&tools["etcd"])?;
        let (theirs, ours) = (flags(&their_log), flags(&our_log));
        let theirs = lab.kube_apiserver(&tools["kube-apiserver"], &etcd, &theirs.each_ref().map(String::as_str))?;
        let tokens = format!("--token-auth-file={}", lab.tokens()?.display());
        let common = [tokens.as_str(), "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24"];
        let ours: Vec<&str> = ours.iter().map(String::as_str).chain(common).collect();
        let ours = lab.ferrokube(&ours)?;
        let mut compare = Command::new(target_folder().join("debug/audit"));
        compare.arg(theirs.address()).arg(&their_log).arg(ours.address()).arg(&our_log).arg(TOKEN);
        match succeed("audit", &mut compare) {
            Ok(said) => told.push(format!("{name}: {}", said.lines().last().unwrap_or(""))),
            Err(why) => {
                failed = true;
                told.push(format!("{name}: {why}"));
            }
        }
        lab.all_alive()?;
    }
    let told = told.join("\n");
    if failed { Err(told) } else { Ok(told) }
}
