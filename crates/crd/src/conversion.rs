//! Conversion by webhook: a ConversionReview is posted, and its answer checked as upstream checks it. Resources that the
//! program defines are converted by a function of it.
//!
//! Nothing waits for a webhook but [`Converter::prepare`], which is asynchronous and takes any number of objects. Results are
//! kept by what was converted and to which version, so an object that did not change is converted once.

mod meters;
mod webhook;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use object::{Cursor, Errors, GroupVersion, Meta, Path, Str, Value};
use parking_lot::Mutex;
use registry::{Pace, Prepared};
use sha2::{Digest, Sha256};

pub use meters::ConversionMeters;
pub use webhook::ConvertingWebhook;

/// How much work the conversion of an object counts as, for its turn on the processor.
const OBJECT_BYTES: usize = 4096;
/// Results that are kept for one definition, counted in bytes of JSON.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Makes an object of the version that is asked for from one of another version.
pub type ConvertFn = dyn Fn(Value, &GroupVersion) -> Result<Value, String> + Send + Sync;

/// The converter of one definition's objects.
pub struct Converter {
    by: ConvertedBy,
    results: Mutex<Results>,
}

/// Who is asked.
pub enum ConvertedBy {
    ConvertingWebhook(ConvertingWebhook),
    Function(Arc<ConvertFn>),
}

impl ConvertedBy {
    async fn conversions(&self, objects: &[Value], to: &GroupVersion) -> Vec<Conversion> {
        match self {
            ConvertedBy::ConvertingWebhook(webhook) => webhook.conversions(objects, to).await,
            ConvertedBy::Function(convert) => {
                let mut conversions = Vec::with_capacity(objects.len());
                let mut pace = Pace::default();
                for object in objects {
                    let converted = convert(object.clone(), to).and_then(|converted| checked(object, converted, to));
                    let failed = |why| format!("conversion of {} to {to} failed: {why}", kind_text(object));
                    conversions.push(converted.map_err(failed));
                    pace.worked(OBJECT_BYTES).await;
                }
                conversions
            }
        }
    }
}

/// What was converted: a hash of its JSON, and the version it was converted to.
type Question = ([u8; 32], Str);

/// The object in the wanted version, or why the webhook did not convert it.
type Conversion = Result<Value, String>;

/// Answers of the webhook. Those that requests hold are known, failures among them; the latest converted objects are held
/// here, up to a number of bytes.
#[derive(Default)]
struct Results {
    known: HashMap<Question, Weak<Conversion>>,
    /// The oldest first, with their sizes.
    kept: VecDeque<(Arc<Conversion>, usize)>,
    kept_bytes: usize,
    /// How many there were when those that are no longer in use were last removed.
    swept: usize,
}

impl Results {
    fn get(&self, question: &Question) -> Option<Arc<Conversion>> {
        self.known.get(question).and_then(Weak::upgrade)
    }

    fn keep(&mut self, question: Question, result: &Arc<Conversion>) {
        if self.known.len() > 2 * self.swept + 1024 {
            self.known.retain(|_, result| result.strong_count() > 0);
            self.swept = self.known.len();
        }
        self.known.insert(question, Arc::downgrade(result));
        // The webhook is asked again for what failed.
        let Ok(object) = &**result else { return };
        let size = json_of(object).len();
        if size > KEPT_BYTES_MAX {
            return;
        }
        self.kept.push_back((result.clone(), size));
        self.kept_bytes += size;
        while self.kept_bytes > KEPT_BYTES_MAX
            && let Some((_, size)) = self.kept.pop_front()
        {
            self.kept_bytes -= size;
        }
    }
}

impl Converter {
    pub fn new(by: ConvertedBy) -> Converter {
        Converter { by, results: Mutex::default() }
    }

    /// The object in another version, if that was prepared.
    pub fn converted(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        match self.results.lock().get(&question(object, to)) {
            Some(result) => (*result).clone(),
            None => Err(format!("conversion webhook for {} failed: it was not asked for {to} here", kind_text(object))),
        }
    }

    /// Asks the webhook for what is not known yet, in one call, and holds on to all of it. What the webhook does not convert is
    /// an error of [`Self::converted`].
    pub async fn prepare(&self, mut objects: Vec<Value>, to: &GroupVersion) -> Prepared {
        let version = to.to_string();
        objects.retain(|object| object.api_version() != version);
        let mut held = Vec::with_capacity(objects.len());
        let mut missing = Vec::new();
        for object in objects {
            let question = question(&object, to);
            match self.results.lock().get(&question) {
                Some(result) => held.push(result),
                None => missing.push((object, question)),
            }
        }
        if !missing.is_empty() {
            let (objects, questions): (Vec<Value>, Vec<Question>) = missing.into_iter().unzip();
            for (result, question) in self.by.conversions(&objects, to).await.into_iter().zip(questions) {
                let result = Arc::new(result);
                self.results.lock().keep(question, &result);
                held.push(result);
            }
        }
        Prepared::new(held)
    }
}

fn question(object: &Value, to: &GroupVersion) -> Question {
    (Sha256::digest(json_of(object)).into(), to.version.clone())
}

fn json_of(object: &Value) -> Vec<u8> {
    let mut json = Vec::new();
    codec::json::encode(object, None, &mut json);
    json
}

/// `group/version, Kind=Kind`.
fn kind_text(object: &Value) -> String {
    format!("{}, Kind={}", object.api_version(), object.kind())
}

/// A converted object with the metadata it had before, but for labels and annotations.
fn checked(object: &Value, mut converted: Value, to: &GroupVersion) -> Result<Value, String> {
    let wanted = to.to_string();
    if converted.api_version() != wanted {
        let got = converted.api_version();
        return Err(format!("object at index 0: invalid groupVersion (expected {wanted}, received {got})"));
    }
    if converted.kind() != object.kind() {
        let (expected, got) = (object.kind(), converted.kind());
        return Err(format!("object at index 0: invalid kind (expected {expected}, received {got})"));
    }
    let same = [
        ("name", object.name(), converted.name()),
        ("namespace", object.namespace(), converted.namespace()),
        ("UID", object.uid(), converted.uid()),
    ];
    if let Some((what, before, after)) = same.into_iter().find(|(_, before, after)| before != after) {
        return Err(format!("object: must have the same {what}: {before} != {after}"));
    }
    let answered = converted.remove(&["metadata"]).ok_or("metadata: missing metadata in converted object")?;
    converted.set(&["metadata"], object.field("metadata").clone());
    for field in ["labels", "annotations"] {
        match answered.field(field) {
            Value::Null => drop(converted.metadata_mut().remove(field)),
            Value::Map(map) => {
                if let Some((key, _)) = map.iter().find(|(_, value)| value.as_str().is_none()) {
                    return Err(format!("metadata: metadata.{field}[{key}] must be a string in converted object"));
                }
                converted.metadata_mut().insert(field, Value::Map(map.clone()));
            }
            _ => return Err(format!("metadata: invalid metadata.{field} in converted object")),
        }
    }
    let mut errors = Errors::new();
    let changed = converted.field("metadata") != object.field("metadata");
    if changed {
        let check = |_: &str, _: bool| Vec::new();
        let cursor = Cursor::new(&converted, Path::root());
        registry::metadata::validate(&cursor, !object.namespace().is_empty(), &check, &mut errors);
    }
    if errors.is_empty() { Ok(converted) } else { Err(format!("metadata: {}", errors.aggregate())) }
}
