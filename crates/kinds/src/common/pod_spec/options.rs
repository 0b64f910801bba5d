//! What validation of a pod spec tolerates.

use object::Value;
use registry::Context;

/// What feature gates allow, and what an update lets pass because the stored object already has it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The object is a pod, not a template inside something else.
    pub is_pod: bool,
}

impl Options {
    /// `pod` and `old` are pods or pod templates.
    pub fn new(_cx: &Context, _pod: &Value, _old: Option<&Value>) -> Options {
        Options::default()
    }
}
