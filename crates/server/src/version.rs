//! `/version`.

use object::Timestamp;
use object::timestamp::Time;

/// The server's version: a Kubernetes version that clients can compare with, and ours in the build metadata.
#[derive(Clone, Debug)]
pub struct Version {
    pub git_version: String,
    /// `--emulated-version`, such as `1.37`.
    pub emulated: String,
    /// `--min-compatibility-version`.
    pub compatible: String,
    pub build: Build,
}

/// The commit and the compiler that the program is built from.
#[derive(Clone, Debug)]
pub struct Build {
    /// "" if it is not known.
    pub commit: String,
    /// `clean` or `dirty`, or `archive` if the sources were not in git.
    pub tree_state: String,
    /// As `2026-11-18T22:00:00Z`: of the commit, so that the same sources give the same program.
    pub date: String,
}

impl Default for Build {
    fn default() -> Build {
        Build::new("", "archive", None)
    }
}

impl Build {
    /// `seconds` are since the epoch.
    pub fn new(commit: &str, tree_state: &str, seconds: Option<&str>) -> Build {
        let seconds = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
        let date = Time(Timestamp::new(seconds, 0)).to_string();
        Build { commit: commit.into(), tree_state: tree_state.into(), date }
    }
}

impl Default for Version {
    fn default() -> Version {
        Version {
            git_version: format!("v1.37.0+ferrokube-{}", env!("CARGO_PKG_VERSION")),
            emulated: "1.37".into(),
            compatible: "1.36".into(),
            build: Build::default(),
        }
    }
}

impl Version {
    /// As labels of a metric.
    pub fn labels(&self) -> String {
        let (platform, Build { commit, tree_state, date }) = (platform(), &self.build);
        format!(
            "build_date=\"{date}\",compiler=\"rustc\",git_commit=\"{commit}\",git_tree_state=\"{tree_state}\",git_version=\"{}\",go_version=\"\",major=\"1\",minor=\"37\",platform=\"{platform}\"",
            self.git_version
        )
    }

    /// As Go prints upstream's struct, for `--version=raw`.
    pub fn to_go(&self) -> String {
        let (version, Build { commit, tree_state, date }) = (&self.git_version, &self.build);
        let platform = platform();
        format!(
            "version.Info{{Major:\"1\", Minor:\"37\", EmulationMajor:\"\", EmulationMinor:\"\", MinCompatibilityMajor:\"\", \
             MinCompatibilityMinor:\"\", GitVersion:{version:?}, GitCommit:{commit:?}, GitTreeState:{tree_state:?}, BuildDate:{date:?}, \
             GoVersion:\"\", Compiler:\"rustc\", Platform:{platform:?}}}"
        )
    }

    /// Indented and in upstream's order, without a newline at the end.
    pub fn to_json(&self) -> String {
        let platform = platform();
        let (emulated, compatible) = (parts(&self.emulated), parts(&self.compatible));
        let fields = [
            ("major", "1"),
            ("minor", "37"),
            ("emulationMajor", emulated.0),
            ("emulationMinor", emulated.1),
            ("minCompatibilityMajor", compatible.0),
            ("minCompatibilityMinor", compatible.1),
            ("gitVersion", &self.git_version),
            ("gitCommit", &self.build.commit),
            ("gitTreeState", &self.build.tree_state),
            ("buildDate", &self.build.date),
            ("goVersion", ""),
            ("compiler", "rustc"),
            ("platform", &platform),
        ];
        let lines: Vec<String> =
            fields.iter().map(|(name, value)| format!("  \"{name}\": {}", object::quote(value))).collect();
        format!("{{\n{}\n}}", lines.join(",\n"))
    }
}

/// Major and minor version.
fn parts(version: &str) -> (&str, &str) {
    version.split_once('.').unwrap_or((version, ""))
}

/// As Go names it.
fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{arch}", std::env::consts::OS)
}
