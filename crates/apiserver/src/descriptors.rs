//! How many files and connections the process may have open at the same time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows the process as many as the system lets it have, as Go's programs do: shells set a low limit that programs may raise.
pub fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    // Where the system refuses, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// So many of them are for connections of clients: half, since what is done for a request can need one as well.
pub(crate) fn for_clients() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2).unwrap_or(usize::MAX)
}
