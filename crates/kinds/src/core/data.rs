//! What ConfigMaps and Secrets share: a cap on their size, and immutability.

use object::{Cursor, Errors, Value};

/// The values of one object together may not be larger.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Once `immutable` is true it stays so, and with it the fields that hold data.
pub fn immutable(new: &Cursor, old: &Cursor, fields: &[&str], errors: &mut Errors) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !old.field("immutable").bool() {
        return;
    }
    if !new.field("immutable").bool() {
        new.field("immutable").forbidden(errors, WHY);
    }
    for field in fields {
        let (new, old) = (new.field(field), old.field(field));
        if !same_entries(new.value(), old.value()) {
            new.forbidden(errors, WHY);
        }
    }
}

/// Bytes that are null are none, once they are stored.
pub fn no_null_bytes(bytes: Option<&mut Value>) {
    let Some(bytes) = bytes.and_then(Value::as_map_mut) else { return };
    for (_, value) in bytes.iter_mut().filter(|(_, value)| value.is_null()) {
        *value = "".into();
    }
}

/// How many bytes the base64 text of a decoded object stands for.
pub fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|b| *b == b'=').count().min(2);
    (base64.len() / 4 * 3).saturating_sub(padding)
}

fn same_entries(a: &Value, b: &Value) -> bool {
    (a.is_empty() && b.is_empty()) || a == b
}

#[cfg(test)]
mod tests {
    use super::decoded_len;

    #[test]
    fn base64_lengths() {
        for (text, want) in [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3), ("AAAAAA==", 4)] {
            assert_eq!(decoded_len(text), want, "{text}");
        }
    }
}
