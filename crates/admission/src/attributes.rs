//! [`Attributes`]: what a plugin knows about the request.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use object::{GroupVersionKind, GroupVersionResource, Value, names};
use parking_lot::Mutex;
use registry::Context;

use crate::explained::PolicyFindings;
use crate::{PolicyFinding, Reinvocation};

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
    /// When the request must be over; None where the server acts for itself.
    pub deadline: Option<Instant>,
    pub reinvocation: Reinvocation,
    /// What refusals call the object while it has no name: the start of the name it will get.
    generated: String,
    /// The name it has been given since.
    given: OnceLock<String>,
    /// None where no audit event is written.
    annotations: Option<&'a Annotations>,
    /// Nanoseconds that webhooks with `failurePolicy: Ignore` have taken.
    ignored_nanos: AtomicU64,
}

/// An annotation of the request's audit event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub key: String,
    pub value: String,
    /// Whether it belongs only into events that show the request's object: level Request and above.
    pub with_object: bool,
}

/// The annotations of one request's audit event.
#[derive(Debug, Default)]
pub struct Annotations {
    list: Mutex<Vec<Annotation>>,
    /// For a request that wants to know what policies say of it.
    findings: Option<Box<PolicyFindings>>,
}

impl Annotations {
    /// Keeps the decisions of policies as well.
    pub fn explained() -> Annotations {
        Annotations { findings: Some(Box::default()), ..Annotations::default() }
    }

    /// The decisions of policies; None if they are not kept.
    pub fn findings(&self) -> Option<Vec<PolicyFinding>> {
        self.findings.as_ref().map(|findings| findings.take())
    }

    /// A key is set once: later values are dropped, as upstream does.
    fn add(&self, annotation: Annotation) {
        if !names::label_key(&annotation.key).is_empty() {
            return;
        }
        let mut annotations = self.list.lock();
        if annotations.iter().all(|known| known.key != annotation.key) {
            annotations.push(annotation);
        }
    }

    pub fn take(&self) -> Vec<Annotation> {
        std::mem::take(&mut *self.list.lock())
    }
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
            deadline: None,
            reinvocation: Reinvocation::default(),
            generated: String::new(),
            given: OnceLock::new(),
            annotations: None,
            ignored_nanos: AtomicU64::new(0),
        }
    }

    /// The same about an object whose name is to begin with this.
    pub fn with_generated_name(self, start: &str) -> Attributes<'a> {
        Attributes { generated: start.to_string(), ..self }
    }

    /// The same with a deadline.
    pub fn until(self, deadline: Instant) -> Attributes<'a> {
        Attributes { deadline: Some(deadline), ..self }
    }

    /// The same with annotations that go into the request's audit event.
    pub fn annotating(self, annotations: &'a Annotations) -> Attributes<'a> {
        Attributes { annotations: Some(annotations), ..self }
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
        self.cx.warn([warning.into()]);
    }

    /// Adds an annotation to the request's audit event.
    pub fn annotate(&self, key: String, value: String) {
        if let Some(annotations) = self.annotations {
            annotations.add(Annotation { key, value, with_object: false });
        }
    }

    /// The same for an annotation that shows parts of the object.
    pub fn annotate_object(&self, key: String, value: String) {
        if let Some(annotations) = self.annotations {
            annotations.add(Annotation { key, value, with_object: true });
        }
    }

    /// Notes the decision of a policy, if the request wants to know.
    pub(crate) fn found(&self, finding: impl FnOnce() -> PolicyFinding) {
        if let Some(findings) = self.annotations.and_then(|annotations| annotations.findings.as_ref()) {
            findings.add(finding());
        }
    }

    /// How long webhooks with `failurePolicy: Ignore` have taken so far.
    pub(crate) fn ignored_time(&self) -> Duration {
        Duration::from_nanos(self.ignored_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn spend_ignored_time(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.ignored_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}
