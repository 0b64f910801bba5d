//! [`Attributes`]: what a plugin knows about the request.

use std::sync::Mutex;

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
        Attributes { operation, kind, resource, subresource, name, cx, options, warnings: Mutex::new(Vec::new()) }
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
