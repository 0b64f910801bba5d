//! The recorded objects of a real v1.37 server: for each kind one with every field set, in every format.

#![allow(dead_code, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use object::{GroupVersion, GroupVersionKind};
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
}

/// All recorded objects. Where they are not checked out there are none, which the build server must not overlook.
#[allow(clippy::disallowed_methods)]
pub fn goldens() -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/kubernetes-1.37/codec");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the recorded objects are missing");
        println!("the recorded objects are not here, nothing was compared");
        return Vec::new();
    };
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
