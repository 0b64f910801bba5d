//! Events: something happened to an object. They live for a while and then go by themselves.
//!
//! The strategy sees events as the core group has them. The core group asks little of events, for the sake of old
//! clients; events.k8s.io is strict.

use std::time::Duration;

use object::timestamp::{MicroTime, Time};
use object::{BadValue, Cursor, Errors, Meta, Path, Timestamp, Value, names};
use registry::{Context, Facts, FieldRefusal, GarbageCollection, Strategy, columns, metadata};

use crate::common::checks::{Checks, IMMUTABLE, report, same};
use crate::common::internal;

const NAME_MAX_CHARACTERS: usize = 128;
const NOTE_MAX_CHARACTERS: usize = 1024;

/// Events of both groups; they are stored as one.
pub struct Event {
    facts: Facts,
}

const FACTS: Facts = Facts {
    // The core group lets any name pass that can stand in a path; the other group's rule is among its own.
    name: names::name_is_path_segment,
    // Only the other group checks them.
    checks_updated_finalizer_names: false,
    checks_metadata_last: true,
    allows_create_on_update: true,
    garbage_collection: GarbageCollection::Unsupported,
    selectable_fields: object::strs![
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ],
    second_group_fields: Some(&[
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.uid", "involvedObject.uid"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("reportingController", "reportingComponent"),
        ("reason", "reason"),
        ("type", "type"),
    ]),
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITHOUT_STATUS
};

impl Event {
    /// A time to live of zero keeps events for ever.
    pub fn new(ttl: Duration) -> Event {
        Event { facts: Facts { time_to_live: (!ttl.is_zero()).then_some(ttl), ..FACTS } }
    }
}

/// Whether a request comes through the core group, whose rules are older and fewer.
fn is_lenient(cx: &Context) -> bool {
    cx.group.is_empty()
}

impl Strategy for Event {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn validate(&self, cx: &Context, event: &Cursor, errors: &mut Errors) {
        validate_legacy(cx, event, errors);
        if !is_lenient(cx) {
            metadata::validate(event, true, &names::name_is_dns_subdomain, errors);
            metadata::validate_finalizer_names(event, errors);
            validate_series(event, errors);
            validate_new_style(event, errors);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        if is_lenient(cx) {
            return validate_legacy(cx, new, errors);
        }
        metadata::validate_finalizer_names(new, errors);
        validate_legacy(cx, new, errors);
        if new.field("series").value() != old.field("series").value() {
            validate_series(new, errors);
        }
        validate_unchanged(new, old, errors);
    }

    fn select_field(&self, event: &Value, field: &str) -> String {
        let text = |path: &[&str]| event.str_at(path).to_string();
        match field.split_once('.') {
            Some((_, part)) => text(&["involvedObject", part]),
            None if field == "source" && !event.str_at(&["source", "component"]).is_empty() => {
                text(&["source", "component"])
            }
            None if matches!(field, "source" | "reportingComponent") => text(&["reportingComponent"]),
            None => text(&[field]),
        }
    }

    fn cells(&self, cx: &Context, event: &Value) -> Vec<Value> {
        cells(cx, event)
    }
}

/// What every event has to fulfil. Those with an `eventTime` come from new clients and have more to say.
fn validate_legacy(cx: &Context, event: &Cursor, errors: &mut Errors) {
    let own = event.value().namespace();
    let namespace = event.at(&["involvedObject", "namespace"]);
    let mismatch = "does not match event.namespace";
    if !is_set(event, "eventTime") {
        let fine = match namespace.str() {
            "" => matches!(own, "" | "default"),
            namespace => namespace == own,
        };
        if !fine {
            namespace.bad(errors, mismatch);
        }
        return;
    }
    if namespace.str().is_empty() && !matches!(own, "default" | "kube-system") {
        namespace.bad(errors, mismatch);
    }
    let controller = event.field("reportingComponent").str();
    let path = Path::of(if is_lenient(cx) { "reportingComponent" } else { "reportingController" });
    if controller.is_empty() {
        errors.required(&path, "");
    }
    report(errors, &path, controller, names::label_key(controller));
    for field in ["reportingInstance", "action", "reason"] {
        event.field(field).require(errors);
        limit_length(event, field, NAME_MAX_CHARACTERS, errors);
    }
    limit_length(event, "message", NOTE_MAX_CHARACTERS, errors);
}

fn limit_length(event: &Cursor, field: &str, max: usize, errors: &mut Errors) {
    if event.field(field).str().len() > max {
        event.field(field).invalid_as(errors, "", format!("can have at most {max} characters"));
    }
}

fn validate_series(event: &Cursor, errors: &mut Errors) {
    let series = event.field("series");
    if !series.is_set() {
        return;
    }
    if series.field("count").int() < 2 {
        series.field("count").invalid_as(errors, "", "should be at least 2");
    }
    if !is_set(&series, "lastObservedTime") {
        series.field("lastObservedTime").required(errors, "");
    }
}

fn validate_new_style(event: &Cursor, errors: &mut Errors) {
    if !is_set(event, "eventTime") {
        event.field("eventTime").required(errors, "");
    }
    let kind = event.field("type");
    if !matches!(kind.str(), "Normal" | "Warning") {
        kind.invalid_as(errors, "", format!("has invalid value: {}", kind.str()));
    }
    let source = event.field("source");
    let old_fields = [
        ("firstTimestamp", is_set(event, "firstTimestamp")),
        ("lastTimestamp", is_set(event, "lastTimestamp")),
        ("count", event.field("count").int() != 0),
        ("source", !source.field("component").is_empty() || !source.field("host").is_empty()),
    ];
    for (field, _) in old_fields.into_iter().filter(|(_, set)| *set) {
        event.field(field).invalid_as(errors, "", "needs to be unset");
    }
}

/// Only the series, and metadata, may change.
fn validate_unchanged(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let text = |value: &Value| BadValue::Value(value.as_str().unwrap_or("").into());
    let time = |value: &Value| BadValue::Value(value.clone());
    let count = |value: &Value| BadValue::Value(value.as_int().unwrap_or(0).into());
    let reference = |value: &Value| internal::shown("ObjectReference", value);
    let optional_reference = |value: &Value| internal::shown("*ObjectReference", value);
    let source = |value: &Value| internal::shown("EventSource", value);
    type Show<'a> = &'a dyn Fn(&Value) -> BadValue;
    let fields: [(&str, &str, Show); 9] = [
        ("involvedObject", "involvedObject", &reference),
        ("reason", "reason", &text),
        ("message", "message", &text),
        ("source", "source", &source),
        ("firstTimestamp", "firstTimestamp", &time),
        ("lastTimestamp", "lastTimestamp", &time),
        ("count", "count", &count),
        // Upstream checks the reason twice.
        ("reason", "reason", &text),
        ("type", "type", &text),
    ];
    let mut check = |field: &str, shown_at: &str, show: Show| {
        let (new, old) = (new.field(field).value(), old.field(field).value());
        // An empty reference is not a missing one.
        let is_same = same_part(new, old) && (field != "related" || new.is_null() == old.is_null());
        if !is_same {
            errors.invalid(&Path::of(shown_at), show(new), IMMUTABLE);
        }
    };
    for (field, shown_at, show) in fields {
        check(field, shown_at, show);
    }
    if micros(new.field("eventTime").str()) != micros(old.field("eventTime").str()) {
        check("eventTime", "eventTime", &time);
    }
    check("action", "action", &text);
    check("related", "related", &optional_reference);
    check("reportingComponent", "reportingController", &text);
    check("reportingInstance", "reportingInstance", &text);
}

/// The same to upstream's comparison, to which missing, zero and empty are one.
fn same_part(a: &Value, b: &Value) -> bool {
    same(a, b) || (a.is_empty() && b.is_empty())
}

fn is_set(event: &Cursor, field: &str) -> bool {
    !event.field(field).str().is_empty()
}

/// Older clients send times with more digits than are kept.
fn micros(text: &str) -> Option<Timestamp> {
    MicroTime::parse(text).ok().map(|MicroTime(time)| time.truncate_to_micros())
}

fn cells(cx: &Context, event: &Value) -> Vec<Value> {
    let text = |path: &[&str]| event.str_at(path);
    let first = match text(&["firstTimestamp"]) {
        "" => since(cx, text(&["eventTime"])),
        first => columns::since(cx, first),
    };
    let series = event.field("series");
    let count = event.field("count").as_int().unwrap_or(0);
    let (last, count) = if !series.is_null() {
        (since(cx, series.str_at(&["lastObservedTime"])), series.field("count").as_int().unwrap_or(0))
    } else {
        let last = match text(&["lastTimestamp"]) {
            "" => first.clone(),
            last => columns::since(cx, last),
        };
        (last, if count == 0 { 1 } else { count })
    };
    let kind = text(&["involvedObject", "kind"]).to_lowercase();
    let target = match text(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        text(&["type"]).into(),
        text(&["reason"]).into(),
        target.into(),
        text(&["involvedObject", "fieldPath"]).into(),
        source(event).into(),
        text(&["message"]).trim().into(),
        first.into(),
        count.into(),
        event.name().into(),
    ]
}

fn since(cx: &Context, micro_time: &str) -> String {
    match MicroTime::parse(micro_time) {
        Ok(MicroTime(then)) => columns::since(cx, &Time(then).to_string()),
        Err(_) => "<unknown>".to_string(),
    }
}

fn source(event: &Value) -> String {
    let first_of = |old: &[&str], new: &str| match event.str_at(old) {
        "" => event.str_at(&[new]).to_string(),
        text => text.to_string(),
    };
    let component = first_of(&["source", "component"], "reportingComponent");
    match first_of(&["source", "host"], "reportingInstance").as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Check, yaml};
    use crate::events::DEFAULT_TTL;

    const BASE: &str = "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: ns}, involvedObject: {kind: Pod, name: p, namespace: ns}}";
    const NEW: &str = "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: ns}, involvedObject: {kind: Pod, name: p, namespace: ns},
        eventTime: '2020-01-01T00:00:00.000000Z', reportingComponent: c.io/x, reportingInstance: i, action: Do, reason: R,
        type: Normal}";

    fn core(base: &str) -> Check {
        Check::new(Event::new(DEFAULT_TTL), base)
    }

    fn strict(base: &str) -> Check {
        let mut check = core(base);
        check.group = "events.k8s.io";
        check
    }

    #[test]
    fn old_events_match_their_namespace() {
        let mismatch = |namespace: &str| {
            format!("involvedObject.namespace: Invalid value: \"{namespace}\": does not match event.namespace")
        };
        core(BASE).create(&[
            ("", ""),
            ("involvedObject: {namespace: other}", &mismatch("other")),
            ("involvedObject: {namespace: null}", &mismatch("")),
            ("{metadata: {namespace: default}, involvedObject: {namespace: null}}", ""),
        ]);
    }

    #[test]
    fn new_events_say_more() {
        let long = "x".repeat(129);
        core(NEW).create(&[
            ("", ""),
            (
                "{reportingComponent: '', action: null}",
                "reportingComponent: Required value
                 reportingComponent: Invalid value: \"\": name part must be non-empty
                 reportingComponent: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                 action: Required value",
            ),
            (
                &format!("{{reason: {long}, reportingInstance: {long}}}"),
                "reportingInstance: Invalid value: \"\": can have at most 128 characters
                 reason: Invalid value: \"\": can have at most 128 characters",
            ),
        ]);
    }

    #[test]
    fn the_new_group_is_strict() {
        strict(NEW).create(&[
            ("", ""),
            (
                "{type: Odd, count: 1, source: {host: h}, firstTimestamp: '2020-01-01T00:00:00Z', series: {count: 1}}",
                "series.count: Invalid value: \"\": should be at least 2
                 series.lastObservedTime: Required value
                 type: Invalid value: \"\": has invalid value: Odd
                 firstTimestamp: Invalid value: \"\": needs to be unset
                 count: Invalid value: \"\": needs to be unset
                 source: Invalid value: \"\": needs to be unset",
            ),
            (
                "{eventTime: null, involvedObject: {namespace: null}}",
                "involvedObject.namespace: Invalid value: \"\": does not match event.namespace
                 eventTime: Required value",
            ),
        ]);
    }

    #[test]
    fn the_new_group_only_changes_series() {
        strict(NEW).update(&[
            ("", "series: {count: 2, lastObservedTime: '2020-01-01T00:00:00.000000Z'}", ""),
            (
                "",
                "{reason: Other, involvedObject: {name: q}, reportingComponent: d, count: 0}",
                r#"involvedObject: Invalid value: {"Kind":"Pod","Namespace":"ns","Name":"q","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable
                reason: Invalid value: "Other": field is immutable
                reason: Invalid value: "Other": field is immutable
                reportingController: Invalid value: "d": field is immutable"#,
            ),
        ]);
    }

    #[test]
    fn fields_can_be_selected_in_both_groups() {
        let events: &dyn Strategy = &Event::new(DEFAULT_TTL);
        let value = |event: &str, group: &str, field: &str| {
            events.selected_field(group, field).map(|field| events.select_field(&yaml(event), field))
        };
        for (event, group, field, want) in [
            (NEW, "", "involvedObject.name", Some("p")),
            (NEW, "events.k8s.io", "regarding.name", Some("p")),
            (NEW, "events.k8s.io", "involvedObject.name", None),
            (NEW, "", "regarding.name", None),
            (NEW, "", "source", Some("c.io/x")),
            ("source: {component: s}", "", "source", Some("s")),
            (NEW, "events.k8s.io", "source", None),
            (NEW, "events.k8s.io", "reportingController", Some("c.io/x")),
            (NEW, "", "type", Some("Normal")),
        ] {
            assert_eq!(value(event, group, field).as_deref(), want, "{group} {field}");
        }
    }

    #[test]
    fn cells_tell_when_and_what() {
        let mut check = core(NEW);
        check.now = Timestamp::new(1_577_836_800 + 60, 0);
        check.cells(&[
            ("", "60s Normal R pod/p  c.io/x, i  60s 1 e"),
            (
                "{series: {count: 3, lastObservedTime: '2020-01-01T00:00:30.000000Z'}, message: ' hi '}",
                "30s Normal R pod/p  c.io/x, i hi 60s 3 e",
            ),
        ]);
    }

    #[test]
    fn events_live_for_a_while() {
        assert_eq!(Event::new(DEFAULT_TTL).facts().time_to_live, Some(DEFAULT_TTL));
        assert_eq!(Event::new(Duration::ZERO).facts().time_to_live, None);
    }
}
