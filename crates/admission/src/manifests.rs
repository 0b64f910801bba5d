//! [`Manifests`]: admission configurations from files (`staticManifestsDir`), in force before those of the API.
//!
//! A task looks at the folder again and again and reads it when its files have changed. While the changed files cannot be
//! used, the old configurations stay in force.

mod load;
mod meters;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use object::{Value, quote};
use parking_lot::Mutex;
use registry::DirectStorage;

pub use self::load::SUFFIX;
use self::load::load;
pub use self::meters::ManifestMeters;
use crate::Configuration;

/// How often the folder is looked at.
const INTERVAL: Duration = Duration::from_millis(500);

/// Where a plugin's files are and what may be in them.
pub struct Source<T> {
    pub plugin: &'static str,
    /// What the plugin configures, in errors: `webhook` or `policy`.
    pub what: &'static str,
    /// The resources whose objects may be in the files, with the names of their kinds.
    pub kinds: Vec<(&'static str, DirectStorage)>,
    /// Refuses objects that only the API can have.
    pub check: fn(&Value, &Path) -> Result<(), String>,
    /// Makes what requests use of all objects, which are sorted by name.
    pub compile: Box<dyn Fn(&[Value]) -> Result<T, String> + Send + Sync>,
    pub meters: Arc<crate::AdmissionMeters>,
}

/// The objects in the files of a folder, compiled.
pub struct Manifests<T> {
    source: Source<T>,
    folder: PathBuf,
    latest: ArcSwap<T>,
    state: Mutex<State>,
}

/// What was read last.
struct State {
    stamp: Stamp,
    hash: String,
}

/// Tells whether a folder's files have changed.
type Stamp = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// The folder that a plugin's part of the admission configuration names; None if it names none. Err says why it cannot be
/// used.
pub fn folder(config: &Configuration, plugin: &str, is_enabled: bool) -> Result<Option<PathBuf>, String> {
    let folder = config.of(plugin).map_or("", |part| part.str_at(&["staticManifestsDir"]));
    if folder.is_empty() {
        return Ok(None);
    }
    if !is_enabled {
        return Err(
            "staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig \
                    feature gate to be enabled"
                .into(),
        );
    }
    let invalid = |why: String| format!("staticManifestsDir: Invalid value: {}: {why}", quote(folder));
    let path = PathBuf::from(folder);
    if !path.is_absolute() {
        return Err(invalid("must be an absolute file path".into()));
    }
    let about = std::fs::metadata(&path);
    let about =
        about.map_err(|error| invalid(format!("unable to read: stat {folder}: {}", outbound::in_gos_words(&error))))?;
    if !about.is_dir() {
        return Err(invalid("must be a directory".into()));
    }
    Ok(Some(path))
}

impl<T: Send + Sync + 'static> Manifests<T> {
    /// Reads the files and keeps following them. Err says what is wrong with the folder or a file.
    pub fn open(folder: PathBuf, source: Source<T>) -> Result<Arc<Manifests<T>>, String> {
        let failed = |why: String| {
            let folder = quote(&folder.display().to_string());
            format!("failed to load static {} manifests from {folder}: {why}", source.what)
        };
        let stamp = stamp(&folder).map_err(failed)?;
        let loaded = load(&source.kinds, source.check, &stamp).map_err(failed)?;
        let compiled = (source.compile)(&loaded.objects).map_err(failed)?;
        source.meters.manifests.loaded(source.plugin, &loaded.hash);
        let state = Mutex::new(State { stamp, hash: loaded.hash });
        let latest = ArcSwap::from_pointee(compiled);
        let manifests = Arc::new(Manifests { source, folder, latest, state });
        tokio::spawn(follow(Arc::downgrade(&manifests)));
        Ok(manifests)
    }

    /// What the files say now.
    pub fn current(&self) -> Arc<T> {
        self.latest.load_full()
    }

    /// Reads the files if they have changed.
    fn look(&self) {
        let mut state = self.state.lock();
        let now = stamp(&self.folder);
        if now.as_ref().is_ok_and(|now| *now == state.stamp) {
            return;
        }
        if let Err(error) = now.and_then(|now| self.reload(&mut state, now)) {
            tracing::error!(%error, plugin = self.source.plugin, "changed manifests cannot be used; the old ones stay in force");
            self.source.meters.manifests.failed(self.source.plugin);
        }
    }

    fn reload(&self, state: &mut State, now: Stamp) -> Result<(), String> {
        // Files that cannot be used are not read again before they change.
        state.stamp = now;
        let loaded = load(&self.source.kinds, self.source.check, &state.stamp)?;
        if loaded.hash != state.hash {
            self.latest.store(Arc::new((self.source.compile)(&loaded.objects)?));
            self.source.meters.manifests.loaded(self.source.plugin, &loaded.hash);
            tracing::info!(plugin = self.source.plugin, "manifests were read again");
            state.hash = loaded.hash;
        }
        Ok(())
    }
}

/// Looks at the folder until nothing uses the manifests any more.
async fn follow<T: Send + Sync + 'static>(manifests: Weak<Manifests<T>>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(manifests) = manifests.upgrade() else { return };
        // Files are read on a thread of their own; a panic there is logged by the runtime and tried again.
        let _ = tokio::task::spawn_blocking(move || manifests.look()).await;
    }
}

/// The YAML and JSON files of a folder in alphabetical order.
fn stamp(folder: &Path) -> Result<Stamp, String> {
    let unreadable = |error: std::io::Error| {
        let shown = folder.display().to_string();
        let (folder, why) = (quote(&shown), outbound::in_gos_words(&error));
        format!("failed to read manifest directory {folder}: open {shown}: {why}")
    };
    let mut files = Stamp::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_lowercase);
        let is_manifest = matches!(extension.as_deref(), Some("yaml" | "yml" | "json"));
        if is_manifest && !entry.file_type().map_err(unreadable)?.is_dir() {
            let about = std::fs::metadata(&path).map_err(unreadable)?;
            files.push((path, about.modified().ok(), about.len()));
        }
    }
    files.sort();
    Ok(files)
}
