//! A pod template: the entry points for kinds that embed one.
//!
//! A strategy calls [`default`] from its own `default`, [`drop_disabled`] when it prepares a create or update,
//! [`options`] and [`validate`] when it validates, and [`warnings`] for its warnings.

use object::{Cursor, Errors, Path, Value};
use registry::Context;

use super::pod_spec::{self, PodValidationOptions};
use super::{metadata, selector};

/// Fills what the schema table cannot: defaults that depend on other fields.
pub fn default(template: &mut Value) {
    if let Some(spec) = template.get_mut("spec") {
        pod_spec::default(spec);
    }
}

/// Takes away fields of features that are off, unless the old template has them.
pub fn drop_disabled(cx: &Context, template: &mut Value, old: Option<&Value>) {
    pod_spec::drop_disabled(cx, template, old);
}

/// What validation tolerates: what feature gates allow, and what the old template already does.
pub fn options(cx: &Context, template: &Value, old: Option<&Value>) -> PodValidationOptions {
    PodValidationOptions::new(cx, template, old)
}

/// Checks a template at its place in an object.
pub fn validate(template: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    // Upstream reports metadata as if it stood in the template itself.
    let (meta, path) = (template.field("metadata"), template.path());
    let labels = Cursor::new(meta.field("labels").value(), path.field("labels"));
    let annotations = Cursor::new(meta.field("annotations").value(), path.field("annotations"));
    let spec = template.field("spec");
    selector::labels(&labels, errors);
    metadata::annotations(&annotations, errors);
    pod_spec::annotations::validate(&annotations, &spec, options, errors);
    pod_spec::validate(&spec, None, options, errors);
    pod_spec::annotations::seccomp_must_match(&annotations, &spec, errors);
    pod_spec::annotations::apparmor_must_match(&annotations, &spec, errors);
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden(errors, "ephemeral containers not allowed in pod template");
    }
}

/// What to warn the author of a template about; `path` is where the template stands.
pub fn warnings(cx: &Context, path: &Path, template: &Value, old: Option<&Value>) -> Vec<String> {
    pod_spec::warnings::of_template(cx, path, template, old)
}
