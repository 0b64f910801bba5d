//! The rules of a pod's spec, wherever it stands: in a pod, or in the template of a Deployment, a Job, a PodTemplate.

pub mod annotations;
pub mod options;
pub mod warnings;

use object::{Cursor, Errors, Value};
use registry::Context;

pub use options::Options;

/// Defaults that depend on other fields, for every pod spec.
pub fn default(_spec: &mut Value) {}

/// Takes away the fields of features that are off from a pod or a template, unless the old one has them.
pub fn drop_disabled(_cx: &Context, _pod: &mut Value, _old: Option<&Value>) {}

/// Checks a pod spec. `pod` is the pod's metadata, for specs of real pods.
pub fn validate(_spec: &Cursor, _pod: Option<&Cursor>, _options: &Options, _errors: &mut Errors) {}
