//! From files to objects that are valid, have defaults and may come from files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codec::Notes;
use object::{Clock, Cursor, Errors, GroupVersionKind, Meta, SystemClock, Value, quote};
use registry::{Context, DirectStorage, Features, ResourceStorage};
use request::User;
use sha2::{Digest, Sha256};

use super::Stamp;
use crate::webhook::GROUP;

/// The end of the names of configurations that come from files; objects of the API cannot have it.
pub const SUFFIX: &str = ".static.k8s.io";

/// What is in the files.
pub struct Loaded {
    /// Sorted by kind and name.
    pub objects: Vec<Value>,
    /// Of the contents of all files; "" if there is nothing in them.
    pub hash: String,
}

/// Reads the files.
pub fn load(
    kinds: &[(&'static str, DirectStorage)],
    check: fn(&Value, &Path) -> Result<(), String>,
    files: &Stamp,
) -> Result<Loaded, String> {
    let mut loader = Loader { kinds, check, found: BTreeMap::new() };
    let (mut hash, mut is_empty) = (Sha256::new(), true);
    for (file, ..) in files {
        let shown = file.display().to_string();
        let unreadable = |error: std::io::Error| {
            let why = outbound::in_gos_words(&error);
            format!("failed to read file {}: open {shown}: {why}", quote(&shown))
        };
        let text = std::fs::read(file).map_err(unreadable)?;
        if text.is_empty() {
            continue;
        }
        is_empty = false;
        hash.update(&text);
        hash.update([0]);
        for document in codec::yaml::documents(&String::from_utf8_lossy(&text)) {
            let object = codec::yaml::decode(document.as_bytes(), None, &mut Notes::ignore());
            let object = object.map_err(|error| format!("error loading {shown}: {error}"))?;
            loader.accept(object, file).map_err(|why| format!("error loading {shown}: {why}"))?;
        }
    }
    let hash = if is_empty { String::new() } else { format!("sha256:{:x}", hash.finalize()) };
    Ok(Loaded { objects: loader.found.into_values().map(|(_, object)| object).collect(), hash })
}

struct Loader<'l> {
    kinds: &'l [(&'static str, DirectStorage)],
    check: fn(&Value, &Path) -> Result<(), String>,
    /// By kind and name.
    found: BTreeMap<(&'static str, String), (PathBuf, Value)>,
}

impl Loader<'_> {
    fn accept(&mut self, object: Value, file: &Path) -> Result<(), String> {
        if object.kind() == "List" && object.api_version() == "v1" {
            return object.list_at(&["items"]).iter().try_for_each(|item| self.accept(item.clone(), file));
        }
        let is_ours = object.api_version() == format!("{GROUP}/v1");
        let is_list = |kind: &str| object.kind().strip_suffix("List") == Some(kind);
        if let Some((kind, _)) = self.kinds.iter().find(|(kind, _)| is_ours && is_list(kind)) {
            return object.list_at(&["items"]).iter().try_for_each(|item| {
                let mut item = item.clone();
                item.set_type(&GroupVersionKind::new(GROUP, "v1", *kind));
                self.accept(item, file)
            });
        }
        let known = self.kinds.iter().find(|(kind, _)| is_ours && object.kind() == *kind);
        let Some((kind, storage)) = known else {
            return Err(format!("unsupported resource type {}, Kind={}", object.api_version(), object.kind()));
        };
        let object = settle(kind, storage, &object)?;
        self.check_name(kind, &object, file)?;
        (self.check)(&object, file)?;
        self.found.insert((*kind, object.name().to_string()), (file.to_path_buf(), object));
        Ok(())
    }

    fn check_name(&self, kind: &'static str, object: &Value, file: &Path) -> Result<(), String> {
        let (name, file) = (object.name(), quote(&file.display().to_string()));
        if name.is_empty() {
            return Err(format!("resource in file {file} must have a name"));
        }
        if !name.ends_with(SUFFIX) {
            return Err(format!("{} in file {file} must have a name ending with {}", quote(name), quote(SUFFIX)));
        }
        if let Some((before, _)) = self.found.get(&(kind, name.to_string())) {
            let before = quote(&before.display().to_string());
            return Err(format!("duplicate name {} found in file {file} (previously seen in {before})", quote(name)));
        }
        Ok(())
    }
}

/// The object as the API would store it: decoded strictly, with defaults, valid.
fn settle(kind: &'static str, storage: &ResourceStorage, object: &Value) -> Result<Value, String> {
    let gvk = GroupVersionKind::new(GROUP, "v1", kind);
    let schema = schema::builtin().schema(&gvk).ok_or_else(|| format!("{kind} has no schema"))?;
    let mut json = Vec::new();
    codec::json::encode(object, None, &mut json);
    let mut notes = Notes::collect();
    let mut object = codec::json::decode(&json, Some(schema), &mut notes).map_err(|error| error.to_string())?;
    if let Some(first) = notes.messages().first() {
        return Err(format!("strict decoding error: {first}"));
    }
    object.set_type(&gvk);
    schema::default(schema, &mut object);
    storage.strategy.default(&mut object);
    let mut errors = Errors::new();
    let user = User::loopback();
    // Only the API refuses the names that files must use.
    let mut features = Features::default();
    features.set(&[("ManifestBasedAdmissionControlConfig".to_string(), false)])?;
    let cx = Context { group: GROUP, ..Context::of_server(SystemClock.now(), &user, &features) };
    storage.strategy.validate(&cx, &Cursor::root(&object), &mut errors);
    if errors.is_empty() {
        return Ok(object);
    }
    Err(format!("{kind} {}: {}", quote(object.name()), errors.aggregate()))
}
