//! Paths on a node's file system, as fields hold them.

use object::{Errors, Path};

/// No element of the path may be `..`.
pub fn no_backsteps(path: &str, at: &Path, errors: &mut Errors) {
    if has_backsteps(path) {
        errors.invalid(at, path, "must not contain '..'");
    }
}

pub fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|element| element == "..")
}

/// A relative path that stays below where it starts.
pub fn local_descending(path: &str, at: &Path, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    no_backsteps(path, at, errors);
}

/// As [`local_descending`], for files that must not look like the ones the kubelet makes.
pub fn local_non_reserved(path: &str, at: &Path, errors: &mut Errors) {
    local_descending(path, at, errors);
    // `../` has been reported as a step back already.
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, path, "must not start with '..'");
    }
}

/// Whether [`local_non_reserved`] would find nothing wrong.
pub fn is_local_non_reserved(path: &str) -> bool {
    let mut errors = Errors::new();
    local_non_reserved(path, &Path::root(), &mut errors);
    errors.is_empty()
}
