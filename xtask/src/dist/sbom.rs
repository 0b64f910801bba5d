//! What is linked into a program, as a CycloneDX document.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};

use super::platform::Platform;
use super::{Release, VERSION, build, workspace};
use crate::conformance::standard_output;

/// Libraries in C that crates bring along and link, and what they are.
const IN_C: &[(&str, &str, &str)] = &[
    ("aws-lc-sys", "aws-lc", "Apache-2.0 OR ISC"),
    ("tikv-jemalloc-sys", "jemalloc", "BSD-2-Clause"),
    ("zstd-sys", "zstd", "BSD-3-Clause"),
];

/// A crate that is linked.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linked {
    pub name: String,
    pub version: String,
    pub license: String,
}

pub fn write(release: &Release, platform: &Platform) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["tree", "--locked", "--package", "ferrokube-cli", "--target", platform.triple, "--prefix", "none"]);
    cargo.args(["--edges", "normal,no-proc-macro", "--no-dedupe", "--format", "{p}|{l}"]).current_dir(workspace());
    let linked = linked(&standard_output("cargo tree", &mut cargo)?);
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock")).map_err(|error| error.to_string())?;
    let document = document(release, platform, &linked, &checksums(&lock), &build::compiler()?);
    let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())? + "\n";
    release.write(&format!("ferrokube-{VERSION}-{}.cdx.json", platform.triple), text.as_bytes()).map(drop)
}

/// The crates that `cargo tree` lists, each once.
pub fn linked(tree: &str) -> BTreeSet<Linked> {
    let lines = tree.lines().filter_map(|line| {
        let (package, license) = line.split_once('|')?;
        let mut words = package.split_whitespace();
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some(Linked { name: name.into(), version: version.into(), license: license.replace('/', " OR ") })
    });
    lines.collect()
}

/// The checksums of a lock file, by name and version; those of the workspace have none.
pub fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_string))
    };
    let blocks = lock.split("[[package]]").skip(1);
    let found =
        blocks.filter_map(|block| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?)));
    found.collect()
}

fn document(
    release: &Release,
    platform: &Platform,
    linked: &BTreeSet<Linked>,
    checksums: &BTreeMap<(String, String), String>,
    compiler: &str,
) -> Value {
    let mut components = Vec::new();
    for Linked { name, version, license } in linked {
        let checksum = checksums.get(&(name.clone(), version.clone()));
        let mut component =
            json!({"type": "library", "name": name, "version": version, "bom-ref": format!("{name}@{version}")});
        if !license.is_empty() {
            component["licenses"] = json!([{"expression": license}]);
        }
        if let Some(checksum) = checksum {
            // Only what the registry has can be found by its name there.
            component["purl"] = format!("pkg:cargo/{name}@{version}").into();
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        if let Some((_, library, license)) = IN_C.iter().find(|(holder, ..)| holder == name) {
            component["components"] =
                json!([{"type": "library", "name": library, "licenses": [{"expression": license}]}]);
        }
        components.push(component);
    }
    components.push(json!({"type": "library", "name": "std", "version": compiler,
                           "licenses": [{"expression": "MIT OR Apache-2.0"}]}));
    if platform.triple.ends_with("musl") {
        components.push(json!({"type": "library", "name": "musl", "licenses": [{"expression": "MIT"}]}));
    }
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": super::oci::rfc3339(release.seconds),
            "component": {
                "type": "application",
                "name": "ferrokube",
                "version": VERSION,
                "bom-ref": format!("ferrokube-{VERSION}-{}", platform.triple),
                "licenses": [{"expression": "Apache-2.0"}],
                "properties": [
                    {"name": "commit", "value": release.commit},
                    {"name": "target", "value": platform.triple},
                ],
            },
        },
        "components": components,
    })
}
