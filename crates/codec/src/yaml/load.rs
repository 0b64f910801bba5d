//! Nodes to values: aliases are followed, merge keys merged, and the whole is written as JSON.

use std::fmt::Write;

use hashbrown::{HashMap, HashSet};
use object::quote;

use super::format::go_float;
use super::parser::{Content, Document, NodeId};
use super::resolve::{Scalar, resolve};
use super::{LoadError, Problem};
use crate::json::write_float;
use crate::{MAX_DEPTH, base64, text};

/// Up to so many nodes, 99 of 100 may come from aliases; beyond, ever fewer.
const ALIASES_FREE: f64 = 400_000.0;
/// From here on only one in ten may.
const ALIASES_TIGHT: f64 = 4_000_000.0;

/// A value with everything YAML can say that JSON cannot.
#[derive(Debug)]
pub(super) enum Datum {
    Scalar(Scalar),
    List(Vec<Datum>),
    Map(Mapping),
}

/// Entries in the order they came, found by key.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    entries: Vec<(Scalar, Datum)>,
    places: HashMap<Key, usize>,
}

/// A key as Go's maps compare it: type and value.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(u64),
    Text(String),
}

impl Mapping {
    /// Sets a key; an earlier value is replaced, or kept and `false` returned when `strict`.
    fn set(&mut self, key: Scalar, value: Datum, strict: bool) -> bool {
        let identity = match &key {
            Scalar::Null => Key::Null,
            Scalar::Bool(bool) => Key::Bool(*bool),
            Scalar::Int(int) => Key::Int(*int),
            Scalar::Uint(uint) => Key::Uint(*uint),
            Scalar::Float(float) => Key::Float(float.to_bits()),
            Scalar::Text(text) | Scalar::Timestamp(text) => Key::Text(text.clone()),
        };
        match self.places.get(&identity) {
            Some(_) if strict => return false,
            Some(&place) => self.entries[place].1 = value,
            None => {
                self.places.insert(identity, self.entries.len());
                self.entries.push((key, value));
            }
        }
        true
    }
}

/// Reads the document's nodes into a value. With `strict`, keys that are set twice are complained about at the end.
pub(super) fn load(document: &Document, root: NodeId, strict: bool) -> Result<Datum, LoadError> {
    let mut loader = Loader { document, strict, complaints: Vec::new(), open: HashSet::new(), nodes: 0, aliased: 0 };
    let value = loader.node(root, 0)?;
    if loader.complaints.is_empty() { Ok(value) } else { Err(LoadError::Repeated(loader.complaints)) }
}

struct Loader<'a> {
    document: &'a Document,
    strict: bool,
    complaints: Vec<String>,
    /// Aliases that are being followed.
    open: HashSet<NodeId>,
    nodes: usize,
    aliased: usize,
}

impl Loader<'_> {
    fn node(&mut self, id: NodeId, depth: usize) -> Result<Datum, Problem> {
        self.count()?;
        if depth > MAX_DEPTH {
            return Err(Problem::plain(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let document = self.document;
        match &document.nodes[id].content {
            Content::Scalar { text, tag, plain } => scalar(text, tag, *plain).map(Datum::Scalar),
            Content::Sequence(items) => {
                let items = items.iter().map(|&item| self.node(item, depth + 1));
                items.collect::<Result<_, _>>().map(Datum::List)
            }
            Content::Mapping(pairs) => {
                let mut mapping = Mapping::default();
                self.mapping(pairs, &mut mapping, depth)?;
                Ok(Datum::Map(mapping))
            }
            Content::Alias { name, target } => {
                self.enter(id, name)?;
                let value = self.node(*target, depth)?;
                self.open.remove(&id);
                Ok(value)
            }
        }
    }

    /// Refuses documents that grow out of proportion when their aliases are followed.
    fn count(&mut self) -> Result<(), Problem> {
        self.nodes += 1;
        self.aliased += usize::from(!self.open.is_empty());
        if self.aliased <= 100 || self.nodes <= 1000 {
            return Ok(());
        }
        let nodes = self.nodes as f64;
        let share = (nodes - ALIASES_FREE) / (ALIASES_TIGHT - ALIASES_FREE);
        let allowed = 0.99 - 0.89 * share.clamp(0.0, 1.0);
        if self.aliased as f64 / nodes > allowed {
            return Err(Problem::plain("document contains excessive aliasing"));
        }
        Ok(())
    }

    fn enter(&mut self, alias: NodeId, name: &str) -> Result<(), Problem> {
        if !self.open.insert(alias) {
            return Err(Problem::plain(format!("anchor '{name}' value contains itself")));
        }
        Ok(())
    }

    fn mapping(&mut self, pairs: &[(NodeId, NodeId)], into: &mut Mapping, depth: usize) -> Result<(), Problem> {
        for &(key, value) in pairs {
            if self.is_merge(key) {
                self.merge(value, into, depth)?;
                continue;
            }
            let key = match self.node(key, depth + 1)? {
                Datum::Scalar(key) => key,
                other => return Err(Problem::plain(format!("invalid map key: {}", go_syntax(&other, false)))),
            };
            let line = self.document.nodes[value].line + 1;
            let datum = self.node(value, depth + 1)?;
            let name = if self.strict { go_scalar(&key, false) } else { String::new() };
            if !into.set(key, datum, self.strict) {
                self.complaints.push(format!("line {line}: key {name} already set in map"));
            }
        }
        Ok(())
    }

    fn is_merge(&self, key: NodeId) -> bool {
        match &self.document.nodes[key].content {
            Content::Scalar { text, tag, plain } => text == "<<" && (*plain || tag == "tag:yaml.org,2002:merge"),
            _ => false,
        }
    }

    /// `<<`: the keys of one mapping, or of several where earlier ones win, become keys of this one.
    fn merge(&mut self, value: NodeId, into: &mut Mapping, depth: usize) -> Result<(), Problem> {
        let document = self.document;
        match &document.nodes[value].content {
            Content::Sequence(items) => items.iter().rev().try_for_each(|&item| self.merge_one(item, into, depth)),
            _ => self.merge_one(value, into, depth),
        }
    }

    fn merge_one(&mut self, id: NodeId, into: &mut Mapping, depth: usize) -> Result<(), Problem> {
        let document = self.document;
        let (target, alias) = match &document.nodes[id].content {
            Content::Alias { name, target } => (*target, Some(name)),
            _ => (id, None),
        };
        let Content::Mapping(pairs) = &document.nodes[target].content else {
            return Err(Problem::plain("map merge requires map or sequence of maps as the value"));
        };
        if depth > MAX_DEPTH {
            return Err(Problem::plain(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.count()?;
        if let Some(name) = alias {
            self.enter(id, name)?;
            self.count()?;
        }
        self.mapping(pairs, into, depth + 1)?;
        if alias.is_some() {
            self.open.remove(&id);
        }
        Ok(())
    }
}

fn scalar(content: &str, tag: &str, plain: bool) -> Result<Scalar, Problem> {
    if tag.is_empty() && !plain {
        return Ok(Scalar::Text(content.into()));
    }
    if tag == "tag:yaml.org,2002:binary" {
        let bytes =
            base64::decode(content).map_err(|_| Problem::plain("!!binary value contains invalid base64 data"))?;
        return Ok(Scalar::Text(text::lossy(&bytes).into_owned()));
    }
    resolve(tag, content)
}

/// Writes a value as JSON with sorted keys; keys that are no text become text.
pub(super) fn write_json(value: &Datum, out: &mut Vec<u8>) -> Result<(), LoadError> {
    match value {
        Datum::Scalar(scalar) => write_scalar(scalar, out)?,
        Datum::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_json(item, out)?;
            }
            out.push(b']');
        }
        Datum::Map(mapping) => {
            let mut entries = Vec::with_capacity(mapping.entries.len());
            for (order, (key, value)) in mapping.entries.iter().enumerate() {
                entries.push((json_key(key, value)?, order, value));
            }
            entries.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
            out.push(b'{');
            let mut first = true;
            for (i, (key, _, value)) in entries.iter().enumerate() {
                // Different keys may become the same text; the last one stays.
                if entries.get(i + 1).is_some_and(|next| next.0 == *key) {
                    continue;
                }
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                object::write_json_string(key, out);
                out.push(b':');
                write_json(value, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn write_scalar(scalar: &Scalar, out: &mut Vec<u8>) -> Result<(), LoadError> {
    match scalar {
        Scalar::Null => out.extend_from_slice(b"null"),
        Scalar::Bool(bool) => out.extend_from_slice(bool.to_string().as_bytes()),
        Scalar::Int(int) => out.extend_from_slice(itoa::Buffer::new().format(*int).as_bytes()),
        Scalar::Uint(uint) => out.extend_from_slice(itoa::Buffer::new().format(*uint).as_bytes()),
        Scalar::Float(float) if float.is_finite() => write_float(*float, out),
        Scalar::Float(float) => {
            let name = if float.is_nan() {
                "NaN"
            } else if *float > 0.0 {
                "+Inf"
            } else {
                "-Inf"
            };
            return Err(LoadError::Other(format!("json: unsupported value: {name}")));
        }
        Scalar::Text(text) | Scalar::Timestamp(text) => object::write_json_string(text, out),
    }
    Ok(())
}

fn json_key(key: &Scalar, value: &Datum) -> Result<String, LoadError> {
    Ok(match key {
        Scalar::Text(text) | Scalar::Timestamp(text) => text.clone(),
        Scalar::Int(int) => int.to_string(),
        Scalar::Bool(bool) => bool.to_string(),
        Scalar::Float(float) if float.is_nan() => ".nan".into(),
        Scalar::Float(float) if (*float as f32).is_infinite() => if *float > 0.0 { ".inf" } else { "-.inf" }.into(),
        Scalar::Float(float) => go_float(f64::from(*float as f32), (*float as f32).to_string()),
        Scalar::Null | Scalar::Uint(_) => {
            let kind = if *key == Scalar::Null { "%!s(<nil>)" } else { "uint64" };
            let (key, value) = (go_scalar(key, false), go_syntax(value, false));
            return Err(LoadError::Other(format!("unsupported map key of type: {kind}, key: {key}, value: {value}")));
        }
    })
}

/// A value as Go's `%#v` prints it. Nulls inside of something have their type written.
fn go_syntax(value: &Datum, inside: bool) -> String {
    match value {
        Datum::Scalar(scalar) => go_scalar(scalar, inside),
        Datum::List(items) => {
            let items: Vec<String> = items.iter().map(|item| go_syntax(item, true)).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Datum::Map(mapping) => {
            let mut entries: Vec<String> = Vec::with_capacity(mapping.entries.len());
            for (key, value) in &mapping.entries {
                let mut entry = go_scalar(key, true);
                // Writing to a string cannot fail.
                let _ = write!(entry, ":{}", go_syntax(value, true));
                entries.push(entry);
            }
            entries.sort();
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}

fn go_scalar(scalar: &Scalar, inside: bool) -> String {
    match scalar {
        Scalar::Null if inside => "interface {}(nil)".into(),
        Scalar::Null => "<nil>".into(),
        Scalar::Bool(bool) => bool.to_string(),
        Scalar::Int(int) => int.to_string(),
        Scalar::Uint(uint) => format!("{uint:#x}"),
        Scalar::Float(float) if float.is_nan() => "NaN".into(),
        Scalar::Float(float) if float.is_infinite() => if *float > 0.0 { "+Inf" } else { "-Inf" }.into(),
        Scalar::Float(float) => go_float(*float, float.to_string()),
        Scalar::Text(text) | Scalar::Timestamp(text) => quote(text),
    }
}
