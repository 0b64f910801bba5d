//! `console`: a link that signs a browser on this machine in to the console of a running server, printed.

use apiserver::admin;
use apiserver::flags::data_dir;
use clap::{ArgMatches, Command};

use super::{data_dir_of, say};

pub fn command() -> Command {
    Command::new("console")
        .about("Print a link that signs a browser on this machine in to the console, once, as the administrator")
        .arg(data_dir())
}

pub fn run(matches: &ArgMatches) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    say(&runtime.block_on(admin::console_link(&data_dir_of(matches)))?);
    Ok(())
}
