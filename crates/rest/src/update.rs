//! UPDATE: replace an object.

use admission::Operation;
use async_trait::async_trait;
use authz::Permit;
use http::StatusCode;
use object::{Meta, Status, Value};
use registry::{Admit, Change, UpdateOptions, UpdateScope};
use tokio::sync::OnceCell;

use crate::body::{self, Expected};
use crate::create::{Admission, dedup_owners, ensure_namespace};
use crate::options::WriteOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{get, managed};

pub async fn update(scope: &mut Scope, _permit: Permit) -> Result<Reply, Status> {
    let bytes = scope.call.read_body(scope.api.limits.body_bytes).await?;
    let options = WriteOptions::parse(&scope.call, "UpdateOptions", false)?;
    let media = body::input_media(scope, scope.call.header("content-type"))?;
    let decoded = body::decode(&bytes, media, &Expected::of(&scope.resource), options.field_validation)?;
    scope.warnings.extend(decoded.warnings);
    let mut object = scope.default(decoded.object)?;
    ensure_namespace(scope, &mut object)?;
    check_name(scope, &object)?;
    dedup_owners(scope, &mut object);
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

/// The name in the object is the one in the path.
pub fn check_name(scope: &Scope, object: &Value) -> Result<(), Status> {
    let name = &scope.call.info.name;
    if object.name().is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
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
    scope: &mut Scope,
    options: &WriteOptions,
    update: UpdateOptions,
    wanted: Wanted,
) -> Result<Reply, Status> {
    let (outcome, warnings) = {
        let shared: &Scope = scope;
        let storage = shared.storage()?.clone();
        let cx = shared.context(options.dry_run);
        let name = shared.call.info.name.clone();
        // An update may turn out to be a creation: apply, and PUT for the few kinds that allow it.
        let updating = shared.admission(Operation::Update, &name, cx, &options.object);
        let creating = shared.admission(Operation::Create, &name, cx, &options.object);
        let admit = EitherAdmission {
            may_create: OnceCell::new(),
            creating: Admission { scope: shared, attributes: &creating },
            updating: Admission { scope: shared, attributes: &updating },
        };
        let mut change = Write { admit: &admit, options, wanted, warnings: Vec::new() };
        let outcome = storage.update(&cx, &name, &mut change, &admit, &update).await;
        let mut warnings = change.warnings;
        warnings.extend(creating.take_warnings());
        warnings.extend(updating.take_warnings());
        (outcome, warnings)
    };
    scope.warnings.extend(warnings);
    let outcome = outcome?;
    scope.warnings.extend(outcome.warnings);
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
        self.may_create.get_or_init(|| scope.authorize_also("create")).await.clone()?;
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
impl Change for Write<'_> {
    async fn apply(&mut self, existing: Option<&Value>) -> Result<Value, Status> {
        let admission = if existing.is_some() { &self.admit.updating } else { &self.admit.creating };
        let scope = admission.scope;
        let live = match existing {
            Some(stored) => scope.from_storage(stored.clone())?,
            None => Value::map(),
        };
        let object = match &self.wanted {
            Wanted::Object(object) => managed::track_update(scope, &live, object.clone(), &self.options.field_manager),
            Wanted::Patch(patch) => {
                self.warnings.clear();
                patch.apply(scope, self.options, &live, existing.is_none(), &mut self.warnings)?
            }
        };
        let mut object = scope.to_storage(object)?;
        scope.api.admission.mutate(admission.attributes, &mut object, existing).await?;
        Ok(object)
    }
}
