//! [`type_meta`]: what a document says it is, without decoding the rest.

use object::Str;

use super::reader::Reader;
use super::typed::found;
use super::untyped::str_of;
use super::{Stop, explain};
use crate::{DecodeError, text};

/// What an object says about its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// The apiVersion, "" if there is none.
    pub api_version: Str,
    /// The kind, "" if there is none.
    pub kind: Str,
}

/// How Go prints the type that upstream decodes into at this point.
const GO_TYPE: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Looks for `apiVersion` and `kind`. Upstream does this before it decodes, with Go's standard decoder: names match in
/// any case, the last one wins, and anything that is wrong with the document is found here, with these words in front.
pub fn type_meta(bytes: &[u8]) -> Result<TypeMeta, DecodeError> {
    let text = text::lossy(bytes);
    let mut reader = Reader::new(&text);
    read(&mut reader).map_err(|stop| explain(bytes, stop).prefixed("couldn't get version/kind; json parse error: "))
}

fn read(reader: &mut Reader<'_>) -> Result<TypeMeta, Stop> {
    let mut meta = TypeMeta::default();
    let mut wrong = None;
    match reader.peek() {
        b'{' => reader.bump(),
        b'n' => {
            reader.word("null")?;
            reader.end()?;
            return Ok(meta);
        }
        other => {
            reader.skip(0)?;
            reader.end()?;
            let found = found(other);
            return Err(Stop::Type(format!("json: cannot unmarshal {found} into Go value of type {GO_TYPE}")));
        }
    }
    let mut first = true;
    while reader.next_key(&mut first)? {
        let key = reader.key()?;
        let (slot, name) = match () {
            () if folds_to(&key, "apiVersion") => (&mut meta.api_version, "apiVersion"),
            () if folds_to(&key, "kind") => (&mut meta.kind, "kind"),
            () => {
                reader.skip(1)?;
                continue;
            }
        };
        match reader.peek() {
            b'"' => *slot = str_of(reader.string()?),
            b'n' => reader.word("null")?,
            other => {
                reader.skip(1)?;
                let found = found(other);
                let message = format!("json: cannot unmarshal {found} into Go struct field .{name} of type string");
                wrong.get_or_insert(message);
            }
        }
    }
    reader.end()?;
    wrong.map_or(Ok(meta), |message| Err(Stop::Type(message)))
}

/// Whether Go takes a key for `apiVersion` or `kind`.
pub fn names_type(key: &str) -> bool {
    folds_to(key, "apiVersion") || folds_to(key, "kind")
}

/// Whether Go takes `key` for the field `name`: case does not matter, nor that two letters have a relative outside of
/// ASCII.
fn folds_to(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        c => c.to_ascii_lowercase(),
    };
    key.len() >= name.len() && key.chars().map(fold).eq(name.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_document_is() {
        for (text, api_version, kind) in [
            (r#"{"kind":"Pod","apiVersion":"v1"}"#, "v1", "Pod"),
            (r#"{"spec":{"kind":"x"},"KIND":"Pod","apiversion":"v1","kind":"Node"}"#, "v1", "Node"),
            ("{\"\u{212a}ind\":\"Pod\",\"api\u{212a}\":1}", "", "Pod"),
            (r#"{"kind":null}"#, "", ""),
            ("null", "", ""),
        ] {
            let want = TypeMeta { api_version: api_version.into(), kind: kind.into() };
            assert_eq!(type_meta(text.as_bytes()), Ok(want), "{text}");
        }
    }

    #[test]
    fn errors_are_gos() {
        for (text, want) in [
            ("", "unexpected end of JSON input".to_string()),
            (r#"{"kind":"#, "unexpected end of JSON input".into()),
            ("[]", format!("json: cannot unmarshal array into Go value of type {GO_TYPE}")),
            (r#"{"kind":5}"#, "json: cannot unmarshal number into Go struct field .kind of type string".into()),
            (r#"{"kind":5,"a":[}"#, "invalid character '}' looking for beginning of value".into()),
        ] {
            let want = format!("couldn't get version/kind; json parse error: {want}");
            assert_eq!(type_meta(text.as_bytes()).unwrap_err().to_string(), want, "{text}");
        }
    }
}
