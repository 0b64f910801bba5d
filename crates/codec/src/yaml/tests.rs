//! YAML read and printed as upstream does.

use object::{Value, value};
use proptest::prelude::*;

use super::*;

fn converted(text: &str) -> Result<String, String> {
    to_json(text.as_bytes(), false).map(|json| String::from_utf8(json).unwrap()).map_err(|e| e.to_string())
}

#[test]
fn documents_become_json() {
    for (yaml, json) in [
        ("", "null"),
        ("# nothing\n", "null"),
        ("---\n", "null"),
        ("a: 1\nb:\n- x\n- k: z\n  w:\n", r#"{"a":1,"b":["x",{"k":"z","w":null}]}"#),
        ("{a: [b, c: d], ? e : f, g}", r#"{"a":["b",{"c":"d"}],"e":"f","g":null}"#),
        (
            "a: yes\nb: 010\nc: 1_000\nd: ~\ne: 1e3\nf: \"yes\"\n",
            r#"{"a":true,"b":8,"c":1000,"d":null,"e":1000,"f":"yes"}"#,
        ),
        ("a: |\n  x\n   y\n\nb: >-\n  p\n  q\n\n  r\n", r#"{"a":"x\n y\n","b":"p q\nr"}"#),
        ("a: 'it''s'\nb: \"\\x41\\\n   b\"\nc: plain\n  goes on\n", r#"{"a":"it's","b":"Ab","c":"plain goes on"}"#),
        (
            "a: &x {b: 1, c: 2}\nd: *x\ne:\n  <<: *x\n  c: 3\n",
            r#"{"a":{"b":1,"c":2},"d":{"b":1,"c":2},"e":{"b":1,"c":3}}"#,
        ),
        ("1: a\n1.5: b\ntrue: c\n", r#"{"1":"a","1.5":"b","true":"c"}"#),
        ("a: !!str 1\nb: !!binary YQ==\nc: !x 1\nd: 2020-01-01\n", r#"{"a":"1","b":"a","c":"1","d":"2020-01-01"}"#),
        ("a: 1\na: 2\n", r#"{"a":2}"#),
        ("a: 1\n---\nb: [\n", r#"{"a":1}"#),
        ("a: 18446744073709551615\n", r#"{"a":18446744073709551615}"#),
        ("%YAML 1.1\n%TAG !e! tag:yaml.org,2002:\n--- !e!map\na: !e!int 5\n", r#"{"a":5}"#),
        ("\u{feff}a: b\r\nc: d", r#"{"a":"b","c":"d"}"#),
    ] {
        assert_eq!(converted(yaml), Ok(json.into()), "{yaml:?}");
    }
}

#[test]
fn errors_have_upstreams_words() {
    for (yaml, want) in [
        ("a: [1, 2\nb: 3\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ("x: y\na: b: c\n", "yaml: line 2: mapping values are not allowed in this context"),
        ("a:\n\t- b\n", "yaml: line 2: found character that cannot start any token"),
        ("- a\nb: c\n", "yaml: line 1: did not find expected '-' indicator"),
        ("a: \"x\n", "yaml: line 2: found unexpected end of stream"),
        ("*x\n", "yaml: unknown anchor 'x' referenced"),
        ("a: &a [*a]\n", "yaml: anchor 'a' value contains itself"),
        ("<<: 1\n", "yaml: map merge requires map or sequence of maps as the value"),
        ("[a]: b\n", "yaml: invalid map key: []interface {}{\"a\"}"),
        ("~: b\n", "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"b\""),
        ("a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: .nan\n", "json: unsupported value: NaN"),
        ("a: \u{1}\n", "yaml: control characters are not allowed"),
        ("%YAML 1.2\n---\n", "yaml: found incompatible YAML document"),
    ] {
        assert_eq!(converted(yaml), Err(want.into()), "{yaml:?}");
    }
    assert_eq!(to_json(b"a: \xff", false).unwrap_err().to_string(), "yaml: invalid leading UTF-8 octet");
}

#[test]
fn keys_set_twice_are_noted_once_for_all() {
    let mut notes = Notes::collect();
    let value = decode(b"a: 1\na: 2\nb:\n  1: x\n  1: z\n", None, &mut notes).unwrap();
    assert_eq!(value, value!({"a": 2, "b": {"1": "z"}}));
    let want = "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map\n  line 5: key 1 already set in map";
    assert_eq!(notes.messages(), [want]);
}

#[test]
fn depth_is_bounded() {
    for (open, levels) in [("[", 300), ("{a: ", 300), ("- ", 300), ("[", 100_000), ("- ", 100_000)] {
        let error = to_json(open.repeat(levels).as_bytes(), false).unwrap_err();
        assert!(error.to_string().starts_with("yaml: exceeded max depth"), "{error}");
    }
    // Aliases nest what is nowhere nested in the text.
    let nested: String = (1..400).map(|i| format!("a{i}: &a{i} [*a{}]\n", i - 1)).collect();
    let error = to_json(format!("a0: &a0 []\n{nested}").as_bytes(), false).unwrap_err();
    assert_eq!(error.to_string(), "yaml: exceeded max depth of 128");
}

#[test]
fn bombs_do_not_go_off() {
    let lines = ["b", "c", "d", "e", "f", "g", "h", "i"];
    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (line, before) in lines.iter().zip(["a", "b", "c", "d", "e", "f", "g", "h"]) {
        bomb += &format!("{line}: &{line} [{}]\n", vec![format!("*{before}"); 9].join(","));
    }
    let error = to_json(bomb.as_bytes(), false).unwrap_err();
    assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
}

#[test]
fn values_print_as_upstream_prints_them() {
    let long = "word ".repeat(20).trim_end().to_string();
    for (value, want) in [
        (value!({"b": [], "a": {}, "c": null}), "a: {}\nb: []\nc: null\n".to_string()),
        (value!({"l": [{"x": 1, "z": [2]}, ["z"]]}), "l:\n- x: 1\n  z:\n  - 2\n- - z\n".into()),
        (value!({"a10": 1, "a2": 2, "b": 3, "1": 4}), "\"1\": 4\na2: 2\na10: 1\nb: 3\n".into()),
        (value!({"s": ["yes", "1", "a: b", "a #b", "- a", "-a", "", " a", "it's", "\"q\"", "a\tb", "é", "😀"]}),
            "s:\n- \"yes\"\n- \"1\"\n- 'a: b'\n- 'a #b'\n- '- a'\n- -a\n- \"\"\n- ' a'\n- it's\n- '\"q\"'\n- \"a\\tb\"\n- é\n- \"\\U0001F600\"\n".into()),
        (value!({"m": ["a\nb\n", "a\nb", "a\n\n", " a\nb", "a \nb"]}),
            "m:\n- |\n  a\n  b\n- |-\n  a\n  b\n- |+\n  a\n\n- |2-\n   a\n  b\n- \"a \\nb\"\n".into()),
        (value!({"f": [1.5, 1e20, 0.00001, 3.0, 1234567.5]}), "f:\n- 1.5\n- 1e+20\n- 1e-05\n- 3\n- 1.2345675e+06\n".into()),
        (value!({"t": ["2020-01-01T00:00:00Z", "12:30"]}), "t:\n- \"2020-01-01T00:00:00Z\"\n- \"12:30\"\n".into()),
        (value!({"w": (long.as_str())}), format!("w: {}\n  {}\n", &long[..79], &long[80..])),
        (Value::from("x"), "x\n".into()),
        (value!(["a\nb"]), "- |-\n  a\n  b\n".into()),
    ] {
        let mut out = Vec::new();
        encode(&value, None, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}

/// JSON with everything in it that the two readers may see differently.
fn any_json() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "<<",
        "x y",
        "\\n",
        "\\u003c",
        "\\ud83d\\ude00",
        "\\/",
        "\\\"",
        "\\\\",
        "é",
        "# ",
        ": ",
        "~",
        "---",
        "\\t",
        " ",
    ];
    let text = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..4).prop_map(|pieces| pieces.concat());
    let string = prop_oneof![9 => text.clone(), 1 => text.prop_map(|text| text + &"k".repeat(1030))]
        .prop_map(|text| format!("\"{text}\""));
    let scalars = [
        "0",
        "-0",
        "1",
        "-12",
        "007",
        "1.0",
        "1.5",
        "1e3",
        "-1E-2",
        "123456789012345678",
        "9223372036854775808",
        "18446744073709551616",
        "true",
        "false",
        "null",
        "yes",
        "0x1f",
        "1_000",
        "0o7",
        "12:30",
    ];
    let leaf = prop_oneof![string.clone(), prop::sample::select(scalars.to_vec()).prop_map(str::to_string)];
    let space = prop::sample::select(vec!["", " ", "\n", "\n  ", "\t"]);
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let entry = (string.clone(), space.clone(), inner.clone()).prop_map(|(k, s, v)| format!("{k}:{s}{v}"));
        let space = space.clone();
        prop_oneof![
            (prop::collection::vec(inner, 0..4), space.clone())
                .prop_map(|(v, s)| format!("[{}]", v.join(&format!(",{s}")))),
            (prop::collection::vec(entry, 0..4), space)
                .prop_map(|(v, s)| format!("{{{s}{}{s}}}", v.join(&format!(",{s}")))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn json_is_read_as_the_yaml_it_is(text in any_json()) {
        if let Some(value) = plain::read(text.as_bytes()) {
            let short = sorted(&value);
            for strict in [false, true] {
                let mut long = Vec::new();
                prop_assert!(convert(text.as_bytes(), strict, &mut long).is_ok(), "{text}");
                prop_assert_eq!(String::from_utf8_lossy(&short), String::from_utf8_lossy(&long), "{}", text);
            }
        }
    }
}

#[test]
fn what_clients_send_takes_the_short_way() {
    for text in [
        r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"x: \u003cy\u003e\n","b":""},"n":[1,-20,true,null]}"#,
        "{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}\n",
    ] {
        assert!(plain::read(text.as_bytes()).is_some(), "{text}");
    }
    for text in
        ["a: b", r#"{"a":1.0}"#, r#"{"a":1,"a":2}"#, "{\"a\":1}\n---\n{}", r#"{"<<":{}}"#, "{a: 1}", "{\"a\":\"é\"}"]
    {
        assert!(plain::read(text.as_bytes()).is_none(), "{text}");
    }
}
