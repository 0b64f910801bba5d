//! `history`, `diff`, `blame`, `undelete` and `restore-at`: questions about the past, and bringing it back.
//!
//! They are requests to the running server like any other: as the administrator of a data directory, or through kubectl as whoever its
//! kubeconfig says, for which the program can be called `kubectl-history`.

mod objects;
mod requests;
mod show;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};
use object::{Meta, Value};

use apiserver::flags::data_dir;
pub use objects::Object;
use objects::restorable;
pub use requests::Api;
pub use show::printable;

use super::say;

/// How many changes are shown, if the command does not say.
const LIMIT: &str = "50";

pub fn commands() -> [Command; 5] {
    let object = |help: &'static str| Arg::new("object").required(true).value_name("RESOURCE/NAME").help(help);
    let command = |name: &'static str, about: &'static str| reaching(Command::new(name).about(about));
    let moment = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("TIME").allow_hyphen_values(true).help(help)
    };
    let dry_run = || {
        Arg::new("dry-run")
            .long("dry-run")
            .action(ArgAction::SetTrue)
            .help("Only show what would change; the server checks it and stores nothing")
    };
    [
        command("history", "Show who changed an object, when, and how; the server must keep a history")
            .arg(object("Such as configmaps/settings or deployments.apps/web"))
            .arg(moment("since", "Only changes since this time, such as 2026-11-18T10:00:00Z or -10m"))
            .arg(moment("until", "Only changes until this time"))
            .arg(Arg::new("user").long("user").help("Only changes of this user"))
            .arg(Arg::new("limit").long("limit").default_value(LIMIT).help("How many changes to show at most")),
        command("diff", "Show how an object, or all objects of a resource in a namespace, differ between two times")
            .arg(object("Such as configmaps/settings, or configmaps for all of the namespace"))
            .arg(moment("from", "The earlier time, such as 2026-11-18T10:00:00Z or -10m").required(true))
            .arg(moment("to", "The later time [default: now]")),
        command("blame", "Show for each field of an object who changed it last, and when")
            .arg(object("Such as configmaps/settings or deployments.apps/web")),
        command("undelete", "Create a deleted object again, as it was before it was deleted")
            .arg(object("Such as configmaps/settings or deployments.apps/web"))
            .arg(dry_run()),
        command("restore-at", "Make an object what it was at a time, by an ordinary write")
            .arg(object("Such as configmaps/settings or deployments.apps/web"))
            .arg(moment("at", "The time, such as 2026-11-18T10:00:00Z or -10m").required(true))
            .arg(dry_run()),
    ]
}

/// Adds the arguments that say how the running server is reached.
pub fn reaching(command: Command) -> Command {
    command
        .arg(data_dir())
        .arg(
            Arg::new("namespace")
                .long("namespace")
                .short('n')
                .default_value("default")
                .help("The namespace of the object, if it has one"),
        )
        .arg(
            Arg::new("kubectl")
                .long("kubectl")
                .action(ArgAction::SetTrue)
                .help("Send requests through kubectl, with its kubeconfig, instead of as the administrator"),
        )
        .arg(
            Arg::new("server")
                .long("server")
                .value_name("URL")
                .help("Where the server is [default: as it last started]"),
        )
}

/// A link called `kubectl-history` is a plugin of kubectl: the command `history`, which sends its requests through kubectl. One called
/// `kubectl-ferrokube` has all these commands.
pub fn as_plugin(called_as: Option<&str>, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(name) = called_as.and_then(|name| name.strip_prefix("kubectl-")) else { return arguments };
    let name = name.replace('_', "-");
    let all: Vec<Command> = commands().into_iter().chain(crate::lists::commands()).collect();
    let is_command = |name: &str| all.iter().any(|command| command.get_name() == name);
    if is_command(&name) {
        arguments.splice(1..1, [OsString::from(name), OsString::from("--kubectl")]);
    } else if name == "ferrokube" && arguments.get(1).and_then(|first| first.to_str()).is_some_and(is_command) {
        arguments.insert(2, "--kubectl".into());
    }
    arguments
}

pub fn run(name: &str, matches: &ArgMatches) -> Result<(), String> {
    let api = Api::of(matches)?;
    let given = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let object = Object::find(&api, given("object"), given("namespace"))?;
    match name {
        "history" => history(&api, &object, matches),
        "diff" => diff(&api, &object, given("from"), given("to")),
        "blame" => show::blame(&api.get(&object.path(&["history"])?, &[("view", "blame")])?),
        "undelete" => undelete(&api, &object, matches.get_flag("dry-run")),
        _ => restore(&api, &object, given("at"), matches.get_flag("dry-run")),
    }
}

fn history(api: &Api, object: &Object, matches: &ArgMatches) -> Result<(), String> {
    let given =
        |name: &'static str| (name, matches.try_get_one::<String>(name).ok().flatten().map_or("", String::as_str));
    let query = ["since", "until", "user", "limit"].map(given);
    show::changes(&api.get(&object.named()?.path(&["history"])?, &query)?)
}

fn diff(api: &Api, object: &Object, from: &str, to: &str) -> Result<(), String> {
    if !object.name.is_empty() {
        let path = object.path(&[])?;
        let state = |at: &str| api.find(&path, &[("at", at)]).map(Option::unwrap_or_default);
        show::difference(&object.name, &state(from)?, &state(to)?);
        return Ok(());
    }
    let path = object.path(&[])?;
    let (before, after) = (api.get(&path, &[("at", from)])?, api.get(&path, &[("at", to)])?);
    let named = |list: &Value| -> BTreeMap<String, Value> {
        list.list_at(&["items"]).iter().map(|item| (item.name().to_string(), item.clone())).collect()
    };
    let (before, after) = (named(&before), named(&after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let state = |list: &BTreeMap<String, Value>| list.get(name).cloned().unwrap_or_default();
        show::difference(name, &state(&before), &state(&after));
    }
    Ok(())
}

fn undelete(api: &Api, object: &Object, dry_run: bool) -> Result<(), String> {
    let object = object.named()?;
    if api.find(&object.path(&[])?, &[])?.is_some() {
        return Err(format!("{} exists; `restore-at` makes it what it was", object.name));
    }
    let changes = api.get(&object.path(&["history"])?, &[("limit", "1")])?;
    let last = changes.list_at(&["items"]).first().filter(|change| change.str_at(&["operation"]) == "Deleted");
    let last = last.ok_or_else(|| format!("the history does not know when {} was deleted", object.name))?;
    let revision: i64 = last.str_at(&["revision"]).parse().map_err(|_| "the server sent no revision".to_string())?;
    let before = (revision - 1).to_string();
    let query = [("resourceVersion", before.as_str()), ("resourceVersionMatch", "Exact")];
    let was = api.get(&object.path(&[])?, &query)?;
    show::difference(&object.name, &Value::Null, &restorable(&was, None));
    write(api, object, &restorable(&was, None), dry_run, true)
}

fn restore(api: &Api, object: &Object, at: &str, dry_run: bool) -> Result<(), String> {
    let object = object.named()?;
    let path = object.path(&[])?;
    let was = api.get(&path, &[("at", at)])?;
    let now = api.find(&path, &[])?;
    let wanted = restorable(&was, now.as_ref());
    show::difference(&object.name, &now.clone().unwrap_or_default(), &wanted);
    write(api, object, &wanted, dry_run, now.is_none())
}

/// Creates or replaces an object, after the server has said in a dry run that it would.
fn write(api: &Api, object: &Object, wanted: &Value, dry_run: bool, is_new: bool) -> Result<(), String> {
    let path = if is_new { object.collection()? } else { object.path(&[])? };
    let method = if is_new { "POST" } else { "PUT" };
    api.send(method, &path, &[("dryRun", "All")], wanted)?;
    if dry_run {
        say("nothing was stored; the server would take it");
        return Ok(());
    }
    let stored = api.send(method, &path, &[], wanted)?;
    say(&format!(
        "{} {} at revision {}",
        object.name,
        if is_new { "created" } else { "replaced" },
        stored.str_at(&["metadata", "resourceVersion"])
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_plugins_by_their_names() {
        for (called_as, given, want) in [
            (Some("kubectl-history"), "x cm/a", "x history --kubectl cm/a"),
            (Some("kubectl-restore_at"), "x cm/a", "x restore-at --kubectl cm/a"),
            (Some("kubectl-top_n"), "x pods", "x top-n --kubectl pods"),
            (Some("kubectl-ferrokube"), "x count pods", "x count --kubectl pods"),
            (Some("kubectl-ferrokube"), "x blame cm/a", "x blame --kubectl cm/a"),
            (Some("kubectl-ferrokube"), "x --help", "x --help"),
            (Some("kubectl-ferrokube"), "x", "x"),
            (Some("kubectl-other"), "x cm/a", "x cm/a"),
            (Some("ferrokube"), "x cm/a", "x cm/a"),
            (None, "x cm/a", "x cm/a"),
        ] {
            let got = as_plugin(called_as, given.split(' ').map(OsString::from).collect());
            let got: Vec<_> = got.iter().map(|argument| argument.to_string_lossy()).collect();
            assert_eq!(got.join(" "), want);
        }
    }
}
