//! `history`, `diff`, `blame`, `undelete` and `restore-at`: questions about the past, and bringing it back.
//!
//! They are requests to the running server like any other: as the administrator of a data directory, or through kubectl as whoever its
//! kubeconfig says, for which the program can be called `kubectl-history`.

mod objects;
mod requests;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};
use object::{Meta, Value, value};

use apiserver::flags::data_dir;
pub use objects::Object;
pub use requests::Api;
pub use show::printable;

use super::say;

/// How many changes are shown, if the command does not say.
const LIMIT: &str = "50";

pub fn commands() -> [Command; 6] {
    let object = |help: &'static str| Arg::new("object").required(true).value_name("RESOURCE/NAME").help(help);
    let command = |name: &'static str, about: &'static str| reaching(Command::new(name).about(about));
    let moment = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("TIME").allow_hyphen_values(true).help(help)
    };
    let restoring = |command: Command| {
        let flag =
            |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
        command
            .arg(object("Such as configmaps/settings, deployments.apps/web or namespaces/shop"))
            .arg(flag("dry-run", "Only show what would change; the server checks it and stores nothing"))
            .arg(flag("with-contents", "Of a namespace: everything that was in it, too"))
            .arg(
                Arg::new("resources")
                    .long("resources")
                    .value_delimiter(',')
                    .action(ArgAction::Append)
                    .requires("with-contents")
                    .help("Only these resources of the namespace, such as configmaps,deployments.apps"),
            )
            .arg(
                Arg::new("selector")
                    .long("selector")
                    .short('l')
                    .requires("with-contents")
                    .help("Only objects of the namespace that had such labels"),
            )
    };
    [
        command("history", "Show who changed an object, when, and how; the server must keep a history")
            .arg(object("Such as configmaps/settings or deployments.apps/web"))
            .arg(moment("since", "Only changes since this time, such as 2026-11-18T10:00:00Z or -10m"))
            .arg(moment("until", "Only changes until this time"))
            .arg(Arg::new("user").long("user").help("Only changes of this user"))
            .arg(Arg::new("uid").long("uid").help("Only changes of the object with this uid, of several with the name"))
            .arg(Arg::new("limit").long("limit").default_value(LIMIT).help("How many changes to show at most")),
        command("changes", "Show what was changed in a time, by whom, across all kinds")
            .arg(all_namespaces())
            .arg(moment("since", "The beginning, such as 2026-11-18T10:00:00Z or -1h [default: -10m]"))
            .arg(moment("until", "The end [default: now]"))
            .arg(Arg::new("user").long("user").help("Only changes of this user"))
            .arg(Arg::new("resource").long("resource").help("Only changes of this resource, such as configmaps")),
        command("diff", "Show how an object, a namespace or the whole cluster differs between two times")
            .arg(
                Arg::new("object").value_name("RESOURCE[/NAME]").help(
                    "Such as configmaps/settings, or configmaps for all of the namespace [default: all resources]",
                ),
            )
            .arg(all_namespaces())
            .arg(moment("from", "The earlier time, such as 2026-11-18T10:00:00Z or -10m").required(true))
            .arg(moment("to", "The later time [default: now]")),
        command("blame", "Show for each field of an object who changed it last, and when")
            .arg(object("Such as configmaps/settings or deployments.apps/web")),
        restoring(command(
            "undelete",
            "Create a deleted object again, or a namespace with what was in it, as before the deletion",
        )),
        restoring(command(
            "restore-at",
            "Make an object, or what was in a namespace, what it was at a time, by ordinary writes",
        ))
        .arg(moment("at", "The time, such as 2026-11-18T10:00:00Z or -10m").required(true)),
    ]
}

fn all_namespaces() -> Arg {
    Arg::new("all-namespaces").long("all-namespaces").short('A').action(ArgAction::SetTrue).help("The whole cluster")
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
    let given = |name: &str| matches.try_get_one::<String>(name).ok().flatten().map_or("", String::as_str);
    let namespace = match matches.try_get_one::<bool>("all-namespaces") {
        Ok(Some(true)) => "",
        _ => given("namespace"),
    };
    if name == "changes" {
        return changes(&api, namespace, matches);
    }
    if given("object").is_empty() {
        return diff_of_all(&api, namespace, given("from"), given("to"));
    }
    let object = Object::find(&api, given("object"), namespace)?;
    match name {
        "history" => history(&api, &object, matches),
        "diff" => diff(&api, &object, given("from"), given("to")),
        "blame" => show::blame(&api.get(&object.named()?.path(&["history"])?, &[("view", "blame")])?),
        _ => restore(&api, object.named()?, matches, name == "undelete"),
    }
}

fn history(api: &Api, object: &Object, matches: &ArgMatches) -> Result<(), String> {
    let given =
        |name: &'static str| (name, matches.try_get_one::<String>(name).ok().flatten().map_or("", String::as_str));
    let query = ["since", "until", "user", "uid", "limit"].map(given);
    show::changes(&api.get(&object.named()?.path(&["history"])?, &query)?)
}

/// Shows the changes of all kinds page by page, as they come.
fn changes(api: &Api, namespace: &str, matches: &ArgMatches) -> Result<(), String> {
    let given =
        |name: &'static str| (name, matches.try_get_one::<String>(name).ok().flatten().map_or("", String::as_str));
    let [since, until, user, resource] = ["since", "until", "user", "resource"].map(given);
    each_page(api, &[since, until, user, resource, ("namespace", namespace)], |page| {
        show::table(page.list_at(&["items"]));
        Ok(())
    })
}

/// Calls `take` with each page of the changes of all kinds.
fn each_page(
    api: &Api,
    query: &[(&str, &str)],
    mut take: impl FnMut(&Value) -> Result<(), String>,
) -> Result<(), String> {
    let mut token = String::new();
    loop {
        let page = api.get("/history/changes", &[query, &[("continue", token.as_str())]].concat())?;
        take(&page)?;
        token = page.str_at(&["metadata", "continue"]).to_string();
        if token.is_empty() {
            return Ok(());
        }
    }
}

fn diff(api: &Api, object: &Object, from: &str, to: &str) -> Result<(), String> {
    if !object.name.is_empty() {
        return diff_of_one(api, object, from, to);
    }
    let path = object.path(&[])?;
    let (before, after) = (api.get(&path, &[("at", from)])?, api.get(&path, &[("at", to)])?);
    let named = |list: &Value| -> BTreeMap<(String, String), Value> {
        let items = list.list_at(&["items"]).iter();
        items.map(|item| ((item.namespace().to_string(), item.name().to_string()), item.clone())).collect()
    };
    let (before, after) = (named(&before), named(&after));
    let names: BTreeSet<&(String, String)> = before.keys().chain(after.keys()).collect();
    for name in names {
        let state = |list: &BTreeMap<(String, String), Value>| list.get(name).cloned().unwrap_or_default();
        show::difference(&[name.0.as_str(), &name.1].join("/"), &state(&before), &state(&after));
    }
    Ok(())
}

fn diff_of_one(api: &Api, object: &Object, from: &str, to: &str) -> Result<(), String> {
    let path = object.path(&[])?;
    let state = |at: &str| api.find(&path, &[("at", at)]).map(Option::unwrap_or_default);
    show::difference(&object.described(), &state(from)?, &state(to)?);
    Ok(())
}

/// Compares what was changed between two times, across all kinds.
fn diff_of_all(api: &Api, namespace: &str, from: &str, to: &str) -> Result<(), String> {
    let mut touched = BTreeSet::new();
    each_page(api, &[("since", from), ("until", to), ("namespace", namespace)], |page| {
        touched.extend(page.list_at(&["items"]).iter().map(|change| {
            let text = |name: &str| change.str_at(&["object", name]).to_string();
            (text("group"), text("resource"), text("namespace"), text("name"))
        }));
        Ok(())
    })?;
    let mut known: BTreeMap<(String, String), Object> = BTreeMap::new();
    for (group, resource, namespace, name) in touched {
        let key = (group, resource);
        if !known.contains_key(&key) {
            let named = if key.0.is_empty() { key.1.clone() } else { [key.1.as_str(), &key.0].join(".") };
            known.insert(key.clone(), Object::find(api, &named, "default")?);
        }
        if let Some(object) = known.get(&key) {
            diff_of_one(api, &object.at(&namespace, &name), from, to)?;
        }
    }
    Ok(())
}

/// Asks the server to restore, first in a dry run whose differences are shown.
fn restore(api: &Api, object: &Object, matches: &ArgMatches, is_undelete: bool) -> Result<(), String> {
    let given = |name: &str| matches.try_get_one::<String>(name).ok().flatten().map_or("", String::as_str);
    let mut wanted = value!({"contents": (matches.get_flag("with-contents")), "onlyMissing": is_undelete});
    for (field, text) in [("at", given("at")), ("labelSelector", given("selector"))] {
        if !text.is_empty() {
            wanted.set(&[field], text);
        }
    }
    let resources: Vec<Value> =
        matches.get_many::<String>("resources").unwrap_or_default().map(|name| Value::from(name.as_str())).collect();
    if !resources.is_empty() {
        wanted.set(&["resources"], resources);
    }
    let path = object.path(&["history"])?;
    let planned = api.send("POST", &path, &[("dryRun", "All")], &wanted)?;
    show::planned(&planned);
    let refused = planned.list_at(&["items"]).iter().filter(|item| !item.str_at(&["error"]).is_empty()).count();
    if refused > 0 {
        return Err(format!("the server would refuse {refused} of these changes; nothing was stored"));
    }
    if matches.get_flag("dry-run") {
        say("nothing was stored");
        return Ok(());
    }
    // The moment that was shown, also if it was given as a time before now.
    for field in ["at", "revision"] {
        wanted.remove(&[field]);
    }
    wanted.set(&["revision"], planned.str_at(&["metadata", "resourceVersion"]));
    show::restored(&api.send("POST", &path, &[], &wanted)?);
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
