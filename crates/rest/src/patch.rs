//! PATCH: change an object by JSON patch, merge patch, strategic merge patch or server-side apply.

use std::sync::OnceLock;

use bytes::Bytes;
use codec::{DecodeError, Notes};
use object::{BadValue, Errors, GroupKind, GroupResource, Map, Meta, Path, Status, Value};
use patch::{JsonPatch, Reading, restore};
use registry::{UpdateOptions, UpdateScope};

use crate::api::CBOR;
use crate::body::Expected;
use crate::options::{FieldValidation, WriteOptions};
use crate::reply::Reply;
use crate::scope::Scope;
use crate::update::{Wanted, check_identity, undeterminable_name, update_scope, write};
use crate::{Media, body, managed, wire};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY_YAML: &str = "application/apply-patch+yaml";
const APPLY_CBOR: &str = "application/apply-patch+cbor";

/// A patch as sent. It is applied again whenever the object was changed meanwhile.
pub struct Patch {
    kind: PatchKind,
    bytes: Bytes,
    /// The configuration of a server-side apply, decoded when it is first used.
    applied: OnceLock<Result<AppliedConfiguration, Status>>,
}

/// The configuration of a server-side apply.
struct AppliedConfiguration {
    config: Value,
    /// What strict decoding complained about: the first complaint, and all of them as warnings.
    strict: Option<String>,
    warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
    ApplyCbor,
}

pub async fn patch(scope: &Scope) -> Result<Reply, Status> {
    let patch = Patch::read(scope).await?;
    let options = WriteOptions::parse(&scope.call, "PatchOptions", patch.is_apply())?;
    patch.check(&options)?;
    patch.record(scope);
    let create = patch.is_apply();
    let update = UpdateOptions { create, scope: update_scope(scope), ..UpdateOptions::default() };
    write(scope, &options, update, Wanted::Patch(patch)).await
}

/// Refuses patches of a kind that the resource does not take.
pub fn check_content_type(scope: &Scope) -> Result<(), Status> {
    patch_kind(scope).map(drop)
}

fn patch_kind(scope: &Scope) -> Result<PatchKind, Status> {
    let content_type = scope.call.header("content-type").to_string();
    let content_type = content_type.split(';').next().unwrap_or("").trim();
    let mut taken = vec![JSON_PATCH, MERGE_PATCH];
    if scope.resource.form.is_structured() {
        taken.push(STRATEGIC);
    }
    taken.push(APPLY_YAML);
    if scope.api.features.enabled(CBOR) {
        taken.push(APPLY_CBOR);
    }
    if !taken.contains(&content_type) && scope.resource.is_custom() {
        return Err(Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            taken.join(", ")
        )));
    }
    if !taken.contains(&content_type) {
        // Upstream's router refuses this, so nothing is warned about the resource.
        scope.warnings.take();
        return Err(Status::generic(415, "", &GroupResource::default(), "", "415: Unsupported Media Type"));
    }
    Ok(match content_type {
        JSON_PATCH => PatchKind::Json,
        MERGE_PATCH => PatchKind::Merge,
        STRATEGIC => PatchKind::Strategic,
        APPLY_CBOR => PatchKind::ApplyCbor,
        _ => PatchKind::Apply,
    })
}

impl Patch {
    pub async fn read(scope: &Scope) -> Result<Patch, Status> {
        let kind = patch_kind(scope)?;
        let bytes = scope.read_body().await?;
        Ok(Patch { kind, bytes, applied: OnceLock::new() })
    }

    /// Notes the patch in the audit record, if there is one.
    pub fn record(&self, scope: &Scope) {
        if let Some(record) = scope.call.record.as_ref().filter(|record| record.wants_request())
            && let Some(json) = self.as_json()
        {
            record.request_patch(&json);
        }
    }

    /// The patch as JSON; None if it cannot be read.
    fn as_json(&self) -> Option<Vec<u8>> {
        match self.kind {
            PatchKind::Apply => codec::yaml::to_json(&self.bytes, false).ok(),
            PatchKind::ApplyCbor => {
                let value = codec::cbor::decode(&self.bytes, None, &mut Notes::ignore()).ok()?;
                let mut json = Vec::new();
                codec::json::encode(&value, None, &mut json);
                Some(json)
            }
            // Text that is not JSON would make the whole line of the audit log unreadable.
            _ => codec::json::decode_exact(&self.bytes, &mut Notes::ignore()).ok().map(|_| self.bytes.to_vec()),
        }
    }

    /// Refuses bytes that are not even of the patch's format, before anything else is looked at.
    pub fn check(&self, options: &WriteOptions) -> Result<(), Status> {
        match self.kind {
            PatchKind::Apply | PatchKind::ApplyCbor if self.applied(options).is_ok() => Ok(()),
            // Taken for JSON, which is read when it is applied.
            PatchKind::Apply if self.bytes.trim_ascii_start().starts_with(b"{") => Ok(()),
            PatchKind::Apply => codec::yaml::to_json(&self.bytes, false)
                .map(|_| ())
                .map_err(|error| Status::bad_request(format!("error encoding patch: {error}"))),
            PatchKind::ApplyCbor => codec::cbor::decode(&self.bytes, None, &mut Notes::ignore())
                .map(|_| ())
                .map_err(|error| Status::bad_request(format!("error decoding patch: {error}"))),
            // Other mistakes are reported when the patch is applied.
            _ => match codec::json::decode(&self.bytes, None, &mut Notes::ignore()) {
                Ok(_) | Err(DecodeError::Type(_)) => Ok(()),
                Err(_) => Err(Status::bad_request("invalid JSON patch")),
            },
        }
    }

    /// Whether this is server-side apply, which names its manager and may create.
    pub fn is_apply(&self) -> bool {
        matches!(self.kind, PatchKind::Apply | PatchKind::ApplyCbor)
    }

    /// The patched object, in the requested version, with managed fields.
    pub async fn patched(
        &self,
        scope: &Scope,
        options: &WriteOptions,
        live: &Value,
        missing: bool,
    ) -> Result<Value, Status> {
        // An apply creates an object, but never through one of its subresources.
        if missing && (!self.is_apply() || update_scope(scope) != UpdateScope::Object) {
            return Err(Status::not_found(&scope.group_resource(), &scope.call.info.name));
        }
        let mut object = match self.kind {
            PatchKind::Apply | PatchKind::ApplyCbor => self.apply_config(scope, options, live).await?,
            _ => {
                let patched = match self.kind {
                    PatchKind::Json => self.json_patch(scope, options, live)?,
                    PatchKind::Merge => self.merge_patch(scope, options, live)?,
                    _ => self.strategic(scope, options, live)?,
                };
                managed::track_update(scope, live, patched, &options.field_manager).await
            }
        };
        if missing && !object.uid().is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object.uid()
            );
            return Err(Status::conflict(&scope.group_resource(), &scope.call.info.name, why));
        }
        check_identity(scope, &mut object)?;
        // A write to the status of a custom resource takes nothing else of the object, its kind included.
        if update_scope(scope) == UpdateScope::Status && scope.resource.is_custom() {
            object.set_type(&scope.resource.kind);
        }
        body::check_stated_type(&object, &Expected::of(&scope.resource))?;
        Ok(object)
    }

    fn json_patch(&self, scope: &Scope, options: &WriteOptions, live: &Value) -> Result<Value, Status> {
        let patch = JsonPatch::parse(&String::from_utf8_lossy(&self.bytes), reading(options))?;
        let form = &scope.resource.form;
        let patched = patch.run(form.printed(live), form.wire_schema())?;
        settle(scope, options, patched.document, patch.complaints(), &patched.opened)
    }

    fn merge_patch(&self, scope: &Scope, options: &WriteOptions, live: &Value) -> Result<Value, Status> {
        let mut notes = notes(options);
        let body = codec::json::decode_exact(&self.bytes, &mut notes)
            .map_err(|error| Status::bad_request(self.prefixed(options, error)))?;
        let patched = patch::merge_patch(scope.resource.form.printed(live), body.clone(), reading(options))?;
        settle(scope, options, patched, notes.messages(), &body)
    }

    fn strategic(&self, scope: &Scope, options: &WriteOptions, live: &Value) -> Result<Value, Status> {
        let mut notes = notes(options);
        let mut body = codec::json::decode(&self.bytes, None, &mut notes)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let form = &scope.resource.form;
        let schema = form.schema();
        let mut patched = patch::strategic_patch(&form.printed(live), &mut body, schema)?;
        let settled = restore(&mut patched, schema).and_then(|()| decode_patched(scope, &patched, options));
        finish(scope, options, settled, notes.messages(), || patch::go::plain(&body))
    }

    /// Server-side apply.
    async fn apply_config(&self, scope: &Scope, options: &WriteOptions, live: &Value) -> Result<Value, Status> {
        let applied = self.applied(options).map_err(Clone::clone)?;
        let force = options.force.unwrap_or(false);
        let merged = managed::merge_applied(scope, live, &applied.config, &options.field_manager, force).await?;
        if let Some(first) = applied.strict.as_ref().filter(|_| options.field_validation == FieldValidation::Strict) {
            let converting = if self.kind == PatchKind::Apply { "error converting YAML to JSON: " } else { "" };
            return Err(Status::bad_request(format!("error strict decoding patch: {converting}{first}")));
        }
        scope.warn(applied.warnings.iter().cloned());
        Ok(merged)
    }

    /// The configuration, which is decoded once however often it is applied.
    fn applied(&self, options: &WriteOptions) -> Result<&AppliedConfiguration, &Status> {
        let decode = || {
            let mut notes = notes(options);
            let media = if self.kind == PatchKind::ApplyCbor { Media::Cbor } else { Media::Yaml };
            let decoded = wire::decode(&self.bytes, media, None, &mut notes);
            let config = decoded.map_err(|error| {
                let step = if media == Media::Yaml { "error converting YAML to JSON: " } else { "" };
                Status::bad_request(format!("error decoding patch: {step}{error}"))
            })?;
            check_is_object(&config)?;
            let (strict, warnings) = (notes.messages().first().cloned(), body::warnings_of(&notes));
            Ok(AppliedConfiguration { config, strict, warnings })
        };
        self.applied.get_or_init(decode).as_ref()
    }

    fn prefixed(&self, options: &WriteOptions, error: DecodeError) -> String {
        match options.field_validation {
            FieldValidation::Ignore => error.to_string(),
            _ => format!("error decoding patch: {error}"),
        }
    }
}

fn reading(options: &WriteOptions) -> Reading {
    if options.field_validation == FieldValidation::Ignore { Reading::Lenient } else { Reading::Checked }
}

fn notes(options: &WriteOptions) -> Notes {
    if options.field_validation == FieldValidation::Ignore { Notes::ignore() } else { Notes::collect() }
}

/// Reads the patched object as if it had been sent whole.
fn settle(
    scope: &Scope,
    options: &WriteOptions,
    patched: Value,
    notes: &[String],
    opened: &Value,
) -> Result<Value, Status> {
    let shown = || patch::patched_text(&patched, scope.resource.form.wire_schema(), opened);
    let stated = stated_type(&patched);
    let typed = check_patched_type(scope, &stated, shown);
    let settled = typed.and_then(|()| decode_patched(scope, &patched, options));
    let object = finish(scope, options, settled, notes, shown)?;
    if wire::type_of(&stated, Media::Json).is_ok_and(|(api_version, _)| !api_version.is_empty()) {
        return Ok(object);
    }
    Err(match scope.resource.form.is_structured() {
        // Upstream reads it as its internal type, which has none of these fields, not even the name.
        true => undeterminable_name(&scope.call.info.name),
        false => Status::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'"),
    })
}

/// Checks apiVersion and kind as far as they decide how the object is read. Whether an unstructured object has the right ones is
/// checked with the other rules.
fn check_patched_type(scope: &Scope, stated: &[u8], shown: impl FnOnce() -> String) -> Result<(), String> {
    let (_, kind) = wire::type_of(stated, Media::Json)?;
    body::check_type(stated, &Expected::of(&scope.resource))?;
    if !scope.resource.form.is_structured() && kind.is_empty() {
        return Err(body::kind_is_missing(&shown()));
    }
    Ok(())
}

/// The object's apiVersion and kind alone, as JSON.
fn stated_type(object: &Value) -> Vec<u8> {
    let mut stated = Map::new();
    for field in ["apiVersion", "kind"] {
        if let Some(value) = object.as_map().and_then(|map| map.get(field)) {
            stated.insert(field, value.clone());
        }
    }
    let mut json = Vec::new();
    codec::json::encode(&Value::Map(stated), None, &mut json);
    json
}

/// The patched object decoded by the schema, with what strict decoding found in it.
fn decode_patched(scope: &Scope, patched: &Value, options: &WriteOptions) -> Result<(Value, Vec<String>), String> {
    let form = &scope.resource.form;
    let (mut object, mut found) = form.read(patched, &mut notes(options))?;
    if options.field_validation == FieldValidation::Ignore {
        found.clear();
    }
    if form.is_structured() {
        object.set_type(&scope.resource.kind);
    }
    schema::default(form.schema(), &mut object);
    let object = scope.default(object).map_err(|status| status.message)?;
    Ok((object, found))
}

fn finish(
    scope: &Scope,
    options: &WriteOptions,
    settled: Result<(Value, Vec<String>), String>,
    notes: &[String],
    shown: impl FnOnce() -> String,
) -> Result<Value, Status> {
    let (object, found) = match settled {
        Ok(settled) => settled,
        Err(why) => return Err(invalid_patch(BadValue::from(shown()), &why)),
    };
    let all: Vec<String> = notes.iter().cloned().chain(found).collect();
    if all.is_empty() {
        return Ok(object);
    }
    if options.field_validation == FieldValidation::Strict {
        let why = format!("strict decoding error: {}", all.join(", "));
        return Err(invalid_patch(BadValue::from(shown()), &why));
    }
    scope.warn(all);
    Ok(object)
}

fn invalid_patch(shown: BadValue, why: &str) -> Status {
    let mut errors = Errors::new();
    errors.invalid(&Path::of("patch"), shown, why);
    Status::invalid(&GroupKind::default(), "", &errors)
}

/// A configuration is an object; everything else is refused as Go's decoder refuses it.
fn check_is_object(config: &Value) -> Result<(), Status> {
    let kind = match config {
        Value::Map(_) | Value::Null => return Ok(()),
        Value::List(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    Err(Status::bad_request(format!(
        "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of \
         type map[string]interface {{}}"
    )))
}
