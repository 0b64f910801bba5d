//! `cargo xtask version X.Y.Z`: makes the workspace that version. It is in `[workspace.package]`, and from there in what names it: the dependencies of our crates on
//! each other, manifests, and pages that say how to install a release. What is under "Unreleased" in the changelog becomes the version's section.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::conformance::{standard_output, succeed};
use crate::dist::{VERSION, workspace};

/// Where the version is named besides Cargo.toml.
const NAMED_IN: [&str; 4] = ["deploy", "docs/install.md", "docs/testing", "testing/java"];
const UNRELEASED: &str = "## Unreleased\n";

pub fn run(new: &str) -> Result<String, String> {
    if !is_version(new) {
        return Err(format!("{new} is no version like {VERSION}"));
    }
    change("Cargo.toml", |text| in_manifest(text, new))?;
    let mut git = Command::new("git");
    let listed = standard_output("git ls-files", git.arg("ls-files").args(NAMED_IN).current_dir(workspace()))?;
    let mut changed = 0;
    for file in listed.lines() {
        // Archives and pictures name no version.
        let Ok(text) = fs::read_to_string(workspace().join(file)) else { continue };
        let renamed = renamed(&text, new);
        if renamed != text {
            change(file, |_| Ok(renamed.clone()))?;
            changed += 1;
        }
    }
    let today = standard_output("date", Command::new("date").args(["-u", "+%F"]))?;
    change("CHANGELOG.md", |text| in_changelog(text, new, today.trim()))?;
    // The lock file has the version of each of our crates.
    let mut cargo = Command::new("cargo");
    succeed("cargo update", cargo.args(["update", "--workspace", "--offline"]).current_dir(workspace()))?;
    Ok(format!("{VERSION} is {new} in Cargo.toml, CHANGELOG.md and {changed} other files"))
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| part.parse::<u32>().is_ok_and(|number| number.to_string() == **part);
    parts.len() == 3 && parts.iter().all(is_number)
}

fn change(file: &str, edit: impl Fn(&str) -> Result<String, String>) -> Result<(), String> {
    let path = workspace().join(Path::new(file));
    let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
    fs::write(&path, edit(&text)?).map_err(|error| format!("{file}: {error}"))
}

fn in_manifest(text: &str, new: &str) -> Result<String, String> {
    let own = format!("\nversion = \"{VERSION}\"\n");
    if text.matches(&own).count() != 1 {
        return Err(format!("Cargo.toml does not have the version {VERSION} once"));
    }
    let text = text.replace(&own, &format!("\nversion = \"{new}\"\n"));
    Ok(text.replace(&format!("version = \"={VERSION}\""), &format!("version = \"={new}\"")))
}

/// The text with the version wherever it stands by itself: not in an address, nor in a longer version.
fn renamed(text: &str, new: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(VERSION) {
        let (before, after) = (&rest[..at], &rest[at + VERSION.len()..]);
        let continues = |c: char| c.is_ascii_digit() || c == '.';
        let follows = after.chars().next().is_some_and(|c| c.is_ascii_digit())
            || after.strip_prefix('.').is_some_and(|after| after.starts_with(continues));
        out.push_str(before);
        out.push_str(if before.ends_with(continues) || follows { VERSION } else { new });
        rest = after;
    }
    out + rest
}

fn in_changelog(text: &str, new: &str, day: &str) -> Result<String, String> {
    if text.contains(&format!("\n## {new}")) {
        return Err(format!("CHANGELOG.md has a section {new} already"));
    }
    let (before, after) = text.split_once(UNRELEASED).ok_or("CHANGELOG.md has no section \"Unreleased\"")?;
    Ok(format!("{before}{UNRELEASED}\n## {new} - {day}\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_changed_where_they_stand_alone() {
        let check = |text: &str, want: &str| {
            assert_eq!(renamed(&text.replace("{}", VERSION), "9.8.7"), want.replace("{}", VERSION), "{text}");
        };
        check("ferrokube_{}_amd64.deb and ferrokube:{}.", "ferrokube_9.8.7_amd64.deb and ferrokube:9.8.7.");
        check("<version>{}</version>", "<version>9.8.7</version>");
        check("address: 1.{} {}.4 {}1", "address: 1.{} {}.4 {}1");
        let manifest = in_manifest(
            &format!("[workspace.package]\nversion = \"{VERSION}\"\na = {{ version = \"={VERSION}\" }}"),
            "9.8.7",
        );
        assert_eq!(manifest.unwrap(), "[workspace.package]\nversion = \"9.8.7\"\na = { version = \"=9.8.7\" }");
        assert!(is_version("1.20.3") && !is_version("1.2") && !is_version("1.2.3-rc") && !is_version("1.02.3"));
    }

    #[test]
    fn what_was_unreleased_gets_a_section() {
        let text = "# Changelog\n\n## Unreleased\n\n- One.\n\n## 0.0.1\n";
        let changed = in_changelog(text, "0.0.2", "2026-11-20").unwrap();
        assert_eq!(changed, "# Changelog\n\n## Unreleased\n\n## 0.0.2 - 2026-11-20\n\n- One.\n\n## 0.0.1\n");
        assert!(in_changelog(text, "0.0.1", "2026-11-20").is_err());
    }

    /// A version that is forgotten somewhere is found before a release is made.
    #[test]
    fn this_version_can_be_replaced() {
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
        assert!(!in_manifest(&manifest, "9.8.7").unwrap().contains(&format!("\"={VERSION}\"")));
    }
}
