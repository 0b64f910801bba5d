//! The manual as a test: its links lead somewhere, it has a page for what the log can say, and it names the version that is made.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates whose code is not in the server.
const TOOLS: &[&str] = &["bench", "clients", "cluster", "difftest", "hostile", "testing"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn git_files() -> Vec<String> {
    let output = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

/// What links of a page lead to, without those to other sites.
fn links(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        // What is in backquotes is not read as a link.
        let plain = line.split('`').enumerate().filter(|(at, part)| at % 2 == 0 || part.is_empty());
        let mut open = String::new();
        plain.for_each(|(_, part)| open += part);
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or("");
            if open.contains(&format!("]({target}")) && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target);
            }
        }
    }
    found
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The versions in the table of docs/versions.md are those that the tests build and the code states.
#[test]
fn the_compatibility_table_has_the_versions_that_are_tested() {
    let page = read("docs/versions.md");
    let cell = |with: &str| {
        let row =
            page.lines().find(|line| line.starts_with(&format!("| {with}"))).unwrap_or_else(|| panic!("no row {with}"));
        row.split('|').nth(2).unwrap().trim().to_string()
    };
    let required = |file: &str, module: &str| {
        let text = read(file);
        let line = text
            .lines()
            .find(|line| line.trim_start_matches("require ").trim().starts_with(&format!("{module} v")))
            .unwrap();
        line.rsplit_once(" v").unwrap().1.to_string()
    };
    assert_eq!(cell("kubectl"), required("conformance/go.mod", "k8s.io/kubectl"));
    assert_eq!(cell("kube-apiserver on the same etcd"), required("conformance/go.mod", "k8s.io/kubernetes"));
    assert_eq!(cell("kube-controller-manager"), required("conformance/go.mod", "k8s.io/kubernetes"));
    assert_eq!(cell("etcd"), required("conformance/etcd/go.mod", "go.etcd.io/etcd/server/v3"));
    let disk = read("crates/storage-embedded/src/disk.rs");
    let format = disk.lines().find_map(|line| line.strip_prefix("pub(crate) const FORMAT: i64 = ")).unwrap();
    assert!(cell("embedded store").starts_with(format.trim_end_matches(';')), "{}", cell("embedded store"));
    let versions = read("crates/apiserver/src/versions.rs");
    let oldest = versions.split("minor: ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(cell("behaviour"), format!("1.{oldest} to {}", facts::CURRENT));
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for file in git_files().into_iter().filter(|file| file.ends_with(".md")) {
        let text = read(&file);
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = root().join(&file).parent().unwrap().to_path_buf();
            let target = if path.is_empty() { root().join(&file) } else { folder.join(path) };
            if !target.exists() {
                wrong.push(format!("{file}: {link} is not there"));
            } else if !anchor.is_empty() && !anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor) {
                wrong.push(format!("{file}: {link} has no such heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = read("docs/SUMMARY.md");
    let listed: BTreeSet<&str> = links(&summary).into_iter().collect();
    let pages = git_files().into_iter().filter(|file| file.ends_with(".md"));
    let pages = pages.filter_map(|file| file.strip_prefix("docs/").map(str::to_string));
    let missing: Vec<String> = pages
        .filter(|page| page != "SUMMARY.md" && !page.starts_with("decisions/") && !listed.contains(page.as_str()))
        .collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:#?}");
}

/// In the book, what is outside of it cannot be linked to, and what is not in the summary is no page.
#[test]
fn pages_of_the_book_link_into_the_book() {
    let summary = read("docs/SUMMARY.md");
    let pages: BTreeSet<PathBuf> = links(&summary).into_iter().map(|page| root().join("docs").join(page)).collect();
    let mut wrong = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        for link in links(&text).into_iter().filter(|link| !link.starts_with('#')) {
            let target = page.parent().unwrap().join(link.split('#').next().unwrap_or(""));
            let target = target.canonicalize().unwrap_or(target);
            let is_page = pages.iter().any(|page| page.canonicalize().is_ok_and(|page| page == target));
            let is_picture = target.starts_with(root().canonicalize().unwrap().join("docs")) && !link.contains(".md");
            if !is_page && !is_picture {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The messages of `error!` in a source, without those that are only made of other texts.
fn errors(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or("");
    let mut found = Vec::new();
    for (at, _) in text.match_indices("error!(") {
        let mut strings = Vec::new();
        let (mut depth, mut quoted, mut escaped) = (1, None::<String>, false);
        for c in text[at + "error!(".len()..].chars() {
            match (&mut quoted, c) {
                (Some(string), c) if escaped => {
                    string.push(c);
                    escaped = false;
                }
                (Some(_), '\\') => escaped = true,
                (Some(string), '"') => {
                    strings.push(std::mem::take(string));
                    quoted = None;
                }
                (Some(string), c) => string.push(c),
                (None, '"') => quoted = Some(String::new()),
                (None, '(') => depth += 1,
                (None, ')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        found.extend(strings.pop().filter(|message| message != "{}"));
    }
    found
}

#[test]
fn every_error_of_the_log_has_a_page() {
    let page = read("docs/operations/incidents.md");
    let listed: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next().map(str::to_string))
        .filter(|message| !matches!(message.as_str(), "message" | "{list}"))
        .collect();
    let is_served = |file: &String| {
        let tool = TOOLS.iter().any(|tool| file.starts_with(&format!("crates/{tool}/")));
        file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs") && !tool
    };
    let is_test =
        |file: &String| ["/tests/", "tests.rs", "/testing/", "testing.rs"].iter().any(|part| file.contains(part));
    let sources = git_files().into_iter().filter(is_served).filter(|file| !is_test(file));
    let said: BTreeSet<String> = sources.flat_map(|file| errors(&read(&file))).collect();
    assert!(said.len() > 30, "{said:#?}");
    let missing: Vec<_> = said.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/operations/incidents.md does not have {missing:#?}");
    let gone: Vec<_> = listed.difference(&said).collect();
    assert!(gone.is_empty(), "docs/operations/incidents.md has what is not logged: {gone:#?}");
}

#[test]
fn one_version_is_named() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("CHANGELOG.md").contains(&format!("\n## {version}")), "CHANGELOG.md has a section {version}");
    let mut wrong = Vec::new();
    for file in git_files().into_iter().filter(|file| file.starts_with("deploy/") || file == "docs/install.md") {
        let text = read(&file);
        for before in ["/ferrokube:", "ferrokube-", "ferrokube_"] {
            for (at, _) in text.match_indices(before) {
                let named: String =
                    text[at + before.len()..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
                if named.contains('.') && named.trim_end_matches('.') != version {
                    wrong.push(format!("{file}: {before}{named}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "the version is {version}: {wrong:#?}");
}

/// Manifests say what the image has: its user, its folder for data and its program.
#[test]
fn manifests_fit_the_image() {
    let image = read("xtask/src/dist/oci.rs");
    assert!(
        image.contains("USER: u64 = 65532") && read("deploy/hosted/control-plane.yaml").contains("runAsUser: 65532")
    );
    for file in ["deploy/hosted/control-plane.yaml", "deploy/static-pod/ferrokube.yaml"] {
        assert!(read(file).contains("mountPath: /var/lib/ferrokube"), "{file}");
    }
    assert!(image.contains("usr/local/bin/kube-apiserver"), "kubeadm's manifests start the program by that name");
}

#[test]
fn links_and_messages_are_found() {
    assert_eq!(links("[a](b.md), `[c](d)` [e](https://f) [g](#h)\n```\n[i](j)\n```\n"), ["b.md", "#h"]);
    assert_eq!(anchors("# A b, c\n## Install.sh: x_y"), ["a-b-c", "installsh-x_y"].map(str::to_string).into());
    let text =
        "tracing::error!(%a, b = f(\"x\"), \"it \\\"fails\\\"\");\nerror!(\"{}\", why);\n#[cfg(test)]\nerror!(\"y\")";
    assert_eq!(errors(text), ["it \"fails\""]);
}

/// The names of metrics in a text of PromQL or prose: words with underscores that are not labels, without what Prometheus adds to histograms.
fn metrics(text: &str) -> BTreeSet<String> {
    const FAMILIES: [&str; 3] = ["apiserver_", "etcd_", "process_"];
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '*');
    let named = words.filter(|word| FAMILIES.iter().any(|family| word.starts_with(family)) && !word.ends_with('*'));
    let without =
        |word: &str| word.trim_end_matches("_bucket").trim_end_matches("_sum").trim_end_matches("_count").to_string();
    named.map(without).collect()
}

/// A metric that dashboards, alerts and pages name is one that the server has: it is in the list that a test compares with a running
/// server, or a literal of the server's sources, because it appears with the first failure only.
#[test]
fn metrics_that_are_named_exist() {
    let list = read("crates/apiserver/data/metrics.txt");
    let shown: BTreeSet<&str> = list
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?;
            matches!(words.nth(1), None | Some("seldom")).then_some(name)
        })
        .collect();
    let sources: Vec<String> = git_files()
        .into_iter()
        .filter(|file| file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs"))
        .filter(|file| !TOOLS.iter().any(|tool| file.starts_with(&format!("crates/{tool}/"))))
        .map(|file| read(&file))
        .collect();
    let mut missing = Vec::new();
    for file in ["deploy/monitoring/dashboard.json", "deploy/monitoring/rules.yaml", "docs/how-to/monitoring.md"] {
        let named = metrics(&read(file));
        assert!(named.len() > 4, "{file}: {named:?}");
        for name in named {
            // `trim_end_matches` may have taken a part of the name away.
            let literals = ["", "_count", "_sum"].map(|end| format!("\"{name}{end}\""));
            let is_literal = || sources.iter().any(|text| literals.iter().any(|literal| text.contains(literal)));
            if !shown.contains(name.as_str()) && !is_literal() {
                missing.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn metrics_are_found_in_expressions() {
    let text =
        "sum(rate(etcd_request_duration_seconds_bucket{a_b=\"c\"}[5m])) / apiserver_x_total, `apiserver_flowcontrol_*`";
    assert_eq!(metrics(text), ["apiserver_x_total", "etcd_request_duration_seconds"].map(str::to_string).into());
}
