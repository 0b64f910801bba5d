//! JSON patch: RFC 6902 with the habits of the library upstream uses.
//!
//! The habits clients can see: `replace` of a missing map key adds it, `copy` from a missing key and `add` without a value
//! write null, negative indices count from the end, `test` of a missing key passes against null and compares the text of
//! scalars rather than what they mean, and what stands before a path's first slash is ignored. Values stay the text they
//! came as until a path leads into them. Every operation that does not apply fails the request with the same answer.

use codec::Notes;
use object::{GroupResource, Map, Raw, Status, Str, Value, quote};
use schema::Schema;

use crate::echo::text_of;
use crate::{MAX_DEPTH, go};

/// A patch with more operations than this is refused whole.
pub const MAX_OPERATIONS: usize = 10_000;

/// How many bytes of JSON the `copy` operations of one patch may add, so that copies of copies cannot explode.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// How many items of lists and entries of maps the operations of one patch may shift by inserting and removing before
/// them: the work of a fifth of a second.
const MAX_SHIFTED_ITEMS: usize = 50_000_000;

/// More unknown members than these are not noted.
const MAX_NOTES: usize = 100;

/// The document after a patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patched {
    pub document: Value,
    /// The containers that the operations opened, as nested maps: where the document is printed in upstream's messages,
    /// these have their keys sorted and all others are as they were.
    pub opened: Value,
}

/// A parsed patch; apply it as often as a retried write needs.
#[derive(Debug, Clone)]
pub struct JsonPatch {
    operations: Vec<Operation>,
    unknown: Vec<String>,
}

/// How strictly the operations themselves are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// `fieldValidation=Ignore`: members of the wrong type make an operation fail, others are passed over.
    Lenient,
    /// `Warn` and `Strict`: members of the wrong type fail the request, unknown ones are noted.
    Checked,
}

#[derive(Debug, Clone)]
struct Operation {
    kind: Str,
    path: Option<Str>,
    from: Option<Str>,
    /// None where the member is missing.
    value: Option<Value>,
}

/// An operation does not apply. Upstream words many ways of this and then answers the same to all.
struct DoesNotApply;

type Applied<T = ()> = Result<T, DoesNotApply>;

impl JsonPatch {
    /// Reads a patch from the request's body, which is known to be JSON.
    pub fn parse(body: &str, reading: Reading) -> Result<JsonPatch, Status> {
        let (prefix, list_type, item_type) = match reading {
            Reading::Checked => ("error decoding patch: ", "[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
            Reading::Lenient => ("", "jsonpatch.Patch", "jsonpatch.Operation"),
        };
        let mismatch = |value: &Value, wanted: &str| {
            let message =
                format!("{prefix}json: cannot unmarshal {} into Go value of type {wanted}", value.type_name());
            Status::bad_request(message)
        };
        let items = match codec::json::open_outermost(&Raw::new(body)) {
            Value::Null => Vec::new(),
            Value::List(items) => items,
            other => return Err(mismatch(&other, list_type)),
        };
        let mut patch = JsonPatch { operations: Vec::new(), unknown: Vec::new() };
        for (index, mut item) in items.iter().cloned().enumerate() {
            open(&mut item);
            let members = match item {
                Value::Null => Map::new(),
                Value::Map(members) => members,
                other => return Err(mismatch(&other, item_type)),
            };
            if reading == Reading::Checked {
                check_members(&members)?;
                let unknown = members.keys().filter(|key| !matches!(*key, "op" | "path" | "from" | "value"));
                let note = |key: &str| format!("json patch unknown field {}", quote(&format!("[{index}].{key}")));
                let room = MAX_NOTES - patch.unknown.len();
                patch.unknown.extend(unknown.map(note).take(room));
            }
            if index < MAX_OPERATIONS {
                patch.operations.push(Operation::read(&members));
            }
        }
        if items.len() > MAX_OPERATIONS {
            return Err(Status::request_too_large(format_args!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            )));
        }
        Ok(patch)
    }

    /// What strict decoding has to say about the operations: `json patch unknown field "[0].foo"`.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown
    }

    /// Carries out the operations on `document`, which was printed by `schema`.
    pub fn apply(&self, document: Value, schema: Option<Schema<'_>>) -> Result<Patched, Status> {
        let mut work = Work { document, schema, opened: Value::map(), copied_bytes: 0, shifted_items: 0 };
        for operation in &self.operations {
            work.run(operation).map_err(|DoesNotApply| Status::generic(422, "", &GroupResource::default(), "", ""))?;
        }
        Ok(Patched { document: work.document, opened: work.opened })
    }
}

/// The members that are strings must be strings, and numbers must be such that there are.
fn check_members(members: &Map) -> Result<(), Status> {
    let refuse = |what: &str, name: &str, wanted: &str| {
        Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go struct field jsonPatchOp.{name} of type {wanted}"
        )))
    };
    for name in ["op", "path", "from"] {
        let value = members.get(name).unwrap_or(&Value::Null);
        if !matches!(value.type_name(), "null" | "string") {
            return refuse(value.type_name(), name, "string");
        }
    }
    if let Some(Value::Raw(raw)) = members.get("value")
        && let Err(error) = codec::json::decode(raw.text().as_bytes(), None, &mut Notes::ignore())
    {
        let number = error.message().split_whitespace().skip_while(|word| *word != "number").nth(1).unwrap_or_default();
        return refuse(&format!("number {number}"), "value", "float64");
    }
    Ok(())
}

impl Operation {
    fn read(members: &Map) -> Operation {
        let text = |name: &str| match members.get(name) {
            Some(Value::Raw(raw)) => codec::json::open(raw).as_str().map(Str::from),
            _ => None,
        };
        Operation {
            kind: text("op").unwrap_or_default(),
            path: text("path"),
            from: text("from"),
            value: members.get("value").cloned(),
        }
    }

    fn path(&self) -> Applied<&str> {
        self.path.as_deref().ok_or(DoesNotApply)
    }

    fn from(&self) -> Applied<&str> {
        self.from.as_deref().ok_or(DoesNotApply)
    }

    fn value(&self) -> Value {
        self.value.clone().unwrap_or_default()
    }
}

struct Work<'s> {
    document: Value,
    schema: Option<Schema<'s>>,
    opened: Value,
    copied_bytes: usize,
    shifted_items: usize,
}

impl Work<'_> {
    fn run(&mut self, operation: &Operation) -> Applied {
        match operation.kind.as_str() {
            "add" => self.add(operation.path()?, operation.value()),
            "remove" => self.remove(operation.path()?).map(drop),
            "replace" => self.replace(operation),
            "move" => {
                let from = operation.from()?;
                let value = self.remove(from)?;
                let value = self.as_text(from, value);
                self.add(operation.path()?, value)
            }
            "copy" => {
                let from = operation.from()?;
                let value = self.get(from)?.cloned().unwrap_or_default();
                let value = self.as_text(from, value);
                self.copied_bytes += go::json_len(&value, MAX_COPIED_BYTES);
                if self.copied_bytes > MAX_COPIED_BYTES {
                    return Err(DoesNotApply);
                }
                self.add(operation.path()?, value)
            }
            "test" => self.test(operation),
            _ => Err(DoesNotApply),
        }
    }

    /// A map or list that leaves its place, as the text it is there: elsewhere no schema says in which order its fields are.
    fn as_text(&self, from: &str, value: Value) -> Value {
        if !matches!(value, Value::Map(_) | Value::List(_)) {
            return value;
        }
        let Some((parents, last)) = split(from) else { return value };
        let keys = || parents.iter().chain([&last]);
        let schema = keys().fold(self.schema, |schema, key| {
            let schema = schema?;
            schema.child(key).or_else(|| schema.items())
        });
        let opened = keys().fold(&self.opened, |opened, key| opened.field(key));
        let opened = Some(opened).filter(|opened| !opened.is_null());
        Value::Raw(Raw::new(text_of(&value, schema, opened)))
    }

    /// The container that a path's last key belongs to, with that key.
    fn container(&mut self, path: &str) -> Applied<(&mut Value, Str, usize)> {
        let (parents, key) = split(path).ok_or(DoesNotApply)?;
        if parents.len() <= MAX_DEPTH {
            parents.iter().fold(&mut self.opened, |opened, key| opened.make_map().entry(key)).make_map();
        }
        let mut here = &mut self.document;
        open(here);
        for parent in &parents {
            here = match here {
                Value::Map(map) => map.get_mut(parent).ok_or(DoesNotApply)?,
                Value::List(list) => {
                    let index = index(parent, list.len())?;
                    list.get_mut(index).ok_or(DoesNotApply)?
                }
                _ => return Err(DoesNotApply),
            };
            open(here);
        }
        Ok((here, key, parents.len()))
    }

    fn get(&mut self, path: &str) -> Applied<Option<&Value>> {
        let (container, key, _) = self.container(path)?;
        match container {
            Value::Map(map) => Ok(map.get(&key)),
            Value::List(list) => {
                let index = index(&key, list.len())?;
                list.get(index).map(Some).ok_or(DoesNotApply)
            }
            _ => Err(DoesNotApply),
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Applied {
        let (container, key, depth) = self.container(path)?;
        if depth + 1 + depth_of(&value) > MAX_DEPTH {
            return Err(DoesNotApply);
        }
        let shifted = match container {
            Value::Map(map) => match map.insert(key, value) {
                Some(_) => 0,
                None => map.len(),
            },
            Value::List(list) if key == "-" => {
                list.push(value);
                0
            }
            Value::List(list) => {
                // Counted from the end of the list as it will be, so -1 appends.
                let index = index(&key, list.len() + 1)?;
                if index > list.len() {
                    return Err(DoesNotApply);
                }
                list.insert(index, value);
                list.len() - index
            }
            _ => return Err(DoesNotApply),
        };
        self.count_shifted(shifted)
    }

    fn remove(&mut self, path: &str) -> Applied<Value> {
        let (container, key, _) = self.container(path)?;
        let (removed, shifted) = match container {
            Value::Map(map) => (map.remove(&key).ok_or(DoesNotApply)?, map.len()),
            Value::List(list) => {
                let index = index(&key, list.len())?;
                if index >= list.len() {
                    return Err(DoesNotApply);
                }
                (list.remove(index), list.len() - index)
            }
            _ => return Err(DoesNotApply),
        };
        self.count_shifted(shifted)?;
        Ok(removed)
    }

    fn replace(&mut self, operation: &Operation) -> Applied {
        let path = operation.path()?;
        let mut value = operation.value();
        if path.is_empty() {
            open(&mut value);
            if !matches!(value, Value::Map(_) | Value::List(_)) {
                return Err(DoesNotApply);
            }
            self.document = value;
            return Ok(());
        }
        let (container, key, depth) = self.container(path)?;
        if depth + 1 + depth_of(&value) > MAX_DEPTH {
            return Err(DoesNotApply);
        }
        let shifted = match container {
            Value::Map(map) => match map.insert(key, value) {
                Some(_) => 0,
                None => map.len(),
            },
            Value::List(list) => {
                let index = index(&key, list.len())?;
                *list.get_mut(index).ok_or(DoesNotApply)? = value;
                0
            }
            _ => return Err(DoesNotApply),
        };
        self.count_shifted(shifted)
    }

    fn test(&mut self, operation: &Operation) -> Applied {
        let path = operation.path()?;
        let found = if path.is_empty() { Some(&self.document) } else { self.get(path)? };
        let found = found.unwrap_or(&Value::Null);
        let wanted = operation.value.as_ref().unwrap_or(&Value::Null);
        if equals(found, wanted) { Ok(()) } else { Err(DoesNotApply) }
    }

    fn count_shifted(&mut self, items: usize) -> Applied {
        self.shifted_items += items;
        if self.shifted_items > MAX_SHIFTED_ITEMS { Err(DoesNotApply) } else { Ok(()) }
    }
}

/// Text that was kept as it came stays so until a path leads into it, and then all of it stays that the path passes by.
pub(crate) fn open(value: &mut Value) {
    if let Value::Raw(raw) = value {
        *value = codec::json::open_outermost(raw);
    }
}

/// Whether a value is the wanted one. Scalars are compared as they are written: `1.0` is not `1`, and what the server
/// writes as `\u003c` is not the `<` of a patch.
fn equals(found: &Value, wanted: &Value) -> bool {
    let opened = |value: &Value| match value {
        Value::Raw(raw) if matches!(raw.type_name(), "object" | "array") => Some(codec::json::open_outermost(raw)),
        _ => None,
    };
    let (found_opened, wanted_opened) = (opened(found), opened(wanted));
    match (found_opened.as_ref().unwrap_or(found), wanted_opened.as_ref().unwrap_or(wanted)) {
        (Value::List(found), Value::List(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| equals(found, wanted))
        }
        (Value::Map(found), Value::Map(wanted)) => {
            let same = |(key, found): (&str, &Value)| wanted.get(key).is_some_and(|wanted| equals(found, wanted));
            found.len() == wanted.len() && found.iter().all(same)
        }
        (Value::List(_) | Value::Map(_), _) | (_, Value::List(_) | Value::Map(_)) => false,
        (found, wanted) => written(found) == written(wanted),
    }
}

/// A scalar as it stands in its document.
fn written(scalar: &Value) -> String {
    match scalar {
        Value::Raw(raw) => raw.text().trim().to_string(),
        printed => go::json(printed),
    }
}

/// The keys of a path but the last, and the last. Whatever stands before the first slash is ignored, as upstream does.
fn split(path: &str) -> Option<(Vec<Str>, Str)> {
    let (_, path) = path.split_once('/')?;
    let mut keys: Vec<Str> = path.split('/').map(unescape).collect();
    let last = keys.pop()?;
    Some((keys, last))
}

/// `~1` is a slash and `~0` a tilde, in one pass: `~01` is `~1`.
fn unescape(key: &str) -> Str {
    if !key.contains('~') {
        return Str::from(key);
    }
    let mut out = Str::default();
    let mut rest = key;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match after.as_bytes().first() {
            Some(b'1') => out.push('/'),
            Some(b'0') => out.push('~'),
            _ => {
                out.push('~');
                rest = after;
                continue;
            }
        }
        rest = &after[1..];
    }
    out.push_str(rest);
    out
}

/// The index a key means in a list of `len` items: negative ones count from the end. It may be beyond the end.
fn index(key: &str, len: usize) -> Applied<usize> {
    let index: i64 = key.parse().map_err(|_| DoesNotApply)?;
    if index >= 0 {
        return usize::try_from(index).map_err(|_| DoesNotApply);
    }
    let back = usize::try_from(index.unsigned_abs()).map_err(|_| DoesNotApply)?;
    len.checked_sub(back).ok_or(DoesNotApply)
}

/// How many containers nest in a value; values are never deeper than [`MAX_DEPTH`].
fn depth_of(value: &Value) -> usize {
    match value {
        Value::List(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Map(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        Value::Raw(raw) => depth_of_text(raw.text()),
        _ => 0,
    }
}

fn depth_of_text(json: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        in_string ^= byte == b'"' && !escaped;
        escaped = in_string && byte == b'\\' && !escaped;
    }
    deepest
}

#[cfg(test)]
mod tests;
