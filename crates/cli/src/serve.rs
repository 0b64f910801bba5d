//! `serve`: from flags to a server that runs until it is told to stop.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::{TestStore, descriptors, flags, kubeconfig};
use clap::ArgMatches;
use ferrokube::{Options, Server};
use server::Build;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{envtest, say};

/// Without it, thread stacks would be sized for shallow calls; objects may nest deeply.
const STACK_BYTES: usize = 4 * 1024 * 1024;

pub fn run(matches: &ArgMatches, called_as: &str, build: &Build) -> Result<(), String> {
    match flags::version(matches)? {
        Some(flags::VersionFlag::Print) => {
            say(&format!("Kubernetes {}", server::Version::default().git_version));
            return Ok(());
        }
        Some(flags::VersionFlag::PrintRaw) => {
            say(&server::Version { build: build.clone(), ..Default::default() }.to_go());
            return Ok(());
        }
        _ => {}
    }
    let mut serve = flags::serve(matches, called_as)?;
    descriptors::allow_all();
    serve.config.serve_removed = serves_removed()?;
    serve.config.build = build.clone();
    let log = serve.logging.begin();
    serve.config.debugging.set_verbosity = log.set_verbosity.clone();
    flags::report(&serve.config, called_as, &serve.standalone_because);
    for (name, value) in &serve.config.flags {
        tracing::debug!(target: "v1", name = format!("--{name}"), value = flags::without_password(value), "FLAG");
    }
    for flag in &serve.without_effect {
        tracing::warn!(flag, "this flag is accepted but has no effect");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(serve_until_told(serve.config))
}

async fn serve_until_told(options: Options) -> Result<(), String> {
    let began = Instant::now();
    let mut signals = Signals::listen()?;
    let delay = options.shutdown_delay;
    let in_memory = envtest::has_stand_in(&options.store.etcd_servers).await;
    let greeting = Greeting::of(&options, in_memory);
    let mut builder = Server::builder().data_dir(options.data_dir.clone()).options(|given| *given = options);
    if in_memory {
        tracing::info!("etcd is the stand-in of this folder: objects are in memory and end with this server");
        builder = builder.store(Arc::new(TestStore::memory()));
    }
    let server = tokio::select! {
        started = builder.start() => started.map_err(|error| error.to_string())?,
        () = signals.next() => return Ok(()),
    };
    greeting.say(&server, began.elapsed())?;
    tell_systemd("READY=1");
    signals.next().await;
    tell_systemd("STOPPING=1");
    tracing::info!("stopping: letting requests finish; a second signal ends them");
    tokio::select! {
        () = server.stop_after(delay) => Ok(()),
        () = signals.next() => Err("told twice to stop: requests in flight were not waited for".into()),
    }
}

/// The text that is printed once the server serves.
struct Greeting {
    data_dir: PathBuf,
    etcd: Vec<String>,
    in_memory: bool,
    client_ca: Option<PathBuf>,
    is_standalone: bool,
}

impl Greeting {
    fn of(options: &Options, in_memory: bool) -> Greeting {
        Greeting {
            data_dir: options.data_dir.clone(),
            etcd: options.store.etcd_servers.clone(),
            in_memory,
            client_ca: options.client_ca_file.clone(),
            is_standalone: options.standalone,
        }
    }

    /// Writes the kubeconfig, if the server's own authority vouches for clients, and says where everything is and what to do next.
    fn say(&self, server: &Server, took: Duration) -> Result<(), String> {
        let address = server.address().ok_or("the server does not listen")?;
        let mut lines = vec![format!("ferrokube is ready on https://{address} ({} ms)", took.as_millis())];
        match self.etcd.is_empty() {
            _ if self.in_memory => lines.push("  data        in memory".to_string()),
            true => lines.push(format!("  data        {}", self.data_dir.display())),
            false => lines.push(format!("  data        etcd at {}", flags::without_password(&self.etcd.join(",")))),
        }
        let mut next = String::new();
        if server.vouches_for_clients() {
            let path = self.data_dir.join("kubeconfig");
            let text = server.kubeconfig().map_err(|error| error.to_string())?;
            let mut note = String::new();
            if let Err(error) = kubeconfig::write(&path, &text) {
                let why = format!("cannot write {} on {}: {error}", path.display(), files::file_system(&path));
                // The server serves; who has an earlier one can use it, with another address perhaps.
                if !path.exists() {
                    return Err(why);
                }
                tracing::error!(reason = why, "the kubeconfig is an earlier one");
                note = " (an earlier one: it cannot be written)".into();
            }
            lines.push(format!("  kubeconfig  {}{note}", path.display()));
            next = format!("\nTry:\n  kubectl --kubeconfig {} get namespaces", path.display());
        } else if let Some(path) = &self.client_ca {
            lines.push(format!("  clients     with certificates of {}", path.display()));
        } else {
            lines.push("  clients     with tokens; no client certificate is accepted".to_string());
        }
        if self.is_standalone {
            let alone =
                "yes: namespaces, owned objects and service accounts are looked after (--standalone=false if not)";
            lines.push(format!("  alone       {alone}"));
        }
        // The log of a service is read by others than the administrator, so a link is only shown on a terminal.
        let shows_link = server.vouches_for_clients() && std::io::stdout().is_terminal();
        if let Some(link) = shows_link.then(|| server.console_link()).flatten() {
            lines.push(format!("  console     {link} (once, within 15 minutes, on this machine)"));
        }
        say(&(lines.join("\n") + &next));
        let _ = std::io::stdout().flush();
        Ok(())
    }
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

/// The signals by which a supervisor or a terminal ends the server, listened for from the very beginning: a signal
/// that has no handler yet would end it at once.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn listen() -> Result<Signals, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        Ok(Signals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
