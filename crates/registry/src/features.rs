//! [`Features`]: feature gates, passed in rather than looked up globally.

use std::collections::BTreeMap;

/// The gates of v1.37: `name default stage [locked]`, one a line.
const KNOWN: &str = include_str!("../data/features.txt");

/// Which gates are on.
#[derive(Clone, Debug)]
pub struct Features {
    gates: BTreeMap<&'static str, Gate>,
    allow_privileged: bool,
}

#[derive(Clone, Copy, Debug)]
struct Gate {
    enabled: bool,
    stage: &'static str,
    locked: bool,
}

impl Default for Features {
    fn default() -> Features {
        let gate = |line: &'static str| {
            let mut words = line.split(' ');
            let name = words.next()?;
            let enabled = words.next()? == "true";
            Some((name, Gate { enabled, stage: words.next()?, locked: words.next().is_some() }))
        };
        Features { gates: KNOWN.lines().filter_map(gate).collect(), allow_privileged: false }
    }
}

impl Features {
    /// Whether a gate is on. A gate that is not known is off.
    pub fn enabled(&self, name: &str) -> bool {
        self.gates.get(name).is_some_and(|gate| gate.enabled)
    }

    /// Whether containers may be privileged: `--allow-privileged`, which is no gate but decides alike.
    pub fn allow_privileged(&self) -> bool {
        self.allow_privileged
    }

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
            if gate.locked && gate.enabled != *value {
                return Err(format!(
                    "cannot set feature gate {name} to {value}, feature is locked to {}",
                    gate.enabled
                ));
            }
            gate.enabled = *value;
        }
        Ok(())
    }

    /// Every gate with its stage and state, for metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        self.gates.iter().map(|(name, gate)| (*name, gate.stage, gate.enabled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_follow_the_flag() {
        let mut features = Features::default();
        assert!(features.enabled("DynamicResourceAllocation"));
        assert!(!features.enabled("NoSuchGate"));
        let set = |features: &mut Features, name: &str, value| features.set(&[(name.to_string(), value)]);
        assert_eq!(set(&mut features, "Nope", true), Err("unrecognized feature gate: Nope".into()));
        assert_eq!(
            set(&mut features, "DynamicResourceAllocation", false),
            Err("cannot set feature gate DynamicResourceAllocation to false, feature is locked to true".into())
        );
        let alpha = features.iter().find(|(_, stage, on)| *stage == "Alpha" && !on).unwrap().0;
        set(&mut features, "AllAlpha", true).unwrap();
        assert!(features.enabled(alpha));
    }
}
