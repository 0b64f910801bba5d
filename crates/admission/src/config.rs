//! [`Configuration`]: `--admission-control-config-file`, an AdmissionConfiguration with a part for each plugin that wants one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codec::Notes;
use object::{Meta, Value};

/// Plugins' names to their own configurations.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    parts: BTreeMap<String, Value>,
}

impl Configuration {
    /// Reads the file, and the files it names. None is an empty configuration.
    pub fn read(path: Option<&Path>) -> Result<Configuration, String> {
        let Some(path) = path else { return Ok(Configuration::default()) };
        let text = std::fs::read(path).map_err(|error| {
            let path = object::quote(&path.display().to_string());
            format!("unable to read admission control configuration from {path} [{error}]")
        })?;
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        Configuration::parse(&text, |name| {
            let file = folder.join(name);
            std::fs::read(&file)
                .map_err(|error| format!("Couldn't open admission plugin configuration {}: {error}", file.display()))
        })
    }

    /// `open` reads a file that the configuration names.
    pub fn parse(text: &[u8], open: impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<Configuration, String> {
        let value = decode(text)?;
        let mut parts = BTreeMap::new();
        if !value.field("podNodeSelectorPluginConfig").is_null() {
            // Before there was a kind for this file, it was this plugin's own.
            parts.insert("PodNodeSelector".to_string(), value);
            return Ok(Configuration { parts });
        }
        let version = value.api_version();
        let known = matches!(version, "apiserver.config.k8s.io/v1" | "apiserver.k8s.io/v1alpha1");
        if value.kind() != "AdmissionConfiguration" || !known {
            return Err(format!(
                "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                object::quote(value.kind()),
                object::quote(version)
            ));
        }
        for plugin in value.list_at(&["plugins"]) {
            let (name, path) = (plugin.str_at(&["name"]), plugin.str_at(&["path"]));
            let own = plugin.field("configuration");
            if parts.contains_key(name) {
                continue;
            }
            if !own.is_null() {
                parts.insert(name.to_string(), own.clone());
            } else if !path.is_empty() {
                parts.insert(name.to_string(), decode(&open(path)?)?);
            }
        }
        Ok(Configuration { parts })
    }

    /// A plugin's own part.
    pub fn of(&self, plugin: &str) -> Option<&Value> {
        self.parts.get(plugin)
    }

    /// A plugin's own part, which must be of this kind in a version of this group.
    pub fn of_kind(&self, plugin: &str, group: &str, kind: &str) -> Result<Option<&Value>, String> {
        let Some(part) = self.of(plugin) else { return Ok(None) };
        let in_group = part.api_version().split('/').next() == Some(group);
        if part.kind() == kind && in_group {
            return Ok(Some(part));
        }
        Err(format!(
            "failed to initialize admission plugin {}: no kind {} is registered for version {}",
            object::quote(plugin),
            object::quote(part.kind()),
            object::quote(part.api_version())
        ))
    }
}

fn decode(text: &[u8]) -> Result<Value, String> {
    codec::yaml::decode(text, None, &mut Notes::ignore()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_inside_or_in_files() {
        let text = b"apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: A
  configuration: {kind: X, apiVersion: g/v1}
- name: B
  path: b.yaml
";
        let read = Configuration::parse(text, |path| Ok(format!("from: {path}").into_bytes())).unwrap();
        assert_eq!(read.of("B").unwrap().str_at(&["from"]), "b.yaml");
        assert!(read.of("C").is_none());
        assert!(read.of_kind("A", "g", "X").unwrap().is_some());
        assert!(read.of_kind("A", "g", "Y").is_err());
        assert!(Configuration::parse(b"kind: Other", |_| Ok(Vec::new())).is_err());
    }
}
