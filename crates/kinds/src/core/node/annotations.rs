//! Annotations that once said what fields say now, and are still checked.

use object::{Cursor, Errors, Map, Meta, Path, Value};

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

pub fn validate(node: &Value, errors: &mut Errors) {
    let path = Path::of("metadata.annotations");
    if let Some(text) = node.annotation(TAINTS).filter(|text| !text.is_empty()) {
        match read_taints(text) {
            Ok(taints) => super::validate_taints(&Cursor::new(&taints, path.field(TAINTS)), errors),
            Err(message) => errors.invalid(&path, TAINTS, message),
        }
    }
    if let Some(text) = node.annotation(AVOID_PODS).filter(|text| !text.is_empty()) {
        match read(text) {
            Ok(avoids) => validate_avoids(&avoids, &path.field(AVOID_PODS), errors),
            Err(message) => errors.invalid(&path.field("AvoidPods"), AVOID_PODS, message),
        }
    }
}

fn validate_avoids(avoids: &Value, path: &Path, errors: &mut Errors) {
    for (index, entry) in avoids.list_at(&["preferAvoidPods"]).iter().enumerate() {
        let path = path.index(index).field("PodSignature");
        let owner = entry.at(&["podSignature", "podController"]);
        if owner.is_null() {
            errors.required(&path, "");
        } else if owner.field("controller").as_bool() != Some(true) {
            errors.invalid(&path.field("PodController").field("Controller"), false, "must point to a controller");
        }
    }
}

/// Upstream reads these into a struct without JSON names, which matches fields whatever their case.
fn read_taints(text: &str) -> Result<Value, String> {
    let Value::List(taints) = read(text)? else {
        return Err("json: cannot unmarshal object into Go value of type []core.Taint".to_string());
    };
    let lower = |taint: Value| match taint {
        Value::Map(fields) => Value::Map(fields.into_iter().map(|(k, v)| (k.to_lowercase(), v)).collect::<Map>()),
        other => other,
    };
    Ok(Value::List(taints.into_iter().map(lower).collect()))
}

fn read(text: &str) -> Result<Value, String> {
    codec::json::decode(text.as_bytes(), None, &mut codec::Notes::ignore()).map_err(|error| error.message().to_string())
}
