//! JSON patch: RFC 6902 with the habits of the library upstream uses.
//!
//! The habits clients can see: `replace` of a missing map key adds it, `copy` from a missing key and `add` without a value
//! write null, negative indices count from the end, `test` of a missing key passes against null and compares the text of
//! scalars rather than what they mean, and what stands before a path's first slash is ignored. Values stay the text they
//! came as until a path leads into them. Every operation that does not apply fails the request with the same answer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use codec::Notes;
use object::{Map, Raw, Status, Str, Value, quote};
use schema::Schema;

use crate::echo::text_of;
use crate::{Error, MAX_DEPTH, go};

/// A patch with more operations than this is refused whole.
pub const MAX_OPERATIONS: usize = 10_000;

/// How many bytes of JSON the `copy` operations of one patch may add, so that copies of copies cannot explode.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// How many items of lists and entries of maps the operations of one patch may shift by inserting and removing before
/// them: the work of half a second. The largest patch that fills one map stays below it.
const MAX_SHIFTED_ITEMS: usize = 120_000_000;

/// How many bytes the operations of one patch may read, compare and print, besides the values that the patch brings itself: the
/// work of less than a second. Moving a value takes nothing of it, as long as no path leads into the value in between.
const MAX_TOUCHED_BYTES: usize = 256 * 1024 * 1024;

const TOO_DEEP: &str = "the document would nest too deep";
const TOO_MANY_SHIFTS: &str = "too many list items would be moved";
const TOO_MUCH_TOUCHED: &str = "the operations would read and print the document too often";

/// More unknown and duplicate members than these are not noted.
const MAX_NOTES: usize = 100;

/// The document after a patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patched {
    /// The document after the patch.
    pub document: Value,
    /// The containers that the operations opened, as nested maps: where the document is printed in upstream's messages,
    /// these have their keys sorted and all others are as they were.
    pub opened: Value,
}

/// A parsed patch; apply it as often as a retried write needs.
#[derive(Debug, Clone)]
pub struct JsonPatch {
    operations: Vec<Operation>,
    complaints: Vec<String>,
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

/// Why an operation does not apply. A PATCH request is answered the same whatever it is; a webhook's patch is told.
enum DoesNotApply {
    /// There is no map or list that the path's last key could belong to.
    NoContainer,
    /// The last key cannot be used in its container.
    Key(String),
}

impl DoesNotApply {
    fn index(index: impl std::fmt::Display) -> DoesNotApply {
        DoesNotApply::Key(format!("Unable to access invalid index: {index}: invalid index referenced"))
    }

    /// Upstream's text: what it says of a missing container, or of a wrong key.
    fn text(self, no_container: String, key: String) -> String {
        match self {
            DoesNotApply::NoContainer => format!("{no_container}: missing value"),
            DoesNotApply::Key(why) => format!("{key}: {why}"),
        }
    }
}

type Applied<T = ()> = Result<T, DoesNotApply>;

impl JsonPatch {
    /// Reads a patch from the request's body, which is known to be JSON.
    pub fn parse(body: &str, reading: Reading) -> Result<JsonPatch, Error> {
        let (prefix, list_type, item_type) = match reading {
            Reading::Checked => ("error decoding patch: ", "[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
            Reading::Lenient => ("", "jsonpatch.Patch", "jsonpatch.Operation"),
        };
        let mismatch = |value: &Value, wanted: &str| {
            let message =
                format!("{prefix}json: cannot unmarshal {} into Go value of type {wanted}", value.type_name());
            Error::Malformed(message)
        };
        let items = match codec::json::open_outermost(&Raw::new(body)) {
            Value::Null => Vec::new(),
            Value::List(items) => items,
            other => return Err(mismatch(&other, list_type)),
        };
        let mut patch = JsonPatch { operations: Vec::new(), complaints: Vec::new() };
        let mut duplicates = match reading {
            Reading::Checked => duplicate_fields(body),
            Reading::Lenient => BTreeMap::new(),
        };
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
                patch.complaints.extend(unknown.map(note).chain(duplicates.remove(&index).unwrap_or_default()));
                patch.complaints.truncate(MAX_NOTES);
            }
            if index < MAX_OPERATIONS {
                patch.operations.push(Operation::read(&members));
            }
        }
        if items.len() > MAX_OPERATIONS {
            return Err(Error::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            )));
        }
        Ok(patch)
    }

    /// What strict decoding has to say about the operations: `json patch unknown field "[0].foo"`.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Carries out the operations on `document`, which was printed by `schema`.
    pub fn run(&self, document: Value, schema: Option<Schema<'_>>) -> Result<Patched, DoesNotRun> {
        let mut work = Work::of(document, schema);
        for operation in &self.operations {
            work.run(operation)?;
        }
        Ok(Patched { document: work.document, opened: work.opened })
    }
}

/// Why a JSON patch does not run, in upstream's words.
#[derive(Debug, PartialEq, Eq)]
pub enum DoesNotRun {
    /// The value at the path of a `test` operation is another one.
    TestFailed(String),
    /// An operation cannot be carried out.
    Operation(String),
}

impl DoesNotRun {
    /// The message that clients get.
    pub fn message(self) -> String {
        let (DoesNotRun::TestFailed(why) | DoesNotRun::Operation(why)) = self;
        why
    }
}

impl From<String> for DoesNotRun {
    fn from(why: String) -> DoesNotRun {
        DoesNotRun::Operation(why)
    }
}

/// Clients are not told why, as upstream does it.
impl From<DoesNotRun> for Status {
    fn from(_: DoesNotRun) -> Status {
        Error::NotApplicable.into()
    }
}

/// What strict decoding says of fields that are given twice, by the index of the operation.
fn duplicate_fields(body: &str) -> BTreeMap<usize, Vec<String>> {
    let mut notes = Notes::collect();
    // A number that cannot be read ends this early; the request fails with it elsewhere.
    let _ = codec::json::decode(body.as_bytes(), None, &mut notes);
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for message in notes.messages() {
        let index = message.split_once("\"[").and_then(|(_, rest)| rest.split_once(']')?.0.parse().ok());
        found.entry(index.unwrap_or(0)).or_default().push(format!("json patch {message}"));
    }
    found
}

/// The members that are strings must be strings, and numbers must be such that there are.
fn check_members(members: &Map) -> Result<(), Error> {
    let refuse = |what: &str, name: &str, wanted: &str| {
        Err(Error::Malformed(format!(
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

    fn path(&self) -> Result<&str, String> {
        let kind = &self.kind;
        self.path.as_deref().ok_or_else(|| format!("{kind} operation failed to decode path: missing value"))
    }

    fn from(&self) -> Result<&str, String> {
        let kind = &self.kind;
        self.from.as_deref().ok_or_else(|| format!("{kind} operation failed to decode from: missing value"))
    }

    fn value(&self) -> Value {
        self.value.clone().unwrap_or_default()
    }
}

struct Work<'s> {
    document: Value,
    schema: Option<Schema<'s>>,
    opened: Value,
    /// The document nests no deeper than this.
    depth_max: usize,
    touched: Touched,
    copied_bytes: usize,
    shifted_items: usize,
}

/// How many bytes the operations have read, compared and printed so far.
#[derive(Default)]
struct Touched(usize);

impl Touched {
    fn add(&mut self, bytes: usize) -> Applied {
        self.0 += bytes;
        if self.0 > MAX_TOUCHED_BYTES { Err(DoesNotApply::Key(TOO_MUCH_TOUCHED.into())) } else { Ok(()) }
    }
}

impl<'s> Work<'s> {
    fn of(document: Value, schema: Option<Schema<'s>>) -> Work<'s> {
        let depth_max = depth_of(&document);
        let (opened, touched) = (Value::map(), Touched::default());
        Work { document, schema, opened, depth_max, touched, copied_bytes: 0, shifted_items: 0 }
    }

    fn run(&mut self, operation: &Operation) -> Result<(), DoesNotRun> {
        if operation.kind == "test" {
            return self.test(operation);
        }
        Ok(self.change(operation)?)
    }

    fn change(&mut self, operation: &Operation) -> Result<(), String> {
        match operation.kind.as_str() {
            "add" => {
                let path = operation.path()?;
                let missing = || format!("add operation does not apply: doc is missing path: \"{path}\"");
                let value = operation.value();
                let added = self.add(path, value, depth_of);
                added.map_err(|why| why.text(missing(), format!("error in add for path: '{path}'")))
            }
            "remove" => {
                let path = operation.path()?;
                let missing = || format!("remove operation does not apply: doc is missing path: \"{path}\"");
                let removed = self.remove(path).map(drop);
                removed.map_err(|why| why.text(missing(), format!("error in remove for path: '{path}'")))
            }
            "replace" => self.replace(operation),
            "move" | "copy" => self.transfer(operation),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn transfer(&mut self, operation: &Operation) -> Result<(), String> {
        let kind = &operation.kind;
        let from = operation.from()?;
        let missing =
            |end: &str, path: &str| format!("{kind} operation does not apply: doc is missing {end} path: {path}");
        let taken = match kind.as_str() {
            "move" => self.remove(from),
            _ => self.get(from).map(|found| found.cloned().unwrap_or_default()),
        };
        let taken = taken.and_then(|value| self.as_text(from, value));
        let mut value =
            taken.map_err(|why| why.text(missing("from", from), format!("error in {kind} for path: '{from}'")))?;
        if kind == "copy" {
            let read = self.touched.add(text_len(&value));
            read.map_err(|why| why.text(missing("from", from), format!("error in {kind} for path: '{from}'")))?;
            // Without the spaces that the text came with, which the limit does not count.
            if let Value::Raw(raw) = &value {
                value = Value::Raw(Raw::new(raw.compact()));
            }
            self.copied_bytes += go::json_len(&value, MAX_COPIED_BYTES);
            if self.copied_bytes > MAX_COPIED_BYTES {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {}",
                    self.copied_bytes, MAX_COPIED_BYTES
                ));
            }
        }
        let path = operation.path()?;
        let failed = || match kind.as_str() {
            "copy" => "error while adding value during copy".to_string(),
            _ => format!("error in move for path: '{path}'"),
        };
        // What a value nests is only counted where it may be too much: it was no deeper than the document, less its place.
        let bound = self.depth_max.saturating_sub(from.matches('/').count());
        let place = path.matches('/').count();
        let bound = if place + bound <= MAX_DEPTH {
            bound
        } else {
            let read = self.touched.add(text_len(&value));
            read.map_err(|why| why.text(missing("destination", path), failed()))?;
            depth_of(&value)
        };
        self.add(path, value, |_| bound).map_err(|why| why.text(missing("destination", path), failed()))
    }

    /// A map or list that leaves its place, as the text it is there: elsewhere no schema says in which order its fields are.
    fn as_text(&mut self, from: &str, value: Value) -> Applied<Value> {
        if !matches!(value, Value::Map(_) | Value::List(_)) {
            return Ok(value);
        }
        let Some((parents, last)) = split(from) else { return Ok(value) };
        let keys = || parents.iter().chain([&last]);
        let schema = keys().fold(self.schema, |schema, key| {
            let schema = schema?;
            schema.child(key).or_else(|| schema.items())
        });
        let opened = keys().fold(&self.opened, |opened, key| opened.field(key));
        let opened = Some(opened).filter(|opened| !opened.is_null());
        let text = text_of(&value, schema, opened);
        self.touched.add(text.len())?;
        Ok(Value::Raw(Raw::new(text)))
    }

    /// The container that a path's last key belongs to, with that key.
    fn container(&mut self, path: &str) -> Applied<(&mut Value, Str, usize)> {
        let (parents, key) = split(path).ok_or(DoesNotApply::NoContainer)?;
        if parents.len() <= MAX_DEPTH {
            parents.iter().fold(&mut self.opened, |opened, key| opened.make_map().entry(key)).make_map();
        }
        let mut here = &mut self.document;
        self.touched.add(text_len(here))?;
        open(here);
        for parent in &parents {
            here = match here {
                Value::Map(map) => map.get_mut(parent).ok_or(DoesNotApply::NoContainer)?,
                Value::List(list) => {
                    let index = index(parent, list.len()).map_err(|_| DoesNotApply::NoContainer)?;
                    list.get_mut(index).ok_or(DoesNotApply::NoContainer)?
                }
                _ => return Err(DoesNotApply::NoContainer),
            };
            self.touched.add(text_len(here))?;
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
                list.get(index).map(Some).ok_or_else(|| DoesNotApply::index(index))
            }
            _ => Err(DoesNotApply::NoContainer),
        }
    }

    /// `depth` says how many containers nest in the value, or a bound of that.
    fn add(&mut self, path: &str, value: Value, depth: impl FnOnce(&Value) -> usize) -> Applied {
        let (container, key, parents) = self.container(path)?;
        let nested = parents + 1 + depth(&value);
        if nested > MAX_DEPTH {
            return Err(DoesNotApply::Key(TOO_DEEP.into()));
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
                    return Err(DoesNotApply::index(index));
                }
                list.insert(index, value);
                list.len() - index
            }
            _ => return Err(DoesNotApply::NoContainer),
        };
        self.depth_max = self.depth_max.max(nested);
        self.count_shifted(shifted)
    }

    fn remove(&mut self, path: &str) -> Applied<Value> {
        let (container, key, _) = self.container(path)?;
        let (removed, shifted) = match container {
            Value::Map(map) => {
                let gone = || DoesNotApply::Key(format!("Unable to remove nonexistent key: {key}: missing value"));
                (map.remove(&key).ok_or_else(gone)?, map.len())
            }
            Value::List(list) => {
                let index = index(&key, list.len())?;
                if index >= list.len() {
                    return Err(DoesNotApply::index(index));
                }
                (list.remove(index), list.len() - index)
            }
            _ => return Err(DoesNotApply::NoContainer),
        };
        self.count_shifted(shifted)?;
        Ok(removed)
    }

    fn replace(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation.path()?;
        let mut value = operation.value();
        if path.is_empty() {
            open(&mut value);
            if !matches!(value, Value::Map(_) | Value::List(_)) {
                return Err("replace operation value must be object or array: %!w(<nil>)".into());
            }
            self.depth_max = self.depth_max.max(depth_of(&value));
            self.document = value;
            return Ok(());
        }
        let missing =
            |what: &str| format!("replace operation does not apply: doc is missing {what}: {path}: missing value");
        let (container, key, parents) = self.container(path).map_err(|_| missing("path"))?;
        let nested = parents + 1 + depth_of(&value);
        if nested > MAX_DEPTH {
            return Err(format!("error in remove for path: '{path}': {TOO_DEEP}"));
        }
        let shifted = match container {
            Value::Map(map) => match map.insert(key, value) {
                Some(_) => 0,
                None => map.len(),
            },
            Value::List(list) => {
                let index = index(&key, list.len()).map_err(|_| missing("key"))?;
                *list.get_mut(index).ok_or_else(|| missing("key"))? = value;
                0
            }
            _ => return Err(missing("path")),
        };
        self.depth_max = self.depth_max.max(nested);
        let failed = || format!("error in remove for path: '{path}'");
        self.count_shifted(shifted).map_err(|why| why.text(failed(), failed()))
    }

    fn test(&mut self, operation: &Operation) -> Result<(), DoesNotRun> {
        let path = operation.path()?;
        let wanted = operation.value.as_ref().unwrap_or(&Value::Null);
        let failed = |why: DoesNotApply| {
            let missing = format!("test operation does not apply: is missing path: {path}");
            why.text(missing, format!("error in test for path: '{path}'"))
        };
        let mut touched = std::mem::take(&mut self.touched);
        let found = if path.is_empty() { Some(&self.document) } else { self.get(path).map_err(failed)? };
        let equal = equals(found.unwrap_or(&Value::Null), wanted, &mut touched).map_err(failed)?;
        self.touched.0 += touched.0;
        if equal {
            return Ok(());
        }
        Err(DoesNotRun::TestFailed(format!("testing value {path} failed: test failed")))
    }

    fn count_shifted(&mut self, items: usize) -> Applied {
        self.shifted_items += items;
        if self.shifted_items > MAX_SHIFTED_ITEMS { Err(DoesNotApply::Key(TOO_MANY_SHIFTS.into())) } else { Ok(()) }
    }
}

/// Text that was kept as it came stays so until a path leads into it, and then all of it stays that the path passes by.
pub(crate) fn open(value: &mut Value) {
    if let Value::Raw(raw) = value {
        *value = codec::json::open_outermost(raw);
    }
}

/// How much is read to open a value, or to compare one that is no map or list.
fn text_len(value: &Value) -> usize {
    match value {
        Value::Raw(raw) => raw.text().len(),
        Value::String(text) => text.len(),
        _ => 0,
    }
}

/// Whether a value is the wanted one. Scalars are compared as they are written: `1.0` is not `1`, and what the server
/// writes as `\u003c` is not the `<` of a patch.
fn equals(found: &Value, wanted: &Value, touched: &mut Touched) -> Applied<bool> {
    let opened = |value: &Value| match value {
        Value::Raw(raw) if matches!(raw.type_name(), "object" | "array") => Some(codec::json::open_outermost(raw)),
        _ => None,
    };
    touched.add(text_len(found) + text_len(wanted) + 1)?;
    let (found_opened, wanted_opened) = (opened(found), opened(wanted));
    match (found_opened.as_ref().unwrap_or(found), wanted_opened.as_ref().unwrap_or(wanted)) {
        (Value::List(found), Value::List(wanted)) => {
            let mut same = found.len() == wanted.len();
            for (found, wanted) in found.iter().zip(wanted) {
                same = same && equals(found, wanted, touched)?;
            }
            Ok(same)
        }
        (Value::Map(found), Value::Map(wanted)) => {
            let mut same = found.len() == wanted.len();
            for ((key, found), (other, wanted)) in found.iter().zip(wanted.iter()) {
                same = same && key == other && equals(found, wanted, touched)?;
            }
            Ok(same)
        }
        (Value::List(_) | Value::Map(_), _) | (_, Value::List(_) | Value::Map(_)) => Ok(false),
        (found, wanted) => Ok(written(found) == written(wanted)),
    }
}

/// A scalar as it stands in its document.
fn written(scalar: &Value) -> Cow<'_, str> {
    match scalar {
        Value::Raw(raw) => raw.text().trim().into(),
        printed => go::json(printed).into(),
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
    let not_a_number = |_| {
        let why = format!("strconv.Atoi: parsing {}: invalid syntax", quote(key));
        DoesNotApply::Key(format!("value was not a proper array index: '{key}': {why}"))
    };
    let index: i64 = key.parse().map_err(not_a_number)?;
    let wrong = || DoesNotApply::index(index);
    if index >= 0 {
        return usize::try_from(index).map_err(|_| wrong());
    }
    let back = usize::try_from(index.unsigned_abs()).map_err(|_| wrong())?;
    len.checked_sub(back).ok_or_else(wrong)
}

/// How many containers nest in a value; values are never deeper than [`MAX_DEPTH`].
fn depth_of(value: &Value) -> usize {
    match value {
        Value::List(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Map(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        Value::Raw(raw) if matches!(raw.type_name(), "object" | "array") => depth_of_text(raw.text()),
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
