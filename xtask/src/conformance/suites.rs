//! Published Go projects' envtest suites, unmodified: on the assets that `ferrokube envtest-assets` makes, and on the real kube-apiserver and
//! etcd. A test that passes there must pass here, at the second attempt if not at the first; the times are written side by side.
//!
//! `FERROKUBE_SUITES` names the projects to run, separated by commas. Packages are compiled first, so that the times are those of the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::lab::{Lab, ferrokube, succeed};
use crate::components;

/// How long the tests of one package may take.
const TIMEOUT: &str = "-test.timeout=20m";

/// A module and those of its packages that start an API server.
struct Suite {
    name: &'static str,
    module: &'static str,
    packages: &'static [&'static str],
}

/// Lighter ones first.
const SUITES: &[Suite] = &[
    Suite {
        name: "cert-controller",
        module: "github.com/open-policy-agent/cert-controller@v0.16.0",
        packages: &["pkg/rotator"],
    },
    Suite { name: "flux-ssa", module: "github.com/fluxcd/pkg/ssa@v0.78.0", packages: &["."] },
    Suite {
        name: "flux-runtime",
        module: "github.com/fluxcd/pkg/runtime@v0.110.3",
        packages: &["client", "controller", "events"],
    },
    Suite {
        name: "controller-runtime",
        module: "sigs.k8s.io/controller-runtime@v0.25.2",
        packages: &[
            "pkg/builder",
            "pkg/cache",
            "pkg/client",
            "pkg/client/apiutil",
            "pkg/cluster",
            "pkg/controller",
            "pkg/controller/controllerutil",
            "pkg/envtest",
            "pkg/handler",
            "pkg/internal/controller",
            "pkg/internal/recorder",
            "pkg/manager",
            "pkg/manager/internal/integration",
            "pkg/metrics/filters",
            "pkg/source",
            "pkg/webhook",
        ],
    },
    Suite {
        name: "karpenter",
        module: "sigs.k8s.io/karpenter@v1.13.0",
        packages: &[
            "pkg/apis/v1",
            "pkg/controllers/nodepool/hash",
            "pkg/controllers/nodepool/validation",
            "pkg/controllers/nodeclaim/expiration",
            "pkg/controllers/nodeclaim/lifecycle",
            "pkg/controllers/node/termination",
        ],
    },
    Suite {
        name: "cluster-api",
        module: "sigs.k8s.io/cluster-api@v1.11.2",
        packages: &[
            "util/patch",
            "util/collections",
            "internal/util/ssa",
            "controllers/clustercache",
            "controllers/crdmigrator",
            "internal/controllers/clusterresourceset",
            "internal/controllers/machineset",
            "internal/webhooks/test",
        ],
    },
    Suite {
        name: "kustomize-controller",
        module: "github.com/fluxcd/kustomize-controller@v1.9.5",
        packages: &["internal/controller"],
    },
    Suite {
        name: "source-controller",
        module: "github.com/fluxcd/source-controller@v1.9.4",
        packages: &["internal/controller"],
    },
    Suite { name: "keda", module: "github.com/kedacore/keda/v2@v2.21.0", packages: &["controllers/keda"] },
    Suite {
        name: "training-operator",
        module: "github.com/kubeflow/training-operator@v1.8.1",
        packages: &["pkg/controller.v1/pytorch", "pkg/controller.v1/tensorflow"],
    },
    Suite {
        name: "gatekeeper",
        module: "github.com/open-policy-agent/gatekeeper/v3@v3.23.1",
        packages: &[
            "pkg/watch",
            "pkg/readiness",
            "pkg/controller/config",
            "pkg/controller/connectionstatus",
            "pkg/controller/export",
            "pkg/controller/mutators/core",
        ],
    },
];

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["etcd", "kube-apiserver", "kubectl"])?;
    let lab = Lab::new("suites")?;
    let (ours, theirs) = (assets(&lab, &tools["kubectl"])?, reference(&lab, &tools)?);
    let mut table = vec!["project | package | tests | with ferrokube | with kube-apiserver and etcd".to_string()];
    let mut worse = Vec::new();
    for suite in wanted()? {
        let sources = sources(&lab, suite)?;
        for package in suite.packages {
            let row = match compare(&lab, suite, &sources, package, &ours, &theirs) {
                Ok(row) => row,
                Err(why) => {
                    worse.push(why);
                    continue;
                }
            };
            eprintln!("{}", row.line);
            worse.extend(row.worse);
            table.push(row.line);
        }
    }
    let table = table.join("\n");
    fs::write(lab.folder.join("table.txt"), &table).map_err(|error| error.to_string())?;
    if worse.is_empty() { Ok(format!("\n{table}")) } else { Err(format!("{}\n{table}", worse.join("\n"))) }
}

/// All suites, or those that were asked for.
#[allow(clippy::disallowed_methods)]
fn wanted() -> Result<Vec<&'static Suite>, String> {
    let Ok(names) = std::env::var("FERROKUBE_SUITES") else { return Ok(SUITES.iter().collect()) };
    let find = |name: &str| {
        SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
            let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
            format!("there is no suite {name}; there are {}", known.join(", "))
        })
    };
    names.split(',').map(find).collect()
}

/// The folder that ferrokube makes for envtest.
fn assets(lab: &Lab, kubectl: &Path) -> Result<PathBuf, String> {
    let folder = lab.folder.join("ours");
    let mut program = Command::new(ferrokube()?);
    let path = kubectl.parent().map(Path::to_path_buf).unwrap_or_default();
    succeed("envtest-assets", program.arg("envtest-assets").arg(&folder).env("PATH", path))?;
    Ok(folder)
}

/// The same of the real programs.
fn reference(lab: &Lab, tools: &BTreeMap<String, PathBuf>) -> Result<PathBuf, String> {
    let folder = lab.folder.join("theirs");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for name in ["etcd", "kube-apiserver", "kubectl"] {
        std::os::unix::fs::symlink(&tools[name], folder.join(name)).map_err(|error| error.to_string())?;
    }
    Ok(folder)
}

/// A copy of the published module that tests can write into.
fn sources(lab: &Lab, suite: &Suite) -> Result<PathBuf, String> {
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json", suite.module]).env("GOWORK", "off").stdin(Stdio::null());
    let answer = succeed("go mod download", go.current_dir(&lab.folder))?;
    let found = answer.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    let found = found.ok_or_else(|| format!("{} cannot be downloaded: {answer}", suite.module))?;
    let folder = lab.folder.join(suite.name);
    succeed("cp", Command::new("cp").arg("-r").arg(found).arg(&folder))?;
    succeed("chmod", Command::new("chmod").args(["-R", "u+w"]).arg(&folder))?;
    // What a module finds beside it in its repository is published apart.
    let go_mod = fs::read_to_string(folder.join("go.mod")).map_err(|error| error.to_string())?;
    for replaced in local_replacements(&go_mod) {
        let mut go = Command::new("go");
        go.args(["mod", "edit"]).arg(format!("-dropreplace={replaced}")).env("GOWORK", "off").current_dir(&folder);
        succeed("go mod edit", &mut go)?;
    }
    Ok(folder)
}

/// The modules that a `go.mod` takes from folders.
fn local_replacements(go_mod: &str) -> impl Iterator<Item = &str> {
    let replaced = go_mod.lines().filter_map(|line| line.split_once("=>"));
    replaced
        .filter(|(_, by)| by.trim_start().starts_with('.'))
        .filter_map(|(module, _)| module.split_whitespace().find(|word| *word != "replace"))
}

struct Row {
    line: String,
    worse: Vec<String>,
}

fn compare(lab: &Lab, suite: &Suite, sources: &Path, package: &str, ours: &Path, theirs: &Path) -> Result<Row, String> {
    let name = format!("{}-{}", suite.name, package.replace(['/', '.'], "-"));
    let program = lab.folder.join(format!("{name}.test"));
    let mut go = Command::new("go");
    go.args(["test", "-c", "-o"]).arg(&program).arg(format!("./{package}"));
    go.env("GOWORK", "off").env("GOFLAGS", "-mod=mod").env("CGO_ENABLED", "0").current_dir(sources);
    succeed(&format!("{} {package}", suite.name), &mut go)?;
    let folder = sources.join(package);
    let mut here = tests(&program, &folder, ours, &lab.log(&format!("{name}-ferrokube")))?;
    let there = tests(&program, &folder, theirs, &lab.log(&format!("{name}-kube-apiserver")))?;
    // Suites have races of their own, which either server may lose.
    if !there.outcome.passed.is_subset(&here.outcome.passed) {
        here = tests(&program, &folder, ours, &lab.log(&format!("{name}-ferrokube-again")))?;
    }
    fs::remove_file(&program).map_err(|error| error.to_string())?;
    let line = format!("{} | {package} | {} | {} | {}", suite.name, there.passed(), here.told(), there.told());
    let lost = there.outcome.passed.difference(&here.outcome.passed);
    let worse = lost.map(|test| format!("{} {package}: {test} passes with kube-apiserver only", suite.name)).collect();
    Ok(Row { line, worse })
}

/// A run of one package.
struct Ran {
    outcome: Outcome,
    took: Duration,
}

impl Ran {
    fn passed(&self) -> usize {
        self.outcome.specs.map_or(self.outcome.passed.len(), |(passed, _)| passed)
    }

    fn told(&self) -> String {
        let failed = self.outcome.specs.map_or(self.outcome.failed, |(_, failed)| failed);
        format!("{} passed, {failed} failed, {:.1} s", self.passed(), self.took.as_secs_f64())
    }
}

fn tests(program: &Path, folder: &Path, assets: &Path, log: &Path) -> Result<Ran, String> {
    let began = Instant::now();
    let mut command = Command::new(program);
    command.args(["-test.v", TIMEOUT]).env("KUBEBUILDER_ASSETS", assets).env_remove("KUBECONFIG");
    command.env("GINKGO_NO_COLOR", "true").current_dir(folder).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let took = began.elapsed();
    let said = [output.stdout, output.stderr].concat();
    fs::write(log, &said).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(Ran { outcome: Outcome::read(&String::from_utf8_lossy(&said)), took })
}

/// What a test program printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Go's tests and subtests, and for a failed suite of Ginkgo the specs that it names.
    passed: BTreeSet<String>,
    failed: usize,
    /// Specs of Ginkgo that passed and failed.
    specs: Option<(usize, usize)>,
}

impl Outcome {
    fn read(said: &str) -> Outcome {
        let mut outcome = Outcome::default();
        for line in said.lines().map(str::trim_start) {
            let name = |rest: &str| rest.split_whitespace().next().unwrap_or_default().to_string();
            if let Some(rest) = line.strip_prefix("--- PASS: ") {
                outcome.passed.insert(name(rest));
            } else if line.starts_with("--- FAIL: ") {
                outcome.failed += 1;
            } else if let Some(numbers) = specs(line) {
                outcome.specs = Some(numbers);
            }
        }
        outcome
    }
}

/// Passed and failed specs of Ginkgo's last line, `FAIL! -- 12 Passed | 1 Failed | 0 Pending | 3 Skipped`.
fn specs(line: &str) -> Option<(usize, usize)> {
    let (_, numbers) = line.split_once("! -- ")?;
    let mut parts = numbers.split(" | ");
    let mut number = |word: &str| parts.next()?.strip_suffix(word)?.trim().parse().ok();
    Some((number("Passed")?, number("Failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let said = "=== RUN   TestA\n--- PASS: TestA (0.01s)\n    --- PASS: TestA/one (0.00s)\n--- FAIL: TestB (2s)\n--- SKIP: TestC (0s)\nok\n";
        let outcome = Outcome::read(said);
        assert_eq!(outcome.passed, ["TestA", "TestA/one"].map(str::to_string).into());
        assert_eq!((outcome.failed, outcome.specs), (1, None));
        let said = "Ran 13 of 16 Specs in 5.1 seconds\nFAIL! -- 12 Passed | 1 Failed | 0 Pending | 3 Skipped\n--- FAIL: TestX (5.1s)\n";
        assert_eq!(Outcome::read(said).specs, Some((12, 1)));
        assert_eq!(specs("SUCCESS! -- 4 Passed | 0 Failed | 0 Pending | 0 Skipped"), Some((4, 0)));
        assert_eq!(specs("FAIL! -- Suite Timeout Elapsed -- 4 Passed"), None);
    }

    #[test]
    fn replacements_by_folders_are_found() {
        let go_mod = "module m\nreplace a.b/c => ./c\nreplace (\n\ta.b/d v1.0.0 => ../d\n\te => f.g/h v1.0.0\n)\n";
        assert_eq!(local_replacements(go_mod).collect::<Vec<_>>(), ["a.b/c", "a.b/d"]);
    }

    #[test]
    fn suites_have_names_of_their_own() {
        let names: BTreeSet<&str> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
    }
}
