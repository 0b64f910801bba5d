//! [`Manifests`]: admission configurations from files (`staticManifestsDir`), in force before those of the API.
//!
//! Files are looked at again while requests come in, and read again when they have changed. While the changed files cannot
//! be used, the old configurations stay in force.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use codec::Notes;
use object::{Clock, Cursor, Errors, GroupVersionKind, Meta, SystemClock, Value, quote};
use parking_lot::Mutex;
use registry::{Catalog, Context, Features, NoLookup, Strategy};
use request::User;

use crate::webhook::GROUP;

/// The end of the names of configurations that come from files; objects of the API cannot have it.
const SUFFIX: &str = ".static.k8s.io";
/// How often a request looks whether files have changed.
const INTERVAL: Duration = Duration::from_millis(250);

/// The objects of one kind in the files of a folder, compiled.
pub struct Manifests<T> {
    folder: PathBuf,
    kind: &'static str,
    strategy: Arc<dyn Strategy>,
    compile: fn(&Value) -> T,
    latest: ArcSwap<Vec<Arc<T>>>,
    looked: Mutex<(Instant, Stamp)>,
}

/// Tells whether a folder's files have changed.
type Stamp = Vec<(PathBuf, Option<SystemTime>, u64)>;

impl<T> Manifests<T> {
    /// Reads the files. Err says what is wrong with the folder or a file.
    pub fn open(
        folder: &str,
        kind: &'static str,
        strategy: Arc<dyn Strategy>,
        compile: fn(&Value) -> T,
    ) -> Result<Manifests<T>, String> {
        let field = "staticManifestsDir: Invalid value";
        let folder_path = PathBuf::from(folder);
        if !folder_path.is_absolute() {
            return Err(format!("{field}: {}: must be an absolute file path", quote(folder)));
        }
        let about = std::fs::metadata(&folder_path);
        let about = about.map_err(|error| {
            let why = outbound::in_gos_words(&error);
            format!("{field}: {}: unable to read: stat {folder}: {why}", quote(folder))
        })?;
        if !about.is_dir() {
            return Err(format!("{field}: {}: must be a directory", quote(folder)));
        }
        let stamp = stamp(&folder_path);
        let manifests = Manifests {
            folder: folder_path,
            kind,
            strategy,
            compile,
            latest: ArcSwap::default(),
            looked: Mutex::new((Instant::now(), stamp)),
        };
        let loaded = manifests
            .load()
            .map_err(|why| format!("failed to load static webhook manifests from {}: {why}", quote(folder)))?;
        manifests.latest.store(Arc::new(loaded));
        Ok(manifests)
    }

    /// The objects by name, as the files are now.
    pub fn current(&self) -> Arc<Vec<Arc<T>>> {
        if let Some(mut looked) = self.looked.try_lock()
            && looked.0.elapsed() >= INTERVAL
        {
            let now = stamp(&self.folder);
            if now != looked.1 {
                match self.load() {
                    Ok(loaded) => self.latest.store(Arc::new(loaded)),
                    Err(error) => {
                        tracing::error!(%error, "changed manifests cannot be used; the old ones stay in force")
                    }
                }
            }
            *looked = (Instant::now(), now);
        }
        self.latest.load_full()
    }

    fn load(&self) -> Result<Vec<Arc<T>>, String> {
        let mut by_name: BTreeMap<String, (PathBuf, Value)> = BTreeMap::new();
        for (file, ..) in stamp(&self.folder) {
            let wrong = |why: String| format!("error loading {}: {why}", file.display());
            let text = std::fs::read_to_string(&file).map_err(|error| wrong(outbound::in_gos_words(&error)))?;
            for document in documents(&text) {
                let object = codec::yaml::decode(document.as_bytes(), None, &mut Notes::ignore());
                let object = object.map_err(|error| wrong(error.to_string()))?;
                self.accept(object, &file, &mut by_name).map_err(wrong)?;
            }
        }
        Ok(by_name.into_values().map(|(_, object)| Arc::new((self.compile)(&object))).collect())
    }

    fn accept(
        &self,
        object: Value,
        file: &Path,
        by_name: &mut BTreeMap<String, (PathBuf, Value)>,
    ) -> Result<(), String> {
        let is_list = object.kind() == "List" || object.kind() == format!("{}List", self.kind);
        if is_list {
            for item in object.list_at(&["items"]) {
                let mut item = item.clone();
                if item.kind().is_empty() && object.kind() != "List" {
                    item.set_type(&self.gvk());
                }
                self.accept(item, file, by_name)?;
            }
            return Ok(());
        }
        if object.kind() != self.kind || object.api_version() != format!("{GROUP}/v1") {
            return Err(format!("unsupported resource type {}, Kind={}", object.api_version(), object.kind()));
        }
        let object = self.settle(&object)?;
        check_clients(&object, file)?;
        let name = object.name().to_string();
        let shown = quote(&file.display().to_string());
        if name.is_empty() {
            return Err(format!("resource in file {shown} must have a name"));
        }
        if !name.ends_with(SUFFIX) {
            return Err(format!("{} in file {shown} must have a name ending with {}", quote(&name), quote(SUFFIX)));
        }
        if let Some((before, _)) = by_name.get(&name) {
            let before = quote(&before.display().to_string());
            return Err(format!("duplicate name {} found in file {shown} (previously seen in {before})", quote(&name)));
        }
        by_name.insert(name, (file.to_path_buf(), object));
        Ok(())
    }

    fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(GROUP, "v1", self.kind)
    }

    /// The object as the API would store it: decoded strictly, with defaults, valid.
    fn settle(&self, object: &Value) -> Result<Value, String> {
        let schema = schema::builtin().schema(&self.gvk()).ok_or_else(|| format!("{} has no schema", self.kind))?;
        let mut json = Vec::new();
        codec::json::encode(object, None, &mut json);
        let mut notes = Notes::collect();
        let mut object = codec::json::decode(&json, Some(schema), &mut notes).map_err(|error| error.to_string())?;
        if let Some(first) = notes.messages().first() {
            return Err(format!("strict decoding error: {first}"));
        }
        object.set_type(&self.gvk());
        schema::default(schema, &mut object);
        self.strategy.default(&mut object);
        let mut errors = Errors::new();
        let (user, catalog) = (User::loopback(), Catalog::new());
        // Only the API refuses the names that files must use.
        let mut features = Features::default();
        features.set(&[("ManifestBasedAdmissionControlConfig".to_string(), false)])?;
        let cx = Context {
            now: SystemClock.now(),
            user: &user,
            namespace: "",
            group: GROUP,
            version: "v1",
            subresource: "",
            verb: "",
            dry_run: false,
            features: &features,
            catalog: &catalog,
            lookup: &NoLookup,
        };
        self.strategy.validate(&cx, &Cursor::root(&object), &mut errors);
        if errors.is_empty() {
            return Ok(object);
        }
        Err(format!("{} {}: {}", self.kind, quote(object.name()), errors.aggregate()))
    }
}

/// Files name URLs, because services may depend on what admission lets through.
fn check_clients(object: &Value, file: &Path) -> Result<(), String> {
    for hook in object.list_at(&["webhooks"]) {
        let client = hook.field("clientConfig");
        let (hook, configuration) = (quote(hook.str_at(&["name"])), quote(object.name()));
        let place = format!("webhook {hook} in {configuration} (file {})", quote(&file.display().to_string()));
        if !client.field("service").is_null() {
            return Err(format!(
                "{place}: clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            ));
        }
        if client.str_at(&["url"]).is_empty() {
            return Err(format!("{place}: clientConfig.url is required for static manifests"));
        }
    }
    Ok(())
}

/// The YAML and JSON files of a folder in alphabetical order. A folder that cannot be read has none.
fn stamp(folder: &Path) -> Stamp {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut files: Stamp = entries
        .filter_map(|entry| {
            let path = entry.path();
            let extension = path.extension()?.to_str()?.to_lowercase();
            let about = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
            let wanted = matches!(extension.as_str(), "yaml" | "yml" | "json");
            wanted.then(|| (path, about.modified().ok(), about.len()))
        })
        .collect();
    files.sort();
    files
}

/// The documents of a YAML stream that are not empty.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    documents.retain(|document| !document.trim().is_empty());
    documents
}
