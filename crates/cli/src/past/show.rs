//! What the commands print.

use std::io::IsTerminal;

use object::Value;

use crate::say;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// A table of changes, each with its patch below it.
pub fn changes(list: &Value) -> Result<(), String> {
    let items = list.list_at(&["items"]);
    if items.is_empty() {
        say("no changes are recorded");
    }
    for change in items {
        say(&headline(change));
        for operation in change.list_at(&["patch"]) {
            say(&format!(
                "    {} {} {}",
                operation.str_at(&["op"]),
                operation.str_at(&["path"]),
                shown(operation.field("value"))
            ));
        }
    }
    if !list.str_at(&["metadata", "continue"]).is_empty() {
        say("there are older changes: --limit shows more, --until goes back");
    }
    Ok(())
}

fn headline(change: &Value) -> String {
    let text = |name: &str| printable(change.str_at(&[name]));
    let user = match (text("user"), text("impersonator")) {
        (user, _) if user.is_empty() => "(unknown)".to_string(),
        (user, by) if by.is_empty() => user,
        (user, by) => format!("{user} (as which {by} acted)"),
    };
    let verb = match (text("verb"), text("subresource")) {
        (verb, part) if part.is_empty() => verb,
        (verb, part) => format!("{verb} {part}"),
    };
    let line = [text("revision"), text("time"), text("operation"), user, verb, text("userAgent")];
    line.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("  ")
}

/// Changes of all kinds, a line each.
pub fn table(changes: &[Value]) {
    let colours = std::io::stdout().is_terminal();
    for change in changes {
        let line = [headline(change), object_of(change)].join("  ");
        say(&coloured(change.str_at(&["operation"]), &line, colours));
    }
}

/// A line in the colour of what it says happens to an object.
fn coloured(operation: &str, line: &str, colours: bool) -> String {
    match operation {
        "Created" | "Create" if colours => format!("{GREEN}{line}{PLAIN}"),
        "Deleted" if colours => format!("{RED}{line}{PLAIN}"),
        _ => line.to_string(),
    }
}

/// The object that a change or an item of a restore is about.
fn object_of(item: &Value) -> String {
    let text = |name: &str| printable(item.str_at(&["object", name]));
    let group = if text("group").is_empty() { String::new() } else { [".", &text("group")].concat() };
    let place = if text("namespace").is_empty() { String::new() } else { [&text("namespace"), "/"].concat() };
    [&text("resource"), &group, " ", &place, &text("name")].concat()
}

/// A restore that was tried out: how each object would differ, and what there is to know.
pub fn planned(answer: &Value) {
    for item in answer.list_at(&["items"]) {
        let name = object_of(item);
        difference(&name, item.field("before"), item.field("after"));
        for (field, what) in [("note", ""), ("error", "refused: ")] {
            let text = printable(item.str_at(&[field]));
            if !text.is_empty() {
                say(&format!("{name}: {what}{text}"));
            }
        }
    }
}

/// A restore that was made.
pub fn restored(answer: &Value) {
    let colours = std::io::stdout().is_terminal();
    let items = answer.list_at(&["items"]);
    if items.iter().all(|item| item.str_at(&["operation"]) == "None") {
        say("it is what it was: nothing had to be changed");
    }
    for item in items {
        let operation = item.str_at(&["operation"]);
        let verb = match operation {
            "Create" => "created",
            "Update" => "replaced",
            _ => continue,
        };
        let line = format!("{} {verb} at revision {}", object_of(item), printable(item.str_at(&["resourceVersion"])));
        say(&coloured(operation, &line, colours));
    }
}

/// Each field with its last change.
pub fn blame(answer: &Value) -> Result<(), String> {
    for field in answer.list_at(&["fields"]) {
        let change = field.field("change");
        let by = match change.is_null() {
            true => "before the history began".to_string(),
            false => headline(change),
        };
        say(&format!("{}: {}\n    {by}", printable(field.str_at(&["path"])), shown(field.field("value"))));
    }
    Ok(())
}

/// How two states of an object differ, as lines of JSON; nothing if they do not.
pub fn difference(name: &str, before: &Value, after: &Value) {
    let (before, after) = (lines(before), lines(after));
    if before == after {
        return;
    }
    say(&format!("--- {}", printable(name)));
    let colours = std::io::stdout().is_terminal();
    for (sign, line) in compared(&before, &after) {
        match (sign, colours) {
            ('-', true) => say(&format!("{RED}-{line}{PLAIN}")),
            ('+', true) => say(&format!("{GREEN}+{line}{PLAIN}")),
            (sign, _) => say(&format!("{sign}{line}")),
        }
    }
}

/// An object as lines, without what every write changes.
fn lines(object: &Value) -> Vec<String> {
    if object.is_null() {
        return Vec::new();
    }
    let mut object = object.clone();
    for field in ["managedFields", "resourceVersion"] {
        object.remove(&["metadata", field]);
    }
    let mut json = Vec::new();
    codec::json::encode_pretty(&object, None, &mut json);
    String::from_utf8_lossy(&json).lines().map(printable).collect()
}

/// Longer texts are compared as a whole: the comparison takes as much memory as one has lines times the other.
const COMPARED_LINES_MAX: usize = 3000;

/// The lines of both, in order: a space before those that are the same.
fn compared<'l>(before: &'l [String], after: &'l [String]) -> Vec<(char, &'l str)> {
    if before.len() > COMPARED_LINES_MAX || after.len() > COMPARED_LINES_MAX {
        let old = before.iter().map(|line| ('-', line.as_str()));
        return old.chain(after.iter().map(|line| ('+', line.as_str()))).collect();
    }
    // The length of the longest common sequence of what follows each pair of lines.
    let width = after.len() + 1;
    let mut common = vec![0u16; (before.len() + 1) * width];
    for one in (0..before.len()).rev() {
        for two in (0..after.len()).rev() {
            common[one * width + two] = match before[one] == after[two] {
                true => common[(one + 1) * width + two + 1] + 1,
                false => common[(one + 1) * width + two].max(common[one * width + two + 1]),
            };
        }
    }
    let (mut one, mut two, mut found) = (0, 0, Vec::new());
    while one < before.len() || two < after.len() {
        if one < before.len() && two < after.len() && before[one] == after[two] {
            found.push((' ', before[one].as_str()));
            (one, two) = (one + 1, two + 1);
        } else if two == after.len()
            || one < before.len() && common[(one + 1) * width + two] >= common[one * width + two + 1]
        {
            found.push(('-', before[one].as_str()));
            one += 1;
        } else {
            found.push(('+', after[two].as_str()));
            two += 1;
        }
    }
    found
}

fn shown(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    let mut json = Vec::new();
    codec::json::encode(value, None, &mut json);
    printable(&String::from_utf8_lossy(&json))
}

/// Text of objects must not steer a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_the_lines_that_are_not_in_both() {
        let lines = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_string).collect() };
        for (before, after, want) in [
            ("a b c", "a x c", " a -b +x  c"),
            ("", "a", "+a"),
            ("a", "", "-a"),
            ("a b", "b c", "-a  b +c"),
            ("a a", "a a", " a  a"),
        ] {
            let (before, after) = (lines(before), lines(after));
            let found: Vec<String> =
                compared(&before, &after).iter().map(|(sign, line)| format!("{sign}{line}")).collect();
            assert_eq!(found.join(" "), want);
        }
    }

    #[test]
    fn text_that_would_steer_a_terminal_is_shown_as_text() {
        assert_eq!(printable("a\x1b[2Jb\u{7}"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
