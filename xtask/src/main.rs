//! What developers and CI run.

use std::process::ExitCode;

mod components;
mod generate;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((command, rest)) if command == "generate" => generate::run(rest),
        _ => Err("usage: cargo xtask generate [--check]".into()),
    };
    match outcome {
        Ok(message) => {
            eprintln!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
