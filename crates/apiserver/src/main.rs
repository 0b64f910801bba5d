//! The `ferrokube` command.

mod cli;

use std::process::ExitCode;

/// Requests are many small allocations on many threads; docs/decisions/009-allocator.md has the measurements.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
