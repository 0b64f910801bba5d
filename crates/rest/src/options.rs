//! Query parameters: what they are, and what upstream says when they are wrong.

use object::{Cursor, Errors, GroupKind, Path, Status, Value, fields, labels, parse_uint, quote, value};
use registry::{Filter, Shard, UNREADABLE, metadata};

use crate::Call;
use crate::scope::Scope;

/// Parameters of GET, LIST and WATCH.
#[derive(Clone, Debug)]
pub struct ListOptions {
    pub filter: Filter,
    pub watch: bool,
    pub allow_bookmarks: bool,
    pub resource_version: String,
    pub resource_version_match: String,
    pub timeout_seconds: Option<i64>,
    pub limit: i64,
    pub continue_token: String,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    pub fn parse(scope: &Scope, force_watch: bool) -> Result<ListOptions, Status> {
        let (call, resource): (&Call, _) = (&scope.call, &scope.resource);
        let text = |name: &str| call.query(name).unwrap_or("").to_string();
        // Numbers are read first: selectors are converted later.
        let (timeout_seconds, limit) = (integer(call, "timeoutSeconds")?, integer(call, "limit")?);
        let labels = labels::Selector::parse(&text("labelSelector"), None)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields =
            fields::Selector::parse(&text("fieldSelector")).map_err(|error| Status::bad_request(error.to_string()))?;
        let conditions = scope.view.as_ref().map_or_else(Vec::new, |view| view.conditions.clone());
        let mut options = ListOptions {
            filter: Filter { labels, fields, shard: None, conditions },
            watch: flag(call, "watch").unwrap_or(false) || force_watch,
            allow_bookmarks: flag(call, "allowWatchBookmarks").unwrap_or(false),
            resource_version: text("resourceVersion"),
            resource_version_match: text("resourceVersionMatch"),
            timeout_seconds,
            limit: limit.unwrap_or(0),
            continue_token: text("continue"),
            send_initial_events: flag(call, "sendInitialEvents"),
        };
        options.default();
        options.validate()?;
        options.filter.fields = crate::fields::check(resource, &options.filter.fields)?;
        options.select_named(call)?;
        let shard = Some(text("shardSelector")).filter(|text| !text.is_empty());
        if let Some(shard) = shard.filter(|_| scope.api.features.enabled("ShardedListAndWatch")) {
            let invalid = |why| Status::unknown(500, format!("invalid shard selector: {why}"));
            options.filter.shard = Some(Shard::parse(&shard).map_err(invalid)?);
        }
        Ok(options)
    }

    /// The deprecated `/watch/…/<name>` paths are authorized for one object, so they must not show others.
    fn select_named(&mut self, call: &Call) -> Result<(), Status> {
        let name = match call.info.parts.as_slice() {
            [_, name, ..] => name.as_str(),
            _ => return Ok(()),
        };
        if self.filter.fields.is_empty() {
            self.filter.fields = fields::Selector::equals("metadata.name", name);
        } else if self.filter.fields.requires_exact_match("metadata.name") != Some(name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        Ok(())
    }

    /// A watch that begins at "" or "0" begins with the current objects.
    fn default(&mut self) {
        let legacy = matches!(self.resource_version.as_str(), "" | "0");
        if self.watch && legacy && self.send_initial_events.is_none() && self.resource_version_match.is_empty() {
            self.send_initial_events = Some(true);
            self.resource_version_match = "NotOlderThan".into();
        }
    }

    fn validate(&self) -> Result<(), Status> {
        let mut errors = Errors::new();
        if self.watch {
            self.validate_watch(&mut errors)
        } else {
            self.validate_list(&mut errors)
        }
        invalid("ListOptions", errors)
    }

    fn validate_list(&self, errors: &mut Errors) {
        let path = Path::of("resourceVersionMatch");
        let matching = self.resource_version_match.as_str();
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                errors.not_supported(&path, matching, &["Exact", "NotOlderThan", ""]);
            }
            if matching == "Exact" && self.resource_version == "0" {
                errors.forbidden(&path, r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#);
            }
        }
        if self.send_initial_events.is_some() {
            errors.forbidden(&Path::of("sendInitialEvents"), "sendInitialEvents is forbidden for list");
        }
    }

    fn validate_watch(&self, errors: &mut Errors) {
        let path = Path::of("resourceVersionMatch");
        let matching = self.resource_version_match.as_str();
        if self.send_initial_events.is_some() && matching != "NotOlderThan" {
            errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                errors.forbidden(
                    &path,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            if matching != "NotOlderThan" {
                errors.not_supported(&path, matching, &["NotOlderThan"]);
            }
            if !self.continue_token.is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
        }
    }

    /// The revision asked for; None if none was.
    pub fn revision(&self) -> Result<Option<i64>, Status> {
        parse_revision(&self.resource_version)
    }
}

/// A resourceVersion parameter as a number.
pub fn parse_revision(text: &str) -> Result<Option<i64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let out_of_range = |_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text));
    let revision = parse_uint(text).and_then(|revision| i64::try_from(revision).map_err(out_of_range));
    revision.map(Some).map_err(|why| {
        let quoted = quote(text);
        Status::bad_request(format!("invalid resource version: resourceVersion: Invalid value: {quoted}: {why}"))
    })
}

/// For verbs where upstream parses the number so late that the answer is a 500 instead of a 400.
pub fn not_a_revision(status: Status) -> Status {
    Status::unknown(500, status.message.trim_start_matches("invalid resource version: "))
}

/// Parameters of every verb that writes.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
    /// As an options object, for admission.
    pub object: Value,
}

/// What happens to unknown and duplicate fields: `fieldValidation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl WriteOptions {
    /// `kind` is CreateOptions, UpdateOptions or PatchOptions; `apply` asks for what server-side apply must have.
    pub fn parse(call: &Call, kind: &str, apply: bool) -> Result<WriteOptions, Status> {
        let dry_run: Vec<String> =
            call.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.clone()).collect();
        let validation = call.query("fieldValidation").unwrap_or("");
        let explicit = call.query("fieldManager").unwrap_or("");
        let force = flag(call, "force").filter(|_| kind == "PatchOptions");
        let mut object = value!({"apiVersion": "meta.k8s.io/v1"});
        object.set(&["kind"], kind);
        for (name, text) in [("fieldManager", explicit), ("fieldValidation", validation)] {
            if !text.is_empty() {
                object.set(&[name], text);
            }
        }
        if !dry_run.is_empty() {
            object.set(&["dryRun"], dry_run.clone());
        }
        let mut errors = Errors::new();
        let cursor = Cursor::root(&object);
        if apply && explicit.is_empty() {
            errors.required(&Path::of("fieldManager"), "is required for apply patch");
        }
        if !apply && force.is_some() {
            errors.forbidden(&Path::of("force"), "may not be specified for non-apply patch");
        }
        metadata::validate_field_manager(&cursor.field("fieldManager"), &mut errors);
        if dry_run.iter().any(|value| value != "All") {
            cursor.field("dryRun").not_supported(&mut errors, &["All"]);
        }
        let field_validation = match validation {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            _ => {
                cursor.field("fieldValidation").not_supported(&mut errors, &["", "Ignore", "Strict", "Warn"]);
                FieldValidation::Warn
            }
        };
        invalid(kind, errors)?;
        let field_manager = call.field_manager();
        Ok(WriteOptions { dry_run: !dry_run.is_empty(), field_manager, field_validation, force, object })
    }
}

impl WriteOptions {
    /// The options as admission sees them where the request turns out to be another operation: the same fields.
    pub fn of_kind(&self, kind: &str) -> Value {
        let mut options = self.object.clone();
        options.set(&["kind"], kind);
        options
    }
}

/// DeleteOptions from the query, for requests without a body.
pub fn delete_options(call: &Call) -> Result<Value, Status> {
    let mut options = Value::map();
    if let Some(seconds) = integer(call, "gracePeriodSeconds")? {
        options.set(&["gracePeriodSeconds"], seconds);
    }
    if let Some(orphan) = flag(call, "orphanDependents") {
        options.set(&["orphanDependents"], orphan);
    }
    if let Some(policy) = call.query("propagationPolicy") {
        options.set(&["propagationPolicy"], policy);
    }
    let dry_run: Vec<&str> =
        call.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.as_str()).collect();
    if !dry_run.is_empty() {
        options.set(&["dryRun"], dry_run);
    }
    for field in ["uid", "resourceVersion"] {
        if let Some(text) = call.query(field).filter(|text| !text.is_empty()) {
            options.set(&["preconditions", field], text);
        }
    }
    if let Some(ignore) = flag(call, UNREADABLE) {
        options.set(&[UNREADABLE], ignore);
    }
    Ok(options)
}

/// A boolean parameter as upstream reads it: anything but `false` and `0` is true, even nothing at all.
pub fn flag(call: &Call, name: &str) -> Option<bool> {
    call.query(name).map(|text| !(text == "0" || text.eq_ignore_ascii_case("false")))
}

pub fn integer(call: &Call, name: &str) -> Result<Option<i64>, Status> {
    let Some(text) = call.query(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
    })
}

fn invalid(kind: &str, errors: Errors) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", &errors)) }
}
