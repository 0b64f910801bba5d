//! `serve`: from flags to a server that runs until it is told to stop.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Running, flags, kubeconfig, start};
use clap::ArgMatches;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::say;

/// Without it, thread stacks would be sized for shallow calls; objects may nest deeply.
const STACK_BYTES: usize = 4 * 1024 * 1024;

pub fn run(matches: &ArgMatches, called_as: &str) -> Result<(), String> {
    match flags::version(matches)? {
        Some(flags::VersionFlag::Print) => {
            say(&format!("Kubernetes {}", server::Version::default().git_version));
            return Ok(());
        }
        Some(flags::VersionFlag::PrintRaw) => {
            say(&server::Version::default().to_go());
            return Ok(());
        }
        _ => {}
    }
    let mut serve = flags::serve(matches, called_as)?;
    serve.config.serve_removed = serves_removed()?;
    let log = serve.logging.begin();
    serve.config.debugging.set_verbosity = log.set_verbosity.clone();
    for flag in &serve.without_effect {
        tracing::warn!(flag, "this flag is accepted but has no effect");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(serve_until_told(serve.config))
}

async fn serve_until_told(config: crate::Config) -> Result<(), String> {
    let began = Instant::now();
    let mut signals = Signals::listen()?;
    let (data_dir, delay) = (config.data_dir.clone(), config.shutdown_delay);
    let running = tokio::select! {
        started = start(config) => started.map_err(|error| error.to_string())?,
        () = signals.next() => return Ok(()),
    };
    greet(&running, &data_dir, began.elapsed())?;
    tell_systemd("READY=1");
    signals.next().await;
    tell_systemd("STOPPING=1");
    tracing::info!("stopping: letting requests finish; a second signal ends them");
    tokio::select! {
        () = running.stop(delay) => Ok(()),
        () = signals.next() => Err("told twice to stop: requests in flight were not waited for".into()),
    }
}

/// Writes the kubeconfig and says what to do next.
fn greet(running: &Running, data_dir: &Path, took: Duration) -> Result<(), String> {
    let path = data_dir.join("kubeconfig");
    let text = kubeconfig::admin(&running.pki, running.address).map_err(|error| error.to_string())?;
    kubeconfig::write(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let alone = if running.is_standalone() {
        "  alone       yes: namespaces, owned objects and service accounts are looked after (--standalone=false if not)\n"
    } else {
        ""
    };
    say(&format!(
        "ferrokube is ready on https://{} ({} ms)\n  data        {}\n  kubeconfig  {}\n{alone}\nTry:\n  kubectl --kubeconfig {} get namespaces",
        running.address,
        took.as_millis(),
        data_dir.display(),
        path.display(),
        path.display(),
    ));
    let _ = std::io::stdout().flush();
    Ok(())
}

/// Whether upstream's environment variable asks for versions that this release removed.
#[allow(clippy::disallowed_methods)]
fn serves_removed() -> Result<bool, String> {
    const NAME: &str = "KUBE_APISERVER_SERVE_REMOVED_APIS_FOR_ONE_RELEASE";
    match std::env::var(NAME) {
        Ok(text) => flags::boolean(&text).map_err(|why| format!("{NAME}: {why}")),
        Err(_) => Ok(false),
    }
}

/// Lets the service manager know, if there is one that asked.
#[allow(clippy::disallowed_methods)]
fn tell_systemd(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty())
        && let Err(error) = server::systemd::notify(Path::new(&socket), state)
    {
        tracing::warn!(%error, state, "cannot tell systemd");
    }
}

/// What a supervisor or a terminal sends to end the server, listened for from the very beginning: a signal
/// that has no handler yet would end it at once.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        Ok(Signals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
