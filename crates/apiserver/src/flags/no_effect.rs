//! Upstream flags that can have no effect here, and why. `--help` says so.

/// Why a flag has no effect; None if it could have one.
pub fn reason(flag: &str) -> Option<&'static str> {
    REASONS.iter().find(|(name, _)| *name == flag).map(|(_, why)| *why)
}

const REASONS: &[(&str, &str)] = &[
    ("contention-profiling", "waiting for locks is recorded by Go's runtime only"),
    ("default-watch-cache-size", "kube-apiserver does not use it either"),
    ("kubelet-read-only-port", "kube-apiserver does not use it either"),
    ("kubelet-timeout", "kube-apiserver does not use it either"),
    ("permit-address-sharing", "addresses are always shared with sockets that are closing, as Go's listeners do"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_an_effect_or_a_reason() {
        for flag in super::super::upstream() {
            let honoured = flag.name == "version" || super::super::is_honoured(flag.name);
            assert_ne!(honoured, reason(flag.name).is_some(), "--{}", flag.name);
        }
        for (name, _) in REASONS {
            assert!(super::super::upstream().any(|flag| flag.name == *name), "--{name}");
        }
    }
}
