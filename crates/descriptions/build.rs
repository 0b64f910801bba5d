//! Takes the descriptions out of the source of the k8s-openapi crate and packs them into one compressed file.
//!
//! Two versions of that crate are dependencies only in name (see Cargo.toml): compiling them would cost every build minutes. Without their
//! source, because cargo cannot find or download it, the build goes on and there are no descriptions.
#![allow(clippy::print_stdout)] // This is how build scripts talk to cargo.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::DeflateEncoder;

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

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.toml");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("descriptions.deflate");
    let mut descriptions = Descriptions::new();
    match find_sources() {
        Ok([definitions, operations]) => {
            println!("cargo:rerun-if-changed={}", definitions.display());
            read_folder(&definitions, &mut |text| read_definition(text, &mut descriptions))?;
            read_folder(&operations, &mut |text| read_parameters(text, &mut descriptions))?;
        }
        Err(problem) => {
            println!("cargo:warning=no API descriptions: {problem}");
            // A file that is not there makes cargo try again with the next build.
            println!("cargo:rerun-if-changed=k8s-openapi-was-not-found");
        }
    }
    fs::write(out, pack(&descriptions)?)
}

/// Where cargo keeps the two sources; they are downloaded if need be.
fn find_sources() -> Result<[PathBuf; 2], String> {
    let metadata = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
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

fn metadata(flags: &[&str]) -> Result<Vec<u8>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]).args(flags);
    let output = command.output().map_err(|e| format!("cargo metadata: {e}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("cargo metadata: {}", error.lines().last().unwrap_or("failed")))
}

fn read_folder(folder: &Path, read: &mut dyn FnMut(&str)) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_folder(&path, read)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            read(&fs::read_to_string(&path)?);
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
fn pack(descriptions: &Descriptions) -> std::io::Result<Vec<u8>> {
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
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(index.as_bytes())?;
    encoder.write_all(b"\n")?;
    encoder.write_all(texts.as_bytes())?;
    encoder.finish()
}
