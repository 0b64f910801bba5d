//! `cargo xtask generate`: writes `crates/schema/data/v1.37.table`, the one table of every built-in type and resource.
//!
//! It brings together what was recorded (`versions/1.37`: what reflection over the published Go modules tells, OpenAPI schemas, protobuf
//! tags, discovery, table columns) and the defaults that live in upstream's code (`crates/schema/facts/defaults.txt`). Where two sources speak of the
//! same thing they must agree, otherwise generation fails and says where.

mod apis;
mod bootstrap;
mod descriptions;
mod flags;
mod metrics;
mod openapi;
mod types;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, String>;

const TABLE: &str = "crates/schema/data/v1.37.table";
const FLAGS: &str = "crates/apiserver/data/flags.txt";
const METRICS: &str = "docs/reference/metrics.md";
const BOOTSTRAP: &str = "crates/bootstrap/data/objects.txt";

/// Runs `generate` (writes the table) or `generate --check` (fails if the checked-in table is not what would be written).
pub fn run(arguments: &[String]) -> Result<String> {
    let check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err("usage: cargo xtask generate [--check]".into()),
    };
    let root = workspace()?;
    let descriptions = descriptions::run(&root, check)?;
    let recorded = facts::current()?;
    let files = [
        (TABLE, generate(&root.join("crates/schema/facts"), recorded)?),
        (BOOTSTRAP, bootstrap::table(recorded)?),
        (METRICS, metrics::page(&read(&root.join("crates/apiserver/data/metrics.txt"))?)?),
        (FLAGS, flags::table(&recorded.json("flags.json")?)?),
    ];
    let outcomes: Result<Vec<String>> = files
        .iter()
        .map(|(name, text)| if check { compare(&root, name, text) } else { save(&root, name, text) })
        .collect();
    Ok(format!("{descriptions}\n{}", outcomes?.join("\n")))
}

fn save(root: &Path, name: &str, text: &str) -> Result<String> {
    fs::write(root.join(name), text).map_err(|e| format!("{name}: {e}"))?;
    Ok(format!("{name}: {} lines, {} bytes", text.lines().count(), text.len()))
}

fn compare(root: &Path, name: &str, text: &str) -> Result<String> {
    compare_texts(name, &read(&root.join(name))?, text)
}

fn compare_texts(name: &str, checked_in: &str, text: &str) -> Result<String> {
    if checked_in == text {
        return Ok(format!("{name} is what the facts say"));
    }
    let first = checked_in.lines().zip(text.lines()).position(|(a, b)| a != b).unwrap_or(0);
    Err(format!("{name} differs from what the facts say, first at line {}; run `cargo xtask generate`", first + 1))
}

/// The whole table as text.
fn generate(facts: &Path, recorded: &facts::Facts) -> Result<String> {
    let mut facts_read = types::Facts::parse(recorded.text("go-fields.txt")?)?;
    let mut definitions = openapi::definitions(&recorded.json("openapi/v3-schemas.json")?)?;
    definitions.extend(openapi::definitions(&recorded.json("all-apis/v3-schemas-added.json")?)?);
    openapi::merge(&mut facts_read, &definitions)?;
    openapi::check_protobuf(&facts_read, &recorded.json("protobuf-fields.json")?)?;
    let defaults = facts.join("defaults.txt");
    if defaults.is_file() {
        facts_read.add_defaults(&read(&defaults)?)?;
    }
    let groups = apis::groups(recorded, &facts_read)?;
    Ok(write::table(&facts_read, &groups))
}

fn workspace() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).ok_or_else(|| "xtask is not inside a workspace".into())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Joins what is wrong into one message, or says that nothing is.
fn all_well(problems: Vec<String>) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Facts by name, in the order of names so that the table's diffs are stable.
type Named<T> = BTreeMap<String, T>;
