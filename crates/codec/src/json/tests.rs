//! What Go's decoder says to broken and unusual documents.

use object::{Value, value};

use super::*;

fn untyped(text: &str) -> Result<Value, String> {
    decode(text.as_bytes(), None, &mut Notes::ignore()).map_err(|e| e.to_string())
}

#[test]
fn syntax_errors_have_gos_words() {
    for (text, want) in [
        ("", "unexpected end of JSON input"),
        ("  ", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        (r#"{"kind":"#, "unexpected end of JSON input"),
        (r#""abc"#, "unexpected end of JSON input"),
        ("[1", "unexpected end of JSON input"),
        ("hello", "invalid character 'h' looking for beginning of value"),
        ("<html>", "invalid character '<' looking for beginning of value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[,1]", "invalid character ',' looking for beginning of value"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("1 2", "invalid character '2' after top-level value"),
        ("01", "invalid character '1' after top-level value"),
        ("-", "invalid character ' ' in numeric literal"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1.e", "invalid character 'e' after decimal point in numeric literal"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("trve", "invalid character 'v' in literal true (expecting 'u')"),
        ("fals3", "invalid character '3' in literal false (expecting 'e')"),
        ("nul!", "invalid character '!' in literal null (expecting 'l')"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        ("\"\u{1}\"", "invalid character '\\x01' in string literal"),
        (r#""\x""#, "invalid character 'x' in string escape code"),
        (r#""\u12g4""#, "invalid character 'g' in \\u hexadecimal character escape"),
        ("[1'", "invalid character '\\'' after array element"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
    ] {
        assert_eq!(untyped(text), Err(want.to_string()), "{text:?}");
    }
}

#[test]
fn reads_untyped_values() {
    for (text, want) in [
        (" null ", Value::Null),
        ("[]", value!([])),
        ("{ }", value!({})),
        (r#"[1, -2, 3.5, 1e2, true, false, "x"]"#, value!([1, (-2), 3.5, 100.0, true, false, "x"])),
        (r#"{"b":{"c":[{}]},"a":""}"#, value!({"a": "", "b": {"c": [{}]}})),
        (r#""\"\\\/\b\f\n\r\tA""#, Value::from("\"\\/\u{8}\u{c}\n\r\tA")),
        (r#""\ud83d\ude00\ud83dx\udc00""#, Value::from("😀\u{fffd}x\u{fffd}")),
        (r#"{"a":1,"a":2}"#, value!({"a": 2})),
    ] {
        assert_eq!(untyped(text), Ok(want), "{text}");
    }
    assert_eq!(
        decode(b"\"a\xe2\x82b\xff\"", None, &mut Notes::ignore()),
        Ok(Value::from("a\u{fffd}\u{fffd}b\u{fffd}"))
    );
}

#[test]
fn duplicates_are_noted_where_they_are() {
    let mut notes = Notes::collect();
    let text = br#"{"a":1,"b":[{"c":1,"c":2,"c":3}],"a":{"a":1}}"#;
    decode(text, None, &mut notes).unwrap();
    assert_eq!(notes.messages(), [r#"duplicate field "b[0].c""#, r#"duplicate field "a""#]);
    assert_eq!(
        notes.strict_error().unwrap(),
        r#"strict decoding error: duplicate field "b[0].c", duplicate field "a""#
    );
}

#[test]
fn numbers_beyond_a_float_are_refused() {
    let want = "json: cannot unmarshal number 1e400 into Go value of type float64";
    assert_eq!(untyped(r#"{"a":1e400}"#), Err(want.into()));
    assert_eq!(untyped(r#"{"a":1e400"#), Err("unexpected end of JSON input".into()));
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(untyped(&nested(crate::MAX_DEPTH)).is_ok());
    assert_eq!(untyped(&nested(crate::MAX_DEPTH + 1)), Err("exceeded max depth".into()));
    assert_eq!(untyped(&nested(10_001)), Err("invalid character '[' exceeded max depth".into()));
    let maps = r#"{"a":"#.repeat(10_001);
    assert_eq!(untyped(&maps), Err("invalid character '{' exceeded max depth".into()));
    assert_eq!(untyped(&"[".repeat(5000)), Err("unexpected end of JSON input".into()));
}

fn compact(value: &Value) -> String {
    let mut out = Vec::new();
    encode(value, None, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn writes_untyped_values_as_go_does() {
    for (value, want) in [
        (value!({"b": [1, 2.5, null, true], "a": {}}), r#"{"a":{},"b":[1,2.5,null,true]}"#),
        (Value::from("<a href=\"x\">&\\\u{7f}"), "\"\\u003ca href=\\\"x\\\"\\u003e\\u0026\\\\\u{7f}\""),
        (Value::from("\u{0}\u{8}\u{c}\n\r\t\u{1f}"), r#""\u0000\b\f\n\r\t\u001f""#),
        (Value::from("a\u{2028}b\u{2029}c\u{2027}é"), "\"a\\u2028b\\u2029c\u{2027}é\""),
        (Value::Float(f64::NAN), "null"),
    ] {
        assert_eq!(compact(&value), want);
    }
}

#[test]
fn indents_as_go_does() {
    let value = value!({"a": [], "b": {}, "c": [1, {"d": "x:y,{}\\\""}]});
    let mut out = Vec::new();
    encode_pretty(&value, None, &mut out);
    let want =
        "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x:y,{}\\\\\\\"\"\n    }\n  ]\n}";
    assert_eq!(String::from_utf8(out).unwrap(), want);
}

#[test]
fn exact_documents_keep_numbers_as_they_are_written() {
    for (text, want) in [
        (r#"{"a": [1, -3, 1.0]}"#, r#"{"a":[1,-3,1.0]}"#),
        ("[1e2, 1.50, -0, 0, 18446744073709551616]", "[1e2,1.50,-0,0,18446744073709551616]"),
        (r#"{"b": "<", "a": null}"#, r#"{"a":null,"b":"\u003c"}"#),
    ] {
        let mut out = Vec::new();
        encode(&decode_exact(text.as_bytes(), &mut Notes::ignore()).unwrap(), None, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
    let refused = decode_exact(b"[1e400]", &mut Notes::ignore()).unwrap_err();
    assert_eq!(refused.message(), "json: cannot unmarshal number 1e400 into Go value of type float64");
}
