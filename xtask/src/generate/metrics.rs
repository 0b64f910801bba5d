//! `docs/reference/metrics.md`: the metrics of kube-apiserver and which of them are shown here, from the list that a test compares with
//! what a running server shows.

use super::Result;

const TITLE: &str = "\
# Metrics

`cargo xtask generate` writes this page from `crates/apiserver/data/metrics.txt`, which a test compares with what a server shows. These are the metrics
that a kube-apiserver of v1.37 shows after its first requests; what counts failures appears with the first failure, here as there.
";

/// What a mark in the list means.
const PARTS: &[(&str, &str, &str)] = &[
    ("", "Shown", "after the first requests"),
    ("seldom", "Shown when there is something to count", "once there are"),
    ("none", "Not shown, because there is nothing of the kind", "what it would measure"),
];

pub fn page(list: &str) -> Result<String> {
    let mut rows = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut words = line.splitn(4, ' ');
        let (Some(name), Some(kind)) = (words.next(), words.next()) else {
            return Err(format!("{line} is not a name and a type"));
        };
        rows.push((words.next().unwrap_or(""), name, kind, words.next().unwrap_or("")));
    }
    let mut page = TITLE.to_string();
    for (mark, heading, about) in PARTS {
        let of_part = || rows.iter().filter(|(marked, ..)| marked == mark);
        let has_notes = of_part().any(|(.., note)| !note.is_empty());
        page += &format!("\n## {heading}\n\n");
        page += &if has_notes {
            format!("| metric | type | {about} |\n|---|---|---|\n")
        } else {
            "| metric | type |\n|---|---|\n".into()
        };
        for (_, name, kind, note) in of_part() {
            page += &if has_notes {
                format!("| `{name}` | {kind} | {note} |\n")
            } else {
                format!("| `{name}` | {kind} |\n")
            };
        }
    }
    match rows.iter().find(|(marked, ..)| !PARTS.iter().any(|(mark, ..)| mark == marked)) {
        Some((mark, name, ..)) => Err(format!("{name} has the unknown mark {mark}")),
        None => Ok(page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_one_part() {
        let made = page("# a comment\na counter\nb gauge seldom leases\nd gauge none the queues\n").unwrap();
        for row in ["| `a` | counter |\n", "| `b` | gauge | leases |\n", "| `d` | gauge | the queues |\n"] {
            assert_eq!(made.matches(row).count(), 1, "{row}\n{made}");
        }
        assert!(page("a").is_err());
        assert!(page("a counter often").is_err());
    }
}
