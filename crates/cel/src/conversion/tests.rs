use object::{Value, value};

use super::{ANNOTATION, ConversionRules, KEPT};
use crate::pool::Pool;

/// A definition with v1, the hub, and v1alpha1, whose rules are these.
fn definition(rules: &str) -> Value {
    let text = |fields: &[&str]| {
        let mut properties = Value::map();
        for field in fields {
            properties.set(&[field], value!({"type": "string"}));
        }
        properties
    };
    let schema = |mut properties: Value, item: &[&str]| {
        properties.set(&["ports"], value!({"type": "array", "items": {"type": "object", "properties": (text(item))}}));
        properties.set(&["count"], value!({"type": "integer"}));
        properties.set(&["at"], value!({"type": "string", "format": "date-time"}));
        properties.set(&["any"], value!({"x-kubernetes-preserve-unknown-fields": true}));
        value!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": (properties)}}}})
    };
    let mut of_hub = text(&["newer", "only"]);
    of_hub.set(&["key"], value!({"type": "object", "properties": (text(&["algorithm"]))}));
    let mut definition = value!({
        "metadata": {"annotations": {}},
        "spec": {"versions": [
            {"name": "v1", "schema": (schema(of_hub, &["label", "name"]))},
            {"name": "v1alpha1", "schema": (schema(text(&["older", "algorithm"]), &["title", "name"]))},
        ]},
    });
    definition
        .set(&["metadata", "annotations", ANNOTATION], format!("hub: v1\nversions:\n  v1alpha1:\n{rules}").as_str());
    definition
}

fn read(rules: &str) -> Result<ConversionRules, String> {
    let read = ConversionRules::read(&definition(rules), &Pool::default()).unwrap();
    read.map_err(|errors| errors.aggregate())
}

/// Converts a spec of v1alpha1 to the hub and back, and compares both.
fn check(rules: &str, spec: Value, in_hub: &Value, back: &Value) {
    let rules = read(rules).unwrap_or_else(|error| panic!("{error}"));
    let object = value!({"apiVersion": "g/v1alpha1", "kind": "K", "metadata": {"name": "n"}, "spec": (spec)});
    let hub = rules.to_hub(&object, "v1alpha1").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(hub.field("spec"), in_hub);
    let again = rules.from_hub(&hub, "v1alpha1").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.field("spec"), back);
}

#[test]
fn fields_are_renamed_set_moved_and_removed() {
    let spec = value!({"older": "x", "algorithm": "rsa", "ports": [{"title": "a", "name": "n"}, {}]});
    let rules = "
    renames: {spec.older: spec.newer, 'spec.ports[*].title': 'spec.ports[*].label'}
    toHub:
    - {set: spec.key.algorithm, to: 'self.spec.?algorithm.optMap(a, a.upperAscii())'}
    - {remove: spec.algorithm}
    fromHub:
    - {set: spec.algorithm, to: 'self.spec.?key.?algorithm.optMap(a, a.lowerAscii())'}
    - {remove: spec.key}";
    let hub = value!({"newer": "x", "key": {"algorithm": "RSA"}, "ports": [{"label": "a", "name": "n"}, {}]});
    check(rules, spec.clone(), &hub, &spec);
    check(rules, value!({"any": 1}), &value!({"any": 1}), &value!({"any": 1}));
    let rules = "
    toHub:
    - {move: 'spec.ports[*].title', to: 'spec.ports[*].label', when: has(item.name) && self.spec.older == 'x'}
    - {set: 'spec.ports[*].name', to: \"has(item.name) ? item.name + self.spec.older : 'none'\"}";
    let hub = value!({"older": "x", "algorithm": "rsa", "ports": [{"label": "a", "name": "nx"}, {"name": "none"}]});
    check(rules, spec, &hub, &hub);
}

#[test]
fn texts_move_as_they_are_and_values_of_any_type_are_seen() {
    let rules = "
    toHub:
    - {set: spec.newer, to: self.spec.at}
    - {set: spec.only, to: 'json.encode(self.spec.any)'}
    - {set: 'metadata.annotations[''a.b/c'']', to: string(self.spec.any.x)}
    - {remove: spec.any}
    fromHub:
    - {set: spec.any, to: json.decode(self.spec.only)}
    - {remove: spec.newer}
    - {remove: spec.only}";
    let spec = value!({"at": "2026-01-02T03:04:05.600+01:00", "any": {"x": 1, "y": [null]}});
    let hub = value!({"at": "2026-01-02T03:04:05.600+01:00", "newer": "2026-01-02T03:04:05.600+01:00",
        "only": "{\"x\":1,\"y\":[null]}"});
    check(rules, spec.clone(), &hub, &spec);
}

#[test]
fn values_without_a_place_are_kept_in_an_annotation() {
    let rules = read("    keeps: [spec.only, spec.key]").unwrap();
    let object = value!({"metadata": {"name": "n"}, "spec": {"only": "x", "key": {"algorithm": "A"}}});
    let mut older = rules.from_hub(&object, "v1alpha1").unwrap();
    assert_eq!(older.str_at(&["metadata", "annotations", KEPT]), r#"{"spec.key":{"algorithm":"A"},"spec.only":"x"}"#);
    older.remove(&["spec", "only"]);
    // What was set meanwhile stays, and only fields that the rules name come back.
    older.set(&["spec", "key"], value!({"algorithm": "B"}));
    let back = rules.to_hub(&older, "v1alpha1").unwrap();
    assert_eq!(back, value!({"metadata": {"name": "n"}, "spec": {"only": "x", "key": {"algorithm": "B"}}}));
    for (kept, want) in
        [(r#"{"spec.newer":"y"}"#, Value::Null), (r#"{"spec.only":"y"}"#, "y".into()), ("{", Value::Null)]
    {
        older.set(&["metadata", "annotations", KEPT], kept);
        let back = rules.to_hub(&older, "v1alpha1").unwrap();
        assert_eq!((back.at(&["spec", "newer"]), back.at(&["spec", "only"])), (&Value::Null, &want), "{kept}");
        assert_eq!(back.at(&["metadata", "annotations"]), &Value::Null);
    }
}

#[test]
fn rules_that_cannot_be_used_are_refused() {
    for (rules, want) in [
        ("    toHub: [{set: spec.key, to: self.spec.missing}]", "undefined field 'missing'"),
        ("    toHub: [{set: spec.key, to: self.spec.key}]", "undefined field 'key'"),
        ("    fromHub: [{set: spec.key, to: item.x}]", "undeclared reference to 'item'"),
        ("    toHub: [{set: spec.key, to: 1 +}]", "Syntax error"),
        ("    toHub: [{set: spec.key, to: '1', when: \"'x'\"}]", "must evaluate to a bool"),
        ("    toHub: [{set: spec.key, move: spec.x, to: '1'}]", "must have one of set, move and remove"),
        ("    toHub: [{set: spec.key}]", "to: Required value"),
        ("    toHub: [{remove: spec.key, to: x}]", "must not be set with remove"),
        ("    toHub: [{move: 'spec.a[*].b', to: spec.c}]", "must be a field of the same item"),
        ("    toHub: [{remove: 'spec.a[*]'}]", "must end with the name of a field"),
        ("    toHub: [{remove: kind}]", "the server sets apiVersion and kind"),
        ("    toHub: [{remove: metadata.name}]", "only labels and annotations"),
        ("    toHub: [{remove: spec..a}]", "names have letters"),
        ("    toHub: {remove: spec.a}", "must be a list"),
        ("    toHubs: []", "Unsupported value: \"toHubs\""),
        ("    keeps: ['spec.a[*].b']", "values of single items cannot be kept"),
        ("    renames: {spec.a: spec.b, spec.b: spec.c}", "is in more than one rename"),
        ("    renames: [spec.a]", "must be a map"),
        ("    renames: {spec.a: 1}", "must be a field"),
        ("    toHub: []\n    toHub: []", "already set in map"),
        ("    toHub: []\n  v1: {}", "Unsupported value: \"v1\": supported values: \"v1alpha1\""),
        ("    toHub: [", "yaml: line 4"),
    ] {
        let refused = read(rules).map(drop).unwrap_err();
        assert!(refused.contains(want), "{rules}: {refused}");
        assert!(refused.contains("metadata.annotations[conversion.ferrokube.io/rules]"), "{refused}");
    }
    assert!(ConversionRules::read(&value!({"metadata": {}}), &Pool::default()).is_none());
}

#[test]
fn failures_name_the_field_and_costs_are_bounded() {
    let fails = |rules: &str, spec: Value| {
        let object = value!({"metadata": {}, "spec": (spec)});
        read(rules).unwrap().to_hub(&object, "v1alpha1").unwrap_err().to_string()
    };
    assert_eq!(
        fails("    toHub: [{set: spec.newer, to: self.spec.older}]", value!({})),
        "spec.newer: no such key: older"
    );
    assert_eq!(
        fails("    toHub: [{set: spec.older.x, to: \"'a'\"}]", value!({"older": "x"})),
        "spec.older.x: x is a field of what is no object but string"
    );
    let ports = vec![value!({"name": "n"}); 2_000];
    let costly = "    toHub: [{set: spec.count, to: 'self.spec.ports.map(a, self.spec.ports.map(b, b)).size()'}]";
    let why = fails(costly, value!({"ports": (ports)}));
    assert!(why.contains("cost"), "{why}");
    // A value that names the same list many times is not made.
    let short = "    toHub: [{set: spec.any, to: \"cel.bind(a, self.spec.ports, cel.bind(b, [a,a,a,a,a,a,a,a], cel.bind(c, \
        [b,b,b,b,b,b,b,b], cel.bind(d, [c,c,c,c,c,c,c,c], [d,d,d,d,d,d,d,d]))))\"}]";
    let ports = vec![value!({"name": "n"}); 500];
    let why = fails(short, value!({"ports": (ports)}));
    assert!(why.contains("the value takes more than 16777216 bytes"), "{why}");
}
