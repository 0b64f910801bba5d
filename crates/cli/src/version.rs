//! `version`: which program this is, and which Kubernetes it speaks.

use clap::{Arg, ArgMatches, Command};
use server::{Build, Version};

use super::say;

pub fn command() -> Command {
    let output = Arg::new("output").long("output").short('o').value_name("FORMAT").value_parser(["text", "json"]);
    Command::new("version")
        .about("Print the version, the commit it is built from and the version of Kubernetes")
        .arg(output.default_value("text").help("text, or json as in /version"))
}

pub fn run(matches: &ArgMatches, build: &Build) -> Result<(), String> {
    let version = Version { build: build.clone(), ..Default::default() };
    if matches.get_one::<String>("output").is_some_and(|format| format == "json") {
        say(&version.to_json());
        return Ok(());
    }
    let commit = if build.commit.is_empty() { "unknown" } else { &build.commit };
    say(&format!("ferrokube  {}", env!("CARGO_PKG_VERSION")));
    say(&format!("commit     {commit} ({}), {}", build.tree_state, build.date));
    say(&format!("kubernetes {}", version.git_version));
    Ok(())
}
