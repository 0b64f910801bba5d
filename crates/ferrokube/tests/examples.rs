//! Runs every example.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::path::Path;
use std::process::Command;

#[test]
fn examples_run() {
    let mut names: Vec<String> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"))
        .unwrap()
        .filter_map(|file| file.unwrap().path().file_stem().map(|name| name.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    // Cargo builds examples with the tests of their package, into the folder beside that of the tests.
    let folder = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    for name in names {
        let output = Command::new(folder.join(&name)).output().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
