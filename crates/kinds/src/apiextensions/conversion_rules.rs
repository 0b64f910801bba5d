//! The annotation with rules by which objects are converted instead of by a webhook (docs/conversion.md).

use cel::Pool;
use cel::conversion::{ANNOTATION, ConversionRules};
use object::{Cursor, Errors, Meta, Value};

/// Compiles the rules of a definition of the form of v1, unless an update leaves them and the schemas as they were.
pub fn validate(object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let stated = |object: &Value| object.annotation(ANNOTATION).map(str::to_string);
    let versions = |object: &Cursor| object.at(&["spec", "versions"]).value().clone();
    if old.is_some_and(|old| stated(old.value()) == stated(object.value()) && versions(old) == versions(object)) {
        return;
    }
    if let Some(Err(found)) = ConversionRules::read(object.value(), &Pool::default()) {
        errors.extend(found);
    }
}

/// The warning about rules that other servers do not replace by anything; None where they call a webhook.
pub fn warning(object: &Value) -> Option<String> {
    object.annotation(ANNOTATION)?;
    (object.at(&["spec", "conversion"]).str_at(&["strategy"]) != "Webhook").then(|| {
        format!(
            "metadata.annotations[{ANNOTATION}]: kube-apiserver ignores the rules and, with spec.conversion.strategy None, drops \
             fields that a version does not have"
        )
    })
}
