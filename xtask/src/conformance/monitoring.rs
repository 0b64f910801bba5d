//! The rules and the dashboard of `deploy/monitoring` in a real Prometheus that scrapes a server: every expression is understood and has an answer
//! that moves. Files that `FERROKUBE_RULES` names, separated by commas, are tried beside ours: rules of Prometheus, or manifests with them as
//! kube-prometheus has them.
//!
//! Needs the programs `prometheus` and `promtool`, which Debian has in the package prometheus.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::lab::{Kubectl, Lab, Server, free_port, standard_output, succeed, wait_for};
use crate::dist::workspace;

/// Where Prometheus is told to find the server, as kube-prometheus calls it.
const JOB: &str = "apiserver";
/// What counts failures that do not happen here is there with the first of them.
const ONLY_WITH_FAILURES: [&str; 1] = ["apiserver_flowcontrol_rejected_requests_total"];

/// Webhooks and an API server that cannot be reached: one webhook need not be, the other makes writes fail, and the server reads.
const FAILURES: &str = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: unreachable}
webhooks:
- name: unreachable.example.com
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
- name: required.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.away.example.com}
spec: {group: away.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {namespace: default, name: away}}
";

pub fn run() -> Result<String, String> {
    let mut lab = Lab::new("monitoring")?;
    let rules = rules(&lab)?;
    let (ours, others) = rules.split_at(1);
    for (lint, files) in [("--lint=all", ours), ("--lint=none", others)] {
        if !files.is_empty() {
            let mut promtool = Command::new("promtool");
            succeed("promtool", promtool.args(["check", "rules", lint]).args(files))?;
        }
    }
    let server = lab.ferrokube(&[])?;
    let kubectl = Kubectl::of(&server)?;
    let config = configuration(&lab, &server, &kubectl, &rules)?;
    let mut promtool = Command::new("promtool");
    succeed("promtool", promtool.args(["check", "config"]).arg(&config))?;
    let port = free_port()?;
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", config.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", lab.folder.join("data").display()));
    prometheus.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    lab.spawn("prometheus", &mut prometheus)?;
    let prometheus = Prometheus { url: format!("http://127.0.0.1:{port}/api/v1") };

    kubectl.apply(FAILURES)?;
    let mut watch = Command::new(&crate::components::ensure(&["kubectl"])?["kubectl"]);
    watch.env("KUBECONFIG", &server.kubeconfig).args(["get", "configmaps", "--watch"]);
    lab.spawn("watch", &mut watch)?;
    let panels = panels()?;
    // Rates need two scrapes of each state; until all of them have an answer, there is something to count.
    let (mut round, mut missing) = (0, Vec::new());
    let answered = wait_for("answers to all expressions", || {
        round += 1;
        load(&kubectl, round)?;
        missing = prometheus.without_answer(&panels, round)?;
        Ok(missing.is_empty())
    });
    answered.map_err(|why| format!("{why}: {missing:#?}"))?;
    lab.all_alive()?;
    let (records, alerts): (Vec<_>, Vec<_>) = prometheus.rules()?.into_iter().partition(|rule| rule.records);
    let records = records.iter().filter(|rule| rule.name.contains(JOB)).count();
    Ok(format!(
        "{} panels and {records} recording rules have answers, {} alerts are understood",
        panels.len(),
        alerts.len()
    ))
}

/// Files of rules in a folder of this run, made to be evaluated every second.
fn rules(lab: &Lab) -> Result<Vec<PathBuf>, String> {
    let mut files = vec![workspace().join("deploy/monitoring/rules.yaml")];
    files.extend(others().split(',').filter(|name| !name.is_empty()).map(PathBuf::from));
    let copy = |(number, file): (usize, &PathBuf)| {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let path = lab.folder.join(format!("rules-{number}.yaml"));
        fs::write(&path, evaluated_often(&text)).map(|()| path).map_err(|error| error.to_string())
    };
    files.iter().enumerate().map(copy).collect()
}

#[allow(clippy::disallowed_methods)]
fn others() -> String {
    std::env::var("FERROKUBE_RULES").unwrap_or_default()
}

/// The groups of a file or manifest, evaluated every second.
fn evaluated_often(text: &str) -> String {
    let groups = match text.split_once("\nspec:\n  groups:\n") {
        Some((_, groups)) => format!("groups:\n{groups}"),
        None => text.to_string(),
    };
    let often = |line: &str| match line.split_once("interval:") {
        Some((before, _)) if before.chars().all(|c| c == ' ' || c == '-') => format!("{before}interval: 1s\n"),
        _ => format!("{line}\n"),
    };
    groups.lines().map(often).collect()
}

/// Prometheus scrapes as a service account that has the role of docs/how-to/monitoring.md.
fn configuration(lab: &Lab, server: &Server, kubectl: &Kubectl, rules: &[PathBuf]) -> Result<PathBuf, String> {
    kubectl.run("create serviceaccount prometheus -n default")?;
    kubectl.run(
        "create clusterrolebinding prometheus --clusterrole=system:monitoring --serviceaccount=default:prometheus",
    )?;
    let token = lab.folder.join("token");
    let minted = kubectl.run("create token prometheus -n default")?;
    fs::write(&token, minted.trim()).map_err(|error| error.to_string())?;
    let files: Vec<String> = rules.iter().map(|file| format!("  - {}\n", file.display())).collect();
    let text = format!(
        "\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files:
{}scrape_configs:
  - job_name: {JOB}
    scheme: https
    tls_config: {{ca_file: {}}}
    authorization: {{credentials_file: {}}}
    static_configs: [{{targets: ['{}']}}]
",
        files.concat(),
        server.ca.display(),
        token.display(),
        server.address()
    );
    let path = lab.folder.join("prometheus.yaml");
    fs::write(&path, text).map(|()| path).map_err(|error| error.to_string())
}

/// Reads, writes, and failures.
fn load(kubectl: &Kubectl, round: u32) -> Result<(), String> {
    let name = format!("round-{round}");
    kubectl.run(&format!("create configmap {name} --from-literal=a=b"))?;
    kubectl.run("get pods,services,configmaps -A")?;
    kubectl.run(&format!("label configmap {name} a=b"))?;
    kubectl.run(&format!("delete configmap {name}"))?;
    // Failures are counted by their codes, and rules that add them up are empty without any.
    for fails in [
        format!("get configmap {name}"),
        "create secret generic refused".to_string(),
        "get --raw /apis/away.example.com/v1".to_string(),
    ] {
        if kubectl.run(&fails).is_ok() {
            return Err(format!("kubectl {fails} did not fail"));
        }
    }
    Ok(())
}

/// Titles of the dashboard's panels and what they ask.
fn panels() -> Result<Vec<(String, String)>, String> {
    let path = workspace().join("deploy/monitoring/dashboard.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let dashboard: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut panels = Vec::new();
    for panel in dashboard["panels"].as_array().into_iter().flatten() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
            panels.push((text(&panel["title"]), filled(&text(&target["expr"]))));
        }
    }
    if panels.is_empty() { Err(format!("{} has no panels", path.display())) } else { Ok(panels) }
}

/// An expression with what Grafana puts in the place of its variables.
fn filled(expression: &str) -> String {
    expression.replace("$__rate_interval", "30s").replace("$instance", ".*")
}

/// What a rule is: its name, whether it records, and what is wrong with it.
struct Rule {
    name: String,
    records: bool,
    problem: String,
}

struct Prometheus {
    url: String,
}

impl Prometheus {
    fn get(&self, path: &str, query: &str) -> Result<Value, String> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--get", "--data-urlencode"]).arg(format!("query={query}"));
        let said = standard_output("curl", curl.arg(format!("{}/{path}", self.url)))?;
        let answer: Value = serde_json::from_str(&said).map_err(|error| format!("{path}: {error}: {said}"))?;
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].clone()),
            _ => Err(format!("{query}: {said}")),
        }
    }

    /// The values that an expression has now.
    fn values(&self, expression: &str) -> Result<Vec<f64>, String> {
        let data = self.get("query", expression)?;
        let samples = data["result"].as_array().cloned().unwrap_or_default();
        Ok(samples.iter().filter_map(|sample| sample["value"][1].as_str()?.parse().ok()).collect())
    }

    fn rules(&self) -> Result<Vec<Rule>, String> {
        let data = self.get("rules", "")?;
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        Ok(rules
            .map(|rule| Rule {
                name: text(&rule["name"]),
                records: rule["type"] == "recording",
                problem: text(&rule["lastError"]),
            })
            .collect())
    }

    /// The panels and recording rules that have no answer, or one that does not move, and the rules that fail.
    fn without_answer(&self, panels: &[(String, String)], round: u32) -> Result<Vec<String>, String> {
        // Prometheus may not answer at once.
        let rules = match self.rules() {
            Err(why) if round < 10 => return Ok(vec![why]),
            rules => rules?,
        };
        let mut missing = Vec::new();
        for (title, expression) in panels {
            let values = self.values(expression)?;
            let moves = !expression.contains("rate(") || values.iter().any(|value| *value > 0.0);
            let is_rare = ONLY_WITH_FAILURES.iter().any(|name| expression.contains(name));
            if !is_rare && (values.is_empty() || !moves) {
                missing.push(format!("{title}: {expression}"));
            }
        }
        for rule in rules {
            if !rule.problem.is_empty() {
                return Err(format!("{}: {}", rule.name, rule.problem));
            }
            // The others are about kubelets, schedulers and machines.
            if rule.records && rule.name.contains(JOB) && self.values(&rule.name)?.is_empty() {
                missing.push(rule.name);
            }
        }
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_as_files_of_rules() {
        let manifest = "kind: PrometheusRule\nspec:\n  groups:\n  - interval: 3m\n    name: a\n    rules: []\n";
        assert_eq!(evaluated_often(manifest), "groups:\n  - interval: 1s\n    name: a\n    rules: []\n");
        assert_eq!(evaluated_often("groups:\n- name: a\n"), "groups:\n- name: a\n");
    }

    #[test]
    fn panels_are_asked_without_variables() {
        let panels = panels().unwrap();
        assert!(panels.len() > 10 && panels.iter().all(|(_, expression)| !expression.contains('$')), "{panels:?}");
    }
}
