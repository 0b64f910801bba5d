//! Probes and lifecycle hooks of containers.

use object::{Cursor, Errors, names};

use super::{Scope, ports};
use crate::common::checks::{Checks, report};

/// What a probe may do; `sleep` is for hooks.
const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// The lifecycle hooks and all probes of a container that may have them.
pub fn validate(container: &Cursor, scope: &Scope, errors: &mut Errors) {
    let lifecycle = container.field("lifecycle");
    if lifecycle.is_set() {
        hooks(&lifecycle, scope, errors);
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(kind);
        if !probe.is_set() {
            continue;
        }
        validate_probe(&probe, scope, errors);
        if kind == "readinessProbe" {
            let grace = probe.field("terminationGracePeriodSeconds");
            if grace.is_set() {
                grace.invalid(errors, "must not be set for readinessProbes");
            }
        } else {
            let threshold = probe.field("successThreshold");
            if threshold.int() != 1 {
                threshold.invalid_as(errors, threshold.int(), "must be 1");
            }
        }
    }
}

fn validate_probe(probe: &Cursor, scope: &Scope, errors: &mut Errors) {
    handler(probe, &PROBE_HANDLERS, scope, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        probe.field(field).non_negative(errors);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.opt_int().is_some_and(|seconds| seconds <= 0) {
        grace.invalid(errors, "must be greater than 0");
    }
}

fn hooks(lifecycle: &Cursor, scope: &Scope, errors: &mut Errors) {
    for hook in ["postStart", "preStop"].map(|name| lifecycle.field(name)) {
        if hook.is_set() {
            handler(&hook, &HOOK_HANDLERS, scope, errors);
        }
    }
    let signal = lifecycle.field("stopSignal");
    if signal.is_set() {
        match scope.os {
            None => signal.forbidden(errors, "may not be set for containers with empty `spec.os.name`"),
            Some("windows") => {
                signal.one_of(errors, &["SIGKILL", "SIGTERM"]);
            }
            Some("linux") => {
                signal.one_of(errors, &LINUX_SIGNALS);
            }
            Some(_) => {}
        }
    }
}

/// Exactly one handler; only the first is looked into.
fn handler(parent: &Cursor, known: &[&str], scope: &Scope, errors: &mut Errors) {
    let mut handlers = known.iter().map(|name| (*name, parent.field(name))).filter(|(_, handler)| handler.is_set());
    let Some((name, first)) = handlers.next() else {
        return parent.required(errors, "must specify a handler type");
    };
    match name {
        "exec" => {
            first.field("command").must_be_set(errors, "");
        }
        "httpGet" => http_get(&first, errors),
        "tcpSocket" => ports::number_or_name(&first.field("port"), errors),
        "grpc" => {
            ports::number_or_name(&first.field("port"), errors);
            first.field("mode").optional_one_of(errors, &["Plaintext", "TLS"]);
        }
        _ => sleep(&first, scope.grace_period, errors),
    }
    for (_, another) in handlers {
        another.forbidden(errors, "may not specify more than 1 handler type");
    }
}

fn http_get(action: &Cursor, errors: &mut Errors) {
    action.field("path").require(errors);
    ports::number_or_name(&action.field("port"), errors);
    let scheme = action.field("scheme");
    scheme.one_of(errors, &["HTTP", "HTTPS"]);
    let headers = action.field("httpHeaders");
    for name in headers.each().map(|header| header.field("name").str()) {
        report(errors, headers.path(), name, names::http_header_name(name));
    }
    let (protocol, host) = (action.field("protocol"), action.field("host"));
    match protocol.opt_str() {
        None | Some("HTTP1") => {}
        Some("HTTP2") if scheme.str() != "HTTP" => protocol.bad(errors, "is only supported with HTTP (H2C)"),
        Some("HTTP2") if !host.str().is_empty() => host.bad(errors, "must be empty when `protocol` is \"HTTP2\""),
        Some("HTTP2") => {}
        Some(_) => protocol.not_supported(errors, &["HTTP1", "HTTP2"]),
    }
}

/// A sleep must fit into the grace period; a pod without one has been reported already.
fn sleep(action: &Cursor, grace_period: Option<i64>, errors: &mut Errors) {
    let seconds = action.field("seconds").int();
    if let Some(grace) = grace_period
        && !(0..=grace).contains(&seconds)
    {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        action.invalid_as(errors, seconds, detail);
    }
}

/// Sorted, as upstream lists them.
const LINUX_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
