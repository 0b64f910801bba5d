//! CREATE: store a new object.

use admission::Operation;
use http::StatusCode;
use object::{Meta, Status, Value};

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
    scope.settle_namespace(&mut object)?;
    scope.warn(dedup_owners(&mut object, ""));
    let object = managed::track_update(scope, &Value::map(), object, &options.field_manager).await;
    let mut object = scope.to_storage(object)?;
    let name = object.name().to_string();
    let generated = object.meta_str("generateName").to_string();
    let mut cx = scope.context(options.dry_run);
    if scope.storage()?.strategy.facts().is_namespace {
        cx.namespace = &name;
    }
    let attributes = scope.admission(Operation::Create, &name, cx, &options.object).with_generated_name(&generated);
    scope.api.admission.mutate(&attributes, &mut object, None).await?;
    scope.warn(dedup_owners(&mut object, AFTER_ADMISSION));
    spans::event("About to store object in database");
    let mut creation = scope.storage()?.begin_new(&cx, object);
    scope.begin(&cx);
    let created = loop {
        let draft = creation.check().await?;
        let admitted = scope.api.admission.validate(&attributes, Some(draft.object()), None).await;
        if let Some(created) = creation.commit(draft, admitted).await? {
            break created;
        }
    };
    get::respond(scope, StatusCode::CREATED, created)
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
