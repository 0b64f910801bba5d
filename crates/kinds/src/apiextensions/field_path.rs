//! Paths into objects of a definition's schema, as selectable fields and validation rules state them.

use object::{Path, Value};

/// The field that a path such as `.spec.color` or `.spec['a.b']` leads to: where it is, and its schema.
pub fn find<'s>(path: &str, schema: &'s Value, brackets: bool) -> Result<(Path, &'s Value), String> {
    let (mut at, mut schema) = (Path::root(), schema);
    let mut tokens = Tokens { rest: path };
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".to_string()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let inner = quoted.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
                let inner = inner.filter(|_| quoted.len() > 1);
                inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?.replace("\\'", "'")
            }
            "." => tokens.next().ok_or(END)?.to_string(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let has = |field: &str| schema.get(field).is_some_and(|value| !value.is_null());
        if has("properties") {
            at = at.field(&name);
            schema = schema.field("properties").get(&name).ok_or("does not refer to a valid field")?;
        } else if has("additionalProperties") {
            at = at.key(&name);
            schema = schema.field("additionalProperties");
        } else {
            return Err("does not refer to a valid field".to_string());
        }
        if token == "[" {
            match tokens.next().ok_or(END)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok((at, schema))
}

const END: &str = "unexpected end of JSON path";

/// Delimiters, texts between them, and texts in single quotes.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let length = match self.rest.bytes().next()? {
            b'.' | b'[' | b']' => 1,
            b'\'' => {
                let bytes = self.rest.as_bytes();
                let end = (1..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\');
                end.map_or(self.rest.len(), |end| end + 1)
            }
            _ => self.rest.find(['.', '[', ']']).unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[test]
    fn paths_lead_to_fields_of_the_schema() {
        let schema = yaml(
            "{properties: {spec: {properties: {a.b: {type: string}, m: {additionalProperties: {type: object}}}}}}",
        );
        for (path, want) in [
            (".spec['a.b']", Ok("spec.a.b")),
            (".spec.m.k", Ok("spec.m[k]")),
            (".spec.nope", Err("does not refer to a valid field")),
            ("spec", Err("expected [ or . but got: spec")),
            (".spec.", Err(END)),
            (".spec[a", Err("expected single quoted string but got a")),
        ] {
            let found = find(path, &schema, true).map(|(at, _)| at.to_string());
            assert_eq!(found, want.map(str::to_string).map_err(str::to_string), "{path}");
        }
        assert_eq!(find(".spec['a.b']", &schema, false).unwrap_err(), "array notation is not allowed");
    }
}
