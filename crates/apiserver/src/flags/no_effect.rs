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
    use super::super::{PARTS, check, upstream};
    use super::*;
    use crate::logging;

    #[test]
    fn every_flag_has_an_effect_or_a_reason() {
        for flag in upstream() {
            let rows = PARTS.iter().copied().flatten().filter(|row| row.name == flag.name).count();
            let rows = rows + logging::FLAGS.iter().filter(|row| row.name == flag.name).count();
            let without = usize::from(reason(flag.name).is_some()) + usize::from(flag.name == "version");
            assert_eq!(rows + without, 1, "--{} has one row or one reason", flag.name);
        }
        let rows = PARTS.iter().copied().flatten().map(|row| row.name).chain(logging::FLAGS.iter().map(|row| row.name));
        for name in rows.chain(REASONS.iter().map(|(name, _)| *name)).chain(check::names()) {
            assert!(upstream().any(|flag| flag.name == name), "--{name} is none of kube-apiserver's");
        }
    }
}
