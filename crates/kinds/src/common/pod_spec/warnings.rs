//! What to warn the author of a pod or a template about.

use object::{Path, Value};
use registry::Context;

pub fn of_template(_cx: &Context, _path: &Path, _template: &Value, _old: Option<&Value>) -> Vec<String> {
    Vec::new()
}
