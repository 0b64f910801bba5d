//! Settings that restrict what clients may do, or keep account of it, and that this server does not implement yet.
//!
//! Ignoring one would leave the server more open than its administrator believes, so the server refuses to start with it. A
//! row is deleted with the change that implements its feature.

/// Flags, with the feature they belong to.
const FLAGS: &[(&str, &str)] = &[
    ("admission-control", "the deprecated list of all admission plugins"),
    ("max-connection-bytes-per-sec", "a limit on connections' bandwidth"),
];

/// Refuses a flag that was given a value.
pub fn check_flag(name: &str, values: &[String]) -> Result<(), String> {
    let feature = FLAGS.iter().find(|(flag, _)| *flag == name).map(|(_, feature)| *feature);
    match feature.filter(|_| values.iter().any(|value| !value.is_empty())) {
        Some(feature) => refuse(&format!("--{name}"), feature),
        None => Ok(()),
    }
}

fn refuse(setting: &str, feature: &str) -> Result<(), String> {
    Err(format!(
        "{setting}: {feature} is not implemented yet, and ignoring it would be unsafe; remove the setting to start without it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| item.to_string()).collect()
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        // Rows leave these tables; the sentence is tested with whatever is left.
        for (flag, feature) in FLAGS {
            let refused = check_flag(flag, &strings(&["x"])).unwrap_err();
            assert!(refused.starts_with(&format!("--{flag}: {feature} is not implemented yet")), "{refused}");
            assert_eq!(check_flag(flag, &strings(&[""])), Ok(()));
        }
        assert_eq!(check_flag("profiling", &strings(&["false"])), Ok(()));
    }
}
