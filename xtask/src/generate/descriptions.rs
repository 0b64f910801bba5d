//! Takes the descriptions out of the source of the k8s-openapi crate and packs them into `crates/descriptions/data/descriptions.deflate`.
//!
//! Two versions of that crate are dependencies only in name (see Cargo.toml): compiling them would cost every build minutes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::Result;

const FILE: &str = "crates/descriptions/data/descriptions.deflate";

/// The target whose dependencies cargo is asked for; Cargo.toml says why.
const TARGET: &str = "x86_64-unknown-none";

/// Where the definitions are: the version of the k8s-openapi crate and the folder in it.
const DEFINITIONS: (&str, &str) = ("0.29.", "src/v1_37");
/// Where the parameters of operations are; later versions of the crate have none.
const OPERATIONS: (&str, &str) = ("0.19.", "src/v1_27");

/// The structs that hold the parameters of operations, and the option kinds whose fields they are.
const OPTION_KINDS: [(&str, &str); 14] = [
    ("ListOptional", "ListOptions"),
    ("ListOptional", "GetOptions"),
    ("WatchOptional", "ListOptions"),
    ("CreateOptional", "CreateOptions"),
    ("ReplaceOptional", "UpdateOptions"),
    ("PatchOptional", "PatchOptions"),
    ("DeleteOptional", "DeleteOptions"),
    ("ReadPodLogOptional", "PodLogOptions"),
    ("ConnectGetPodExecOptional", "PodExecOptions"),
    ("ConnectGetPodAttachOptional", "PodAttachOptions"),
    ("ConnectGetPodPortforwardOptional", "PodPortForwardOptions"),
    ("ConnectGetPodProxyOptional", "PodProxyOptions"),
    ("ConnectGetNodeProxyOptional", "NodeProxyOptions"),
    ("ConnectGetServiceProxyOptional", "ServiceProxyOptions"),
];

/// Descriptions by definition, or option kind, and field; the definition's own is at the field "".
type Descriptions = BTreeMap<String, BTreeMap<String, String>>;

/// Writes the file, or fails if what it holds is not what the sources say. Only the texts are compared, and a file that holds them is left as
/// it is: another release of the compressor may pack them into other bytes.
pub fn run(root: &Path, check: bool) -> Result<String> {
    let [definitions, operations] = find_sources(root)?;
    let mut descriptions = Descriptions::new();
    read_folder(&definitions, &mut |text| read_definition(text, &mut descriptions))?;
    read_folder(&operations, &mut |text| read_parameters(text, &mut descriptions))?;
    let (text, path) = (lay_out(&descriptions), root.join(FILE));
    let failed = |error: std::io::Error| format!("{FILE}: {error}");
    let checked_in = fs::read(&path).and_then(|packed| {
        let mut text = String::new();
        DeflateDecoder::new(packed.as_slice()).read_to_string(&mut text).map(|_| text)
    });
    if check || checked_in.as_ref().is_ok_and(|checked_in| *checked_in == text) {
        return super::compare_texts(FILE, &checked_in.map_err(failed)?, &text);
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).map_err(failed)?;
    fs::write(&path, &packed).map_err(failed)?;
    Ok(format!("{FILE}: {} bytes of text in {}", text.len(), packed.len()))
}

/// Where cargo keeps the two sources; they are downloaded if need be.
fn find_sources(root: &Path) -> Result<[PathBuf; 2]> {
    let metadata = metadata(root, &["--offline"]).or_else(|_| metadata(root, &[]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let find = |(version, folder): (&str, &str)| {
        let is_it = |p: &&serde_json::Value| {
            p["name"] == "k8s-openapi" && p["version"].as_str().is_some_and(|v| v.starts_with(version))
        };
        let package = packages.iter().find(is_it).ok_or(format!("k8s-openapi {version} is not a dependency"))?;
        let manifest = package["manifest_path"].as_str().ok_or("k8s-openapi has no manifest")?;
        let source = Path::new(manifest).with_file_name(folder);
        if source.is_dir() { Ok(source) } else { Err(format!("k8s-openapi {version} has no {folder}")) }
    };
    Ok([find(DEFINITIONS)?, find(OPERATIONS)?])
}

fn metadata(root: &Path, flags: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root);
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]).args(flags);
    let output = command.output().map_err(|e| format!("cargo metadata: {e}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("cargo metadata: {}", error.lines().last().unwrap_or("failed")))
}

fn read_folder(folder: &Path, read: &mut dyn FnMut(&str)) -> Result<()> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            read_folder(&path, read)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            read(&super::read(&path)?);
        }
    }
    Ok(())
}

/// The structs of [`OPTION_KINDS`] have a field for each parameter, and its description as the field's comment.
fn read_parameters(text: &str, descriptions: &mut Descriptions) {
    let mut kinds: Vec<&str> = Vec::new();
    let mut comment = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(words) = line.strip_prefix("///") {
            comment.push(words.strip_prefix(' ').unwrap_or(words));
            continue;
        }
        if let Some(name) = line.strip_prefix("pub struct ") {
            let name = name.split(['<', ' ']).next().unwrap_or("");
            kinds = OPTION_KINDS.iter().filter(|(from, _)| *from == name).map(|(_, kind)| *kind).collect();
        } else if let Some(field) = line.strip_prefix("pub ") {
            let field = camel_case(field.split(':').next().unwrap_or(""));
            for kind in &kinds {
                descriptions.entry((*kind).to_string()).or_default().insert(field.clone(), comment.join("\n"));
            }
        } else if line == "}" {
            kinds.clear();
        }
        comment.clear();
    }
}

/// `dry_run` as `dryRun`; a field that would be a keyword ends in an underscore.
fn camel_case(field: &str) -> String {
    let mut words = field.trim_end_matches('_').split('_');
    let mut name = words.next().unwrap_or("").to_string();
    for word in words {
        if word == "tls" {
            name += "TLS";
            continue;
        }
        let (first, rest) = word.split_at(word.len().min(1));
        name += &first.to_ascii_uppercase();
        name += rest;
    }
    name
}

/// A file holds one definition, and behind its code a JSON schema of it in the form of a macro call. The schema is laid out
/// by a generator, so lines and their indentation tell what is what.
fn read_definition(text: &str, descriptions: &mut Descriptions) {
    let Some((_, schema)) = text.split_once("JsonSchema for ") else { return };
    let mut lines = schema.lines();
    let Some(name) = lines.by_ref().find_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\".into()")) else {
        return;
    };
    let found = descriptions.entry(name.to_string()).or_default();
    let mut field = String::new();
    for line in lines {
        let text = line.trim_start();
        match line.len() - text.len() {
            12 if text.starts_with("\"description\": ") => {
                found.insert(String::new(), literal(text));
            }
            // A field opens a block, be it `{` or `({`.
            16 if text.ends_with('{') => field = text.trim_start_matches('"').split('"').next().unwrap_or("").into(),
            20 if !field.is_empty() && text.contains("\"description\"") => {
                found.entry(field.clone()).or_insert_with(|| literal(text));
            }
            _ => {}
        }
    }
}

/// The string literal that stands behind `"description"` on the line.
fn literal(line: &str) -> String {
    let Some((_, rest)) = line.split_once("\"description\"") else { return String::new() };
    let Some((_, rest)) = rest.split_once(" \"") else { return String::new() };
    let mut text = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => text.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => break,
            }),
            c => text.push(c),
        }
    }
    text
}

/// Index first: a line for each definition, then a line for each field with where its text starts and how long it is.
/// An empty line ends the index, then come the texts. Texts that are the same are there once.
fn lay_out(descriptions: &Descriptions) -> String {
    let (mut index, mut texts) = (String::new(), String::new());
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, fields) in descriptions {
        index += &format!("{name}\n");
        for (field, text) in fields {
            let start = *places.entry(text).or_insert_with(|| {
                texts.push_str(text);
                texts.len() - text.len()
            });
            index += &format!("\t{field}\t{start}\t{}\n", text.len());
        }
    }
    index + "\n" + &texts
}
