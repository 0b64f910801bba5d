//! [`PublishedVersion`]: what the source of the published modules of a version says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::record::{module_folder, read_protobuf};

/// The modules with API types; one that is not published for a version is named in the report.
const TYPES: [&str; 5] = [
    "k8s.io/api",
    "k8s.io/apimachinery",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/apiserver",
    "k8s.io/kube-aggregator",
];
/// The modules with feature gates of an API server; `k8s.io/kubernetes` has others.
const GATES: [&str; 4] =
    ["k8s.io/apiserver", "k8s.io/apiextensions-apiserver", "k8s.io/component-base", "k8s.io/client-go"];

#[derive(Default)]
pub struct PublishedVersion {
    /// Message → field → its tag and type, as `3 string`.
    pub messages: BTreeMap<String, BTreeMap<String, String>>,
    /// `group/version Kind` → `introduced`, `deprecated`, `removed` → release.
    pub lifecycles: BTreeMap<String, BTreeMap<&'static str, String>>,
    /// Gate → its states, as `1.37 Beta true`.
    pub gates: BTreeMap<String, Vec<String>>,
    /// `group/version Type.field` → the rules declared for it.
    pub rules: BTreeMap<String, BTreeSet<String>>,
}

/// Where the modules of a version are, and which are not published for it.
pub struct PublishedModules {
    folders: BTreeMap<&'static str, PathBuf>,
    pub missing: Vec<&'static str>,
}

impl PublishedModules {
    pub fn of(version: &str) -> Result<PublishedModules, String> {
        let rest = version.strip_prefix("1.").ok_or_else(|| format!("{version} is no version of Kubernetes"))?;
        let mut modules = PublishedModules { folders: BTreeMap::new(), missing: Vec::new() };
        for module in TYPES.into_iter().chain(GATES).collect::<BTreeSet<_>>() {
            match module_folder(&format!("{module}@v0.{rest}")) {
                Ok(folder) => drop(modules.folders.insert(module, folder)),
                Err(why)
                    if ["not available", "not found", "unknown revision"].iter().any(|text| why.contains(text)) =>
                {
                    modules.missing.push(module);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(modules)
    }

    /// Leaves out modules, so that both versions are read from the same.
    pub fn without(mut self, missing: &[&str]) -> PublishedModules {
        self.folders.retain(|module, _| !missing.contains(module));
        self
    }
}

impl PublishedVersion {
    pub fn read(PublishedModules { folders, .. }: &PublishedModules) -> Result<PublishedVersion, String> {
        let mut published = PublishedVersion::default();
        for module in TYPES {
            let Some(folder) = folders.get(module) else { continue };
            published.read_types(folder)?;
        }
        for module in GATES {
            let Some(folder) = folders.get(module) else { continue };
            each_file(folder, &mut |path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.ends_with("_features.go") {
                    published.read_gates(&text_of(path)?);
                }
                Ok(())
            })?;
        }
        Ok(published)
    }

    fn read_types(&mut self, folder: &Path) -> Result<(), String> {
        each_file(folder, &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let version = path.parent().map(group_version).unwrap_or_default();
            match name.as_str() {
                "generated.proto" => self.read_messages(&text_of(path)?),
                "zz_generated.prerelease-lifecycle.go" => self.read_lifecycles(&text_of(path)?, &version),
                "types.go" => self.read_rules(&text_of(path)?, &version),
                _ => {}
            }
            Ok(())
        })
    }

    fn read_messages(&mut self, text: &str) {
        for (message, fields) in read_protobuf(text) {
            let shown = |field: &Value| {
                let repeated = if field["repeated"].as_bool() == Some(true) { "repeated " } else { "" };
                format!(
                    "{} {repeated}{}",
                    field["tag"],
                    field["type"].as_str().unwrap_or_default().trim_start_matches('.')
                )
            };
            let fields = fields.iter().map(|(name, field)| (name.clone(), shown(field)));
            self.messages.entry(message).or_default().extend(fields);
        }
    }

    fn read_lifecycles(&mut self, text: &str, version: &str) {
        let mut place: Option<(String, &'static str)> = None;
        for line in text.lines().map(str::trim) {
            if let Some((kind, rest)) =
                line.strip_prefix("func (in *").and_then(|rest| rest.split_once(") APILifecycle"))
            {
                let what = ["Introduced", "Deprecated", "Removed"].into_iter().find(|what| rest.starts_with(what));
                let name = what.map(|what| match what {
                    "Introduced" => "introduced",
                    "Deprecated" => "deprecated",
                    _ => "removed",
                });
                place = name.filter(|_| !kind.ends_with("List")).map(|name| (format!("{version} {kind}"), name));
            } else if let (Some(numbers), Some((kind, what))) = (line.strip_prefix("return "), &place) {
                let release = numbers.replace(", ", ".");
                self.lifecycles.entry(kind.clone()).or_default().insert(what, release);
            }
        }
    }

    fn read_gates(&mut self, text: &str) {
        let mut gate = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_suffix(": {").filter(|name| !name.contains([' ', '{'])) {
                gate = name.rsplit('.').next().unwrap_or(name).to_string();
            } else if let Some(state) = line.strip_prefix("{Version: version.MustParse(\"") {
                let since = state.split('"').next().unwrap_or_default();
                let after = |key: &str| {
                    let value = state.split_once(key).map(|(_, rest)| rest).unwrap_or_default();
                    value.split([',', '}']).next().unwrap_or_default().trim().to_string()
                };
                let stage = after("PreRelease: ");
                let stage = stage.rsplit('.').next().unwrap_or_default();
                let locked = if state.contains("LockToDefault: true") { " locked" } else { "" };
                let state = format!("{since} {stage} {}{locked}", after("Default: "));
                self.gates.entry(gate.clone()).or_default().push(state);
            }
        }
    }

    /// Rules stand in the comment above a field.
    fn read_rules(&mut self, text: &str, version: &str) {
        let (mut kind, mut pending) = (String::new(), BTreeSet::new());
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("type ") {
                kind = rest.split(' ').next().unwrap_or_default().to_string();
                pending.clear();
            } else if let Some(rule) = line.strip_prefix("// +k8s:") {
                if !["deepcopy-gen", "prerelease-lifecycle-gen", "openapi-gen", "conversion-gen"]
                    .iter()
                    .any(|g| rule.starts_with(g))
                {
                    pending.insert(rule.to_string());
                }
            } else if let Some(name) = line.split_once("json:\"").and_then(|(_, rest)| rest.split([',', '"']).next()) {
                let rules = std::mem::take(&mut pending);
                if !rules.is_empty() && !name.is_empty() {
                    self.rules.entry(format!("{version} {kind}.{name}")).or_default().extend(rules);
                }
            } else if !line.starts_with("//") {
                pending.clear();
            }
        }
    }
}

/// `apps/v1` of a folder that ends so.
fn group_version(folder: &Path) -> String {
    let names: Vec<_> = folder.iter().rev().take(2).map(|name| name.to_string_lossy().into_owned()).collect();
    names.into_iter().rev().collect::<Vec<_>>().join("/")
}

fn text_of(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn each_file(folder: &Path, visit: &mut dyn FnMut(&Path) -> Result<(), String>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true if path.ends_with("testdata") || path.ends_with("testing") => {}
            true => each_file(&path, visit)?,
            false => visit(&path)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read() {
        let mut published = PublishedVersion::default();
        published.read_gates(
            "\tGate: {\n\t\t{Version: version.MustParse(\"1.37\"), Default: false, PreRelease: featuregate.Alpha},\n\t\t{Version: \
             version.MustParse(\"1.38\"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},\n\t},\n",
        );
        assert_eq!(published.gates["Gate"], ["1.37 Alpha false", "1.38 GA true locked"]);
        let lifecycle = "func (in *Thing) APILifecycleRemoved() (major, minor int) {\n\treturn 1, 38\n}\n\
            func (in *ThingList) APILifecycleRemoved() (major, minor int) {\n\treturn 1, 38\n}\n";
        published.read_lifecycles(lifecycle, "apps/v1beta1");
        assert_eq!(published.lifecycles.keys().collect::<Vec<_>>(), ["apps/v1beta1 Thing"]);
        assert_eq!(published.lifecycles["apps/v1beta1 Thing"]["removed"], "1.38");
        let types = "// +k8s:deepcopy-gen=true\ntype Thing struct {\n\t// About it.\n\t// +k8s:required\n\t// +k8s:maxItems=3\n\tItems []string `json:\"items,omitempty\" protobuf:\"x\"`\n\tName string `json:\"name\"`\n}\n";
        published.read_rules(types, "apps/v1");
        let rules: Vec<_> = published.rules.iter().map(|(place, rules)| (place.as_str(), rules.len())).collect();
        assert_eq!(rules, [("apps/v1 Thing.items", 2)]);
    }
}
