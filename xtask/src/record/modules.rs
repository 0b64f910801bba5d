//! A Go module around one published version of Kubernetes, and our small programs built in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::components::{self, SCHEME_MODULE, compiler_flags, linker_flags};
use crate::conformance::standard_output;

/// The programs by name, with the folder below `conformance/` that has their source.
const PROGRAMS: [(&str, &str); 4] = [
    ("kube-apiserver", "cmd/kube-apiserver"),
    ("gofacts", "cmd/gofacts"),
    ("goldens", "cmd/goldens"),
    ("celfacts", "cel/facts"),
];

pub struct Modules {
    /// Where the module is: outside of the tree, so that a second run builds nothing.
    folder: PathBuf,
    go_mod: String,
}

impl Modules {
    /// Prepares the module of a version such as `1.37.1`.
    pub fn of(version: &str) -> Result<Modules, String> {
        let folder = components::cache()?.join("record").join(version);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let go_mod = go_mod(version, &published(version, &folder)?)?;
        let modules = Modules { folder, go_mod };
        modules.write(Path::new("go.mod"), modules.go_mod.as_bytes())?;
        let conformance = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance");
        for (name, source) in PROGRAMS {
            let source = conformance.join(source);
            for entry in fs::read_dir(&source).map_err(|error| format!("{}: {error}", source.display()))? {
                let path = entry.map_err(|error| error.to_string())?.path();
                let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let file = path.file_name().unwrap_or_default();
                modules.write(&Path::new("cmd").join(name).join(file), &bytes)?;
            }
        }
        Ok(modules)
    }

    fn write(&self, name: &Path, bytes: &[u8]) -> Result<(), String> {
        super::write(&self.folder.join(name), bytes)
    }

    /// Builds a program, unless it is built already, and says where it is.
    pub fn program(&self, name: &str) -> Result<PathBuf, String> {
        let binary = self.folder.join("bin").join(name);
        let began = Instant::now();
        let mut build = self.go(&["build", "-mod=mod", "-trimpath", "-buildvcs=false"]);
        build.arg(format!("-ldflags={}", linker_flags(&self.go_mod)));
        build.arg(compiler_flags(&self.folder_of(SCHEME_MODULE)?.to_string_lossy()));
        build.arg("-o").arg(&binary).arg(format!("./cmd/{name}"));
        let status = build.status().map_err(|error| format!("cannot run go: {error}"))?;
        if !status.success() {
            return Err(format!("building {name} failed ({status})"));
        }
        eprintln!("built {name} in {} s", began.elapsed().as_secs());
        Ok(binary)
    }

    /// Where a module of this version is unpacked.
    pub fn folder_of(&self, module: &str) -> Result<PathBuf, String> {
        downloaded(&mut self.go(&["mod", "download", "-json", module]), "Dir")
    }

    fn go(&self, arguments: &[&str]) -> Command {
        go(&self.folder, arguments)
    }
}

/// Go fetches the release of itself that a module needs.
fn go(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env("GOWORK", "off").env("GOTOOLCHAIN", "auto").env("CGO_ENABLED", "0");
    command
}

/// The `go.mod` of the published module.
fn published(version: &str, folder: &Path) -> Result<String, String> {
    let module = format!("k8s.io/kubernetes@v{version}");
    let path = downloaded(&mut go(folder, &["mod", "download", "-json", &module]), "GoMod")?;
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where a published module such as `k8s.io/api@v0.37.1` is unpacked.
pub fn module_folder(module: &str) -> Result<PathBuf, String> {
    let output = go(&std::env::temp_dir(), &["mod", "download", "-json", module]).output();
    let output = output.map_err(|error| format!("go: {error}"))?;
    // Go says in the same document what is wrong.
    let said: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{module}: {error}"))?;
    match said["Dir"].as_str() {
        Some(folder) => Ok(folder.into()),
        None => Err(said["Error"].as_str().unwrap_or("go names no folder").to_string()),
    }
}

/// A path in what `go mod download -json` says.
fn downloaded(command: &mut Command, what: &str) -> Result<PathBuf, String> {
    let said: serde_json::Value =
        serde_json::from_str(&standard_output("go", command)?).map_err(|error| error.to_string())?;
    said[what].as_str().map(PathBuf::from).ok_or_else(|| format!("go names no {what}: {said}"))
}

/// A module that needs this version. Its sister modules have no versions of their own in the published `go.mod`: they are those of the same
/// release, `v0.37.1` beside `v1.37.1`.
fn go_mod(version: &str, published: &str) -> Result<String, String> {
    let rest = version.strip_prefix("1.").ok_or_else(|| format!("{version} is no version of Kubernetes"))?;
    let lines = || published.lines().map(str::trim);
    let release = lines().find(|line| line.starts_with("go ")).ok_or("the published go.mod names no release of Go")?;
    let mut text =
        format!("module ferrokube.dev/record\n\n{release}\n\nrequire k8s.io/kubernetes v{version}\n\nreplace (\n");
    for sister in lines().filter_map(|line| line.strip_suffix(" v0.0.0")) {
        text.push_str(&format!("\t{sister} => {sister} v0.{rest}\n"));
    }
    Ok(text + ")\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sister_modules_are_those_of_the_same_release() {
        let published =
            "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.140.0\n)\n";
        let want = "module ferrokube.dev/record\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.37.1\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.37.1\n)\n";
        assert_eq!(go_mod("1.37.1", published).unwrap(), want);
        assert!(go_mod("2.0.0", published).is_err());
    }
}
