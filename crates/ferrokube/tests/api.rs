//! What the crate exports, in `tests/api.txt`: a change of it is seen in review, and needs another version if something goes away.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

use std::fmt::Write;
use std::path::Path;

/// The public items of a file, each in one line without its body.
fn items(text: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        let item = match open.take() {
            Some(begun) => format!("{begun} {line}"),
            None if line.starts_with("pub ") && !line.starts_with("pub mod") => line.to_string(),
            None => continue,
        };
        let is_whole = match item.starts_with("pub use ") {
            true => item.ends_with(';'),
            false if item.contains("fn ") => item.ends_with('{'),
            false => item.ends_with(['{', ';', '}', ',']),
        };
        match is_whole {
            true => items.push(item.trim_end_matches(['{', ' ', ',']).replace("( ", "(").replace(", )", ")")),
            false => open = Some(item),
        }
    }
    items
}

#[test]
fn the_exported_items_are_those_that_are_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(folder.join("src")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut listing = String::new();
    // Modules that are not public and of which nothing is exported are the program's own business.
    for file in files.iter().filter(|file| !file.ends_with("leader.rs") && !file.ends_with("values.rs")) {
        writeln!(listing, "{}", file.file_name().unwrap().to_string_lossy()).unwrap();
        for item in items(&std::fs::read_to_string(file).unwrap()) {
            writeln!(listing, "    {item}").unwrap();
        }
    }
    let listed = std::fs::read_to_string(folder.join("tests/api.txt")).unwrap_or_default();
    assert!(listing == listed, "put this into tests/api.txt if it is meant:\n{listing}");
}
