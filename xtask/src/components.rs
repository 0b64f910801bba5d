//! The real components ferrokube is proven against: built from `conformance/`, kept in a cache outside the tree.
//!
//! A component is a folder: `conformance/<name>` when it has a Go module of its own, else `conformance/cmd/<name>` in the
//! main one. A folder with a `main.go` becomes a program, one with only tests becomes a test binary; where `go.mod` names a
//! `tool`, that program of another module is built. A build is found again by everything that went into it, so changing one
//! component rebuilds that one and a second run builds nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

/// Builds of one component that stay in the cache; a build is around 100 MB, so they cannot pile up for ever.
const BUILDS_KEPT: usize = 3;

/// Packages the linker writes the release into, so that `kubectl version` and user agents tell which one it is.
const VERSION_PACKAGES: [&str; 2] = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

/// The module whose sources have to look as they do in a release build; see [`compiler_flags`].
pub const SCHEME_MODULE: &str = "k8s.io/apimachinery";

/// A module that is C: what needs it is built with cgo, everything else without.
const C_MODULE: &str = "github.com/mattn/go-sqlite3";

/// Makes sure that the named components are built, and says where their binaries are.
pub fn ensure(names: &[&str]) -> Result<BTreeMap<String, PathBuf>, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is not inside a workspace")?;
    let cache = cache()?;
    let toolchain = toolchain()?;
    let mut paths = BTreeMap::new();
    for name in names {
        let component = Component::find(&workspace.join("conformance"), name)?;
        let binary = component.binary(&cache, &toolchain)?;
        if !binary.is_file() {
            build(&component, &binary)?;
            drop_old_builds(&cache.join(name), &binary);
        }
        paths.insert((*name).to_owned(), binary);
    }
    Ok(paths)
}

/// Where a module that a component needs has been unpacked.
pub fn module_folder(component: &str, module: &str) -> Result<PathBuf, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is not inside a workspace")?;
    let component = Component::find(&workspace.join("conformance"), component)?;
    component.module_folder(module).map(PathBuf::from)
}

/// One folder of `conformance/` that can be built.
#[derive(Debug)]
struct Component {
    name: String,
    /// The folder with `go.mod`.
    module: PathBuf,
    /// The package's folder, below or equal to `module`.
    package: PathBuf,
}

impl Component {
    fn find(conformance: &Path, name: &str) -> Result<Self, String> {
        let own = conformance.join(name);
        let (module, package) = if own.join("go.mod").is_file() {
            (own.clone(), own)
        } else {
            (conformance.to_owned(), conformance.join("cmd").join(name))
        };
        if !package.is_dir() {
            return Err(format!("conformance has no component named {name:?}"));
        }
        Ok(Self { name: name.to_owned(), module, package })
    }

    /// Where this component's binary is, or belongs once it is built.
    fn binary(&self, cache: &Path, toolchain: &str) -> Result<PathBuf, String> {
        let mut inputs = self.sources()?;
        inputs.push(("toolchain".to_owned(), toolchain.as_bytes().to_vec()));
        inputs.push(("arguments".to_owned(), self.arguments()?.join("\n").into_bytes()));
        Ok(cache.join(&self.name).join(cache_key(&inputs)).join(&self.name))
    }

    /// The files that decide what the build gives: the module's versions and checksums, and the package's own files.
    fn sources(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut files = vec![self.module.join("go.mod"), self.module.join("go.sum")];
        files_below(&self.package, &mut files)?;
        files.sort();
        files.dedup();
        let read = |file: &PathBuf| {
            let relative = file.strip_prefix(&self.module).unwrap_or(file).to_string_lossy().into_owned();
            fs::read(file)
                .map(|bytes| (relative, bytes))
                .map_err(|error| format!("cannot read {}: {error}", file.display()))
        };
        files.iter().map(read).collect()
    }

    fn go_mod(&self) -> Result<String, String> {
        let path = self.module.join("go.mod");
        fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    }

    /// What `go` is called with, but for the output file and the package.
    fn arguments(&self) -> Result<Vec<String>, String> {
        let go_mod = self.go_mod()?;
        let is_program = self.package.join("main.go").is_file() || tool(&go_mod).is_some();
        let verb: &[&str] = if is_program { &["build"] } else { &["test", "-c"] };
        let flags = ["-trimpath", "-buildvcs=false"];
        let mut arguments: Vec<String> = verb.iter().chain(&flags).map(|argument| (*argument).to_owned()).collect();
        arguments.push(format!("-ldflags={}", linker_flags(&go_mod)));
        if required_version(&go_mod, SCHEME_MODULE).is_some() {
            arguments.push(compiler_flags(&self.module_folder(SCHEME_MODULE)?));
        }
        Ok(arguments)
    }

    /// Where a module that this component needs has been unpacked; fetches it when it is not there yet.
    fn module_folder(&self, module: &str) -> Result<String, String> {
        let output = Command::new("go")
            .args(["mod", "download", "-json", module])
            .current_dir(&self.module)
            .env("GOWORK", "off")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run go: {error}"))?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let folder = answer.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
        folder.map(str::to_owned).ok_or_else(|| format!("cannot fetch {module}: {}", answer.trim()))
    }
}

/// Without debug information, and with the Kubernetes release that `go.mod` asks for stamped in.
pub fn linker_flags(go_mod: &str) -> String {
    let mut flags = "-s -w".to_owned();
    if let Some(version) = required_version(go_mod, "github.com/k3s-io/kine") {
        flags.push_str(&format!(" -X github.com/k3s-io/kine/pkg/version.Version={version}"));
    }
    let Some(version) = required_version(go_mod, "k8s.io/kubernetes") else { return flags };
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    for package in VERSION_PACKAGES {
        for (variable, value) in [
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitVersion", version),
            ("gitCommit", ""), // a module's archive does not say
            ("gitTreeState", "archive"),
        ] {
            flags.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    flags
}

/// A scheme is named after the file that made it, and error messages quote that name. It looks for the first caller
/// outside its own package by a path without a version, which is what release builds have and module builds have not.
pub fn compiler_flags(folder: &str) -> String {
    format!("-gcflags={SCHEME_MODULE}/pkg/runtime=-trimpath={folder}=>{SCHEME_MODULE}")
}

/// The program of another module that a `go.mod` names.
fn tool(go_mod: &str) -> Option<&str> {
    go_mod.lines().find_map(|line| line.strip_prefix("tool ")).map(str::trim)
}

/// The version a `go.mod` requires of a module; `replace` lines have another shape and do not match.
fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word == "require");
        (words.next() == Some(module)).then(|| words.next()).flatten().filter(|word| word.starts_with('v'))
    })
}

/// Where what was built or fetched is kept, outside of the tree.
pub fn cache() -> Result<PathBuf, String> {
    cache_root(|name| std::env::var_os(name).map(PathBuf::from))
}

/// `$FERROKUBE_TOOLS`, else the user's cache folder.
fn cache_root(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, String> {
    let set = |name| variable(name).filter(|value| !value.as_os_str().is_empty());
    set("FERROKUBE_TOOLS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("ferrokube/tools")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/ferrokube/tools")))
        .ok_or_else(|| "set FERROKUBE_TOOLS to a folder for built components: there is no HOME".to_owned())
}

/// A name for a set of inputs: FNV-1a over names and contents, each preceded by its length so that no two sets read alike.
///
/// These inputs are not hostile, so 64 bits that are the same with every release of Rust are all that is needed.
fn cache_key(inputs: &[(String, Vec<u8>)]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut sorted: Vec<_> = inputs.iter().collect();
    sorted.sort();
    let mut hash = OFFSET;
    let mut add = |bytes: &[u8]| {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    };
    for (name, contents) in sorted {
        add(name.as_bytes());
        add(contents);
    }
    format!("{hash:016x}")
}

/// The Go release and platform: a binary of another one is another binary.
fn toolchain() -> Result<String, String> {
    let output = Command::new("go").arg("version").output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "the components are Go programs: install Go (conformance/go.mod says which release)".to_owned()
        }
        _ => format!("cannot run go: {error}"),
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Builds beside the final place and renames, so that a build that is cut off or runs twice leaves no half binary.
fn build(component: &Component, binary: &Path) -> Result<(), String> {
    let started = Instant::now();
    let go_mod = component.go_mod()?;
    let folder = binary.parent().ok_or("a binary has a folder")?;
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let partial = folder.join(format!(".{}.{}", component.name, std::process::id()));
    let status = Command::new("go")
        .args(component.arguments()?)
        .arg("-o")
        .arg(&partial)
        .arg(tool(&go_mod).unwrap_or("."))
        .current_dir(&component.package)
        .env("CGO_ENABLED", if required_version(&go_mod, C_MODULE).is_some() { "1" } else { "0" })
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cannot run go: {error}"))?;
    if !status.success() {
        let _ = fs::remove_file(&partial);
        return Err(format!("building {} failed ({status})", component.name));
    }
    fs::rename(&partial, binary).map_err(|error| format!("cannot move {} into place: {error}", component.name))?;
    eprintln!("built {} in {:.1} s", component.name, started.elapsed().as_secs_f64());
    Ok(())
}

/// Keeps the newest builds of one component. What cannot be removed now is tried again after the next build.
fn drop_old_builds(builds: &Path, newest: &Path) {
    let Ok(entries) = fs::read_dir(builds) else { return };
    let age = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut old: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| !newest.starts_with(path)).collect();
    old.sort_by_key(|path| std::cmp::Reverse(age(path)));
    for path in old.iter().skip(BUILDS_KEPT - 1) {
        let _ = fs::remove_dir_all(path);
    }
}

/// Every file below a folder, but for what belongs to a module nested in it.
fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let hidden = path.file_name().is_some_and(|name: &OsStr| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !hidden && !path.join("go.mod").is_file() {
                open.push(path);
            } else if path.is_file() && !hidden {
                files.push(path);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
