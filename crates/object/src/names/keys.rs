//! Keys and identifiers: labels, ConfigMap keys, environment variables.

use super::dns::{is_framed, long_name};
use super::{
    DNS1123_SUBDOMAIN_MAX_BYTES, LABEL_VALUE_MAX_BYTES, empty_error, matching, max_bytes_error, non_empty_of,
    regex_error, too_long_bytes, too_long_characters,
};

const LABEL_NAME_MAX_BYTES: usize = 63;
const LABEL_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_NAME_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                                  alphanumeric character";
const LABEL_NAME_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];

/// A qualified name: `name`, or `prefix/name` with a DNS subdomain in front. Annotations, taints, finalizers and
/// resource names use it as well.
pub fn label_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push(format!("prefix part {}", empty_error()));
            } else {
                errors.extend(long_name(prefix).into_iter().map(|message| format!("prefix part {message}")));
            }
            name
        }
        _ => {
            let rule = regex_error(LABEL_NAME_MESSAGE, LABEL_NAME, LABEL_NAME_EXAMPLES);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push(format!("name part {}", empty_error()));
    } else if name.len() > LABEL_NAME_MAX_BYTES {
        errors.push(format!("name part {}", max_bytes_error(LABEL_NAME_MAX_BYTES)));
    }
    if !is_label_name(name) {
        errors.push(format!("name part {}", regex_error(LABEL_NAME_MESSAGE, LABEL_NAME, LABEL_NAME_EXAMPLES)));
    }
    errors
}

/// A label key that must have a prefix.
pub fn prefixed_label_key(value: &str) -> Vec<String> {
    let errors = label_key(value);
    if !errors.is_empty() {
        return errors;
    }
    matching(value.contains('/'), || "must include a prefix (e.g. 'example.com/key')".to_string())
}

/// Checks the value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long_bytes(value, LABEL_VALUE_MAX_BYTES);
    if !value.is_empty() && !is_label_name(value) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                       must start and end with an alphanumeric character";
        errors.push(regex_error(message, &format!("({LABEL_NAME})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

fn is_label_name(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_alphanumeric();
    is_framed(name, alphanumeric, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'), alphanumeric)
}

/// Checks an identifier as C has them.
pub fn c_identifier(value: &str) -> Vec<String> {
    let fine = !value.starts_with(|c: char| c.is_ascii_digit())
        && non_empty_of(value, |b| b == b'_' || b.is_ascii_alphanumeric());
    let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
                   characters or '_'";
    matching(fine, || regex_error(message, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"]))
}

/// The strict rule for environment variables, which ConfigMap and Secret keys had to follow to become some.
pub fn env_var_name(value: &str) -> Vec<String> {
    let fine = !value.starts_with(|c: char| c.is_ascii_digit()) && non_empty_of(value, is_key_byte);
    let message = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and \
                   must not start with a digit";
    let examples = &["my.env-name", "MY_ENV.NAME", "MyEnvName1"];
    let mut errors = matching(fine, || regex_error(message, "[-._a-zA-Z][-._a-zA-Z0-9]*", examples));
    errors.extend(parent_directory(value));
    errors
}

/// The rule for environment variables that is in force: anything printable but `=`.
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec![format!("environment variable name {}", empty_error())];
    }
    let fine = value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=');
    let message = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    matching(fine, || message.to_string())
}

/// A key of a ConfigMap or a Secret, which becomes a file name.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = too_long_characters(value, DNS1123_SUBDOMAIN_MAX_BYTES);
    if !non_empty_of(value, is_key_byte) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_error(message, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    errors.extend(parent_directory(value));
    errors
}

fn is_key_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

fn parent_directory(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_string()),
        _ => None,
    }
}
