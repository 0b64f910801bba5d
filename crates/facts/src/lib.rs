//! What was recorded from a real kube-apiserver and from the published modules of its version: `versions/<version>/facts.tar.gz`.
//!
//! `cargo xtask record` writes the archive, `cargo xtask generate` and tests read it. The questions (requests, CEL expressions) are our own and
//! are kept as text in `versions/cases`; the archive has the answers. `docs/versions.md` lists what is in it.

mod cases;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flate2::{Compression, GzBuilder};
use serde::Serialize;
use serde_json::Value;

pub use cases::{cel_inputs, requests};

/// The version that the server is compatible with.
pub const CURRENT: &str = "1.37";

/// No archive is unpacked to more than this: facts are a few megabytes.
const BYTES_MAX: u64 = 256 << 20;

/// The facts of one version: files by name, such as `discovery/aggregated.json`.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Facts {
    files: BTreeMap<String, Vec<u8>>,
}

/// The facts of [`CURRENT`], read once.
pub fn current() -> Result<&'static Facts, String> {
    static FACTS: OnceLock<Result<Facts, String>> = OnceLock::new();
    FACTS.get_or_init(|| Facts::of(CURRENT)).as_ref().map_err(Clone::clone)
}

/// The folder with a folder for each version and the cases.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../versions")
}

/// Where the facts of a version such as `1.37` are.
pub fn archive(version: &str) -> PathBuf {
    folder().join(version).join("facts.tar.gz")
}

impl Facts {
    /// The facts of a version such as `1.37`.
    pub fn of(version: &str) -> Result<Facts, String> {
        let path = archive(version);
        let packed = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Facts::unpack(&packed).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads an archive.
    pub fn unpack(packed: &[u8]) -> Result<Facts, std::io::Error> {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(packed).take(BYTES_MAX).read_to_end(&mut unpacked)?;
        let mut facts = Facts::default();
        let mut archive = tar::Archive::new(unpacked.as_slice());
        for entry in archive.entries()? {
            let mut entry = entry?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            facts.files.insert(name, bytes);
        }
        Ok(facts)
    }

    /// An archive: the same facts always give the same bytes.
    pub fn pack(&self) -> Result<Vec<u8>, std::io::Error> {
        let mut archive = tar::Builder::new(GzBuilder::new().mtime(0).write(Vec::new(), Compression::best()));
        for (name, bytes) in &self.files {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, name, bytes.as_slice())?;
        }
        archive.into_inner()?.finish()
    }

    /// Writes the archive of a version. One that holds the same facts is left as it is: another compressor may pack them into other bytes.
    pub fn save(&self, version: &str) -> Result<PathBuf, String> {
        let path = archive(version);
        if Facts::of(version).is_ok_and(|saved| saved == *self) {
            return Ok(path);
        }
        let packed = self.pack().map_err(|error| error.to_string())?;
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| fs::write(&path, packed));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    pub fn insert(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.insert(name.to_string(), bytes);
    }

    /// Takes out every file whose name begins with this.
    pub fn remove(&mut self, beginning: &str) {
        self.files.retain(|name, _| !name.starts_with(beginning));
    }

    /// The names of all files that begin with this, in order.
    pub fn names<'a>(&'a self, beginning: &'a str) -> impl Iterator<Item = &'a str> {
        self.files.keys().map(String::as_str).filter(move |name| name.starts_with(beginning))
    }

    pub fn bytes(&self, name: &str) -> Result<&[u8], String> {
        self.files.get(name).map(Vec::as_slice).ok_or_else(|| format!("the facts have no {name}"))
    }

    pub fn text(&self, name: &str) -> Result<&str, String> {
        std::str::from_utf8(self.bytes(name)?).map_err(|error| format!("{name}: {error}"))
    }

    pub fn json(&self, name: &str) -> Result<Value, String> {
        serde_json::from_slice(self.bytes(name)?).map_err(|error| format!("{name}: {error}"))
    }
}

/// JSON with its keys in order, a line each.
pub fn pretty(value: &impl Serialize, indent: &str) -> Result<Vec<u8>, String> {
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
