//! The `ferrokube` command. Everything is in the library, so that it is compiled once for the command, the tests and those
//! who embed it.

use std::process::ExitCode;

fn main() -> ExitCode {
    apiserver::cli::run()
}
