//! Paths that are made of names or of decoded paths: the one place where text of clients becomes a part of a path.

use object::{GroupVersion, names, quote};

/// A text that cannot be a segment of a path, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid resource name {}: [{}]", quote(.text), .why.join(" "))]
pub struct NoSegment {
    text: String,
    why: Vec<String>,
}

/// Checks that a name is one segment of a path, as client-go does before it sends a request.
pub fn check_segment(text: &str) -> Result<(), NoSegment> {
    let why = if text.is_empty() { vec!["may not be empty".into()] } else { names::path_segment_name(text) };
    if why.is_empty() { Ok(()) } else { Err(NoSegment { text: text.into(), why }) }
}

/// A path of these segments, each checked and escaped.
pub fn path<'a>(segments: impl IntoIterator<Item = &'a str>) -> Result<String, NoSegment> {
    let mut path = String::new();
    for segment in segments {
        check_segment(segment)?;
        path.push('/');
        object::percent_encode(segment, |byte| byte == b':' || object::is_unreserved(byte), &mut path);
    }
    Ok(path)
}

/// A decoded path as Go's `url.URL` writes it.
pub fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let is_plain = |byte: u8| object::is_unreserved(byte) || b"$&+,/:;=@".contains(&byte);
    object::percent_encode(path, is_plain, &mut out);
    out
}

/// The path of a group's version: `/api/v1`, `/apis/apps/v1`.
pub fn version_path(version: &GroupVersion) -> Result<String, NoSegment> {
    match version.group.as_str() {
        "" => path(["api", &version.version]),
        group => path(["apis", group, &version.version]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment_each() {
        for (name, want) in [
            ("a", Some("/x/a")),
            ("system:node", Some("/x/system:node")),
            ("a?watch=1", Some("/x/a%3Fwatch%3D1")),
            ("a#b c\0é", Some("/x/a%23b%20c%00%C3%A9")),
            ("", None),
            (".", None),
            ("..", None),
            ("p/log", None),
            ("p%2Flog", None),
        ] {
            assert_eq!(path(["x", name]).ok().as_deref(), want, "{name}");
        }
        let error = path(["x", "p/log"]).unwrap_err().to_string();
        assert_eq!(error, r#"invalid resource name "p/log": [may not contain '/']"#);
    }

    #[test]
    fn the_core_group_has_a_path_of_its_own() {
        for (version, want) in
            [(GroupVersion::new("", "v1"), "/api/v1"), (GroupVersion::new("apps", "v1"), "/apis/apps/v1")]
        {
            assert_eq!(version_path(&version).unwrap(), want);
        }
    }
}
