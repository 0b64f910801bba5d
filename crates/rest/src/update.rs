//! UPDATE: replace an object.

use std::borrow::Cow;

use admission::Operation;
use async_trait::async_trait;
use http::StatusCode;
use object::{Meta, Status, Value};
use registry::{Admit, UpdateOptions, UpdateScope, UpdatedObject};
use tokio::sync::OnceCell;

use crate::body::{self, Expected};
use crate::create::{AFTER_ADMISSION, Admission, dedup_owners, ensure_namespace};
use crate::options::WriteOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{get, managed};

pub async fn update(scope: &Scope) -> Result<Reply, Status> {
    let bytes = scope.read_body().await?;
    let options = WriteOptions::parse(&scope.call, "UpdateOptions", false)?;
    let media = body::input_media(scope, scope.call.header("content-type"))?;
    let decoded = body::decode(&bytes, media, &Expected::of(&scope.resource), options.field_validation)?;
    scope.warn(decoded.warnings);
    let mut object = scope.default(decoded.object)?;
    scope.record_object(&object, scope.resource.form.wire_schema());
    ensure_namespace(scope, &mut object)?;
    check_name(scope, &object)?;
    scope.warn(dedup_owners(&mut object, ""));
    let uid = Some(object.uid().to_string()).filter(|uid| !uid.is_empty());
    let update = UpdateOptions { uid, scope: update_scope(scope), ..UpdateOptions::default() };
    write(scope, &options, update, Wanted::Object(object)).await
}

/// Which rules a write to this path goes by.
pub fn update_scope(scope: &Scope) -> UpdateScope {
    match scope.call.info.subresource.as_str() {
        "" => UpdateScope::Object,
        "status" => UpdateScope::Status,
        _ => UpdateScope::Subresource,
    }
}

/// The object has no name.
pub fn undeterminable_name(name: &str) -> Status {
    Status::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// The name in the object is the one in the path.
pub fn check_name(scope: &Scope, object: &Value) -> Result<(), Status> {
    let name = &scope.call.info.name;
    if object.name().is_empty() {
        return Err(undeterminable_name(name));
    }
    if object.name() != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            object.name()
        )));
    }
    Ok(())
}

/// What the stored object is to become.
pub enum Wanted {
    /// This, in the requested version.
    Object(Value),
    /// What this patch makes of it.
    Patch(crate::patch::Patch),
}

/// Runs an update or a patch through admission and the registry and answers with the result.
pub async fn write(
    scope: &Scope,
    options: &WriteOptions,
    update: UpdateOptions,
    wanted: Wanted,
) -> Result<Reply, Status> {
    let cx = scope.context(options.dry_run);
    let name = scope.call.info.name.as_str();
    // An update may turn out to be a creation: apply, and PUT for the few kinds that allow it.
    let (as_create, as_update) = (options.of_kind("CreateOptions"), options.of_kind("UpdateOptions"));
    let updating = scope.admission(Operation::Update, name, cx, &as_update);
    let creating = scope.admission(Operation::Create, name, cx, &as_create);
    let admit = EitherAdmission {
        may_create: OnceCell::new(),
        creating: Admission { scope, attributes: &creating },
        updating: Admission { scope, attributes: &updating },
    };
    let mut change = Write { admit: &admit, options, wanted, warnings: Vec::new() };
    let storage = scope.storage()?;
    // A small patch of a large object is as much work as a large patch.
    if let Some(stored) = storage.cache.get(&storage.key(cx.namespace, name)) {
        scope.large.note(stored.entry().value.len()).await;
    }
    spans::event("About to store object in database");
    let outcome = storage.update(&cx, name, &mut change, &admit, &update).await;
    scope.warn(change.warnings);
    scope.note(&creating);
    scope.note(&updating);
    let outcome = outcome?;
    scope.warn(outcome.warnings);
    let status = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    get::respond(scope, status, outcome.object)
}

/// Admission as a creation or as an update, whichever it turns out to be.
struct EitherAdmission<'a> {
    /// Whether the user may create, asked at most once: what is authorized so far is an update or a patch.
    may_create: OnceCell<Result<(), Status>>,
    creating: Admission<'a>,
    updating: Admission<'a>,
}

#[async_trait]
impl Admit for EitherAdmission<'_> {
    async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
        if old.is_some() {
            return self.updating.validate(new, old).await;
        }
        let scope = self.creating.scope;
        let access = scope.access("create");
        let may_create = self.may_create.get_or_init(|| authz::check(&*scope.api.authorizer, &access));
        may_create.await.clone()?;
        self.creating.validate(new, old).await
    }

    fn warn(&self, warning: String) {
        self.updating.warn(warning);
    }
}

struct Write<'a> {
    admit: &'a EitherAdmission<'a>,
    options: &'a WriteOptions,
    wanted: Wanted,
    warnings: Vec<String>,
}

#[async_trait]
impl UpdatedObject for Write<'_> {
    async fn wanted(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let admission = if existing.is_some() { &self.admit.updating } else { &self.admit.creating };
        let scope = admission.scope;
        let live = match existing {
            // The stored version is shown as it is.
            Some(stored) if scope.resource.conversion.is_none() && stored.is_of_type(&scope.resource.kind) => {
                Cow::Borrowed(stored)
            }
            Some(stored) => Cow::Owned(scope.from_storage(stored.clone())?),
            None => Cow::Owned(Value::map()),
        };
        self.warnings.clear();
        let object = match &self.wanted {
            Wanted::Object(object) => {
                managed::track_update(scope, &live, object.clone(), &self.options.field_manager).await
            }
            Wanted::Patch(patch) => {
                patch.patched(scope, self.options, &live, existing.is_none(), &mut self.warnings).await?
            }
        };
        let mut object = scope.to_storage(object)?;
        scope.api.admission.mutate(admission.attributes, &mut object, existing).await?;
        self.warnings.extend(dedup_owners(&mut object, AFTER_ADMISSION));
        Ok(object)
    }
}
