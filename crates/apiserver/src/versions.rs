//! [`Versions`]: which version's behaviour the server shows, and which versions it works beside.

use registry::{Lifecycle, Release};

use crate::flags::Given;

/// The oldest version that v1.37 emulates or works beside.
const OLDEST: Release = Release { major: 1, minor: 34 };

/// `--emulated-version` and `--min-compatibility-version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub emulated: Release,
    pub compatible: Release,
    compatible_given: bool,
    /// `--emulation-forward-compatible`: newer versions of what the emulated version serves are served too.
    pub forward_compatible: bool,
    /// `--runtime-config-emulation-forward-compatible`: `--runtime-config` can enable what the emulated version lacks.
    pub runtime_forward_compatible: bool,
}

impl Default for Versions {
    fn default() -> Versions {
        let (emulated, compatible) = (Release::CURRENT, Release::CURRENT.previous());
        Versions {
            emulated,
            compatible,
            compatible_given: false,
            forward_compatible: false,
            runtime_forward_compatible: false,
        }
    }
}

impl Versions {
    /// Those of a server that shows the behaviour of a version such as `1.36`, as the flag `--emulated-version` alone gives them.
    pub fn emulating(version: &str) -> Result<Versions, String> {
        let mut versions = Versions::default();
        versions.set_emulated(Given(&[version.to_string()]))?;
        versions.check()?;
        Ok(versions)
    }

    pub(crate) fn set_emulated(&mut self, given: Given<'_>) -> Result<(), String> {
        let Some(emulated) = release(given)? else { return Ok(()) };
        self.emulated = emulated;
        if !self.compatible_given {
            self.compatible = emulated.previous().max(OLDEST);
        }
        Ok(())
    }

    pub(crate) fn set_compatible(&mut self, given: Given<'_>) -> Result<(), String> {
        if let Some(compatible) = release(given)? {
            self.compatible = compatible;
            self.compatible_given = true;
        }
        Ok(())
    }

    pub(crate) fn lifecycle(&self, keep_removed: bool) -> Lifecycle {
        Lifecycle { emulated: self.emulated, compatible: self.compatible, keep_removed }
    }

    /// As `/version` shows them.
    pub(crate) fn shown(&self) -> server::Version {
        server::Version {
            emulated: self.emulated.to_string(),
            compatible: self.compatible.to_string(),
            ..server::Version::default()
        }
    }

    /// Whether the two fit each other and this server.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (emulated, compatible, current) = (self.emulated, self.compatible, Release::CURRENT);
        let mut problems = Vec::new();
        if !(OLDEST..=current).contains(&emulated) {
            problems.push(format!("emulation version {emulated} is not between [{OLDEST}, {current}.0]"));
        }
        if !(OLDEST..=emulated).contains(&compatible) {
            let range = format!("[{OLDEST}, {emulated}]");
            problems.push(format!("minCompatibilityVersion version {compatible} is not between {range}"));
        }
        for (on, option) in [
            (self.forward_compatible, "EmulationForwardCompatible"),
            (self.runtime_forward_compatible, "RuntimeConfigEmulationForwardCompatible"),
        ] {
            if on && emulated == current {
                let why = "cannot be set to true if the emulation version is the same as the binary version";
                problems.push(format!("ServerRunOptions.{option} {why}"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(object::aggregate(problems)) }
    }
}

/// The version of the component `kube`, which is the only one: `1.36` or `kube=1.36`.
fn release(given: Given<'_>) -> Result<Option<Release>, String> {
    let mut found: Option<Release> = None;
    for item in given.list() {
        let (component, text) = item.split_once('=').unwrap_or(("kube", &item));
        let (component, text) = (component.trim(), text.trim());
        if component != "kube" {
            return Err(format!("component not registered: {component}"));
        }
        let text = text.strip_suffix(".0").filter(|text| text.contains('.')).unwrap_or(text);
        let release = match Release::parse(text) {
            Some(release) => release,
            None if text.split('.').count() == 3 => {
                return Err(format!("patch version not allowed, got: kube={text}"));
            }
            None => return Err(format!("could not parse {} as version", object::quote(text))),
        };
        if let Some(before) = found {
            return Err(format!("duplicate version flag, kube={before} and kube={release}"));
        }
        found = Some(release);
    }
    Ok(found)
}

/// Feature gates, which may name the component they are of: `kube:Gate=true`.
pub(crate) fn without_component(given: Given<'_>) -> Result<Vec<String>, String> {
    let mut gates = Vec::new();
    let mut named = None;
    for item in given.list() {
        let (component, gate) = match item.split_once(':') {
            Some((component, gate)) => (component.trim(), gate.trim()),
            None => ("", item.trim()),
        };
        if !matches!(component, "" | "kube") {
            return Err(format!("component not registered: {component}"));
        }
        if named.replace(component.to_string()).is_some_and(|before| before != component) {
            let why = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
            return Err(why.into());
        }
        gates.push(gate.to_string());
    }
    Ok(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_the_flags() {
        let check = |emulated: &str, compatible: &str, want: Result<(&str, &str), &str>| {
            let mut versions = Versions::default();
            let (emulated, compatible) = ([emulated.to_string()], [compatible.to_string()]);
            let result = versions
                .set_emulated(Given(&emulated))
                .and_then(|()| versions.set_compatible(Given(&compatible)))
                .and_then(|()| versions.check());
            let shown = (versions.emulated.to_string(), versions.compatible.to_string());
            let got = result.map(|()| (shown.0.as_str(), shown.1.as_str()));
            assert_eq!(got, want.map_err(str::to_string), "{emulated:?} {compatible:?}");
        };
        check("", "", Ok(("1.37", "1.36")));
        check("1.35", "", Ok(("1.35", "1.34")));
        check("kube=1.35.0", "kube=1.35", Ok(("1.35", "1.35")));
        check("", "1.37", Ok(("1.37", "1.37")));
        check("1.38", "", Err("emulation version 1.38 is not between [1.34, 1.37.0]"));
        check("1.35", "1.36", Err("minCompatibilityVersion version 1.36 is not between [1.34, 1.35]"));
        check("1.34", "", Ok(("1.34", "1.34")));
        let both = "[emulation version 1.30 is not between [1.34, 1.37.0], minCompatibilityVersion version 1.34 is not \
                    between [1.34, 1.30]]";
        check("1.30", "", Err(both));
        check("wardle=1.2", "", Err("component not registered: wardle"));
        check("1.35,kube=1.36", "", Err("duplicate version flag, kube=1.35 and kube=1.36"));
        check("1.35.2", "", Err("patch version not allowed, got: kube=1.35.2"));
        check("new", "", Err("could not parse \"new\" as version"));
    }

    #[test]
    fn gates_may_name_their_component() {
        let check = |given: &[&str], want: Result<&[&str], &str>| {
            let given: Vec<String> = given.iter().map(|item| item.to_string()).collect();
            let want = want.map(|gates| gates.iter().map(|gate| gate.to_string()).collect::<Vec<_>>());
            assert_eq!(without_component(Given(&given)), want.map_err(str::to_string), "{given:?}");
        };
        check(&["A=true,B=false"], Ok(&["A=true", "B=false"]));
        check(&["kube:A=true", "kube:B=false"], Ok(&["A=true", "B=false"]));
        check(&["wardle:A=true"], Err("component not registered: wardle"));
        let mixed = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
        check(&["kube:A=true", "B=false"], Err(mixed));
    }
}
