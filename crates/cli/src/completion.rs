//! `completion`: a script for the shell.

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;

pub fn command() -> Command {
    Command::new("completion")
        .about("Print a completion script for a shell")
        .long_about("Print a completion script for a shell, e.g. `source <(ferrokube completion bash)`.")
        .arg(Arg::new("shell").required(true).value_parser(clap::value_parser!(Shell)))
}

pub fn run(matches: &ArgMatches) -> Result<(), String> {
    let shell = *matches.get_one::<Shell>("shell").ok_or("which shell?")?;
    clap_complete::generate(shell, &mut super::command(), super::name(), &mut std::io::stdout());
    Ok(())
}
