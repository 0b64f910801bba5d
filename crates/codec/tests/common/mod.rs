//! The recorded objects of a real v1.37 server: for each kind one with every field set, in every format.

#![allow(dead_code, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use object::{GroupVersion, GroupVersionKind, Raw};
use schema::{Schema, builtin};

pub struct Golden {
    pub name: String,
    pub kind: GroupVersionKind,
    pub json: Vec<u8>,
    pub yaml: Vec<u8>,
    pub proto: Vec<u8>,
}

impl Golden {
    pub fn schema(&self) -> Schema<'static> {
        builtin().schema(&self.kind).unwrap_or_else(|| panic!("{} is not in the table", self.name))
    }

    /// The JSON without its spaces: they count inside raw extensions, and the recorded protobuf has none there.
    pub fn compact_json(&self) -> Vec<u8> {
        Raw::new(text(&self.json)).compact().into_owned().into_bytes()
    }
}

/// A path among the recordings. Where they are not checked out it does not exist, which the build server must not
/// overlook.
#[allow(clippy::disallowed_methods)]
fn recorded(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if !path.exists() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the recordings are missing");
        println!("the recordings are not here, nothing was compared");
        return None;
    }
    Some(path)
}

/// A recorded file.
pub fn shared(path: &str) -> Option<Vec<u8>> {
    recorded(path).map(|path| std::fs::read(path).unwrap())
}

/// All recorded objects.
pub fn goldens() -> Vec<Golden> {
    let Some(folder) = recorded("kubernetes-1.37/codec") else { return Vec::new() };
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let goldens: Vec<Golden> = files.iter().map(|path| read(path)).collect();
    assert_eq!(goldens.len(), 193, "every recorded kind is looked at");
    goldens
}

fn read(path: &Path) -> Golden {
    let name = path.file_stem().unwrap().to_str().unwrap().to_string();
    let (group_version, kind) = name.rsplit_once('.').unwrap();
    let (group, version) = group_version.rsplit_once('.').unwrap();
    let group = if group == "core" { "" } else { group };
    let file = |extension: &str| std::fs::read(path.with_extension(extension)).unwrap();
    Golden {
        kind: GroupVersion::new(group, version).with_kind(kind),
        json: file("json"),
        yaml: file("yaml"),
        proto: file("pb"),
        name,
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
