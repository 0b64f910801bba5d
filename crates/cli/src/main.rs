//! The `ferrokube` command. Everything is in the library, so that it is compiled once for the command, the tests and those
//! who embed it, but the commit that the command is built from.

use std::process::ExitCode;

/// Gives memory back to the system within seconds after a peak, and takes less time than the system's; see decision 009.
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let (commit, tree_state, seconds) = stamp::stamp!();
    cli::run(&server::Build::new(commit, tree_state, seconds))
}
