//! `man`: manual pages, for packages.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

pub fn command() -> Command {
    let folder = Arg::new("folder").required(true).value_parser(clap::value_parser!(PathBuf));
    Command::new("man")
        .about("Write manual pages into a folder, one for each command")
        .arg(folder.help("The folder, which must exist"))
}

pub fn run(matches: &ArgMatches) -> Result<(), String> {
    let folder = matches.get_one::<PathBuf>("folder").ok_or("which folder?")?;
    clap_mangen::generate_to(super::command(), folder).map_err(|error| format!("{}: {error}", folder.display()))
}
