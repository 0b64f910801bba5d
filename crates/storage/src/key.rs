//! Keys and ranges of keys.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

/// A key: any bytes, compared as bytes, cheap to clone. Ours are paths such as `/registry/pods/default/web`.
///
/// Not `Bytes`, which takes twice the memory: there is one for every object.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes of the key, shared.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    /// The key as text, unless another program wrote one that is not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The smallest key greater than this one; a list is continued from there.
    pub fn successor(&self) -> Key {
        let mut next = Vec::with_capacity(self.len() + 1);
        next.extend_from_slice(self);
        next.push(0);
        next.into()
    }
}

impl Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// It compares and hashes as a slice does, so maps of keys can be searched by slice.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Bytes> for Key {
    fn from(bytes: Bytes) -> Self {
        Key(bytes.as_ref().into())
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Key(bytes.into())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Key(text.into_bytes().into())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key(text.as_bytes().into())
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Key(bytes.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// The keys from `start` (included) up to `end` (excluded; none means to the last key).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first key.
    pub start: Key,
    /// The first key after the range; None where it ends with the last key.
    pub end: Option<Key>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        KeyRange { start: Key::default(), end: None }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: impl Into<Key>) -> Self {
        let start: Key = prefix.into();
        let end = prefix_end(&start);
        KeyRange { start, end }
    }

    /// One key.
    pub fn single(key: impl Into<Key>) -> Self {
        let start: Key = key.into();
        let end = Some(start.successor());
        KeyRange { start, end }
    }

    /// The same range without the keys up to and including `key`: where the next page begins.
    pub fn after(&self, key: &Key) -> Self {
        KeyRange { start: self.start.clone().max(key.successor()), end: self.end.clone() }
    }

    /// Whether a key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_bytes() && self.end.as_ref().is_none_or(|end| key < end.as_bytes())
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The first key after all keys with this prefix; none if there is no such key (the prefix is empty or all 0xff).
fn prefix_end(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_exactly_the_keys_that_begin_with_it() {
        let cases: &[(&[u8], &[u8], bool)] = &[
            (b"/pods/", b"/pods/", true),
            (b"/pods/", b"/pods/a", true),
            (b"/pods/", b"/pods/\xff\xff", true),
            (b"/pods/", b"/pods", false),
            (b"/pods/", b"/pods0", false),
            (b"/pods/", b"/podtemplates/a", false),
            (b"", b"", true),
            (b"", b"\xff", true),
            (b"\xff", b"\xff\x01", true),
            (b"\xff", b"\xfe", false),
            (b"a\xff", b"a\xff\xff", true),
            (b"a\xff", b"b", false),
        ];
        for (prefix, key, expected) in cases {
            assert_eq!(KeyRange::prefix(*prefix).contains(key), *expected, "{prefix:?} {key:?}");
        }
    }

    #[test]
    fn the_next_page_begins_right_after_the_last_key() {
        let range = KeyRange::prefix("/a/");
        let next = range.after(&"/a/b".into());
        assert!(!next.contains(b"/a/b"));
        assert!(next.contains(b"/a/b\0"));
        assert!(next.contains(b"/a/c"));
        assert!(!next.contains(b"/b"));
        assert!(range.after(&"/b".into()).is_empty());
        assert!(!KeyRange::single("/a").is_empty());
    }
}
