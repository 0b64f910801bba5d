//! Bytes that ought to be UTF-8.

use std::borrow::Cow;

/// Text, with every byte that is not UTF-8 replaced by U+FFFD, as Go does when it prints such a string.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}
