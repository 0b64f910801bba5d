//! [`Features`]: feature gates, passed in rather than looked up globally.

use std::collections::BTreeMap;
use std::fmt;

use hashbrown::HashSet;

/// The gates of v1.37, one a line: `name version:default:stage[:locked][:min=version] … [needs=gate,…]`. Each part says what the
/// gate is from that version on; `min` is the lowest `--min-compatibility-version` that it holds for.
const KNOWN: &str = include_str!("../data/features.txt");

/// A version of Kubernetes that is emulated or compatible with: `1.37`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl Release {
    /// The version this server is written after.
    pub const CURRENT: Release = Release { major: 1, minor: 37 };

    /// Reads `1.37` or `v1.37`.
    pub fn parse(text: &str) -> Option<Release> {
        let (major, minor) = text.trim_start_matches('v').split_once('.')?;
        Some(Release { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// The minor version before this one.
    pub fn previous(self) -> Release {
        Release { minor: self.minor.saturating_sub(1), ..self }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Which gates are on.
#[derive(Clone, Debug)]
pub struct Features {
    gates: BTreeMap<&'static str, Gate>,
    /// The names of those that are on, which every write asks for.
    on: HashSet<&'static str>,
    emulated: Release,
    compatible: Release,
    allow_privileged: bool,
    garbage_collection: bool,
}

#[derive(Clone, Copy, Debug)]
struct Gate {
    enabled: bool,
    /// `PreAlpha` where the emulated version does not have the gate yet.
    stage: &'static str,
    locked: bool,
    /// Gates that must be on where this one is, separated by commas.
    needs: &'static str,
}

impl Default for Features {
    fn default() -> Features {
        Features::at(Release::CURRENT, Release::CURRENT.previous())
    }
}

impl Features {
    /// The gates as they were in an emulated version, able to work with servers of another.
    pub fn at(emulated: Release, compatible: Release) -> Features {
        let gates = KNOWN.lines().filter_map(|line| {
            let (name, parts) = line.split_once(' ')?;
            Some((name, Gate::at(parts, emulated, compatible)))
        });
        let mut features = Features {
            gates: gates.collect(),
            on: HashSet::new(),
            emulated,
            compatible,
            allow_privileged: false,
            garbage_collection: true,
        };
        features.note_on();
        features
    }

    /// Whether a gate is on. A gate that is not known is off.
    pub fn enabled(&self, name: &str) -> bool {
        self.on.contains(name)
    }

    fn note_on(&mut self) {
        self.on = self.gates.iter().filter(|(_, gate)| gate.enabled).map(|(name, _)| *name).collect();
    }

    /// The version whose behaviour is shown: `--emulated-version`.
    pub fn emulated(&self) -> Release {
        self.emulated
    }

    /// The oldest version of servers that this one runs beside: `--min-compatibility-version`.
    pub fn compatible(&self) -> Release {
        self.compatible
    }

    /// Whether containers may be privileged: `--allow-privileged`, which is no gate but decides alike.
    pub fn allow_privileged(&self) -> bool {
        self.allow_privileged
    }

    /// Whether the garbage collector's finalizers are put on objects that are deleted: `--enable-garbage-collector`.
    pub fn garbage_collection(&self) -> bool {
        self.garbage_collection
    }

    /// Says whether the garbage collector runs.
    pub fn set_garbage_collection(&mut self, on: bool) {
        self.garbage_collection = on;
    }

    /// Says whether containers may be privileged.
    pub fn set_allow_privileged(&mut self, allow: bool) {
        self.allow_privileged = allow;
    }

    /// Sets gates as `--feature-gates` does; `AllAlpha` and `AllBeta` come first whatever their place.
    pub fn set(&mut self, settings: &[(String, bool)]) -> Result<(), String> {
        for (all, stage) in [("AllAlpha", "Alpha"), ("AllBeta", "Beta")] {
            if let Some((_, value)) = settings.iter().find(|(name, _)| name == all) {
                self.gates.values_mut().filter(|g| g.stage == stage && !g.locked).for_each(|g| g.enabled = *value);
            }
        }
        for (name, value) in settings.iter().filter(|(name, _)| name != "AllAlpha" && name != "AllBeta") {
            let gate = self.gates.get_mut(name.as_str()).ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
            let refused = format!("cannot set feature gate {name} to {value}, feature is");
            if gate.locked && gate.enabled != *value {
                return Err(format!("{refused} locked to {}", gate.enabled));
            }
            if gate.stage == PRE_ALPHA {
                let (emulated, compatible) = (self.emulated, self.compatible);
                return Err(format!(
                    "{refused} PreAlpha at emulated version {emulated}, min compatibility version {compatible}"
                ));
            }
            gate.enabled = *value;
        }
        self.note_on();
        if settings.is_empty() { Ok(()) } else { self.check_needs() }
    }

    /// Gates that are on need others to be on.
    fn check_needs(&self) -> Result<(), String> {
        let problems = self.gates.iter().filter(|(_, gate)| gate.enabled).filter_map(|(name, gate)| {
            let off: Vec<&str> = gate.needs.split(',').filter(|need| !need.is_empty() && !self.enabled(need)).collect();
            let problem = format!("{name} is enabled, but depends on features that are disabled: [{}]", off.join(" "));
            (!off.is_empty()).then_some(problem)
        });
        let problems: Vec<String> = problems.collect();
        if problems.is_empty() { Ok(()) } else { Err(object::aggregate(problems)) }
    }

    /// Every gate of the emulated version with its stage and state, for metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let known = self.gates.iter().filter(|(_, gate)| gate.stage != PRE_ALPHA);
        known.map(|(name, gate)| (*name, gate.stage, gate.enabled))
    }
}

const PRE_ALPHA: &str = "PreAlpha";

impl Gate {
    /// What the last part that applies says; the parts are in the order of their versions.
    fn at(parts: &'static str, emulated: Release, compatible: Release) -> Gate {
        let mut gate = Gate { enabled: false, stage: PRE_ALPHA, locked: false, needs: "" };
        for part in parts.split(' ') {
            if let Some(needs) = part.strip_prefix("needs=") {
                gate.needs = needs;
                continue;
            }
            let mut words = part.split(':');
            let since = words.next().and_then(Release::parse);
            let (enabled, stage) = (words.next() == Some("true"), words.next().unwrap_or(PRE_ALPHA));
            let (mut locked, mut applies) = (false, since.is_some_and(|since| since <= emulated));
            for word in words {
                match word.strip_prefix("min=").and_then(Release::parse) {
                    Some(min) => applies &= min <= compatible,
                    None => locked = true,
                }
            }
            if applies {
                gate = Gate { enabled, stage, locked, ..gate };
            }
        }
        gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_follow_the_flag() {
        let check = |emulated: &str, settings: &[(&str, bool)], want: Result<&[(&str, bool)], &str>| {
            let emulated = Release::parse(emulated).unwrap();
            let mut features = Features::at(emulated, emulated.previous());
            let settings: Vec<(String, bool)> = settings.iter().map(|(name, on)| (name.to_string(), *on)).collect();
            match (features.set(&settings), want) {
                (Ok(()), Ok(states)) => {
                    for (name, on) in states {
                        assert_eq!(features.enabled(name), *on, "{name} in {emulated} with {settings:?}");
                    }
                }
                (result, want) => assert_eq!(result, want.map(|_| ()).map_err(str::to_string), "{settings:?}"),
            }
        };
        check("1.37", &[], Ok(&[("DynamicResourceAllocation", true), ("NoSuchGate", false)]));
        check("1.37", &[("Nope", true)], Err("unrecognized feature gate: Nope"));
        let locked = "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true";
        check("1.37", &[("DynamicResourceAllocation", false)], Err(locked));
        check("1.33", &[("DynamicResourceAllocation", false)], Ok(&[("DynamicResourceAllocation", false)]));
        check(
            "1.37",
            &[("AllAlpha", true), ("AllBeta", true)],
            Ok(&[("APIServingWithRoutine", true), ("LoggingAlphaOptions", true)]),
        );
        check(
            "1.37",
            &[("AllAlpha", true), ("AllBeta", true), ("APIServingWithRoutine", false)],
            Ok(&[("APIServingWithRoutine", false)]),
        );
        check("1.37", &[("ContextualLogging", false)], Ok(&[("ContextualLogging", false)]));
        let needs =
            "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]";
        check("1.37", &[("ClusterTrustBundleProjection", true), ("ClusterTrustBundle", false)], Err(needs));
        let absent = "cannot set feature gate APIServerWebhookAuthenticationToken to true, feature is PreAlpha at emulated \
                      version 1.36, min compatibility version 1.35";
        check("1.36", &[("APIServerWebhookAuthenticationToken", true)], Err(absent));
    }

    #[test]
    fn a_gate_can_wait_for_compatibility() {
        for (compatible, want) in [(Release::CURRENT.previous(), false), (Release::CURRENT, true)] {
            assert_eq!(Features::at(Release::CURRENT, compatible).enabled("DRAFractionalCapacityRange"), want);
        }
    }
}
