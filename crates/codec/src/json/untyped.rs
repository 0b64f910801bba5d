//! Documents without a schema, as custom resources are read: every field is kept.

use std::borrow::Cow;

use hashbrown::HashSet;
use object::{Map, Raw, Str, Value};

use super::reader::Reader;
use super::{Stop, number};
use crate::path::Place;
use crate::{MAX_DEPTH, Notes};

/// A whole document.
pub(super) fn decode(reader: &mut Reader<'_>, notes: &mut Notes) -> Result<Value, Stop> {
    document(reader, notes, Numbers::Read)
}

/// The same, with numbers as they are written.
pub(super) fn decode_exact(reader: &mut Reader<'_>, notes: &mut Notes) -> Result<Value, Stop> {
    document(reader, notes, Numbers::Kept)
}

fn document(reader: &mut Reader<'_>, notes: &mut Notes, numbers: Numbers) -> Result<Value, Stop> {
    let mut decoder = Untyped { reader, notes, saved: None, numbers };
    let value = decoder.value(&Place::root(), 0)?;
    let saved = decoder.saved.take();
    reader.end()?;
    match saved {
        Some(message) => Err(Stop::Type(message)),
        None => Ok(value),
    }
}

/// One value inside a document; `depth` is how many maps and lists are open around it. A number too large for a float
/// is the one thing that can be wrong with it besides syntax, and is told through `saved`.
pub(super) fn value(reader: &mut Reader<'_>, saved: &mut Option<String>, depth: usize) -> Result<Value, Stop> {
    let mut decoder = Untyped { reader, notes: &mut Notes::ignore(), saved: saved.take(), numbers: Numbers::Read };
    let value = decoder.value(&Place::root(), depth);
    *saved = decoder.saved;
    value
}

/// The text of one value inside a document, of which only the syntax was checked.
pub(super) fn kept(reader: &mut Reader<'_>, depth: usize) -> Result<Value, Stop> {
    reader.peek();
    let start = reader.offset();
    reader.skip_within(depth, MAX_DEPTH)?;
    let text = reader.since(start);
    Ok(if text == "null" { Value::Null } else { Value::Raw(Raw::new(text)) })
}

/// A map or list whose members are kept as text; anything else is read.
pub(super) fn outermost(reader: &mut Reader<'_>) -> Result<Value, Stop> {
    let mut first = true;
    match reader.peek() {
        b'{' => {
            reader.bump();
            let mut entries: Vec<(Str, Value)> = Vec::new();
            while reader.next_key(&mut first)? {
                let key = str_of(reader.key()?);
                entries.push((key, kept(reader, 1)?));
            }
            Ok(Value::Map(Map::from_entries(entries, |_| ())))
        }
        b'[' => {
            reader.bump();
            let mut items = Vec::new();
            while reader.next_item(&mut first)? {
                items.push(kept(reader, 1)?);
            }
            Ok(Value::List(items))
        }
        _ => value(reader, &mut None, 0),
    }
}

struct Untyped<'r, 'a> {
    reader: &'r mut Reader<'a>,
    notes: &'r mut Notes,
    saved: Option<String>,
    numbers: Numbers,
}

/// What becomes of a number that is not printed as it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Read,
    Kept,
}

impl<'a> Untyped<'_, 'a> {
    fn value(&mut self, place: &Place<'_>, depth: usize) -> Result<Value, Stop> {
        match self.reader.peek() {
            b'"' => Ok(Value::String(str_of(self.reader.string()?))),
            b'{' => self.map(place, depth + 1),
            b'[' => self.list(place, depth + 1),
            b't' => self.reader.word("true").map(|()| Value::Bool(true)),
            b'f' => self.reader.word("false").map(|()| Value::Bool(false)),
            b'n' => self.reader.word("null").map(|()| Value::Null),
            _ => self.number(place),
        }
    }

    fn map(&mut self, place: &Place<'_>, depth: usize) -> Result<Value, Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        self.reader.bump();
        let mut entries: Vec<(Str, Value)> = Vec::new();
        let mut seen = Seen::default();
        let mut first = true;
        while self.reader.next_key(&mut first)? {
            let key = self.reader.key()?;
            if self.notes.wanted() && seen.is_repeated(&key, &entries) {
                self.notes.duplicate(place.then(&key));
            }
            let value = self.value(&place.key(&key), depth)?;
            entries.push((str_of(key), value));
        }
        Ok(Value::Map(Map::from_entries(entries, |_| ())))
    }

    fn list(&mut self, place: &Place<'_>, depth: usize) -> Result<Value, Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        self.reader.bump();
        let mut items = Vec::new();
        let mut first = true;
        while self.reader.next_item(&mut first)? {
            items.push(self.value(&place.index(items.len()), depth)?);
        }
        Ok(Value::List(items))
    }

    fn number(&mut self, place: &Place<'_>) -> Result<Value, Stop> {
        let text = self.reader.number()?;
        Ok(match number::untyped(text) {
            Some(Value::Int(int)) if self.numbers == Numbers::Read || int.to_string() == text => Value::Int(int),
            Some(_) if self.numbers == Numbers::Kept => Value::Raw(Raw::new(text)),
            Some(read) => read,
            None => {
                self.saved.get_or_insert_with(|| place.type_error(None, &format!("number {text}"), "float64"));
                Value::Null
            }
        })
    }
}

pub(super) fn str_of(text: Cow<'_, str>) -> Str {
    match text {
        Cow::Borrowed(text) => Str::from(text),
        Cow::Owned(text) => Str::from(text),
    }
}

/// The keys of one map so far, to find repetitions.
#[derive(Default)]
pub(super) struct Seen {
    keys: HashSet<Str>,
    /// How many entries have been put into `keys`.
    counted: usize,
}

/// Up to so many keys it is quicker to look at all of them.
const FEW_KEYS: usize = 16;

impl Seen {
    /// Whether the key is among those that were read before it, which are `so_far`.
    pub fn is_repeated(&mut self, key: &str, so_far: &[(Str, Value)]) -> bool {
        if so_far.len() <= FEW_KEYS {
            return so_far.iter().any(|(known, _)| known == key);
        }
        self.keys.extend(so_far[self.counted..].iter().map(|(key, _)| key.clone()));
        self.counted = so_far.len();
        self.keys.contains(key)
    }
}
