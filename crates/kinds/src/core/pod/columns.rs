//! A pod's row in a table.

use object::timestamp::Time;
use object::{Meta, Timestamp, Value, value};
use registry::{Context, columns};

use crate::common::conditions;
use crate::common::pod_spec::visit::is_sidecar;

/// What a kubelet that does not answer leaves as a pod's reason.
const NODE_LOST: &str = "NodeLost";

/// Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node, Readiness Gates.
pub fn cells(cx: &Context, pod: &Value) -> Vec<Value> {
    let mut row = Row::new(pod);
    let initializing = row.init_containers(pod);
    if !initializing || has_condition(pod, "Initialized") {
        row.containers(pod);
    }
    let (status, spec) = (pod.field("status"), pod.field("spec"));
    if pod.is_deleting() && status.str_at(&["reason"]) == NODE_LOST {
        row.reason = "Unknown".to_string();
    } else if pod.is_deleting() && !matches!(status.str_at(&["phase"]), "Failed" | "Succeeded") {
        row.reason = "Terminating".to_string();
    }
    let ip = status.list_at(&["podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    vec![
        Value::from(pod.name()),
        Value::from(format!("{}/{}", row.ready, row.total)),
        Value::from(row.reason.as_str()),
        Value::from(row.restarts.shown(cx)),
        columns::age(cx, pod),
        or_none(ip),
        or_none(spec.str_at(&["nodeName"])),
        or_none(status.str_at(&["nominatedNodeName"])),
        readiness_gates(pod),
    ]
}

/// Rows of pods that are over say so, for clients that hide them.
pub fn conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match pod.str_at(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![value!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn or_none(text: &str) -> Value {
    Value::from(if text.is_empty() { "<none>" } else { text })
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    conditions::find(pod.list_at(&["status", "conditions"]), kind)
        .is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = pod.list_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return Value::from("<none>");
    }
    let open = gates.iter().filter(|gate| has_condition(pod, gate.str_at(&["conditionType"]))).count();
    Value::from(format!("{open}/{}", gates.len()))
}

/// How often containers were restarted, and when the last one was.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(status.field("restartCount").as_int().unwrap_or(0));
        let finished = Time::parse(status.str_at(&["lastState", "terminated", "finishedAt"])).ok().map(|time| time.0);
        self.last = self.last.max(finished);
    }

    fn shown(self, cx: &Context) -> String {
        match self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, cx.now.since(last).human()),
            _ => self.count.to_string(),
        }
    }
}

struct Row {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts,
    /// Of sidecars alone: what counts once the pod is initialized.
    sidecar_restarts: Restarts,
}

impl Row {
    fn new(pod: &Value) -> Row {
        let status = pod.field("status");
        let gated = status.list_at(&["conditions"]).iter().any(|condition| {
            condition.str_at(&["type"]) == "PodScheduled" && condition.str_at(&["reason"]) == "SchedulingGated"
        });
        let reason = match (gated, status.str_at(&["reason"])) {
            (true, _) => "SchedulingGated",
            (false, "") => status.str_at(&["phase"]),
            (false, reason) => reason,
        };
        let sidecars = pod.list_at(&["spec", "initContainers"]).iter().filter(|container| is_sidecar(container));
        Row {
            ready: 0,
            total: pod.list_at(&["spec", "containers"]).len() + sidecars.count(),
            reason: reason.to_string(),
            restarts: Restarts::default(),
            sidecar_restarts: Restarts::default(),
        }
    }

    /// Looks at init containers up to the first that is not done; true if there is one.
    fn init_containers(&mut self, pod: &Value) -> bool {
        let containers = pod.list_at(&["spec", "initContainers"]);
        for (i, status) in pod.list_at(&["status", "initContainerStatuses"]).iter().enumerate() {
            let name = status.str_at(&["name"]);
            let sidecar = containers.iter().rev().find(|c| c.str_at(&["name"]) == name).is_some_and(is_sidecar);
            self.restarts.add(status);
            if sidecar {
                self.sidecar_restarts.add(status);
            }
            let (terminated, waiting) = (status.at(&["state", "terminated"]), status.at(&["state", "waiting"]));
            let exit_code = terminated.field("exitCode").as_int().unwrap_or(0);
            if !terminated.is_null() && exit_code == 0 {
                continue;
            }
            if sidecar && status.field("started").as_bool() == Some(true) {
                self.ready += usize::from(status.field("ready").as_bool() == Some(true));
                continue;
            }
            let waiting_for = waiting.str_at(&["reason"]);
            self.reason = if !terminated.is_null() {
                format!("Init:{}", ended(terminated))
            } else if !matches!(waiting_for, "" | "PodInitializing") {
                format!("Init:{waiting_for}")
            } else {
                format!("Init:{i}/{}", containers.len())
            };
            return true;
        }
        false
    }

    /// Looks at regular containers, the last one first: the reason of the first one wins.
    fn containers(&mut self, pod: &Value) {
        self.restarts = self.sidecar_restarts;
        let mut has_running = false;
        let mut error = None;
        for status in pod.list_at(&["status", "containerStatuses"]).iter().rev() {
            self.restarts.add(status);
            let (terminated, waiting_for) =
                (status.at(&["state", "terminated"]), status.str_at(&["state", "waiting", "reason"]));
            if !waiting_for.is_empty() {
                self.reason = waiting_for.to_string();
            } else if !terminated.is_null() {
                self.reason = ended(terminated);
                if terminated.field("exitCode").as_int().unwrap_or(0) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if status.field("ready").as_bool() == Some(true) && !status.at(&["state", "running"]).is_null() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        if has_running && has_ready_condition(pod) {
            self.reason = "Running".to_string();
        } else if let Some(error) = error {
            self.reason = error;
        } else if has_running {
            self.reason = "NotReady".to_string();
        }
    }
}

fn has_ready_condition(pod: &Value) -> bool {
    pod.list_at(&["status", "conditions"])
        .iter()
        .any(|condition| condition.str_at(&["type"]) == "Ready" && condition.str_at(&["status"]) == "True")
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    let number = |field| terminated.field(field).as_int().unwrap_or(0);
    match (terminated.str_at(&["reason"]), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_string(),
    }
}
