//! [`Scope`]: one authorized call, the resource it is about, and how its answer is to look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use admission::{Annotations, Attributes, Operation};
use authz::Permitted;
use bytes::Bytes;
use object::{GroupResource, Meta, Status, Value};
use parking_lot::Mutex;
use registry::{Context, Exchange, Resource, ResourceStorage, Strategy, Warnings};
use request::Access;
use schema::Schema;

use crate::api::CBOR;
use crate::large::Large;
use crate::media::{Accept, Offer, Refused};
use crate::view::{self, View};
use crate::{Body, Call, Snapshot};

/// Everything a verb works with.
pub struct Scope {
    pub api: Snapshot,
    pub resource: Arc<Resource>,
    pub call: Arc<Permitted<Call>>,
    pub accept: Accept,
    /// The parameters beyond upstream's; boxed, as few requests have any.
    pub view: Option<Box<View>>,
    /// Whether Secrets are shown without their values.
    pub redacts: bool,
    /// Whether much is sent or changed.
    pub large: Large,
    /// Set by a write when it must be finished, and when its request has ended before it.
    begun: AtomicBool,
    abandoned: AtomicBool,
    body: Mutex<Body>,
    /// What the answer warns about, whatever it will be.
    pub warnings: Warnings,
    /// What the request's audit event is annotated with.
    pub annotations: Annotations,
    /// The name of the user, by which answers are counted.
    user: OnceLock<Arc<str>>,
}

impl Scope {
    pub fn new(api: Snapshot, resource: Arc<Resource>, call: Arc<Permitted<Call>>, body: Body) -> Scope {
        let redacts = view::is_redacted(&api.limits.redact_secrets_for, &call);
        let warnings = Warnings::default();
        warnings.add(resource.deprecation.iter().map(|old| old.warning.to_string()));
        Scope {
            api,
            resource,
            call,
            accept: Accept::json(),
            view: None,
            redacts,
            large: Large::default(),
            begun: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            body: Mutex::new(body),
            warnings,
            annotations: Annotations::default(),
            user: OnceLock::new(),
        }
    }

    /// The name of the user, by which answers are counted.
    pub fn user(&self) -> &Arc<str> {
        self.user.get_or_init(|| self.call.user.name.as_str().into())
    }

    /// Settles how the answer is written; failures until then are JSON.
    pub fn negotiate(&mut self) -> Result<(), Refused> {
        self.accept = match self.exchange() {
            None | Some(Exchange::Log) => Accept::negotiate(&self.call, self.offer())?,
            // What the client accepts is for the other end of the connection to look at.
            Some(_) => self.api.accept_of_status(&self.call),
        };
        Ok(())
    }

    /// Whether not all of an object is sent.
    pub fn is_projected(&self) -> bool {
        self.redacts || self.view.as_ref().is_some_and(|view| view.fields.is_some())
    }

    /// Leaves the fields of an object that are sent.
    pub fn project(&self, object: &mut Value) {
        if self.redacts {
            view::redact(object);
        }
        if let Some(fields) = self.view.as_ref().and_then(|view| view.fields.as_ref()) {
            fields.apply(object);
        }
    }

    /// What goes over the connection that the request asks for, if it asks for one.
    fn exchange(&self) -> Option<Exchange> {
        let name = self.call.info.subresource.as_str();
        let subresource = if name.is_empty() { None } else { self.resource.subresource(name) };
        Some(subresource?.connect.as_ref()?.exchange())
    }

    pub fn offer(&self) -> Offer {
        let cbor = self.api.features.enabled(CBOR);
        let part = self.call.info.subresource.as_str();
        let tables = self.resource.strategy().is_some_and(|strategy| strategy.facts().has_table(part));
        let (protobuf, router) = (self.resource.form.is_structured(), !self.resource.is_custom());
        let text = self.exchange() == Some(Exchange::Log);
        Offer { protobuf, cbor, tables, router, text }
    }

    /// From here on the request takes what has to be given back, or stores something: it must be finished even if nobody waits for
    /// its answer. A dry run does neither.
    pub fn begin(&self, cx: &Context<'_>) {
        if !cx.dry_run {
            self.begun.store(true, Ordering::Relaxed);
        }
    }

    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Notes that nobody waits for the answer any more.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The request's body, which can be taken once.
    pub fn take_body(&self) -> Body {
        std::mem::take(&mut *self.body.lock())
    }

    /// Reads the whole body, up to the limit for objects.
    pub async fn read_body(&self) -> Result<Bytes, Status> {
        let body = self.take_body();
        let bytes = body.read(self.api.limits.body_bytes).await?;
        spans::event("limitedReadBody succeeded");
        self.large.note(bytes.len()).await;
        Ok(bytes)
    }

    /// Notes the object that was sent in the audit record, if there is one.
    pub fn record_object(&self, object: &Value, schema: Option<Schema<'_>>) {
        if let Some(record) = &self.call.record {
            record.request_object(object, |object| {
                let mut json = Vec::new();
                codec::json::encode(object, schema, &mut json);
                json
            });
        }
    }

    /// Adds `Warning` headers to the answer, whatever it will be.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.add(warnings);
    }

    /// Where the objects are; a resource that is not stored does not have verbs that need it.
    pub fn storage(&self) -> Result<&Arc<ResourceStorage>, Status> {
        self.resource.storage.as_ref().ok_or_else(method_not_allowed)
    }

    /// How the resource's objects are printed.
    pub fn strategy(&self) -> Result<&dyn Strategy, Status> {
        self.resource.strategy().ok_or_else(method_not_allowed)
    }

    pub fn group_resource(&self) -> GroupResource {
        self.resource.resource.group_resource()
    }

    pub fn context(&self, dry_run: bool) -> Context<'_> {
        let info = &self.call.info;
        let cx = self.api.context(&self.call.user, &info.namespace, &info.version, &info.subresource, dry_run);
        let new_uid = self.call.new_uid.as_deref().unwrap_or("");
        Context { group: &info.group, verb: info.verb.as_str(), warnings: Some(&self.warnings), new_uid, ..cx }
    }

    /// The request with another verb, for what it does besides its own.
    pub fn access<'a>(&'a self, verb: &'a str) -> Access<'a> {
        Access { verb, ..Access::of(&self.call.info, &self.call.user) }
    }

    pub fn admission<'a>(
        &'a self,
        operation: Operation,
        name: &'a str,
        cx: Context<'a>,
        options: &'a Value,
    ) -> Attributes<'a> {
        let kind = match self.resource.subresource(&self.call.info.subresource) {
            Some(subresource) => &subresource.kind,
            None => &self.resource.kind,
        };
        let deadline = Instant::now() + self.call.timeout;
        let attributes = Attributes::new(operation, kind, &self.resource.resource, name, cx, options);
        attributes.until(deadline).annotating(&self.annotations)
    }

    /// Sets the namespace of an object that was sent to the one in the path; refuses it if it has another.
    pub fn settle_namespace(&self, object: &mut Value) -> Result<(), Status> {
        registry::ensure_namespace(object, if self.resource.namespaced { &self.call.info.namespace } else { "" })
    }

    /// Applies the kind's own defaults to an object of the requested version, so that they have owners like all fields.
    pub fn default(&self, object: Value) -> Result<Value, Status> {
        let Some(storage) = &self.resource.storage else { return Ok(object) };
        if self.resource.conversion.is_some() {
            return self.from_storage(self.to_storage(object)?);
        }
        let mut object = object;
        storage.strategy.default(&mut object);
        Ok(object)
    }

    /// An object of the requested version, which has its defaults, as it is stored.
    pub fn to_storage(&self, object: Value) -> Result<Value, Status> {
        let mut stored = self.resource.to_storage(object).map_err(Status::bad_request)?;
        if let Some(storage) = &self.resource.storage {
            stored.set_type(&storage.kind);
            // Fields that only the stored version has get their defaults here.
            if self.resource.conversion.is_some() {
                storage.strategy.default(&mut stored);
            }
        }
        Ok(stored)
    }

    /// A stored object as the requested version shows it.
    pub fn from_storage(&self, object: Value) -> Result<Value, Status> {
        let mut shown = self.resource.from_storage(object).map_err(Status::internal)?;
        shown.set_type(&self.resource.kind);
        Ok(shown)
    }
}

/// What upstream's router says when a path exists but not with this method.
pub fn method_not_allowed() -> Status {
    Status::generic(405, "", &GroupResource::default(), "", "")
}
