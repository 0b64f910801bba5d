//! Conversion between the versions of a definition: by its webhook, by rules in its annotation, or, for resources that the program
//! defines, by a function of it. All answers are checked in the same way.

mod generate;
mod meters;
pub mod proof;
#[cfg(test)]
mod published;
mod rules;
mod webhook;

use std::sync::Arc;

use object::{Cursor, Errors, GroupVersion, Meta, Path, Value};
use registry::Pace;

pub use meters::ConversionMeters;
pub use rules::RulesConverter;
pub use webhook::ConvertingWebhook;

/// How much work the conversion of an object counts as, for its turn on the processor.
const OBJECT_BYTES: usize = 4096;

/// Makes an object of the version that is asked for from one of another version.
pub type ConvertFn = dyn Fn(Value, &GroupVersion) -> Result<Value, String> + Send + Sync;

/// The object in the wanted version, or why it was not converted.
type Conversion = Result<Value, String>;

/// Who converts one definition's objects.
pub enum Converter {
    ConvertingWebhook(ConvertingWebhook),
    /// The webhook is called where the rules cannot be used.
    Rules(RulesConverter, Option<ConvertingWebhook>),
    Function(Arc<ConvertFn>),
}

impl Converter {
    /// Each of the objects, none of which is of that version; a webhook is asked once for all of them.
    pub async fn convert(&self, objects: &[Value], to: &GroupVersion) -> Vec<Conversion> {
        if objects.is_empty() {
            return Vec::new();
        }
        match self {
            Converter::ConvertingWebhook(webhook) => webhook.convert(objects, to).await,
            Converter::Rules(rules, Some(webhook)) if rules.rules.is_err() => webhook.convert(objects, to).await,
            Converter::Rules(rules, _) => paced(objects, |object| rules.convert(object, to)).await,
            Converter::Function(convert) => {
                let one = |object: &Value| {
                    let converted = convert(object.clone(), to).and_then(|converted| checked(object, converted, to));
                    converted.map_err(|why| format!("conversion of {} to {to} failed: {why}", kind_text(object)))
                };
                paced(objects, one).await
            }
        }
    }

    /// One object, which is not of that version.
    pub async fn convert_one(&self, object: &Value, to: &GroupVersion) -> Conversion {
        let converted = self.convert(std::slice::from_ref(object), to).await.pop();
        converted.unwrap_or_else(|| Err(webhook::NO_OBJECTS.to_string()))
    }
}

/// Converts one object after the other and lets other tasks run in between.
async fn paced(objects: &[Value], one: impl Fn(&Value) -> Conversion) -> Vec<Conversion> {
    let mut conversions = Vec::with_capacity(objects.len());
    let mut pace = Pace::default();
    for object in objects {
        conversions.push(one(object));
        pace.worked(OBJECT_BYTES).await;
    }
    conversions
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
