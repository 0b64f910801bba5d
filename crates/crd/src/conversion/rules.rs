//! Conversion by the rules in a definition's annotation (docs/conversion.md).

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use cel::conversion::ConversionRules;
use object::{GroupVersion, Meta, Str, Value};

use super::{Conversion, ConversionMeters, checked, kind_text};
use crate::codec::Schemas;

/// Rules that are compiled when they are first used, or why they cannot be.
pub type LazyRules =
    LazyLock<Result<ConversionRules, String>, Box<dyn FnOnce() -> Result<ConversionRules, String> + Send>>;

/// The rules of one definition.
pub struct RulesConverter {
    /// The name of the definition.
    pub definition: Str,
    pub rules: LazyRules,
    pub schemas: Arc<Schemas>,
    pub meters: Arc<ConversionMeters>,
}

impl RulesConverter {
    /// One object, which is not of that version, counted in the metrics. Without rules that compile it is not converted.
    pub fn convert(&self, object: &Value, to: &GroupVersion) -> Conversion {
        let began = Instant::now();
        let rules = self.rules.as_ref().map_err(Clone::clone);
        let converted = rules.and_then(|rules| convert(rules, &self.schemas, object, to));
        let from = version_of(object);
        self.meters.record_rules(&self.definition, from, &to.version, converted.is_ok(), began.elapsed());
        converted.map_err(|why| format!("conversion of {} to {to} failed: {why}", kind_text(object)))
    }
}

/// The object in another version, not yet pruned there: from one spoke to another by way of the hub.
pub(super) fn convert(
    rules: &ConversionRules,
    schemas: &Schemas,
    object: &Value,
    to: &GroupVersion,
) -> Result<Value, String> {
    let from = version_of(object);
    let hub = GroupVersion::new(to.group.clone(), rules.hub());
    let mut converted = match from == rules.hub() {
        true => object.clone(),
        false => {
            let mut in_hub = rules.to_hub(object, from).map_err(|error| error.to_string())?;
            in_hub.set(&["apiVersion"], hub.to_string());
            in_hub
        }
    };
    if *to != hub {
        // Fields of the first version that the hub lacks are not those of the last one, though they may have the same names.
        if from != rules.hub() {
            schemas.prune(&mut converted, &hub);
        }
        converted = rules.from_hub(&converted, &to.version).map_err(|error| error.to_string())?;
        converted.set(&["apiVersion"], to.to_string());
    }
    checked(object, converted, to)
}

fn version_of(object: &Value) -> &str {
    object.api_version().rsplit_once('/').map_or("", |(_, version)| version)
}
