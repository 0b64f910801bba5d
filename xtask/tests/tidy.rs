//! Tidiness as a test: which crate may use which, how long files and functions get, and what must not be in the tree.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates from the bottom up. A crate may use only crates of lower rows; those of one row do not know each other.
const LAYERS: &[&[&str]] = &[
    &["facts", "files", "goregex", "metrics", "object", "spans", "stamp", "streams"],
    &["schema", "request", "descriptions", "storage", "gox509"],
    &["codec", "cache", "flow", "storage-embedded", "storage-etcd", "history"],
    &["cel", "patch", "outbound"],
    &["registry", "audit"],
    &["kinds", "admission", "authn", "authz"],
    &["rest"],
    &["aggregator", "actions"],
    &["peers"],
    &["crd", "discovery", "bootstrap", "standalone", "server"],
    &["console"],
    &["apiserver"],
    &["ferrokube"],
    &["cli", "testing", "difftest"],
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

/// The folder of a package of ours; other names stay what they are.
fn folder(package: &str) -> &str {
    package.strip_prefix("ferrokube-").unwrap_or(package)
}

fn git_files() -> Vec<String> {
    let output = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

fn sources() -> Vec<(String, String)> {
    let rust = git_files().into_iter().filter(|file| file.ends_with(".rs"));
    rust.filter_map(|file| std::fs::read_to_string(root().join(&file)).ok().map(|text| (file, text))).collect()
}

/// What cargo knows of the workspace's packages.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("cargo metadata lists no packages") };
    packages
}

#[test]
fn dependencies_point_down() {
    let layer: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(row, names)| names.iter().map(move |name| (*name, row))).collect();
    let mut wrong = Vec::new();
    for package in &packages() {
        let name = folder(package["name"].as_str().unwrap());
        let Some(row) = layer.get(name) else {
            wrong.push(format!("{name} has no place in LAYERS"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = folder(dependency["name"].as_str().unwrap());
            let is_dev = dependency["kind"].as_str() == Some("dev");
            if let Some(below) = layer.get(used).filter(|below| *below >= row && !is_dev) {
                wrong.push(format!("{name} (row {row}) uses {used} (row {below})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What `cargo publish` asks of a package: a description, categories, and dependencies with a version, all of them published too. Ours are
/// made for each other, so they ask for exactly this version.
#[test]
fn packages_can_be_published() {
    let packages = packages();
    let is_published = |package: &Value| package["publish"].is_null();
    let published: Vec<&str> = packages
        .iter()
        .filter(|package| is_published(package))
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| is_published(package)) {
        let name = package["name"].as_str().unwrap();
        let folder_name = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().file_name().unwrap();
        if folder(name) != folder_name {
            wrong.push(format!("{name} is in the folder {}", folder_name.display()));
        }
        if package["description"].is_null() || package["categories"].as_array().unwrap().is_empty() {
            wrong.push(format!("{name} has no description or no categories"));
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            // Cargo leaves out dependencies of tests that have a path and no version.
            if dependency["path"].is_null() || dependency["kind"] == "dev" && dependency["req"] == "*" {
                continue;
            }
            let exact = format!("={}", package["version"].as_str().unwrap());
            if !published.contains(&used) || dependency["req"].as_str() != Some(exact.as_str()) {
                wrong.push(format!("{name} uses {used} {}, which is not published as {exact}", dependency["req"]));
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
        // Facts about the root of a schema have it in their names.
        let is_ours = file != own && file != "versions/cases/cel.jsonl";
        if is_ours && home.iter().any(|path| text.contains(path)) {
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
        let (name, folder) = (stem, path.parent().unwrap());
        let parents = ["lib.rs", "main.rs"].map(|parent| folder.join(parent));
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

/// How many types of the server have the name of another one. It may only get smaller: a reader who greps a name should find one
/// thing. The crate for other programs is left out, whose users see no other types.
const SHARED_NAMES: usize = 534;
/// How many doc comments begin with "What" instead of saying what it is. It may only get smaller.
const DOCS_WITH_WHAT: usize = 460;

#[test]
fn names_and_comments_only_get_better() {
    let (mut shared, mut seen, mut what) = (0, BTreeSet::new(), 0);
    let counts = |file: &str| is_served(file) && !is_test(file) && !file.starts_with("crates/ferrokube/");
    for (file, text) in sources().into_iter().filter(|(file, _)| counts(file)) {
        let text = text.split("#[cfg(test)]").next().unwrap_or("");
        shared += types(text).filter(|name| !seen.insert(name.to_string())).count();
        what += text.lines().filter(|line| line.trim_start().starts_with("/// What ")).count();
        assert!(!file.ends_with("/mod.rs"), "{file}: a module with a folder is the file beside it");
    }
    assert_eq!(
        shared, SHARED_NAMES,
        "types that have the name of another one: not more; if there are fewer, say so here"
    );
    assert_eq!(what, DOCS_WITH_WHAT, "doc comments that begin with What: not more; if there are fewer, say so here");
}

/// The names of the types that a source declares.
fn types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = ["pub ", "pub(crate) ", "pub(super) "]
            .iter()
            .fold(line, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| line.strip_prefix(word))?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
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

/// The module in which names become a path, checked and escaped.
const PATHS: &str = "crates/request/src/path.rs";

/// Where else `format!` makes a path, a URL, a header, a selector or a file name, how often, and why no text of a client can become more
/// than it is there. This list may only get shorter.
const MADE_WITH_FORMAT: &[(&str, usize, &str)] = &[
    ("crates/aggregator/src/availability.rs", 1, "an address that was resolved, and a path of the module for paths"),
    ("crates/aggregator/src/backend.rs", 1, "an address that was resolved, and a path that the caller made"),
    ("crates/aggregator/src/openapi.rs", 1, "compared with, not asked for"),
    ("crates/actions/src/webhook_token.rs", 1, "compared with, not asked for"),
    ("crates/cli/src/migrate.rs", 1, "the range of keys that a flag names"),
    ("crates/cli/src/serve.rs", 1, "shown to the administrator"),
    ("crates/apiserver/src/components.rs", 1, "shown in an error"),
    ("crates/apiserver/src/debugging/profiling.rs", 1, "shown in an error"),
    ("crates/apiserver/src/kubeconfig.rs", 1, "the server's own address"),
    ("crates/apiserver/src/openid.rs", 2, "the server's own address, and a number"),
    ("crates/apiserver/src/store.rs", 1, "the prefix of keys that a flag names"),
    ("crates/apiserver/src/zpages.rs", 1, "shown: paths that the server has"),
    ("crates/audit/src/backend/rotate.rs", 1, "the time, in the name of a file that a flag names"),
    ("crates/discovery/src/answer.rs", 5, "shown: paths that the server has"),
    ("crates/discovery/src/openapi/routes.rs", 2, "shown: paths that the server has"),
    ("crates/discovery/src/openapi/routes/custom.rs", 1, "shown: paths that the server has"),
    ("crates/discovery/src/openapi/routes/fixed.rs", 1, "shown: paths that the server has"),
    ("crates/history/src/archive.rs", 2, "revisions, in the names of the history's own files"),
    ("crates/outbound/src/credentials.rs", 1, "a token from a file; what is no header value is an error"),
    ("crates/outbound/src/get.rs", 1, "a token; what is no header value is an error"),
    ("crates/outbound/src/otlp.rs", 2, "an endpoint that a file of the administrator names"),
    (
        "crates/outbound/src/webhook.rs",
        3,
        "what is allowed to register webhooks says where they are; the path is cleaned here",
    ),
    (
        "crates/peers/src/peers.rs",
        1,
        "an address from another server's lease, which was parsed, and a path that is written down",
    ),
    ("crates/rest/src/connect/command.rs", 1, "shown in an error"),
    ("crates/rest/src/connect/log.rs", 1, "shown in an error"),
    ("crates/rest/src/list.rs", 1, "the rest of a key, in a continue token that is checked when it comes back"),
    ("crates/server/src/health.rs", 2, "shown: paths that the server has"),
    ("crates/server/src/http_log.rs", 1, "shown in the log"),
    ("crates/storage-etcd/src/connect.rs", 2, "an address that a flag names"),
];

#[test]
fn paths_are_not_made_with_format() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in sources() {
        if !is_served(&file) || file == PATHS || is_test(&file) {
            continue;
        }
        let served = text.split("#[cfg(test)]").next().unwrap_or("");
        found.entry(file).or_default().extend(made_with_format(served));
    }
    let mut wrong = Vec::new();
    for (file, made) in &found {
        let allowed = MADE_WITH_FORMAT.iter().find(|(known, ..)| known == file).map_or(0, |(_, count, _)| *count);
        if made.len() != allowed {
            wrong.push(format!("{file}: {allowed} are listed, there are {made:?}"));
        }
    }
    let gone = MADE_WITH_FORMAT.iter().filter(|(file, ..)| !found.contains_key(*file));
    wrong.extend(gone.map(|(file, ..)| format!("{file} is listed and is not there")));
    assert!(wrong.is_empty(), "request::path makes paths of names: {wrong:#?}");
}

/// Whether a source is part of the server, not of a tool beside it.
fn is_served(file: &str) -> bool {
    let tools = ["clients", "hostile", "testing", "cluster", "bench", "difftest"];
    file.starts_with("crates/") && !tools.iter().any(|tool| file.starts_with(&format!("crates/{tool}/")))
}

fn is_test(file: &str) -> bool {
    ["/tests/", "tests.rs", "/benches/", "testing.rs", "/testing/", "/suite/"].iter().any(|part| file.contains(part))
}

/// The formats in a source that look like paths and URLs, or become headers, selectors or names of files.
fn made_with_format(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("format!(") {
        let Some(quoted) = text[at + "format!(".len()..].trim_start().strip_prefix('"') else { continue };
        let format = quoted.split('"').next().unwrap_or("");
        let is_path = format.starts_with('/') && format.contains('{') || format.contains("/namespaces/{");
        let taken_by =
            ["HeaderValue::from_str(&", "Selector::parse(&", "join(", "join(&", "with_file_name(", "Path::new(&"];
        let is_taken = taken_by.iter().any(|before| text[..at].ends_with(before));
        // The path of a request, put together again, would be another one than that which was authorized.
        let arguments = arguments(&text[at + "format!".len()..]);
        let is_asked = ["info.path", "uri.path()", "uri().path()"].iter().any(|path| arguments.contains(path));
        if is_path || format.contains("://{") || is_taken || is_asked {
            found.push(format.to_string());
        }
    }
    found
}

/// The text between the parentheses with which a text begins.
fn arguments(text: &str) -> &str {
    let mut depth = 0;
    let end = text.char_indices().find(|(_, c)| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// The crates in which an omission can open something.
const DECIDING: [&str; 8] = ["admission", "aggregator", "audit", "authn", "authz", "outbound", "peers", "server"];

/// Where they leave something out, with the reasons.
const OMISSIONS: &str = include_str!("omissions.txt");

/// The rows of a list of known places: file, how many there are, and why.
fn known_places(list: &'static str) -> BTreeMap<&'static str, usize> {
    let rows = list.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.map(|line| {
        let mut parts = line.splitn(3, ' ');
        let (file, count) = (parts.next().unwrap(), parts.next().and_then(|count| count.parse::<usize>().ok()));
        assert!(
            count.is_some() && parts.next().is_some_and(|reason| reason.len() >= 5),
            "no count or no reason: {line}"
        );
        (file, count.unwrap())
    });
    rows.collect()
}

/// Where the server asks the machine for the time or for random numbers, with the reasons.
const CHANCE: &str = include_str!("chance.txt");

/// A run can be repeated only where time and chance are passed in. Each place where they are not is known.
#[test]
fn clocks_and_randomness_are_passed_in() {
    let known = known_places(CHANCE);
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for (file, text) in sources() {
        let is_own = is_served(&file) && !is_test(&file) && file.contains("/src/");
        let asks = asks_the_machine(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(""));
        if is_own && !asks.is_empty() {
            found.insert(file, asks.len());
        }
    }
    let found: BTreeMap<&str, usize> = found.iter().map(|(file, count)| (file.as_str(), *count)).collect();
    assert_eq!(found, known, "chance.txt says where, how often and why; pass object::Clock and object::Randomness in");
}

/// The lines that ask for the time of day or for random numbers.
fn asks_the_machine(text: &str) -> Vec<&str> {
    const WAYS: [&str; 11] = [
        "SystemClock.now()",
        "(SystemClock)",
        "SystemTime::now()",
        "now_utc()",
        "Timestamp::now()",
        "rand::random",
        "rand::rng()",
        "Uuid::new_v4()",
        "::fill(&mut",
        "SystemRandom::new()",
        "ThreadRandomness)",
    ];
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines
        .filter(|line| WAYS.iter().any(|way| line.contains(way)) || *line == "randomness: &ThreadRandomness,")
        .collect()
}

#[test]
fn asking_the_machine_is_found() {
    let text = "let id = Uuid::new_v4().to_string();\n// rand::random()\nuse object::SystemClock;\nlet now = SystemClock.now();";
    assert_eq!(asks_the_machine(text), ["let id = Uuid::new_v4().to_string();", "let now = SystemClock.now();"]);
    assert!(asks_the_machine("let now = api.clock.now();\nlet id = cx.randomness.uuid();").is_empty());
}

/// An error that becomes nothing is how a header, a group or a check gets lost. Each place is known.
#[test]
fn what_is_left_out_has_a_reason() {
    let known = known_places(OMISSIONS);
    let sources: BTreeMap<String, String> = sources().into_iter().collect();
    let mut wrong = Vec::new();
    for (file, text) in &sources {
        let decides = DECIDING.iter().any(|name| file.starts_with(&format!("crates/{name}/src/")));
        if !decides || file.contains("tests") || file.contains("testing") {
            continue;
        }
        let found = left_out(text.split("#[cfg(test)]").next().unwrap_or(""));
        if found.len() > known.get(file.as_str()).copied().unwrap_or(0) {
            wrong.push(format!("{file} leaves out more than omissions.txt has reasons for: {found:#?}"));
        }
    }
    wrong.extend(known.keys().filter(|file| !sources.contains_key(**file)).map(|file| format!("{file} is gone")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The lines that drop an error or a case, as often as they do.
fn left_out(text: &str) -> Vec<&str> {
    const WAYS: [&str; 5] = [".ok()", "if let Ok(", "unwrap_or_default()", "_ => {}", "let _ ="];
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.flat_map(|line| WAYS.iter().flat_map(move |way| line.matches(way).map(move |_| line))).collect()
}

#[test]
fn omissions_are_found() {
    let text = "// x.ok()\nlet a = b.ok()?.c().ok();\n_ => {}\n_ => Err(d),\nlet _ = e;\nif let Ok(f) = g {";
    assert_eq!(left_out(text).len(), 5);
    assert!(left_out("let ok = token?;\n").is_empty());
}
