//! `man`: manual pages, for packages, and the same as pages of the documentation.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

pub fn command() -> Command {
    let folder = Arg::new("folder").required(true).value_parser(clap::value_parser!(PathBuf));
    Command::new("man")
        .about("Write manual pages into a folder, one for each command")
        .arg(folder.help("The folder, which must exist"))
        .arg(
            Arg::new("markdown")
                .long("markdown")
                .action(ArgAction::SetTrue)
                .help("Write one page with all commands and flags instead, flags.md"),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), String> {
    let folder = matches.get_one::<PathBuf>("folder").ok_or("which folder?")?;
    if matches.get_flag("markdown") {
        let path = folder.join("flags.md");
        return std::fs::write(&path, markdown()).map_err(|error| format!("{}: {error}", path.display()));
    }
    clap_mangen::generate_to(super::command(), folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Every command with its flags.
fn markdown() -> String {
    let mut out = String::from(
        "# Flags\n\n`ferrokube man --markdown docs/reference` writes this page. Started as `kube-apiserver` the program has that program's \
         defaults ([Defaults](../defaults.md)).\n",
    );
    let mut program = super::command();
    // What every command has is not said again.
    program.build();
    let serve = program.find_subcommand("serve").cloned();
    for command in serve.iter().chain(program.get_subcommands().filter(|command| command.get_name() != "serve")) {
        if command.is_hide_set() || command.get_name() == "help" {
            continue;
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(out, "\n## ferrokube {}\n\n{}.\n", command.get_name(), about.trim_end_matches('.'));
        let places: Vec<&Arg> = command.get_positionals().collect();
        if !places.is_empty() {
            out.push_str("\n| argument | |\n|---|---|\n");
            places.iter().for_each(|place| row(&mut out, &place.get_id().as_str().to_uppercase(), place));
        }
        headings(command).into_iter().for_each(|heading| section(&mut out, command, heading));
    }
    out
}

/// The headings of a command's flags, in the order of its help.
fn headings(command: &Command) -> Vec<Option<&str>> {
    let mut found: Vec<Option<&str>> = Vec::new();
    for heading in command.get_opts().chain(flags_without_value(command)).map(Arg::get_help_heading) {
        if !found.contains(&heading) {
            found.push(heading);
        }
    }
    found
}

fn flags_without_value(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !arg.get_action().takes_values())
}

fn section(out: &mut String, command: &Command, heading: Option<&str>) {
    let of_section = command
        .get_opts()
        .chain(flags_without_value(command))
        .filter(|arg| arg.get_help_heading() == heading && !arg.is_hide_set() && arg.get_id().as_str() != "help");
    let mut shown: Vec<(String, &Arg)> =
        of_section.filter_map(|arg| Some((format!("--{}", arg.get_long()?), arg))).collect();
    if shown.is_empty() {
        return;
    }
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    if let Some(heading) = heading {
        let _ = write!(out, "\n### {heading}\n");
    }
    out.push_str("\n| flag | |\n|---|---|\n");
    shown.into_iter().for_each(|(name, arg)| row(out, &name, arg));
}

fn row(out: &mut String, name: &str, arg: &Arg) {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let default = match defaults.is_empty() || help.contains("default") || !arg.get_action().takes_values() {
        true => String::new(),
        false => format!(" [default: {}]", defaults.join(",")),
    };
    let cell = |text: &str| text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ");
    let _ = writeln!(out, "| `{name}` | {}{} |", cell(&help), cell(&default));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_flags_is_current() {
        let page = include_str!("../../../docs/reference/flags.md");
        let made = markdown();
        let differs = made.lines().zip(page.lines()).find(|(made, page)| made != page);
        assert_eq!(differs, None, "run `cargo run -- man --markdown docs/reference`");
        assert_eq!(made.lines().count(), page.lines().count(), "run `cargo run -- man --markdown docs/reference`");
    }
}
