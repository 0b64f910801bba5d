//! `--runtime-config`: which group versions and resources are served, and what of it kube-apiserver refuses.

use super::{Given, boolean};

const SWEEPING: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// Group versions that kube-apiserver knows and no longer serves, or never served: they can be named without an effect.
const UNSERVED: &[(&str, &[&str])] = &[
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1beta1"]),
    ("apiregistration.k8s.io", &["v1beta1"]),
    ("apps", &["v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1beta1"]),
    ("batch", &["v1beta1"]),
    ("certificates.k8s.io", &["v1alpha1"]),
    ("discovery.k8s.io", &["v1beta1"]),
    ("events.k8s.io", &["v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1beta1", "v1beta2", "v1beta3"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1beta1"]),
    ("node.k8s.io", &["v1alpha1", "v1beta1"]),
    ("policy", &["v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1alpha1", "v1beta1"]),
    ("storage.k8s.io", &["v1alpha1", "v1beta1"]),
];

/// Reads the pairs, of which the last for a key counts, and refuses what kube-apiserver refuses, in its words.
pub fn read(given: Given<'_>, priority_and_fairness: bool) -> Result<Vec<(String, bool)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for item in given.list() {
        let (key, value) = item.split_once('=').unwrap_or((&item, ""));
        let (key, value) = (key.trim().to_string(), value.trim().to_string());
        pairs.retain(|(known, _)| *known != key);
        pairs.push((key, value));
    }
    pairs.sort();
    let mut problems = Vec::new();
    problems.extend(Some(()).filter(|()| priority_and_fairness).and_then(|()| fairness_conflict(&pairs)));
    match pairs.as_slice() {
        [(key, value)] if key == "api/all" && value == "false" => {
            problems.push("invalid runtime-config with only api/all=false".to_string());
        }
        _ => problems.extend(unknown(&pairs)),
    }
    if !problems.is_empty() {
        return Err(object::aggregate(problems));
    }
    pairs.into_iter().map(|(key, value)| setting(&key, &value).map(|on| (key, on))).collect()
}

/// Priority and fairness keeps its configuration in objects, so their version must be served.
fn fairness_conflict(pairs: &[(String, String)]) -> Option<String> {
    let set = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"].into_iter().find_map(|key| {
        let (_, value) =
            pairs.iter().find(|(known, value)| known == key && matches!(value.as_str(), "true" | "false"))?;
        Some((key, value))
    });
    let (key, _) = set.filter(|(_, value)| *value == "false")?;
    Some(format!("--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"))
}

/// The keys that are none, or the groups that do not exist.
fn unknown(pairs: &[(String, String)]) -> Option<String> {
    let mut groups = Vec::new();
    for (key, _) in pairs.iter().filter(|(key, _)| !SWEEPING.contains(&key.as_str())) {
        match key.split('/').collect::<Vec<_>>()[..] {
            [group, version] | [group, version, _] if !version.is_empty() => {
                if !is_group(group) {
                    groups.push(format!("{group}/{version}"));
                }
            }
            _ => return Some(format!("runtime-config invalid key {key}")),
        }
    }
    groups.dedup();
    (!groups.is_empty()).then(|| format!("unknown api groups {}", groups.join(",")))
}

fn setting(key: &str, value: &str) -> Result<bool, String> {
    if SWEEPING.contains(&key) {
        return match value {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("invalid value {key}={other}")),
        };
    }
    let mut parts = key.splitn(3, '/');
    let (group, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if !is_version(group, version) {
        let name = object::GroupVersion::new(group, version);
        return Err(format!("group version {name} that has not been registered"));
    }
    let on = match value {
        "" => true,
        value => boolean(value).map_err(|why| format!("invalid value of {key}: {value}, err: {why}"))?,
    };
    match parts.next().filter(|resource| resource.to_lowercase() != *resource) {
        Some(resource) => {
            let resource = object::quote(resource);
            Err(format!(
                "invalid key {key}: group/version/resource and resource is always lowercase plural, not {resource}"
            ))
        }
        None => Ok(on),
    }
}

fn is_group(group: &str) -> bool {
    schema::builtin().groups().iter().any(|known| known.name == group)
        || UNSERVED.iter().any(|(known, _)| *known == group)
}

fn is_version(group: &str, version: &str) -> bool {
    let mut served = schema::builtin().groups().iter().filter(|known| known.name == group);
    served.any(|known| known.versions.iter().any(|known| known.name == version))
        || UNSERVED.iter().any(|(known, versions)| *known == group && versions.contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kube_apiserver_refuses_is_refused() {
        for (given, want) in [
            ("foo/v1=true", Err("unknown api groups foo/v1")),
            ("foo/v1,bar/v1/x,apps/v1", Err("unknown api groups bar/v1,foo/v1")),
            ("apps/v9=true", Err("group version apps/v9 that has not been registered")),
            ("api/bogus=true", Err("unknown api groups api/bogus")),
            (
                "apps/v1=maybe",
                Err("invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax"),
            ),
            ("apps=true", Err("runtime-config invalid key apps")),
            ("api/all", Err("invalid value api/all=")),
            (
                "api/all=false",
                Err(
                    "[--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true, invalid runtime-config \
                     with only api/all=false]",
                ),
            ),
            (
                "flowcontrol.apiserver.k8s.io/v1=false",
                Err(
                    "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false conflicts with --enable-priority-and-fairness=true",
                ),
            ),
            (
                "apps/v1/Deployments=false",
                Err(
                    "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not \
                     \"Deployments\"",
                ),
            ),
            ("apps/v1/nothing=true", Ok(vec![("apps/v1/nothing", true)])),
            ("apps/v1=", Ok(vec![("apps/v1", true)])),
            ("/v1=true", Ok(vec![("/v1", true)])),
            (
                "extensions/v1beta1=true,apps/v1beta1=false",
                Ok(vec![("apps/v1beta1", false), ("extensions/v1beta1", true)]),
            ),
            // The last one counts.
            ("batch/v1=true,batch/v1=false", Ok(vec![("batch/v1", false)])),
            (
                "api/all=false,flowcontrol.apiserver.k8s.io/v1=true",
                Ok(vec![("api/all", false), ("flowcontrol.apiserver.k8s.io/v1", true)]),
            ),
        ] {
            let got = read(Given(&[given.to_string()]), true);
            let want = want.map(|pairs| pairs.into_iter().map(|(key, on)| (key.to_string(), on)).collect::<Vec<_>>());
            assert_eq!(got, want.map_err(str::to_string), "{given}");
        }
        assert!(read(Given(&["flowcontrol.apiserver.k8s.io/v1=false".to_string()]), false).is_ok());
    }
}
