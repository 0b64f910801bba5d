//! A control plane with a thousand pods that come and go for ten minutes: the server's memory settles and stays.

use std::time::{Duration, Instant};

use super::cluster::{FLAGS, start_control_plane};
use super::lab::{Kubectl, Lab};

const PODS: usize = 1000;
const DEFAULT_MINUTES: u64 = 10;
/// Memory may still grow in the first part of the run, for the store keeps five minutes of history, and by this much
/// afterwards.
const SETTLING_PART: f64 = 0.6;
const GROWTH_MAX: f64 = 1.15;

pub fn run() -> Result<String, String> {
    let mut lab = Lab::new("soak")?;
    // Events of pods that are gone would fill memory for an hour, and should; here they go while we watch.
    let server = lab.ferrokube(&[FLAGS, &["--event-ttl=1m"]].concat())?;
    start_control_plane(&mut lab, &server)?;
    let kubectl = Kubectl::of(&server)?;
    kubectl.wait("get nodes --no-headers", |got| got.matches(" Ready").count() == 5)?;
    kubectl.wait("get serviceaccounts -n default -o name", |got| got.contains("serviceaccount/default"))?;
    kubectl.run("create deployment churn --image=example/churn:0 --replicas=0")?;
    let (began, length) = (Instant::now(), Duration::from_secs(minutes() * 60));
    let (mut settled, mut peak, mut rounds) = (0, 0, 0);
    while began.elapsed() < length {
        // All pods come, are replaced by a new template, and go.
        rounds += 1;
        kubectl.run(&format!("scale deployment/churn --replicas={PODS}"))?;
        kubectl.wait("get deployment/churn -o jsonpath={.status.readyReplicas}", |got| got == PODS.to_string())?;
        kubectl.run(&format!("set image deployment/churn churn=example/churn:{rounds}"))?;
        kubectl.run("rollout status deployment/churn --timeout=110s")?;
        kubectl.run("scale deployment/churn --replicas=0")?;
        kubectl.wait("get pods -l app=churn -o name", |got| got.is_empty())?;
        lab.all_alive()?;
        let memory = server.memory();
        eprintln!("{:4} s: round {rounds}, {} MiB", began.elapsed().as_secs(), memory >> 20);
        if began.elapsed() < length.mul_f64(SETTLING_PART) {
            settled = settled.max(memory);
        }
        peak = peak.max(memory);
    }
    let said =
        format!("{rounds} rounds of {PODS} pods; {} MiB once settled, {} MiB at most", settled >> 20, peak >> 20);
    if peak as f64 > settled as f64 * GROWTH_MAX { Err(format!("memory grows: {said}")) } else { Ok(said) }
}

#[allow(clippy::disallowed_methods)]
fn minutes() -> u64 {
    std::env::var("FERROKUBE_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_MINUTES)
}
