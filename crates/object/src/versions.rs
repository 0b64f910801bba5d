//! The order of API versions.

use std::cmp::{Ordering, Reverse};

/// Compares versions by how much clients should want them: `v10` over `v2` over `v1beta3` over `v1alpha1`, and names that
/// are no such versions below all of them, the first in the alphabet on top.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parts(a), parts(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => Reverse(a).cmp(&Reverse(b)),
    }
}

/// Stage, major and minor of `v1`, `v1beta2` or `v1alpha3`.
fn parts(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = number(&rest[..end])?;
    match &rest[end..] {
        "" => Some((2, major, 0)),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => Some((1, major, number(minor)?)),
            (_, Some(minor)) => Some((0, major, number(minor)?)),
            _ => None,
        },
    }
}

/// Digits that do not start with zero.
fn number(text: &str) -> Option<u64> {
    if text.starts_with('0') { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_maturity() {
        let mut versions =
            ["foo1", "v1alpha1", "v12alpha1", "v10", "v11beta2", "v2", "v1", "foo10", "v3beta1", "v01", "v1betax"];
        versions.sort_by(|a, b| compare_versions(b, a));
        let want =
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10", "v01", "v1betax"];
        assert_eq!(versions, want);
    }
}
