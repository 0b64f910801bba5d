//! The recorded objects of a real v1.37 server: for each kind one with every field set, in every format.

#![allow(dead_code, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use facts::Facts;
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

/// All recorded objects.
pub fn goldens() -> Vec<Golden> {
    let facts = facts::current().unwrap();
    let names = facts.names("codec/").filter_map(|name| name.strip_suffix(".json"));
    let goldens: Vec<Golden> = names.map(|name| read(facts, name)).collect();
    assert_eq!(goldens.len(), 194, "every recorded kind is looked at");
    goldens
}

fn read(facts: &Facts, path: &str) -> Golden {
    let name = path.strip_prefix("codec/").unwrap().to_string();
    let (group_version, kind) = name.rsplit_once('.').unwrap();
    let (group, version) = group_version.rsplit_once('.').unwrap();
    let group = if group == "core" { "" } else { group };
    let file = |extension: &str| facts.bytes(&format!("{path}.{extension}")).unwrap().to_vec();
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
