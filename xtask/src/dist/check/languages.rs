//! The packages for test programs: installed into an empty project each, where the example of the language runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::languages::{index, jar_names, kubernetes, npm_names, source, wheel_name};
use super::super::platform::Platform;
use super::super::{Release, VERSION};
use super::files;
use crate::components;
use crate::conformance::{Lab, succeed, target_folder};

/// Where Python tests keep their clients.
const PYTHON: [&str; 2] = ["pytest>=8,<10", "kubernetes>=37,<38"];

/// An empty folder with a copy of an example.
fn project(lab: &Lab, example: &str) -> Result<PathBuf, String> {
    let folder = lab.folder.join("project");
    succeed("cp", Command::new("cp").arg("-r").arg(source(example)).arg(&folder))?;
    Ok(folder)
}

/// No program but the one in the package is to be found.
fn clean(command: &mut Command) -> &mut Command {
    command.env_remove("FERROKUBE_BINARY").env_remove("KUBECONFIG")
}

pub fn python(release: &Release, platform: &Platform) -> Result<String, String> {
    let lab = Lab::new("dist-python")?;
    let (folder, venv) = (project(&lab, "python/example")?, lab.folder.join("venv"));
    succeed("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/pip"));
    succeed(
        "pip install",
        pip.args(["install", "--quiet"]).args(PYTHON).arg(release.folder.join(wheel_name(platform))),
    )?;
    let version = succeed("ferrokube version", clean(Command::new(venv.join("bin/ferrokube")).arg("version")))?;
    if !version.contains(VERSION) {
        return Err(format!("{version} is not {VERSION}"));
    }
    let mut pytest = Command::new(venv.join("bin/python"));
    let said = succeed("pytest", clean(pytest.args(["-m", "pytest", "--quiet"]).current_dir(&folder)))?;
    Ok(last_line(&said))
}

pub fn node(release: &Release, platform: &Platform) -> Result<String, String> {
    let lab = Lab::new("dist-node")?;
    let folder = project(&lab, "javascript/example")?;
    let tarballs = npm_names(platform).map(|name| release.folder.join(name));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent"]).args(&tarballs).current_dir(&folder);
    // Those of other platforms are not in the registry before a release is published.
    succeed("npm install", npm.args(["--omit=peer"]))?;
    let version =
        succeed("npx ferrokube", clean(Command::new("npx").args(["ferrokube", "version"]).current_dir(&folder)))?;
    if !version.contains(VERSION) {
        return Err(format!("{version} is not {VERSION}"));
    }
    // Vitest colours what it says where CI is set, also without a terminal.
    let mut test = Command::new("npm");
    let said = succeed("npm test", clean(test.arg("test").env("NO_COLOR", "1").current_dir(&folder)))?;
    let passed =
        said.lines().filter(|line| line.starts_with("# pass ") || line.trim_start().starts_with("Tests")).count();
    if passed == 3 { Ok("node:test, jest and vitest passed".into()) } else { Err(format!("not all ran:\n{said}")) }
}

pub fn java(release: &Release, platform: &Platform) -> Result<String, String> {
    let lab = Lab::new("dist-java")?;
    let folder = project(&lab, "java/example")?;
    // A repository of files, as a company has it.
    let repository = lab.folder.join("repository");
    let place = repository.join("dev/ferrokube/ferrokube-junit").join(VERSION);
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    for name in jar_names(platform).into_iter().chain([format!("ferrokube-junit-{VERSION}.pom")]) {
        let copied = fs::copy(release.folder.join(&name), place.join(&name));
        copied.map_err(|error| format!("{name}: {error}"))?;
    }
    let pom = fs::read_to_string(folder.join("pom.xml")).map_err(|error| error.to_string())?;
    let repositories = format!(
        "<repositories><repository><id>files</id><url>file://{}</url></repository></repositories>\n</project>",
        repository.display()
    );
    let pom = pom.replace("</project>", &repositories);
    let pom =
        pom.replace("<classifier>linux-amd64<", &format!("<classifier>{}-{}<", platform.os, platform.architecture));
    fs::write(folder.join("pom.xml"), pom).map_err(|error| error.to_string())?;
    // What an earlier check left in the cache is not what is checked now.
    let mut mvn = Command::new("mvn");
    mvn.args(["-B", "-U", "test"]).arg(format!("-Dmaven.repo.local={}", maven_cache()?.display())).current_dir(&folder);
    let said = succeed("mvn test", clean(&mut mvn))?;
    let tests = said.lines().rfind(|line| line.contains("Tests run:")).ok_or(format!("no test ran:\n{said}"))?;
    Ok(tests.trim_start_matches("[INFO] ").to_string())
}

/// Maven's downloads stay for the next check, ferrokube's own packages do not.
fn maven_cache() -> Result<PathBuf, String> {
    let cache = components::cache()?.join("maven");
    match fs::remove_dir_all(cache.join("dev/ferrokube")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(cache),
    }
}

pub fn go(release: &Release, platform: &Platform) -> Result<String, String> {
    let lab = Lab::new("dist-go")?;
    let folder = project(&lab, "go/example")?;
    let manifest = folder.join("go.mod");
    let text = fs::read_to_string(&manifest).map_err(|error| error.to_string())?;
    let replaced = text.replace("=> ../", &format!("=> {}", source("go").display()));
    fs::write(&manifest, replaced).map_err(|error| error.to_string())?;
    let mut tests = Vec::new();
    for folder in [source("go"), folder] {
        let mut go = Command::new("go");
        go.args(["test", "-count=1", "./..."]).env("FERROKUBE_BINARY", release.program(platform)).current_dir(folder);
        tests.push(last_line(&succeed("go test", &mut go)?));
    }
    Ok(tests.join(", "))
}

/// A controller-runtime suite, unchanged: on what `envtest-assets` makes, and on what setup-envtest gets by an index.
pub fn envtest(release: &Release, platform: &Platform) -> Result<String, String> {
    let tools = components::ensure(&["kubectl", "controller-suite", "setup-envtest"])?;
    let lab = Lab::new("dist-envtest")?;
    let made = lab.folder.join("made");
    let mut program = Command::new(release.program(platform));
    let kubectl = tools["kubectl"].parent().map(Path::to_path_buf).unwrap_or_default();
    succeed("envtest-assets", program.arg("envtest-assets").arg(&made).env("PATH", kubectl))?;
    let mut report = vec![suite(&lab, &tools["controller-suite"], &made)?];
    let url = files::serve(&release.folder)?;
    release.write("index.yaml", index(release, &url)?.as_bytes())?;
    let version = kubernetes(release)?;
    let mut setup = Command::new(&tools["setup-envtest"]);
    setup.args(["use", version.trim_start_matches('v'), "--print", "path", "--index", &format!("{url}/index.yaml")]);
    let used =
        crate::conformance::standard_output("setup-envtest", setup.arg("--bin-dir").arg(lab.folder.join("store")));
    fs::remove_file(release.folder.join("index.yaml")).map_err(|error| error.to_string())?;
    let used = PathBuf::from(used?.trim());
    // setup-envtest makes files that nobody may write, and the archive has no kubectl.
    fs::copy(&tools["kubectl"], used.join("kubectl")).map_err(|error| error.to_string())?;
    report.push(format!("by setup-envtest {}", suite(&lab, &tools["controller-suite"], &used)?));
    succeed("chmod", Command::new("chmod").args(["-R", "u+w"]).arg(lab.folder.join("store")))?;
    Ok(report.join(", "))
}

fn suite(lab: &Lab, program: &Path, assets: &Path) -> Result<String, String> {
    let mut suite = Command::new(program);
    suite.env("KUBEBUILDER_ASSETS", assets).env_remove("KUBECONFIG").current_dir(&lab.folder).arg("-test.v");
    let said = succeed("controller-suite", &mut suite)?;
    let passed = said.lines().filter(|line| line.trim_start().starts_with("--- PASS")).count();
    if passed == 0 { Err(format!("no test ran:\n{said}")) } else { Ok(format!("{passed} tests of a suite passed")) }
}

fn last_line(said: &str) -> String {
    said.trim().lines().last().unwrap_or_default().trim().to_string()
}

/// `cargo xtask suites [name…]`: the same, with packages made now of the program that is given or was built for the tests.
pub fn of_program(program: &Path, names: &[String]) -> Result<String, String> {
    let folder = target_folder().join("suites");
    let _ = fs::remove_dir_all(&folder);
    let release = Release { folder, level: flate2::Compression::fast(), ..Release::here("")? };
    let platform = super::super::platform::PLATFORMS.iter().find(|platform| platform.runs_here());
    let platform = platform.ok_or("no package is made for this platform")?;
    let place = release.program(platform);
    fs::create_dir_all(place.parent().unwrap_or(&release.folder)).map_err(|error| error.to_string())?;
    fs::copy(program, &place).map_err(|error| format!("{}: {error}", program.display()))?;
    // What is left out is said by the check that needs it.
    super::super::languages::write(&release, platform)?;
    let without = super::super::languages::write_common(&release)?;
    let report = super::some(&release, platform, names);
    fs::remove_dir_all(&release.folder).map_err(|error| error.to_string())?;
    report.map(|report| [vec![report], without].concat().join("\n"))
}
