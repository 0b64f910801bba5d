//! `cargo xtask generate`: writes `crates/schema/data/v1.37.table`, the one table of every built-in type and resource.
//!
//! It brings together what reflection over the published Go modules tells (`crates/schema/facts/go-fields.txt`), what was
//! recorded from a real server (`../shared/kubernetes-1.37`: OpenAPI schemas, protobuf tags, discovery, table columns)
//! and the defaults that live in upstream's code (`crates/schema/facts/defaults.txt`). Where two sources speak of the
//! same thing they must agree, otherwise generation fails and says where.

mod apis;
mod bootstrap;
mod facts;
mod flags;
mod openapi;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, String>;

const TABLE: &str = "crates/schema/data/v1.37.table";
const FLAGS: &str = "crates/apiserver/data/flags.txt";
const BOOTSTRAP: &str = "crates/bootstrap/data/objects.txt";
pub const RECORDED: &str = "../shared/kubernetes-1.37";

/// Runs `generate` (writes the table) or `generate --check` (fails if the checked-in table is not what would be written).
pub fn run(arguments: &[String]) -> Result<String> {
    let check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err("usage: cargo xtask generate [--check]".into()),
    };
    let root = workspace()?;
    let recorded = root.join(RECORDED);
    if !recorded.is_dir() {
        let message = format!("{RECORDED} is not here, so the table cannot be generated");
        let required = !check || std::env::var_os("CI").is_some_and(|ci| ci == "true");
        return if required { Err(message) } else { Ok(format!("skipped: {message}")) };
    }
    let files = [
        (TABLE, generate(&root.join("crates/schema/facts"), &recorded)?),
        (BOOTSTRAP, bootstrap::table(|file| read(&recorded.join(file)))?),
        (FLAGS, flags::table(&read(&recorded.join("flags.json"))?)?),
    ];
    let outcomes: Result<Vec<String>> = files
        .iter()
        .map(|(name, text)| if check { compare(&root, name, text) } else { save(&root, name, text) })
        .collect();
    Ok(outcomes?.join("\n"))
}

fn save(root: &Path, name: &str, text: &str) -> Result<String> {
    fs::write(root.join(name), text).map_err(|e| format!("{name}: {e}"))?;
    Ok(format!("{name}: {} lines, {} bytes", text.lines().count(), text.len()))
}

fn compare(root: &Path, name: &str, text: &str) -> Result<String> {
    let checked_in = read(&root.join(name))?;
    if checked_in == text {
        return Ok(format!("{name} is what the facts say"));
    }
    let first = checked_in.lines().zip(text.lines()).position(|(a, b)| a != b).unwrap_or(0);
    Err(format!("{name} differs from what the facts say, first at line {}; run `cargo xtask generate`", first + 1))
}

/// The whole table as text.
fn generate(facts: &Path, recorded: &Path) -> Result<String> {
    let mut facts_read = facts::Facts::parse(&read(&facts.join("go-fields.txt"))?)?;
    let mut definitions = openapi::definitions(&json(&recorded.join("openapi/v3-schemas.json"))?)?;
    definitions.extend(openapi::definitions(&json(&recorded.join("all-apis/v3-schemas-added.json"))?)?);
    openapi::merge(&mut facts_read, &definitions)?;
    openapi::check_protobuf(&facts_read, &json(&recorded.join("protobuf-fields.json"))?)?;
    let defaults = facts.join("defaults.txt");
    if defaults.is_file() {
        facts_read.add_defaults(&read(&defaults)?)?;
    }
    let hashes = read(&facts.join("storage-hashes.txt"))?;
    let groups = apis::groups(recorded, &hashes, &facts_read)?;
    Ok(write::table(&facts_read, &groups))
}

fn workspace() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).ok_or_else(|| "xtask is not inside a workspace".into())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn json(path: &Path) -> Result<serde_json::Value> {
    serde_json::from_str(&read(path)?).map_err(|e| format!("{}: {e}", path.display()))
}

/// Joins what is wrong into one message, or says that nothing is.
fn all_well(problems: Vec<String>) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Facts by name, in the order of names so that the table's diffs are stable.
type Named<T> = BTreeMap<String, T>;
