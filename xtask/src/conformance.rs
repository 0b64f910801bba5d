//! `cargo xtask conformance [name…]`: real components against the release binary.
//!
//! Each run keeps its logs and data in `target/conformance/<name>`, so that what went wrong can be read afterwards.

mod aggregation;
mod audit;
mod authorized;
mod cel;
mod cluster;
mod compare;
mod crds;
mod egress;
mod envtest;
mod helm;
mod informer;
mod interop;
mod kubeadm;
mod lab;
mod monitoring;
mod node_authorizer;
mod operators;
mod python;
mod soak;
mod streams;
mod suites;
mod swap;

pub use lab::{Kubectl, Lab, Server, ferrokube, free_port, openssl, standard_output, succeed, target_folder};

/// What can be run, in the order of a run without names: quick ones first. The soak and other projects' suites, which take hours, and
/// what needs Prometheus are run by name only.
const RUNS: &[(&str, fn() -> Result<String, String>)] = &[
    ("cel", cel::run),
    ("helm", helm::run),
    ("informer", informer::run),
    ("authorized", authorized::run),
    ("python", python::run),
    ("envtest", envtest::run),
    ("crds", crds::run),
    ("operators", operators::run),
    ("aggregation", aggregation::run),
    ("metrics", aggregation::run_metrics),
    ("audit", audit::run),
    ("interop", interop::run),
    ("node-authorizer", node_authorizer::run),
    ("streams", streams::run),
    ("egress", egress::run),
    ("swap", swap::run),
    ("kubeadm", kubeadm::run),
    ("monitoring", monitoring::run),
    ("cluster", cluster::run),
    ("suites", suites::run),
    ("soak", soak::run),
];

const BY_NAME: &[&str] = &["monitoring", "soak", "suites"];

pub fn run(names: &[String]) -> Result<String, String> {
    if let Some(unknown) = names.iter().find(|name| !RUNS.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = RUNS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no conformance run {unknown}; there are {}", known.join(", ")));
    }
    let wanted = |name: &str| if names.is_empty() { !BY_NAME.contains(&name) } else { names.iter().any(|n| n == name) };
    let mut report = Vec::new();
    let mut failed = false;
    for (name, run) in RUNS.iter().filter(|(name, _)| wanted(name)) {
        eprintln!("==> {name}");
        match run() {
            Ok(said) => report.push(format!("{name}: ok, {said}")),
            Err(why) => {
                failed = true;
                report.push(format!("{name}: FAILED, {why}"));
            }
        }
    }
    let report = report.join("\n");
    if failed { Err(report) } else { Ok(report) }
}
