//! Packages for test programs in other languages, each with the program in it: wheels, npm packages and jars; and the archive that
//! setup-envtest downloads. Sources are in `testing/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::archive::{Archive, gzip_as, hex};
use super::platform::Platform;
use super::zip::Zip;
use super::{Release, VERSION, workspace};
use crate::conformance::{standard_output, succeed};

const LICENSE: &str = "Apache-2.0";
const SUMMARY: &str = "A Kubernetes API server for tests: ready in a moment, in memory, empty again after a reset";
/// The index of setup-envtest.
pub const INDEX: &str = "envtest-releases.yaml";
/// What archives for setup-envtest begin with; the version of Kubernetes and the platform follow.
const ENVTEST: &str = "envtest-";
/// Of a folder that `ferrokube envtest-assets` makes; crates/cli/src/envtest.rs looks for it.
const ENVTEST_MARK: &str = "ferrokube-envtest";
/// setup-envtest unpacks no links, and two programs would be twice as much to download.
const ENVTEST_ETCD: &str = "#!/bin/sh\nexec \"$(dirname \"$0\")/kube-apiserver\" etcd-stand-in \"$@\"\n";

/// What the languages call a platform.
struct Names {
    wheel: &'static str,
    npm: (&'static str, &'static str),
    /// Go's and setup-envtest's names, which jars use too.
    go: String,
}

impl Names {
    fn of(platform: &Platform) -> Names {
        let go = [platform.os, platform.architecture].join("-");
        let (wheel, npm) = match (platform.os, platform.architecture) {
            ("linux", "amd64") => ("manylinux_2_17_x86_64.musllinux_1_1_x86_64", ("linux", "x64")),
            ("linux", _) => ("manylinux_2_17_aarch64.musllinux_1_1_aarch64", ("linux", "arm64")),
            (_, "amd64") => ("macosx_10_12_x86_64", ("darwin", "x64")),
            _ => ("macosx_11_0_arm64", ("darwin", "arm64")),
        };
        Names { wheel, npm, go }
    }
}

/// The packages of one platform.
pub fn write(release: &Release, platform: &Platform) -> Result<(), String> {
    let path = release.program(platform);
    let program = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let names = Names::of(platform);
    wheel(release, &names, &program)?;
    npm_platform(release, &names, &program)?;
    jar(release, &names, &program)?;
    envtest(release, &names, &program)
}

/// The packages that are the same for all platforms. Answers with what could not be made.
pub fn write_common(release: &Release) -> Result<Vec<String>, String> {
    npm_main(release)?;
    Ok(maven(release).err().map(|why| format!("ferrokube-junit: {why}")).into_iter().collect())
}

pub fn wheel_name(platform: &Platform) -> String {
    wheel_of(&Names::of(platform))
}

fn wheel_of(names: &Names) -> String {
    format!("ferrokube-{VERSION}-py3-none-{}.whl", names.wheel)
}

pub fn npm_names(platform: &Platform) -> [String; 2] {
    let (os, architecture) = Names::of(platform).npm;
    [format!("ferrokube-{VERSION}.tgz"), format!("ferrokube-{os}-{architecture}-{VERSION}.tgz")]
}

/// The jar, and the one with the program.
pub fn jar_names(platform: &Platform) -> [String; 2] {
    [format!("ferrokube-junit-{VERSION}.jar"), format!("ferrokube-junit-{VERSION}-{}.jar", Names::of(platform).go)]
}

pub fn source(path: &str) -> PathBuf {
    workspace().join("testing").join(path)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn wheel(release: &Release, names: &Names, program: &[u8]) -> Result<(), String> {
    let mut zip = Zip::new(release.level);
    for name in ["__init__.py", "_server.py", "pytest_plugin.py"] {
        let path = ["ferrokube", name].join("/");
        zip.file(&path, 0o644, &read(&source("python/src").join(&path))?)?;
    }
    zip.file(&format!("ferrokube-{VERSION}.data/scripts/ferrokube"), 0o755, program)?;
    let readme = String::from_utf8_lossy(&read(&source("python/README.md"))?).into_owned();
    let tags: String = names.wheel.split('.').map(|tag| format!("Tag: py3-none-{tag}\n")).collect();
    let about = format!("ferrokube-{VERSION}.dist-info");
    for (name, text) in [
        (
            "METADATA",
            format!(
                "Metadata-Version: 2.4\nName: ferrokube\nVersion: {VERSION}\nSummary: {SUMMARY}\nLicense-Expression: {LICENSE}\n\
                 Requires-Python: >=3.9\nClassifier: Framework :: Pytest\nProvides-Extra: pytest\n\
                 Requires-Dist: pytest>=7.0; extra == 'pytest'\nDescription-Content-Type: text/markdown\n\n{readme}"
            ),
        ),
        ("WHEEL", format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\n{tags}")),
        ("entry_points.txt", "[pytest11]\nferrokube = ferrokube.pytest_plugin\n".to_string()),
    ] {
        zip.file(&[about.as_str(), name].join("/"), 0o644, text.as_bytes())?;
    }
    let line = |(name, hash, size): &(String, Vec<u8>, usize)| {
        format!("{name},sha256={},{size}\n", URL_SAFE_NO_PAD.encode(hash))
    };
    let mut record: String = zip.record.iter().map(line).collect();
    let path = format!("{about}/RECORD");
    record += &format!("{path},,\n");
    zip.file(&path, 0o644, record.as_bytes())?;
    release.write(&wheel_of(names), &zip.finish()?).map(drop)
}

fn npm_main(release: &Release) -> Result<(), String> {
    let folder = source("javascript");
    let mut package: Value =
        serde_json::from_slice(&read(&folder.join("package.json"))?).map_err(|error| error.to_string())?;
    package["version"] = json!(VERSION);
    for version in package["optionalDependencies"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        *version = json!(VERSION);
    }
    let mut files = vec![("package.json".to_string(), 0o644, pretty(&package)?)];
    for name in [
        "index.js",
        "hooks.js",
        "jest.js",
        "node-test.js",
        "vitest.mjs",
        "index.d.ts",
        "hooks.d.ts",
        "node-test.d.ts",
        "README.md",
    ] {
        files.push((name.to_string(), 0o644, read(&folder.join(name))?));
    }
    files.push(("bin/ferrokube.js".into(), 0o755, read(&folder.join("bin/ferrokube.js"))?));
    tarball(release, &format!("ferrokube-{VERSION}.tgz"), &files)
}

fn npm_platform(release: &Release, names: &Names, program: &[u8]) -> Result<(), String> {
    let (os, cpu) = names.npm;
    let package = json!({
        "name": format!("@ferrokube/{os}-{cpu}"), "version": VERSION, "license": LICENSE,
        "description": format!("The program ferrokube for {os} on {cpu}"),
        "os": [os], "cpu": [cpu], "files": ["bin"], "preferUnplugged": true,
    });
    let files =
        [("package.json".to_string(), 0o644, pretty(&package)?), ("bin/ferrokube".into(), 0o755, program.to_vec())];
    tarball(release, &format!("ferrokube-{os}-{cpu}-{VERSION}.tgz"), &files)
}

fn pretty(value: &Value) -> Result<Vec<u8>, String> {
    Ok((serde_json::to_string_pretty(value).map_err(|error| error.to_string())? + "\n").into_bytes())
}

/// As npm has it: everything below `package`.
fn tarball(release: &Release, name: &str, files: &[(String, u32, Vec<u8>)]) -> Result<(), String> {
    let mut archive = Archive::new(release.seconds);
    for (path, mode, bytes) in files {
        archive.file(&["package", path].join("/"), *mode, bytes)?;
    }
    release.write(name, &gzip_as(&archive.finish()?, release.level)?).map(drop)
}

/// The jar that has the program for one platform.
fn jar(release: &Release, names: &Names, program: &[u8]) -> Result<(), String> {
    let mut zip = Zip::new(release.level);
    zip.file("META-INF/MANIFEST.MF", 0o644, b"Manifest-Version: 1.0\r\n\r\n")?;
    zip.file(&["dev/ferrokube", &names.go, "ferrokube"].join("/"), 0o755, program)?;
    release.write(&format!("ferrokube-junit-{VERSION}-{}.jar", names.go), &zip.finish()?).map(drop)
}

/// The jar with the classes, and its description.
fn maven(release: &Release) -> Result<(), String> {
    let folder = release.folder.join("java");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    succeed("cp", Command::new("cp").arg("-r").arg(source("java/src")).arg(&folder))?;
    let pom = String::from_utf8_lossy(&read(&source("java/pom.xml"))?).into_owned();
    let pom = pom.replacen("<version>0.1.0</version>", &format!("<version>{VERSION}</version>"), 1);
    fs::write(folder.join("pom.xml"), &pom).map_err(|error| error.to_string())?;
    succeed("mvn package", Command::new("mvn").args(["-q", "-B", "package"]).current_dir(&folder))?;
    let name = format!("ferrokube-junit-{VERSION}");
    let jar = read(&folder.join("target").join(format!("{name}.jar")))?;
    fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    release.write(&format!("{name}.jar"), &jar)?;
    release.write(&format!("{name}.pom"), pom.as_bytes()).map(drop)
}

/// `envtest-v<Kubernetes>-<os>-<architecture>.tar.gz`.
fn envtest(release: &Release, names: &Names, program: &[u8]) -> Result<(), String> {
    let mut archive = Archive::new(release.seconds);
    let folder = "controller-tools/envtest";
    for (name, mode, bytes) in [
        ("kube-apiserver", 0o755, program),
        ("etcd", 0o755, ENVTEST_ETCD.as_bytes()),
        (ENVTEST_MARK, 0o644, [VERSION, "\n"].concat().as_bytes()),
    ] {
        archive.file(&[folder, name].join("/"), mode, bytes)?;
    }
    let name = format!("envtest-{}-{}.tar.gz", kubernetes(release)?, names.go);
    release.write(&name, &gzip_as(&archive.finish()?, release.level)?).map(drop)
}

/// The version of Kubernetes that the program speaks, without what is added to it.
pub fn kubernetes(release: &Release) -> Result<String, String> {
    let here = release.platforms().into_iter().find(|platform| platform.runs_here());
    let program = release.program(here.ok_or("no program was made that runs here")?);
    let said = standard_output("version", Command::new(program).arg("version"))?;
    let line = said.lines().find_map(|line| line.strip_prefix("kubernetes ")).unwrap_or_default();
    line.split('+')
        .next()
        .filter(|version| version.starts_with('v'))
        .map(str::to_string)
        .ok_or(format!("{said} has no version"))
}

/// The index of the envtest archives, which are at a URL. All are of one version.
pub fn index(release: &Release, url: &str) -> Result<String, String> {
    let files = release.files()?;
    let archives = files.iter().filter(|name| name.starts_with(ENVTEST) && name.ends_with(".tar.gz"));
    let mut lines = "releases:".to_string();
    for (number, name) in archives.enumerate() {
        let version = name[ENVTEST.len()..].split('-').next().unwrap_or_default();
        if number == 0 {
            lines += &format!("\n  {version}:");
        }
        let hash = hex(&Sha512::digest(read(&release.folder.join(name))?));
        lines += &format!("\n    {name}:\n      hash: {hash}\n      selfLink: {url}/{name}");
    }
    Ok(lines + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::check::{gunzip, untar};
    use super::super::platform::PLATFORMS;
    use super::*;

    /// A script that stands for the program.
    const PROGRAM: &str = "#!/bin/sh\necho kubernetes v1.2.3+ferrokube-x\n";

    #[test]
    fn packages_have_the_program_and_the_version() {
        let folder = tempfile::tempdir().unwrap();
        let release = Release { folder: folder.path().into(), ..Release::of_nothing() };
        let here = PLATFORMS.iter().find(|platform| platform.runs_here()).unwrap();
        let program = release.program(here);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, PROGRAM).unwrap();
        succeed("chmod", Command::new("chmod").arg("755").arg(&program)).unwrap();
        write(&release, here).unwrap();
        npm_main(&release).unwrap();
        let [main, native] = npm_names(here);
        for (name, path, want) in [
            (main.as_str(), "package/package.json", format!("\"@ferrokube/linux-x64\": \"{VERSION}\"")),
            (&native, "package/bin/ferrokube", PROGRAM.to_string()),
            (
                &format!("envtest-v1.2.3-{}.tar.gz", Names::of(here).go),
                "controller-tools/envtest/etcd",
                "etcd-stand-in".into(),
            ),
        ] {
            let files = untar(&gunzip(&fs::read(folder.path().join(name)).unwrap()).unwrap()).unwrap();
            let found = files.iter().find(|(file, _)| file == path).unwrap_or_else(|| panic!("{name} has no {path}"));
            assert!(String::from_utf8_lossy(&found.1).contains(&want), "{name} {path}");
        }
        let index = index(&release, "https://example.test").unwrap();
        assert!(index.contains("selfLink: https://example.test/envtest-v1.2.3-"), "{index}");
        for name in [wheel_name(here), jar_names(here)[1].clone()] {
            assert!(folder.path().join(&name).is_file(), "{name}");
        }
    }
}
