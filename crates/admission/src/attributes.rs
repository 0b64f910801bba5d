//! [`Attributes`]: what a plugin knows about the request.

use std::sync::{Mutex, OnceLock};

use object::{GroupVersionKind, GroupVersionResource, Value};
use registry::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// The request under admission.
pub struct Attributes<'a> {
    pub operation: Operation,
    /// As requested: the version in the path.
    pub kind: &'a GroupVersionKind,
    pub resource: &'a GroupVersionResource,
    /// "" for the object itself.
    pub subresource: &'a str,
    pub name: &'a str,
    /// User, namespace, time, feature gates, dry run, and a view on other objects.
    pub cx: Context<'a>,
    /// The CreateOptions, UpdateOptions or DeleteOptions.
    pub options: &'a Value,
    /// What refusals call the object while it has no name: the start of the name it will get.
    generated: String,
    /// The name it has been given since.
    given: OnceLock<String>,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Attributes<'a> {
    pub fn new(
        operation: Operation,
        kind: &'a GroupVersionKind,
        resource: &'a GroupVersionResource,
        name: &'a str,
        cx: Context<'a>,
        options: &'a Value,
    ) -> Attributes<'a> {
        let subresource = cx.subresource;
        Attributes {
            operation,
            kind,
            resource,
            subresource,
            name,
            cx,
            options,
            generated: String::new(),
            given: OnceLock::new(),
            warnings: Mutex::default(),
        }
    }

    /// The same about an object whose name is to begin with this.
    pub fn with_generated_name(self, start: &str) -> Attributes<'a> {
        Attributes { generated: start.to_string(), ..self }
    }

    /// The object has got a name meanwhile.
    pub(crate) fn named(&self, name: &str) {
        if self.name.is_empty() && !name.is_empty() {
            let _ = self.given.set(name.to_string());
        }
    }

    /// The object's name in refusals.
    pub fn shown_name(&self) -> &str {
        let given = self.given.get().map_or("", String::as_str);
        [self.name, given, self.generated.as_str()].into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }

    /// Whether the request is about this resource itself, not a subresource.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.resource.group == group && self.resource.resource == resource
    }

    /// Tells the client something without refusing the request.
    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(warning.into());
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
