//! Constraints on domains, of DNS names, URIs and e-mail addresses.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{nearest, prune};

/// Domains, sorted from their ends.
pub(super) struct Set<'a> {
    /// An empty constraint covers every name.
    is_all: bool,
    names: Vec<&'a str>,
    /// Excluded names by what follows their first label: a wildcard for it would cover them.
    by_parent: HashMap<String, String>,
}

impl<'a> Set<'a> {
    pub fn new(names: &'a [String], is_permitted: bool) -> Option<Set<'a>> {
        Set::of(names.iter().map(String::as_str).collect(), is_permitted)
    }

    pub fn of(mut names: Vec<&'a str>, is_permitted: bool) -> Option<Set<'a>> {
        if names.is_empty() {
            return None;
        }
        if names.iter().any(|name| name.is_empty()) {
            return Some(Set { is_all: true, names: Vec::new(), by_parent: HashMap::new() });
        }
        names.sort_by(|a, b| compare(a, b));
        let names = prune(names, |a, b| is_suffix(a, b));
        let mut by_parent = HashMap::new();
        for name in names.iter().filter(|_| !is_permitted) {
            let name = name.to_lowercase();
            if let Some(parent) = parent(&name) {
                by_parent.insert(parent.to_string(), name.clone());
            }
        }
        Some(Set { is_all: false, names, by_parent })
    }

    /// The constraint that covers a name.
    pub fn find(&self, name: &str) -> Option<String> {
        if self.is_all {
            return Some(String::new());
        }
        let found = nearest(&self.names, |known| compare(known, name));
        if let Some((found, _)) = found.filter(|(found, exact)| *exact || is_suffix(found, name)) {
            return Some((*found).to_string());
        }
        let name = name.strip_prefix('*').map(|_| name.to_lowercase())?;
        self.by_parent.get(parent(&name).unwrap_or("")).cloned()
    }
}

/// What follows the first label, with its dot.
fn parent(name: &str) -> Option<&str> {
    name.find('.').and_then(|at| name.get(at..))
}

/// Whether `name` ends with the labels of `suffix`; one that begins with a dot wants at least one label more.
fn is_suffix(suffix: &str, name: &str) -> bool {
    let (suffix, name) = (suffix.as_bytes(), name.as_bytes());
    let Some(start) = name.len().checked_sub(suffix.len()) else { return false };
    let same = name.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(suffix));
    same && (suffix.first() == Some(&b'.') || start == 0 || name.get(start - 1) == Some(&b'.'))
}

/// Compares from the ends, without regard to case. A dot comes before everything else, so that what a domain covers stands
/// right behind it.
fn compare(a: &str, b: &str) -> Ordering {
    let key = |byte: u8| if byte == b'.' { 0 } else { byte.to_ascii_lowercase() };
    a.bytes().rev().map(key).cmp(b.bytes().rev().map(key))
}
