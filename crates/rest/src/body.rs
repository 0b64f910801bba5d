//! Reading a request's object: media type, kind, strictness, defaults, version.

use bytes::Bytes;
use codec::Notes;
use object::{GroupKind, GroupVersion, GroupVersionKind, Meta, Status, Value, quote};
use registry::{Form, Resource, go_package};

use crate::media::{Media, Offer, media_type};
use crate::options::FieldValidation;
use crate::scope::Scope;
use crate::wire;

/// An object a client sent, in the version it was sent in, with what strict decoding found.
pub struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// What a body is expected to hold.
pub struct Expected<'a> {
    pub kind: &'a GroupVersionKind,
    pub form: &'a Form,
}

impl Expected<'_> {
    pub fn of(resource: &Resource) -> Expected<'_> {
        Expected { kind: &resource.kind, form: &resource.form }
    }
}

/// The media type of the body, or the refusal that lists what is taken.
pub fn input_media(scope: &Scope, content_type: &str) -> Result<Media, Status> {
    let offer = scope.offer();
    let media = match content_type {
        "" => Some(Media::Json),
        _ => media_type(content_type).and_then(|media_type| Media::of(&media_type)),
    };
    if let Some(media) = media.filter(|media| offer.has(*media)) {
        return Ok(media);
    }
    // Upstream names protobuf for custom resources too.
    let named = Offer { protobuf: true, ..offer };
    Err(Status::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        named.list()
    )))
}

/// Decodes a body into an object with schema defaults.
pub fn decode(
    bytes: &Bytes,
    media: Media,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    if let Some(object) = decode_expected(bytes, media, expected) {
        return Ok(Decoded { object, warnings: Vec::new() });
    }
    let mut notes = if validation == FieldValidation::Ignore { Notes::ignore() } else { Notes::collect() };
    let form = expected.form;
    let stated = sniff(bytes, media).map_err(|why| unrecognized(expected, bytes, &why))?;
    let kind = form.kind_of_body(stated, expected.kind);
    let kind = kind.ok_or_else(|| unrecognized(expected, bytes, &kind_is_missing(&as_json(bytes, media))))?;
    if let Err(why) = check_registered(&kind, expected) {
        // Upstream decodes every type it knows before it sees that another one was expected.
        let known = schema::builtin().schema(&kind);
        let decoded = known.map(|schema| wire::decode(bytes, media, Some(schema), &mut Notes::ignore()));
        let why = decoded.and_then(Result::err).unwrap_or(why);
        return Err(cannot_handle(&kind, expected, &why));
    }
    let decoded = wire::decode(bytes, media, form.wire_schema(), &mut notes).and_then(|object| form.settle(object));
    let (mut object, mut dropped) = decoded.map_err(|why| cannot_handle(&kind, expected, &why))?;
    if validation == FieldValidation::Ignore {
        dropped.clear();
    }
    let strict: Vec<String> = notes.messages().iter().chain(&dropped).cloned().collect();
    let mut warnings = warnings_of(&notes);
    warnings.extend(dropped);
    if !strict.is_empty() && validation == FieldValidation::Strict {
        let why = format!("strict decoding error: {}", strict.join(", "));
        return Err(cannot_handle(&kind, expected, &why));
    }
    if kind.group_version() != expected.kind.group_version() && !is_old_eviction(&kind) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            kind.group_version(),
            expected.kind.group_version()
        )));
    }
    check_stated_type(&object, expected)?;
    object.set_type(expected.kind);
    schema::default(form.schema(), &mut object);
    Ok(Decoded { object, warnings })
}

/// Decodes JSON that is of the expected kind and has nothing wrong with it, as nearly all is. None for everything else: what
/// is wrong with the type is told first, so it has to be read first.
fn decode_expected(bytes: &Bytes, media: Media, expected: &Expected<'_>) -> Option<Value> {
    if media != Media::Json {
        return None;
    }
    let form = expected.form;
    let mut notes = Notes::collect();
    let object = wire::decode(bytes, media, form.wire_schema(), &mut notes).ok()?;
    let stated = GroupVersion::parse(object.api_version()).ok()?.with_kind(object.kind());
    if !notes.messages().is_empty() || form.kind_of_body(stated, expected.kind)? != *expected.kind {
        return None;
    }
    // An unstructured object can have other fields that Go takes for its type.
    if !form.is_structured() && object.as_map()?.keys().filter(|key| codec::json::names_type(key)).count() > 2 {
        return None;
    }
    let (mut object, dropped) = form.settle(object).ok()?;
    if !dropped.is_empty() {
        return None;
    }
    object.set_type(expected.kind);
    schema::default(form.schema(), &mut object);
    Some(object)
}

/// Refuses an object that states another type than the expected one.
pub fn check_stated_type(object: &Value, expected: &Expected<'_>) -> Result<(), Status> {
    let errors = expected.form.check_type(object, expected.kind);
    if errors.is_empty() {
        return Ok(());
    }
    let group = GroupVersion::parse(object.api_version()).map(|version| version.group).unwrap_or_default();
    Err(Status::invalid(&GroupKind::new(group, object.kind()), object.name(), &errors))
}

/// What is said of a JSON text without a kind.
pub fn kind_is_missing(json: &str) -> String {
    format!("Object 'Kind' is missing in '{json}'")
}

fn as_json(bytes: &[u8], media: Media) -> String {
    let text = match media {
        Media::Yaml => codec::yaml::to_json(bytes, false).unwrap_or_else(|_| bytes.to_vec()),
        _ => bytes.to_vec(),
    };
    String::from_utf8_lossy(&text).into_owned()
}

/// What strict decoding complained about, as warnings: what YAML has to say in one error is one warning each.
pub fn warnings_of(notes: &Notes) -> Vec<String> {
    let parts = |message: &String| match message.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.lines().map(|line| line.trim_start().to_string()).collect(),
        None => vec![message.clone()],
    };
    notes.messages().iter().flat_map(parts).collect()
}

/// Evictions are also accepted in their first version, policy/v1beta1.
fn is_old_eviction(kind: &GroupVersionKind) -> bool {
    kind.group == "policy" && kind.version == "v1beta1" && kind.kind == "Eviction"
}

/// apiVersion and kind as the body states them, each "" if it does not.
fn sniff(bytes: &[u8], media: Media) -> Result<GroupVersionKind, String> {
    let (api_version, kind) = wire::type_of(bytes, media)?;
    let version = GroupVersion::parse(&api_version)?;
    Ok(GroupVersionKind::new(version.group, version.version, kind))
}

/// Refuses a patched document whose apiVersion or kind was changed.
pub fn check_type(json: &[u8], expected: &Expected<'_>) -> Result<(), String> {
    let stated = sniff(json, Media::Json)?;
    match expected.form.kind_of_body(stated, expected.kind) {
        Some(kind) => check_registered(&kind, expected),
        None => Ok(()),
    }
}

fn check_registered(kind: &GroupVersionKind, expected: &Expected<'_>) -> Result<(), String> {
    if kind == expected.kind || !expected.form.is_structured() {
        return Ok(());
    }
    if !is_registered(kind) {
        return Err(format!(
            "no kind {} is registered for version {} in scheme {}",
            quote(&kind.kind),
            quote(&kind.group_version().to_string()),
            quote(scheme_of(expected.kind))
        ));
    }
    if kind.kind != expected.kind.kind {
        let (version, package) = (&kind.version, go_package(&expected.kind.group));
        let (stated, wanted) = (&kind.kind, &expected.kind.kind);
        return Err(format!("converting ({version}.{stated}) to ({package}.{wanted}): unknown conversion"));
    }
    Ok(())
}

/// Kinds that upstream registers for every group and version.
const UNVERSIONED: [&str; 5] = ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];

/// Whether upstream's scheme for built-in kinds has the kind. It has nothing of `meta.k8s.io` but what all groups have.
fn is_registered(kind: &GroupVersionKind) -> bool {
    UNVERSIONED.contains(&kind.kind.as_str())
        || kind.group != "meta.k8s.io" && schema::builtin().kind(&kind.group, &kind.version, &kind.kind).is_some()
}

/// Where v1.37 makes the scheme of each group, which its errors name.
const SCHEMES: &str = include_str!("../data/schemes.txt");

fn scheme_of(kind: &GroupVersionKind) -> &'static str {
    let mut rows = SCHEMES.lines().filter_map(|line| line.split_once(' '));
    rows.find(|(group, _)| matches!(*group, "*") || *group == kind.group).map_or("", |(_, scheme)| scheme)
}

fn cannot_handle(kind: &GroupVersionKind, expected: &Expected<'_>, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {} cannot be handled as a {}: {why}",
        kind.kind,
        quote(&kind.version),
        expected.kind.kind
    ))
}

/// How much of a body of an unknown format the error shows.
const SUMMARY_BYTES: usize = 30;

fn unrecognized(expected: &Expected<'_>, bytes: &Bytes, why: &str) -> Status {
    let cut = &bytes[..bytes.len().min(SUMMARY_BYTES)];
    let dots = if bytes.len() > SUMMARY_BYTES { " ..." } else { "" };
    let summary = match bytes.first() {
        None => "<empty>".to_string(),
        // JSON is shown as it is, everything else in hexadecimal.
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(cut)),
        Some(_) => cut.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + dots,
    };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({summary})",
        expected.kind.kind
    ))
}
