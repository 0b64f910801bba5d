//! The `fieldPath` of a rule: `.spec.replicas`, `.labels['a.b']`.

use object::{Path, Value};

/// The path as errors print it, or why it is none.
pub fn normalized(text: &str, schema: &Value) -> Result<String, String> {
    let tokens = tokens(text);
    let mut tokens = tokens.into_iter();
    let mut path = Path::root();
    let mut schema = schema;
    let end = || "unexpected end of JSON path".to_string();
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                unescaped(inner)?
            }
            "." => tokens.next().ok_or_else(end)?.to_string(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let properties = schema.field("properties");
        let additional = schema.field("additionalProperties");
        if properties.as_map().is_some_and(|map| !map.is_empty()) {
            path = path.field(&name);
            schema = properties.get(&name).ok_or("does not refer to a valid field")?;
        } else if !additional.is_null() {
            path = path.key(&name);
            schema = additional;
        } else {
            return Err("does not refer to a valid field".into());
        }
        if token == "[" {
            let close = tokens.next().ok_or_else(end)?;
            if close != "]" {
                return Err(format!("expected ] but got {close}"));
            }
        }
    }
    Ok(path.to_string())
}

/// Points, brackets, quoted strings, and what is between them.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let bytes = rest.as_bytes();
        let length = if bytes[0] == b'\'' {
            let closing = (1..bytes.len()).find(|&i| bytes[i] == b'\'' && bytes[i - 1] != b'\\');
            closing.map_or(rest.len(), |at| at + 1)
        } else {
            rest.find(['.', '[', ']']).map_or(rest.len(), |at| at.max(1))
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(c @ ('\'' | '\\')) => out.push(c),
            Some(c) => return Err(format!("invalid string literal: invalid escape char \\{c}")),
            None => out.push('\\'),
        }
    }
    Ok(out)
}
