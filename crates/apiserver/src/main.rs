//! The `ferrokube` command.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use apiserver::{Running, flags, kubeconfig, start};

/// Without it, thread stacks would be sized for shallow calls; objects may nest deeply.
const STACK_BYTES: usize = 4 * 1024 * 1024;

fn main() -> ExitCode {
    let matches = flags::command().get_matches();
    if matches.get_flag("version") {
        let _ = writeln!(std::io::stdout(), "Kubernetes {}", server::Version::default().git_version);
        return ExitCode::SUCCESS;
    }
    let serve = match flags::serve(&matches) {
        Ok(serve) => serve,
        Err(why) => return fail(&why),
    };
    log_to_stderr(serve.json_logs);
    for flag in &serve.without_effect {
        tracing::warn!(flag, "this flag is accepted but has no effect yet");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(serve.config)),
        Err(error) => fail(&format!("cannot start threads: {error}")),
    }
}

async fn run(config: apiserver::Config) -> ExitCode {
    let began = Instant::now();
    let (data_dir, delay) = (config.data_dir.clone(), config.shutdown_delay);
    let running = match start(config).await {
        Ok(running) => running,
        Err(error) => return fail(&error.to_string()),
    };
    if let Err(why) = greet(&running, &data_dir, began.elapsed()) {
        return fail(&why);
    }
    wait_for_signal().await;
    tracing::info!("stopping: letting requests finish");
    running.stop(delay).await;
    ExitCode::SUCCESS
}

/// Writes the kubeconfig and says what to do next.
fn greet(running: &Running, data_dir: &Path, took: Duration) -> Result<(), String> {
    let path = data_dir.join("kubeconfig");
    let text = kubeconfig::admin(&running.pki, running.address).map_err(|error| error.to_string())?;
    kubeconfig::write(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "ferrokube is ready on https://{} ({} ms)", running.address, took.as_millis());
    let _ = writeln!(out, "  data        {}", data_dir.display());
    let _ = writeln!(out, "  kubeconfig  {}", path.display());
    let _ = writeln!(out, "\nTry:\n  kubectl --kubeconfig {} get namespaces", path.display());
    let _ = out.flush();
    Ok(())
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}

fn log_to_stderr(json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json { builder.json().init() } else { builder.init() }
}

fn fail(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "ferrokube: {why}");
    ExitCode::FAILURE
}
