//! Tidiness as a test: which crate may use which, how long files and functions get, and what must not be in the tree.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates from the bottom up. A crate may use only crates of lower rows; those of one row do not know each other.
const LAYERS: &[&[&str]] = &[
    &["files", "goregex", "metrics", "object", "spans", "streams"],
    &["schema", "request", "descriptions", "storage"],
    &["codec", "cache", "flow", "storage-embedded", "storage-etcd"],
    &["cel", "patch", "outbound"],
    &["registry", "audit"],
    &["kinds", "admission", "authn", "authz"],
    &["rest"],
    &["aggregator"],
    &["peers"],
    &["crd", "discovery", "bootstrap", "standalone", "server"],
    &["apiserver"],
    &["testing", "difftest"],
    &["clients", "bench", "cluster", "hostile"],
    &["xtask"],
];

/// Files that are longer than they should be. This list may only get shorter.
const LONG_FILES: &[&str] = &[];
const LINES_MAX: usize = 700;
/// Functions that are longer than a screen. This list may only get shorter.
const LONG_FUNCTIONS: &[&str] = &["histories_that_can_be_explained_and_others"];
const FUNCTION_LINES_MAX: usize = 80;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn git_files() -> Vec<String> {
    let output = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

fn sources() -> Vec<(String, String)> {
    let rust = git_files().into_iter().filter(|file| file.ends_with(".rs"));
    rust.filter_map(|file| std::fs::read_to_string(root().join(&file)).ok().map(|text| (file, text))).collect()
}

#[test]
fn dependencies_point_down() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let layer: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(row, names)| names.iter().map(move |name| (*name, row))).collect();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(row) = layer.get(name) else {
            wrong.push(format!("{name} has no place in LAYERS"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let is_dev = dependency["kind"].as_str() == Some("dev");
            if let Some(below) = layer.get(used).filter(|below| *below >= row && !is_dev) {
                wrong.push(format!("{name} (row {row}) uses {used} (row {below})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_and_functions_fit_their_readers() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let lines = text.lines().count();
        let is_test = file.contains("/tests/") || file.ends_with("tests.rs") || file.contains("/benches/");
        if lines > LINES_MAX && !is_test && !LONG_FILES.contains(&file.as_str()) {
            wrong.push(format!("{file} has {lines} lines"));
        }
        if is_test {
            continue;
        }
        for (name, length) in functions(&text) {
            if length > FUNCTION_LINES_MAX && !LONG_FUNCTIONS.contains(&name.as_str()) {
                wrong.push(format!("{file}: fn {name} has {length} lines"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Names and lengths of functions, by indentation: rustfmt closes a function where it opened it.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let signature = ["pub ", "pub(crate) ", "pub(super) ", "async ", "const "]
            .iter()
            .fold(trimmed, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        let Some(rest) = signature.strip_prefix("fn ") else { continue };
        let indent = &line[..line.len() - trimmed.len()];
        let end = lines[start..].iter().position(|l| *l == format!("{indent}}}"));
        let name = rest.split(['(', '<']).next().unwrap_or("").to_string();
        found.extend(end.map(|end| (name, end + 1)));
    }
    found
}

#[test]
fn nothing_is_left_behind() {
    let own = "xtask/tests/tidy.rs";
    let mut wrong = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| file != own) {
        for (number, line) in text.lines().enumerate() {
            let bad = ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "dbg!(", "#[ignore"];
            if let Some(word) = bad.iter().find(|word| line.contains(**word)) {
                wrong.push(format!("{file}:{}: {word}", number + 1));
            }
        }
    }
    for file in git_files() {
        let Ok(text) = std::fs::read_to_string(root().join(&file)) else { continue };
        let home = ["/root/", "/work/", "/Users/"];
        if file != own && home.iter().any(|path| text.contains(path)) {
            wrong.push(format!("{file} names a path of somebody's machine"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every source file is reached by a `mod` line somewhere, so none is dead.
#[test]
fn every_file_belongs_somewhere() {
    let sources: BTreeMap<String, String> = sources().into_iter().collect();
    let mut wrong = Vec::new();
    for file in sources.keys().filter(|file| file.contains("/src/")) {
        let path = Path::new(file);
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if matches!(stem, "lib" | "main") || file.contains("/src/bin/") {
            continue;
        }
        let (name, folder) = match stem {
            "mod" => (
                path.parent().unwrap().file_name().unwrap().to_str().unwrap(),
                path.parent().unwrap().parent().unwrap(),
            ),
            stem => (stem, path.parent().unwrap()),
        };
        let parents = ["lib.rs", "main.rs", "mod.rs"].map(|parent| folder.join(parent));
        let sibling = folder.with_extension("rs");
        let declared = parents.iter().chain([&sibling]).any(|parent| {
            let text = sources.get(parent.to_str().unwrap());
            text.is_some_and(|text| text.contains(&format!("mod {name};")))
        });
        // A test module may sit beside its file under another name.
        let file_name = path.file_name().unwrap().to_str().unwrap();
        let declared = declared || sources.values().any(|text| text.contains(&format!("#[path = \"{file_name}\"]")));
        if !declared {
            wrong.push(file.clone());
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The table in ARCHITECTURE.md and both lists in Cargo.toml have the crates in the same order.
#[test]
fn crates_are_listed_in_one_order() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let (architecture, manifest) = (read("ARCHITECTURE.md"), read("Cargo.toml"));
    let table = architecture.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
    let table: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    let listed = |from: &str, to: &str, before: &str| -> Vec<String> {
        let lines = manifest.lines().skip_while(|line| !line.starts_with(from)).skip(1);
        let names = lines.take_while(|line| !line.starts_with(to)).filter_map(|line| line.split_once(before));
        names.filter_map(|(_, rest)| rest.split('"').next()).map(str::to_string).collect()
    };
    let members = listed("members = [", "]", "\"crates/");
    let dependencies = listed("[workspace.dependencies]", "[", "path = \"crates/");
    assert_eq!(members, table.iter().copied().filter(|name| *name != "xtask").collect::<Vec<_>>());
    assert_eq!(dependencies, members.iter().filter(|name| dependencies.contains(name)).cloned().collect::<Vec<_>>());
}
