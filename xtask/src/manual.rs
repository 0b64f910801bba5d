//! `cargo xtask manual`: the manual as a book, in `target/manual`, and a check that its links lead somewhere. mdBook is installed into the cache of
//! tools when it is needed first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::components;
use crate::conformance::{succeed, target_folder};
use crate::dist::workspace;

const VERSION: &str = "0.5.4";
/// Pages that mdBook makes of others: all chapters in one, and what a web server shows for addresses that are not there.
const MADE: [&str; 2] = ["print.html", "404.html"];

pub fn run() -> Result<String, String> {
    let folder = target_folder().join("manual");
    let mut mdbook = Command::new(mdbook()?);
    let said = succeed("mdbook", mdbook.arg("build").arg(workspace().join("docs")).arg("--dest-dir").arg(&folder))?;
    if let Some(line) = said.lines().find(|line| line.contains("WARN") || line.contains("ERROR")) {
        return Err(format!("mdBook says: {line}"));
    }
    let pages = pages(&folder)?;
    let (mut wrong, mut links) = (Vec::new(), 0);
    for (path, text) in pages.iter().filter(|(path, _)| !MADE.iter().any(|made| path.ends_with(made))) {
        for link in references(text) {
            links += 1;
            if let Err(why) = follow(&folder, &pages, path, link) {
                wrong.push(format!("{}: {link} {why}", path.display()));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    match wrong.is_empty() {
        true => Ok(format!("{}: {} pages, {links} links", folder.join("index.html").display(), pages.len())),
        false => Err(wrong.join("\n")),
    }
}

/// The program, installed if it is not there.
fn mdbook() -> Result<PathBuf, String> {
    let root = components::cache()?.join("mdbook").join(VERSION);
    let program = root.join("bin/mdbook");
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("    mdbook {VERSION} into {}", root.display());
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "--quiet", "--locked", "--debug", "--no-default-features", "--features", "search"]);
    cargo.args(["--version", VERSION, "mdbook", "--root"]).arg(&root);
    // Its build has nothing to do with ours.
    succeed("cargo install mdbook", cargo.env_remove("CARGO_TARGET_DIR").current_dir(std::env::temp_dir()))?;
    Ok(program)
}

/// All pages of the book, by their paths in it.
fn pages(folder: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let read = fs::read_dir(folder.join(&below)).map_err(|error| format!("{}: {error}", below.display()))?;
        for entry in read.flatten() {
            let path = below.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let text = fs::read_to_string(entry.path()).map_err(|error| format!("{}: {error}", path.display()))?;
                pages.insert(path, text);
            }
        }
    }
    Ok(pages)
}

/// Where a page refers to: the values of `href` and `src`.
fn references(page: &str) -> Vec<&str> {
    let values = |name: &'static str| page.split(name).skip(1).filter_map(|rest| rest.split('"').next());
    values(" href=\"").chain(values(" src=\"")).collect()
}

/// Whether a reference of a page leads to a file, and to an element of it if it names one. Those to other sites are not followed.
fn follow(folder: &Path, pages: &BTreeMap<PathBuf, String>, page: &Path, link: &str) -> Result<(), &'static str> {
    if link.contains("://") || ["mailto:", "data:", "javascript:"].iter().any(|scheme| link.starts_with(scheme)) {
        return Ok(());
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_path_buf(),
        path => resolved(&page.parent().unwrap_or(Path::new("")).join(path)).ok_or("leaves the book")?,
    };
    if !folder.join(&target).exists() {
        return Err("is not there");
    }
    match pages.get(&target) {
        Some(text) if !anchor.is_empty() && !text.contains(&format!("id=\"{anchor}\"")) => Err("has no such heading"),
        _ => Ok(()),
    }
}

/// A path without `..`; None if it leaves the folder that it begins in.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !plain.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed() {
        let text = r##"<a href="b/c.html#x">, <a href="https://elsewhere/">, <img src="d.svg"> <h2 id="y">"##;
        assert_eq!(references(text), ["b/c.html#x", "https://elsewhere/", "d.svg"]);
        let folder = std::env::temp_dir();
        let pages = BTreeMap::from([(PathBuf::from("a.html"), text.to_string())]);
        let check = |link: &str| follow(&folder, &pages, Path::new("a.html"), link);
        assert_eq!(check("https://elsewhere/"), Ok(()));
        assert_eq!(check("../etc"), Err("leaves the book"));
        assert_eq!(check("not/there.html"), Err("is not there"));
        assert_eq!(resolved(Path::new("a/../b/./c")), Some("b/c".into()));
    }
}
