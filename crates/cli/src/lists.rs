//! `count`, `top-n`, `find` and `get`: the parameters of lists that the server has (docs/lists.md), shown as tables.
//!
//! They are requests to the running server like those of `history`: as the administrator of a data directory, or through kubectl.

mod table;

use clap::{Arg, ArgAction, ArgMatches, Command};
use object::{SystemClock, Value};

use crate::past::{Api, Object, reaching};
use crate::say;
use table::TextTable;

/// Where the server says that it has these parameters. kube-apiserver would ignore them, and answer with everything.
const GROUP: &str = "/apis/lists.ferrokube.io/v1alpha1";
/// How many objects are asked for at once.
const PAGE: usize = 500;

pub fn commands() -> [Command; 4] {
    let resource = || {
        let help = "Such as pods, po or deployments.apps";
        Arg::new("resource").required(true).value_name("RESOURCE").help(help)
    };
    let limit = |default: &'static str| {
        Arg::new("limit")
            .long("limit")
            .default_value(default)
            .value_parser(clap::value_parser!(usize))
            .help("How many objects to show at most")
    };
    let selection = |command: Command| {
        command
            .arg(
                Arg::new("all-namespaces")
                    .long("all-namespaces")
                    .short('A')
                    .action(ArgAction::SetTrue)
                    .help("All namespaces, as far as you may see them"),
            )
            .arg(
                Arg::new("filter")
                    .long("filter")
                    .value_name("CEL")
                    .help("Only objects for which this is true, such as \"object.spec.replicas > 3\""),
            )
            .arg(
                Arg::new("selector")
                    .long("selector")
                    .short('l')
                    .value_name("LABELS")
                    .help("Only objects with these labels"),
            )
    };
    let fields = || {
        Arg::new("fields")
            .long("fields")
            .value_name("PATHS")
            .help("Columns to show, such as spec.nodeName,status.phase")
    };
    let command = |name: &'static str, about: &'static str| reaching(Command::new(name).about(about));
    [
        selection(command("count", "Count objects, as a whole or by the values of fields"))
            .arg(resource())
            .arg(Arg::new("by").long("by").value_name("PATHS").help("One line for each value, such as metadata.namespace,status.phase")),
        selection(command("top-n", "Show the first objects of an order"))
            .arg(resource())
            .arg(Arg::new("by").long("by").required(true).allow_hyphen_values(true).value_name("PATHS").help("Such as metadata.name, or -metadata.creationTimestamp for the newest"))
            .arg(fields())
            .arg(limit("10")),
        command("find", "Find objects of all kinds that you may see")
            .arg(Arg::new("query").required(true).num_args(1..).value_name("TERM").help("A part of the name, or such as label:app=web, image:nginx, owner:web, uid:UID, text:TEXT, field:PATH=TEXT, namespace:NAME, resource:pods"))
            .arg(limit("100")),
        selection(command("get", "Show objects for which an expression is true, with fields of your choice"))
            .arg(resource())
            .arg(fields())
            .arg(limit("1000000")),
    ]
}

pub fn run(name: &str, matches: &ArgMatches) -> Result<(), String> {
    let api = Api::of(matches)?;
    api.get(GROUP, &[]).map_err(|why| format!("the server does not say that it has these parameters: {why}"))?;
    match name {
        "count" => count(&api, matches),
        "find" => find(&api, matches),
        _ => get(&api, matches),
    }
}

fn given<'m>(matches: &'m ArgMatches, name: &str) -> &'m str {
    matches.try_get_one::<String>(name).ok().flatten().map_or("", String::as_str)
}

/// Where the list is, and the parameters that choose its objects.
fn selection<'m>(api: &Api, matches: &'m ArgMatches) -> Result<(String, Vec<(&'static str, &'m str)>), String> {
    let everywhere = matches.get_flag("all-namespaces");
    let namespace = if everywhere { "" } else { given(matches, "namespace") };
    let path = Object::find(api, given(matches, "resource"), namespace)?.collection()?;
    let authorized = if everywhere { "true" } else { "" };
    let (filter, selector) = (given(matches, "filter"), given(matches, "selector"));
    Ok((path, vec![("authorized", authorized), ("filter", filter), ("labelSelector", selector)]))
}

fn count(api: &Api, matches: &ArgMatches) -> Result<(), String> {
    let (path, mut query) = selection(api, matches)?;
    let by = given(matches, "by");
    query.extend([("count", "true"), ("groupBy", by)]);
    let counted = api.get(&path, &query)?;
    let number = |value: &Value, name: &str| value.field(name).as_int().unwrap_or(0).to_string();
    let texts = |value: &Value| value.as_str().unwrap_or("").to_string();
    let mut table = TextTable::new(["COUNT", "BYTES"].map(str::to_string).into_iter());
    if by.is_empty() {
        table.row([number(&counted, "count"), number(&counted, "bytes")]);
    } else {
        let columns = counted.list_at(&["groupBy"]).iter().map(texts);
        table = TextTable::new(columns.chain(["COUNT", "BYTES"].map(str::to_string)));
        for group in counted.list_at(&["groups"]) {
            let values = group.list_at(&["values"]).iter().map(texts);
            table.row(values.chain([number(group, "count"), number(group, "bytes")]));
        }
    }
    table.lines().iter().for_each(|line| say(line));
    Ok(())
}

/// `get` and `top-n`.
fn get(api: &Api, matches: &ArgMatches) -> Result<(), String> {
    let (path, mut query) = selection(api, matches)?;
    let (by, fields) = (given(matches, "by"), given(matches, "fields"));
    // The columns of an order are the fields that it is by, if the command names no others.
    let columns = match (fields, by) {
        ("", by) => by.split(',').map(|path| path.trim_start_matches('-')).collect::<Vec<_>>().join(","),
        (fields, _) => fields.to_string(),
    };
    let always = ["metadata.namespace", "metadata.name", "metadata.creationTimestamp"];
    let columns: Vec<&str> = table::paths(&columns).into_iter().filter(|path| !always.contains(path)).collect();
    let asked = [&always[2..], &columns[..]].concat().join(",");
    query.extend([("sortBy", by), ("fields", &asked)]);
    let items = pages(api, &path, &query, limit(matches))?;
    show(&items, &columns, false)
}

fn find(api: &Api, matches: &ArgMatches) -> Result<(), String> {
    let terms: Vec<String> =
        matches.get_many::<String>("query").into_iter().flatten().map(|term| quoted(term)).collect();
    let terms = terms.join(" ");
    let path = [GROUP, "find"].join("/");
    let items = pages(api, &path, &[("q", &terms)], limit(matches))?;
    show(&items, &[], true)
}

/// A term that the shell has kept together, with the quotation marks that it needs in a query.
fn quoted(term: &str) -> String {
    let has_space = term.contains(char::is_whitespace) && !term.contains('"');
    match term.split_once(':') {
        Some((key, text)) if has_space => [key, ":\"", text, "\""].concat(),
        _ if has_space => ["\"", term, "\""].concat(),
        _ => term.to_string(),
    }
}

fn limit(matches: &ArgMatches) -> usize {
    matches.get_one::<usize>("limit").copied().unwrap_or(PAGE)
}

/// The items of as many pages as are needed.
fn pages(api: &Api, path: &str, query: &[(&str, &str)], limit: usize) -> Result<Vec<Value>, String> {
    let (mut items, mut token) = (Vec::new(), String::new());
    while items.len() < limit {
        let page = PAGE.min(limit - items.len()).to_string();
        let answer = api.get(path, &[query, &[("limit", &page), ("continue", &token)]].concat())?;
        items.extend_from_slice(answer.list_at(&["items"]));
        token = answer.str_at(&["metadata", "continue"]).to_string();
        if token.is_empty() {
            break;
        }
    }
    items.truncate(limit);
    Ok(items)
}

fn show(items: &[Value], columns: &[&str], with_kind: bool) -> Result<(), String> {
    if items.is_empty() {
        say("nothing found");
        return Ok(());
    }
    let now = object::Clock::now(&SystemClock);
    let has_namespaces = items.iter().any(|item| !item.str_at(&["metadata", "namespace"]).is_empty());
    let kind = ["KIND"].into_iter().filter(|_| with_kind);
    let namespace = ["NAMESPACE"].into_iter().filter(|_| has_namespaces);
    let heads = kind.chain(namespace).chain(["NAME"]).map(str::to_string);
    let mut table = TextTable::new(heads.chain(columns.iter().map(|path| path.to_string())).chain(["AGE".to_string()]));
    for item in items {
        let text = |path: &[&str]| item.str_at(path).to_string();
        let kind = Some(table::kind(item)).filter(|_| with_kind);
        let namespace = Some(text(&["metadata", "namespace"])).filter(|_| has_namespaces);
        let cells = kind.into_iter().chain(namespace).chain([text(&["metadata", "name"])]);
        let fields = columns.iter().map(|path| table::cell(item, path));
        let age = table::age(item.str_at(&["metadata", "creationTimestamp"]), now);
        table.row(cells.chain(fields).chain([age]));
    }
    table.lines().iter().for_each(|line| say(line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_stay_together() {
        for (term, want) in [
            ("web", "web"),
            ("label:app=web", "label:app=web"),
            ("text:two words", "text:\"two words\""),
            ("two words", "\"two words\""),
            ("text:\"two words\" web", "text:\"two words\" web"),
        ] {
            assert_eq!(quoted(term), want);
        }
    }
}
