//! Takes the descriptions out of the source of the k8s-openapi crate and packs them into one compressed file.
//!
//! That crate is a dependency only in name (see Cargo.toml): compiling it would cost every build a minute. Without its
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
const SOURCE: &str = "src/v1_37";

/// Descriptions by definition and field; the definition's own is at the field "".
type Descriptions = BTreeMap<String, BTreeMap<String, String>>;

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.toml");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("descriptions.deflate");
    let mut descriptions = Descriptions::new();
    match find_source() {
        Ok(source) => {
            println!("cargo:rerun-if-changed={}", source.display());
            read_folder(&source, &mut descriptions)?;
        }
        Err(problem) => {
            println!("cargo:warning=no API descriptions: {problem}");
            // A file that is not there makes cargo try again with the next build.
            println!("cargo:rerun-if-changed=k8s-openapi-was-not-found");
        }
    }
    fs::write(out, pack(&descriptions)?)
}

/// Where cargo keeps the source; it is downloaded if need be.
fn find_source() -> Result<PathBuf, String> {
    let metadata = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let package = packages.iter().find(|p| p["name"] == "k8s-openapi").ok_or("k8s-openapi is not a dependency")?;
    let manifest = package["manifest_path"].as_str().ok_or("k8s-openapi has no manifest")?;
    let source = Path::new(manifest).with_file_name(SOURCE);
    if source.is_dir() { Ok(source) } else { Err(format!("k8s-openapi has no {SOURCE}")) }
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

fn read_folder(folder: &Path, descriptions: &mut Descriptions) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_folder(&path, descriptions)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            read_file(&fs::read_to_string(&path)?, descriptions);
        }
    }
    Ok(())
}

/// A file holds one definition, and behind its code a JSON schema of it in the form of a macro call. The schema is laid out
/// by a generator, so lines and their indentation tell what is what.
fn read_file(text: &str, descriptions: &mut Descriptions) {
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
