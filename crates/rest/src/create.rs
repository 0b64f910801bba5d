//! CREATE: store a new object.

use admission::Operation;
use async_trait::async_trait;
use http::StatusCode;
use object::{Meta, Status, Value};
use registry::Admit;

use crate::body::{self, Expected};
use crate::options::WriteOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{get, managed};

pub async fn create(scope: &Scope) -> Result<Reply, Status> {
    let media = body::input_media(scope, scope.call.header("content-type"))?;
    let bytes = scope.read_body().await?;
    let options = WriteOptions::parse(&scope.call, "CreateOptions", false)?;
    let decoded = body::decode(&bytes, media, &Expected::of(&scope.resource), options.field_validation)?;
    scope.warn(decoded.warnings);
    let mut object = scope.default(decoded.object)?;
    scope.record_object(&object, scope.resource.form.wire_schema());
    registry::wipe_system_fields(&mut object);
    ensure_namespace(scope, &mut object)?;
    scope.warn(dedup_owners(&mut object, ""));
    let object = managed::track_update(scope, &Value::map(), object, &options.field_manager).await;
    let mut object = scope.to_storage(object)?;
    let name = object.name().to_string();
    let generated = object.meta_str("generateName").to_string();
    let mut cx = scope.context(options.dry_run);
    if scope.storage()?.strategy.is_namespace() {
        cx.namespace = &name;
    }
    let attributes = scope.admission(Operation::Create, &name, cx, &options.object).with_generated_name(&generated);
    let admit = Admission { scope, attributes: &attributes };
    let outcome = match scope.api.admission.mutate(&attributes, &mut object, None).await {
        Ok(()) => {
            scope.warn(dedup_owners(&mut object, AFTER_ADMISSION));
            spans::event("About to store object in database");
            scope.storage()?.create(&cx, object, &admit).await.map_err(Status::from)
        }
        Err(status) => Err(status),
    };
    scope.note(&attributes);
    let outcome = outcome?;
    scope.warn(outcome.warnings);
    get::respond(scope, StatusCode::CREATED, outcome.object)
}

/// [`registry::ensure_namespace`] for what the client sent.
pub fn ensure_namespace(scope: &Scope, object: &mut Value) -> Result<(), Status> {
    registry::ensure_namespace(object, if scope.resource.namespaced { &scope.call.info.namespace } else { "" })
}

/// In the warning about owner references that mutating admission, or a patch, made to repeat.
pub const AFTER_ADMISSION: &str = " after mutating admission happens";

/// Removes owner references that repeat, and returns a warning about them.
pub fn dedup_owners(object: &mut Value, when: &str) -> Option<String> {
    let repeated = object.dedup_owner_references()?;
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {repeated}"
    ))
}

/// The validating half of admission, called when an object is final.
pub struct Admission<'a> {
    pub scope: &'a Scope,
    pub attributes: &'a admission::Attributes<'a>,
}

#[async_trait]
impl Admit for Admission<'_> {
    async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
        self.scope.api.admission.validate(self.attributes, new, old).await
    }

    fn warn(&self, warning: String) {
        self.attributes.warn(warning);
    }
}
