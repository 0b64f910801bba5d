//! `/version`.

/// What the server says it is: a Kubernetes version that clients can compare with, and ours in the build metadata.
#[derive(Clone, Debug)]
pub struct Version {
    pub git_version: String,
    /// `--emulated-version`, such as `1.37`.
    pub emulated: String,
    /// `--min-compatibility-version`.
    pub compatible: String,
    pub git_commit: String,
    pub build_date: String,
}

impl Default for Version {
    fn default() -> Version {
        Version {
            git_version: format!("v1.37.0+ferrokube-{}", env!("CARGO_PKG_VERSION")),
            emulated: "1.37".into(),
            compatible: "1.36".into(),
            git_commit: String::new(),
            build_date: "1970-01-01T00:00:00Z".into(),
        }
    }
}

impl Version {
    /// As labels of a metric.
    pub fn labels(&self) -> String {
        let platform = platform();
        format!(
            "build_date=\"{}\",compiler=\"rustc\",git_commit=\"{}\",git_tree_state=\"clean\",git_version=\"{}\",go_version=\"\",major=\"1\",minor=\"37\",platform=\"{platform}\"",
            self.build_date, self.git_commit, self.git_version
        )
    }

    /// As Go prints upstream's struct, for `--version=raw`.
    pub fn to_go(&self) -> String {
        let (version, commit, date) = (&self.git_version, &self.git_commit, &self.build_date);
        let platform = platform();
        format!(
            "version.Info{{Major:\"1\", Minor:\"37\", EmulationMajor:\"\", EmulationMinor:\"\", MinCompatibilityMajor:\"\", \
             MinCompatibilityMinor:\"\", GitVersion:{version:?}, GitCommit:{commit:?}, GitTreeState:\"clean\", BuildDate:{date:?}, \
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
            ("gitCommit", &self.git_commit),
            ("gitTreeState", "clean"),
            ("buildDate", &self.build_date),
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
