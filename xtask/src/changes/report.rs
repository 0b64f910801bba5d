//! The report: a table for each kind of change, and what is left to do by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};

use super::published::PublishedVersion;

/// A version's name and what is published of it.
type NamedVersion<'n> = (&'n str, &'n PublishedVersion);

pub fn write((before, old): NamedVersion<'_>, (after, new): NamedVersion<'_>, minor: &str, missing: &[&str]) -> String {
    let mut report = ChangeReport { text: String::new() };
    report.line(format_args!("# What {after} changes\n"));
    report.line(format_args!(
        "Written by `cargo xtask changes {before} {after}` from the published modules of both: compared are protobuf descriptions, lifecycles, feature gates and declared rules."
    ));
    if !missing.is_empty() {
        report.line(format_args!("Not published for one of them, and so left out for both: {}.", missing.join(", ")));
    }
    report.line(format_args!(
        "\nValidation and defaults in Go, gates of `pkg/features`, flags, default roles and recorded answers are in `k8s.io/kubernetes`: `cargo xtask record` has them once that is published.\n"
    ));
    groups(&mut report, old, new);
    lifecycles(&mut report, old, new, minor);
    let added = fields(&mut report, old, new);
    gates(&mut report, old, new);
    rules(&mut report, old, new);
    by_hand(&mut report, new, &added);
    report.text
}

struct ChangeReport {
    text: String,
}

impl ChangeReport {
    fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// A section with a list, or that there is nothing.
    fn section(&mut self, title: &str, lines: &[String]) {
        self.line(format_args!("## {title}\n"));
        match lines {
            [] => self.line("None."),
            lines => lines.iter().for_each(|line| self.line(format_args!("- {line}"))),
        }
        self.line("");
    }
}

/// `k8s.io.api.apps.v1` of a message's name.
fn package(message: &str) -> &str {
    message.rsplit_once('.').map_or("", |(package, _)| package)
}

/// `apps/v1` of `k8s.io.api.apps.v1`.
fn short(package: &str) -> String {
    let parts: Vec<&str> = package.rsplitn(3, '.').collect();
    match parts[..] {
        [version, group, ..] => format!("{group}/{version}"),
        _ => package.to_string(),
    }
}

fn groups(report: &mut ChangeReport, old: &PublishedVersion, new: &PublishedVersion) {
    let packages = |published: &PublishedVersion| -> BTreeSet<String> {
        published.messages.keys().map(|message| short(package(message))).collect()
    };
    let (before, after) = (packages(old), packages(new));
    let added = after.difference(&before).map(|name| format!("new: `{name}`"));
    let removed = before.difference(&after).map(|name| format!("removed: `{name}`"));
    report.section("Groups and versions", &added.chain(removed).collect::<Vec<_>>());
}

fn lifecycles(report: &mut ChangeReport, old: &PublishedVersion, new: &PublishedVersion, minor: &str) {
    let mut lines = Vec::new();
    for (kind, lifecycle) in &new.lifecycles {
        let before = old.lifecycles.get(kind);
        if before.is_none() {
            lines.push(format!("`{kind}`: new, introduced {}", lifecycle.get("introduced").map_or("", String::as_str)));
            continue;
        }
        let is_due = |what: &&str| lifecycle.get(what).is_some_and(|release| release == minor);
        for what in ["deprecated", "removed"].into_iter().filter(is_due) {
            lines.push(format!("`{kind}`: {what} in {minor}"));
        }
        for (what, release) in lifecycle {
            let was = before.and_then(|before| before.get(what)).map_or("not stated", String::as_str);
            if was != release {
                lines.push(format!("`{kind}`: {what} {release}, was {was}"));
            }
        }
    }
    let gone = old.lifecycles.keys().filter(|kind| !new.lifecycles.contains_key(*kind));
    lines.extend(gone.map(|kind| format!("`{kind}`: its type is gone")));
    report.section("Kinds that come, are deprecated or go", &lines);
}

/// Tells about fields, and returns the new ones.
fn fields(report: &mut ChangeReport, old: &PublishedVersion, new: &PublishedVersion) -> Vec<String> {
    let (mut lines, mut added) = (Vec::new(), Vec::new());
    let none = BTreeMap::new();
    let names: BTreeSet<&String> = old.messages.keys().chain(new.messages.keys()).collect();
    for name in names.into_iter() {
        let shown = format!("{} {}", short(package(name)), name.rsplit('.').next().unwrap_or(name));
        let (before, after) = (old.messages.get(name), new.messages.get(name));
        match (before.is_some(), after.is_some()) {
            (false, _) => lines.push(format!("new message `{shown}`")),
            (_, false) => {
                lines.push(format!("removed message `{shown}`"));
                continue;
            }
            _ => {}
        }
        let (before, after) = (before.unwrap_or(&none), after.unwrap_or(&none));
        for (field, tag) in after {
            match before.get(field) {
                None => {
                    lines.push(format!("new field `{shown}.{field}` ({tag})"));
                    added.push(format!("{shown}.{field}"));
                }
                Some(was) if was != tag => lines.push(format!("changed field `{shown}.{field}`: {tag}, was {was}")),
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|field| !after.contains_key(*field));
        lines.extend(gone.map(|field| format!("removed field `{shown}.{field}`")));
    }
    report.section("Messages and fields, with their protobuf tags", &lines);
    added
}

fn gates(report: &mut ChangeReport, old: &PublishedVersion, new: &PublishedVersion) {
    let mut lines = Vec::new();
    for (gate, states) in &new.gates {
        match old.gates.get(gate) {
            None => lines.push(format!("new `{gate}`: {}", states.join(", "))),
            Some(before) if before != states => {
                lines.push(format!("`{gate}`: {}, was {}", states.join(", "), before.join(", ")));
            }
            Some(_) => {}
        }
    }
    lines
        .extend(old.gates.keys().filter(|gate| !new.gates.contains_key(*gate)).map(|gate| format!("removed `{gate}`")));
    report.section("Feature gates of the published modules", &lines);
}

fn rules(report: &mut ChangeReport, old: &PublishedVersion, new: &PublishedVersion) {
    let count = |published: &PublishedVersion| published.rules.values().map(BTreeSet::len).sum::<usize>();
    let none = BTreeSet::new();
    let mut lines = vec![format!("{} rules, {} before", count(new), count(old))];
    let places: BTreeSet<&String> = old.rules.keys().chain(new.rules.keys()).collect();
    for place in places {
        let (before, after) = (old.rules.get(place).unwrap_or(&none), new.rules.get(place).unwrap_or(&none));
        let quoted =
            |rules: Vec<&String>| rules.into_iter().map(|rule| format!("`{rule}`")).collect::<Vec<_>>().join(", ");
        let (added, gone) = (quoted(after.difference(before).collect()), quoted(before.difference(after).collect()));
        if !added.is_empty() || !gone.is_empty() {
            let (added, gone) = (if added.is_empty() { "nothing".into() } else { added }, gone);
            let was = if gone.is_empty() { String::new() } else { format!(", instead of {gone}") };
            lines.push(format!("`{place}`: {added}{was}"));
        }
    }
    report.section("Declared rules", &lines);
}

/// New fields need a default and rules in code, unless a rule is declared for them; which ones upstream has is not published yet.
fn by_hand(report: &mut ChangeReport, new: &PublishedVersion, added: &[String]) {
    let (declared, bare): (Vec<&String>, Vec<&String>) = added.iter().partition(|field| new.rules.contains_key(*field));
    let mut lines = vec![format!("{} new fields have declared rules, {} have none", declared.len(), bare.len())];
    lines.extend(bare.into_iter().map(|field| format!("`{field}`: rules, default and the gate that drops it")));
    report.section("By hand", &lines);
}
