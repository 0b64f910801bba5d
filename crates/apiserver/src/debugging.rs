//! Debugging pages: `/debug/pprof`, `/debug/flags/v`, `/logs`, and the socket with the first two.

#[cfg(feature = "profiles")]
mod cpu;
mod logs;
mod profiling;
mod socket;
mod threads;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use server::Paths;
use tokio::task::JoinSet;

use crate::flags::{Row, rows};
use logs::Logs;
use profiling::Profiling;

/// The flags that [`Debugging`] takes.
pub(crate) const FLAGS: &[Row] = rows! { debugging = &mut config.debugging, |config, given|
    "debug-socket-path" => debugging.socket = given.path(),
    "enable-logs-handler" => debugging.logs = given.boolean()?,
    "profiling" => debugging.profiling = given.boolean()?,
};

/// Which pages there are.
#[derive(Clone, Debug)]
pub struct Debugging {
    pub profiling: bool,
    /// `--enable-logs-handler`: the files in `/var/log`.
    pub logs: bool,
    /// `--debug-socket-path`: serves profiles without authentication to processes that may open the socket.
    pub socket: Option<PathBuf>,
    pub set_verbosity: SetVerbosity,
}

impl Default for Debugging {
    fn default() -> Debugging {
        Debugging { profiling: true, logs: false, socket: None, set_verbosity: SetVerbosity::default() }
    }
}

/// Changes klog's `-v` of the running server. A server inside another program has no log of its own.
#[derive(Clone, Default)]
pub struct SetVerbosity(Option<Arc<dyn Fn(u32) -> Result<(), String> + Send + Sync>>);

impl SetVerbosity {
    pub fn new(set: impl Fn(u32) -> Result<(), String> + Send + Sync + 'static) -> SetVerbosity {
        SetVerbosity(Some(Arc::new(set)))
    }

    fn set(&self, verbosity: u32) -> Result<(), String> {
        self.0.as_ref().map_or_else(|| Err("the server does not keep a log".into()), |set| set(verbosity))
    }
}

impl fmt::Debug for SetVerbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetVerbosity")
    }
}

impl Debugging {
    /// The pages that the server has.
    pub(crate) fn paths(&self) -> Vec<Arc<dyn Paths>> {
        let profiling = self.profiling.then(|| Arc::new(self.pages()) as Arc<dyn Paths>);
        let logs = self.logs.then(|| Arc::new(Logs::default()) as Arc<dyn Paths>);
        profiling.into_iter().chain(logs).collect()
    }

    /// Serves the socket, if there is to be one.
    pub(crate) fn run(&self, tasks: &mut JoinSet<()>) -> Result<(), String> {
        if let Some(path) = &self.socket {
            tasks.spawn(socket::run(socket::bind(path)?, Arc::new(self.pages())));
        }
        Ok(())
    }

    fn pages(&self) -> Profiling {
        Profiling::new(self.set_verbosity.clone())
    }
}
