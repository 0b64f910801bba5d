//! [`Served`]: which versions of which built-in resources are served, by `--runtime-config` and the emulated version.

use std::collections::HashSet;

use object::{GroupVersion, GroupVersionResource, compare_versions};
use registry::Lifecycle;
use schema::Group;

use crate::config::Config;
use crate::profile::ApiProfile;
use crate::versions::Versions;

#[derive(Default)]
pub(crate) struct Served {
    profile: ApiProfile,
    /// `--runtime-config`.
    runtime: Vec<(String, bool)>,
    /// Versions that are served because an older one is: `--emulation-forward-compatible`.
    implied: HashSet<GroupVersion>,
    /// Versions and resources that the emulated version does not have yet.
    absent: HashSet<GroupVersionResource>,
}

impl Served {
    pub(crate) fn new(config: &Config, lifecycle: Lifecycle) -> Result<Served, String> {
        let mut served =
            Served { profile: config.profile.clone(), runtime: config.runtime_config.clone(), ..Served::default() };
        for group in schema::builtin().groups() {
            served.emulate(group, lifecycle, &config.versions)?;
        }
        Ok(served)
    }

    /// Whether a resource is served, whose version is or is not by default.
    pub(crate) fn has(&self, resource: &GroupVersionResource, default: bool) -> bool {
        if !self.profile.serves(resource) {
            return false;
        }
        let version = resource.group_version();
        let own = self.setting(&format!("{version}/{}", resource.resource));
        let is_on = own.unwrap_or_else(|| self.implied.contains(&version) || self.is_enabled(&version, default));
        is_on && !self.absent.contains(resource)
    }

    /// Goes through a group's versions from the oldest, because what an older one serves can enable a newer one.
    fn emulate(&mut self, group: &Group, lifecycle: Lifecycle, versions: &Versions) -> Result<(), String> {
        let mut ascending: Vec<_> = group.versions.iter().collect();
        ascending.sort_by(|a, b| compare_versions(&a.name, &b.name));
        let (mut is_older_on, mut older) = (false, HashSet::new());
        for version in ascending {
            let name = GroupVersion::new(group.name.clone(), version.name.clone());
            let (own, is_alpha) = (self.setting(&name.to_string()), name.version.contains("alpha"));
            if versions.forward_compatible && is_older_on && own.is_none() {
                self.implied.insert(name.clone());
            }
            is_older_on |= !is_alpha && self.is_enabled(&name, version.enabled);
            let mut is_left = false;
            let enabled: Vec<_> = version.resources.iter().filter(|r| self.has(&r.name, version.enabled)).collect();
            for resource in enabled {
                let chosen = self.setting(&format!("{name}/{}", resource.name.resource)) == Some(true);
                let is_wanted = versions.forward_compatible && older.contains(&resource.name.resource)
                    || versions.runtime_forward_compatible && (chosen || own == Some(true));
                match lifecycle.introduced(&resource.kind).filter(|since| *since > lifecycle.emulated && !is_wanted) {
                    None if is_alpha => is_left = true,
                    None => {
                        is_left = true;
                        older.insert(resource.name.resource.clone());
                    }
                    Some(since) if chosen => {
                        let what = format!("resource {name}, Resource={}", resource.name.resource);
                        let why = format!("it is introduced at {since}");
                        return Err(too_new(&what, &why, lifecycle));
                    }
                    Some(_) => {
                        self.absent.insert(resource.name.clone());
                    }
                }
            }
            if own == Some(true) && !is_left && !version.resources.is_empty() {
                return Err(too_new(&format!("version {name}"), "all the resources have been introduced", lifecycle));
            }
        }
        Ok(())
    }

    /// The setting of `--runtime-config` for a version: its own name first, then the sweeping settings.
    fn is_enabled(&self, version: &GroupVersion, default: bool) -> bool {
        let stage = match () {
            () if version.version.contains("alpha") => "api/alpha",
            () if version.version.contains("beta") => "api/beta",
            () => "api/ga",
        };
        let own = self.setting(&version.to_string());
        own.or_else(|| self.setting(stage)).or_else(|| self.setting("api/all")).unwrap_or(default)
    }

    fn setting(&self, name: &str) -> Option<bool> {
        self.runtime.iter().find(|(key, _)| key == name).map(|(_, on)| *on)
    }
}

fn too_new(what: &str, why: &str, lifecycle: Lifecycle) -> String {
    let emulated = lifecycle.emulated;
    format!(
        "cannot enable {what} in runtime-config because {why} after the current version {emulated}. Consider setting \
         --runtime-config-emulation-forward-compatible=true"
    )
}

#[cfg(test)]
mod tests {
    use registry::Release;

    use super::*;

    /// Emulated version, forward compatible, the same for runtime-config, `--runtime-config`, resource, whether it is served
    /// or what is wrong.
    type Case<'a> = (&'a str, bool, bool, &'a str, &'a str, Result<bool, &'a str>);

    fn check(cases: &[Case]) {
        for &(emulated, forward_compatible, runtime_forward_compatible, runtime, resource, want) in cases {
            let emulated = Release::parse(emulated).unwrap();
            let mut versions = Versions::default();
            (versions.emulated, versions.forward_compatible) = (emulated, forward_compatible);
            versions.runtime_forward_compatible = runtime_forward_compatible;
            let mut config = Config { versions, ..Config::default() };
            config.runtime_config = runtime.split_whitespace().map(|name| (name.to_string(), true)).collect();
            let (version, name) = resource.rsplit_once('/').unwrap();
            let resource = GroupVersion::parse(version).unwrap().with_resource(name);
            let versions_of_all = schema::builtin().groups().iter().flat_map(|group| &group.versions);
            let mut resources =
                versions_of_all.flat_map(|version| version.resources.iter().map(|r| (r, version.enabled)));
            let default = resources.find(|(r, _)| r.name == resource).is_some_and(|(_, on)| on);
            let got = Served::new(&config, versions.lifecycle(false)).map(|served| served.has(&resource, default));
            assert_eq!(got, want.map_err(str::to_string), "{resource} emulating {emulated} with {runtime:?}");
        }
    }

    #[test]
    fn versions_are_served_from_their_release_on() {
        let claims = "resource.k8s.io/v1/resourceclaims";
        let older = "resource.k8s.io/v1beta1";
        check(&[
            ("1.37", false, false, "", claims, Ok(true)),
            ("1.33", false, false, "", claims, Ok(false)),
            ("1.33", false, false, older, "resource.k8s.io/v1beta1/resourceclaims", Ok(true)),
            ("1.33", true, false, "", claims, Ok(false)),
            ("1.33", true, false, older, claims, Ok(true)),
            ("1.33", true, false, older, "resource.k8s.io/v1beta2/resourceclaims", Ok(true)),
            ("1.33", false, true, "resource.k8s.io/v1", claims, Ok(true)),
            ("1.33", false, true, "api/all", claims, Ok(false)),
            ("1.37", false, false, "batch/v1/jobs", "batch/v1/jobs", Ok(true)),
        ]);
        let version = "cannot enable version resource.k8s.io/v1 in runtime-config because all the resources have been \
                       introduced after the current version 1.33. Consider setting \
                       --runtime-config-emulation-forward-compatible=true";
        let one = "cannot enable resource resource.k8s.io/v1, Resource=resourceclaims in runtime-config because it is \
                   introduced at 1.34 after the current version 1.33. Consider setting \
                   --runtime-config-emulation-forward-compatible=true";
        check(&[
            ("1.33", false, false, "resource.k8s.io/v1", claims, Err(version)),
            ("1.33", false, false, "resource.k8s.io/v1/resourceclaims", claims, Err(one)),
        ]);
    }
}
