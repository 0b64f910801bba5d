//! Upstream flags that can have no effect here, and why. `--help` says so.

/// Why a flag has no effect; None if it could have one.
pub fn reason(flag: &str) -> Option<&'static str> {
    REASONS.iter().find(|(name, _)| *name == flag).map(|(_, why)| *why)
}

const REASONS: &[(&str, &str)] = &[
    ("contention-profiling", "profiles of Go's scheduler do not exist here"),
    ("delete-collection-workers", "deletions of one request share commits, more workers would not be faster"),
    ("kubelet-timeout", "kube-apiserver does not use it either"),
    ("log-flush-frequency", "log lines are written at once"),
    ("log-json-info-buffer-size", "log lines are written at once"),
    ("log-text-info-buffer-size", "log lines are written at once"),
    ("permit-address-sharing", "addresses are always shared with sockets that are closing"),
    ("vmodule", "it names Go source files"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_given_for_flags_without_effect() {
        for (name, _) in REASONS {
            let flag = super::super::upstream().find(|flag| flag.name == *name);
            assert!(flag.is_some() && !super::super::is_honoured(name), "--{name}");
        }
        assert_eq!(reason("secure-port"), None);
    }
}
