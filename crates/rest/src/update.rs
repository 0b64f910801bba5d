//! UPDATE: replace an object.

use std::borrow::Cow;

use admission::{Attributes, Operation};
use bytes::Bytes;
use http::StatusCode;
use object::{Meta, Status, Value};
use registry::{Draft, UpdateOptions, UpdateScope};

use crate::body::{self, Expected};
use crate::create::{AFTER_ADMISSION, dedup_owners};
use crate::options::{FieldValidation, WriteOptions};
use crate::patch::Patch;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{Media, get, managed};

pub async fn update(scope: &Scope) -> Result<Reply, Status> {
    let bytes = scope.read_body().await?;
    let options = WriteOptions::parse(&scope.call, "UpdateOptions", false)?;
    let media = body::input_media(scope, scope.call.header("content-type"))?;
    let sent = Sent { bytes, media, validation: options.field_validation };
    let mut object = sent.decode(scope)?;
    scope.record_object(&object, scope.resource.form.wire_schema());
    sent.settle(scope, &mut object)?;
    let uid = Some(object.uid().to_string()).filter(|uid| !uid.is_empty());
    let update = UpdateOptions { uid, scope: update_scope(scope), ..UpdateOptions::default() };
    write(scope, &options, update, Wanted::Object(sent, Some(object))).await
}

/// An object as it was sent.
pub struct Sent {
    bytes: Bytes,
    media: Media,
    validation: FieldValidation,
}

impl Sent {
    /// The object in the requested version, with its defaults.
    fn decode(&self, scope: &Scope) -> Result<Value, Status> {
        let decoded = body::decode(&self.bytes, self.media, &Expected::of(&scope.resource), self.validation)?;
        scope.warn(decoded.warnings);
        scope.default(decoded.object)
    }

    /// Checks that it is the object in the path.
    fn settle(&self, scope: &Scope, object: &mut Value) -> Result<(), Status> {
        check_identity(scope, object)?;
        scope.warn(dedup_owners(object, ""));
        Ok(())
    }
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

/// The namespace and the name of an object are those in the path.
pub fn check_identity(scope: &Scope, object: &mut Value) -> Result<(), Status> {
    scope.settle_namespace(object)?;
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
    /// What was sent. It is decoded again if another write comes first, which is less work than copying each of them.
    Object(Sent, Option<Value>),
    /// What this patch makes of it.
    Patch(Patch),
}

impl Wanted {
    /// The wanted object in the requested version, with managed fields. `stored` is None if there is no object yet.
    async fn of(&mut self, scope: &Scope, options: &WriteOptions, stored: Option<&Value>) -> Result<Value, Status> {
        let live = match stored {
            // The stored version is shown as it is.
            Some(stored) if scope.resource.conversion.is_none() && stored.is_of_type(&scope.resource.kind) => {
                Cow::Borrowed(stored)
            }
            Some(stored) => Cow::Owned(scope.from_storage(stored.clone())?),
            None => Cow::Owned(Value::map()),
        };
        match self {
            Wanted::Patch(patch) => patch.patched(scope, options, &live, stored.is_none()).await,
            Wanted::Object(sent, decoded) => {
                let object = match decoded.take() {
                    Some(object) => object,
                    None => {
                        let mut object = sent.decode(scope)?;
                        sent.settle(scope, &mut object)?;
                        object
                    }
                };
                Ok(managed::track_update(scope, &live, object, &options.field_manager).await)
            }
        }
    }
}

/// Changes the stored object to what is wanted, or creates it, and answers with it. What another write makes of the object
/// meanwhile is changed in its turn.
pub async fn write(
    scope: &Scope,
    options: &WriteOptions,
    update: UpdateOptions,
    mut wanted: Wanted,
) -> Result<Reply, Status> {
    let cx = scope.context(options.dry_run);
    let name = scope.call.info.name.as_str();
    // An update may turn out to be a creation: apply, and PUT for the few kinds that allow it.
    let (as_create, as_update) = (options.of_kind("CreateOptions"), options.of_kind("UpdateOptions"));
    let updating = scope.admission(Operation::Update, name, cx, &as_update);
    let creating = scope.admission(Operation::Create, name, cx, &as_create);
    let mut may_create = false;
    let mut write = scope.storage()?.begin_with_known(&cx, name, &update).await?;
    spans::event("About to store object in database");
    let outcome = loop {
        // A small patch of a large object is as much work as a large patch.
        scope.large.note(write.stored_bytes()).await;
        let attempt = async {
            let current = write.current().await?;
            let attributes = if current.is_some() { &updating } else { &creating };
            let object = wanted.of(scope, options, current.as_ref()).await?;
            let mut object = scope.to_storage(object)?;
            scope.api.admission.mutate(attributes, &mut object, current.as_ref()).await?;
            scope.warn(dedup_owners(&mut object, AFTER_ADMISSION));
            scope.begin(&cx);
            let draft = write.check(object, current.as_ref()).await?;
            let admitted = validate(scope, attributes, &draft, current.as_ref(), &mut may_create).await;
            Ok::<_, Status>((draft, admitted))
        };
        let attempt = attempt.await;
        // A refusal may be of a change to an object that another server has replaced.
        let is_refused = attempt.as_ref().map_or(true, |(_, admitted)| admitted.is_err());
        if is_refused && write.refresh().await? {
            continue;
        }
        let (draft, admitted) = attempt?;
        if let Some(outcome) = write.commit(draft, admitted).await? {
            break outcome;
        }
    };
    let status = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    get::respond(scope, status, outcome.object)
}

/// Validating admission, and for a creation whether the user may create, which is asked once: what is authorized so far is an
/// update or a patch.
async fn validate(
    scope: &Scope,
    attributes: &Attributes<'_>,
    draft: &Draft,
    current: Option<&Value>,
    may_create: &mut bool,
) -> Result<(), Status> {
    if current.is_none() && !*may_create {
        authz::check(&*scope.api.authorizer, &scope.access("create")).await?;
        *may_create = true;
    }
    scope.api.admission.validate(attributes, Some(draft.object()), current).await
}
