//! How Go prints values: upstream's messages carry `%v`, `%#v` and `%T` of what a client sent.

use std::fmt::Write;

use codec::json::open;
use object::{Map, Value, quote, write_json_string};

/// `%v`: `map[a:1 b:[x y]]`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(&mut out, value);
    out
}

/// `%s` of a value that is a string everywhere it is used rightly; anything else is printed as Go prints a mistake.
pub fn verb_s(value: &Value) -> String {
    match value {
        Value::String(s) => s.to_string(),
        Value::Null => "%!s(<nil>)".to_string(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => format!("%!s({}={})", object::go_type(value), plain(value)),
        // Inside lists and maps the verb applies to each element.
        Value::List(items) => format!("[{}]", items.iter().map(verb_s).collect::<Vec<_>>().join(" ")),
        Value::Map(map) => {
            let fields: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", verb_s(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Raw(raw) => verb_s(&open(raw)),
    }
}

/// `%#v`: `map[string]interface {}{"a":1}`.
pub fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_string(),
        Value::String(s) => quote(s),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => plain(value),
        Value::List(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let fields: Vec<String> = map.iter().map(|(k, v)| format!("{}:{}", quote(k), syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Raw(raw) => syntax(&open(raw)),
    }
}

/// Compact JSON as Go's encoder writes it: keys sorted, HTML characters escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value);
    out
}

/// The length of [`json`] without writing it, but no further than just above `limit`.
pub fn json_len(value: &Value, limit: usize) -> usize {
    let mut len = 0;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        len += match value {
            Value::Null => 4,
            Value::Bool(b) => 5 - usize::from(*b),
            Value::Int(_) | Value::Float(_) => json(value).len(),
            Value::String(s) => json_string_len(s),
            Value::List(items) => {
                pending.extend(items);
                items.len().max(1) + 1
            }
            Value::Map(map) => {
                pending.extend(map.values());
                map.keys().map(|key| json_string_len(key) + 1).sum::<usize>() + map.len().max(1) + 1
            }
            Value::Raw(raw) => raw.compact().len(),
        };
        if len > limit {
            break;
        }
    }
    len
}

fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => push(out, b),
        Value::Int(i) => push(out, i),
        Value::Float(f) => out.push_str(&float_g(*f)),
        Value::String(s) => out.push_str(s),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_plain(out, item);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push_str("map[");
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_plain(out, value);
            }
            out.push(']');
        }
        Value::Raw(raw) => write_plain(out, &open(raw)),
    }
}

/// Appends [`json`].
pub(crate) fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => push(out, b),
        Value::Int(i) => push(out, i),
        Value::Float(f) => out.push_str(&json_float(*f)),
        Value::String(s) => write_json_string(s, out),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Map(map) => write_json_map(out, map),
        Value::Raw(raw) => out.push_str(&raw.compact()),
    }
}

fn write_json_map(out: &mut String, map: &Map) {
    out.push('{');
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_json_string(key, out);
        out.push(':');
        write_json(out, value);
    }
    out.push('}');
}

fn json_string_len(s: &str) -> usize {
    let extra = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 1,
        c if is_escaped(c) => 6 - c.len_utf8(),
        _ => 0,
    };
    s.len() + 2 + s.chars().map(extra).sum::<usize>()
}

fn is_escaped(c: char) -> bool {
    (c as u32) < 0x20 || matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

fn push(out: &mut String, text: impl std::fmt::Display) {
    write!(out, "{text}").expect("writing to a string cannot fail");
}

/// Sign, digits and exponent of the shortest text that reads back as `f`: 1234.5 is (false, "12345", 3).
fn shortest(f: f64) -> (bool, String, i32) {
    let text = format!("{:e}", f.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    (f.is_sign_negative(), digits, exponent.parse().unwrap_or(0))
}

/// `%v` of a float: exponents start at a million, where JSON waits for 21 digits.
fn float_g(f: f64) -> String {
    if !f.is_finite() {
        return if f.is_nan() {
            "NaN".into()
        } else if f > 0.0 {
            "+Inf".into()
        } else {
            "-Inf".into()
        };
    }
    let (negative, digits, exponent) = shortest(f);
    if (-4..6).contains(&exponent) {
        return format!("{f}");
    }
    scientific(negative, &digits, exponent, 2)
}

fn json_float(f: f64) -> String {
    if !f.is_finite() {
        return "null".into();
    }
    let magnitude = f.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        return format!("{f}");
    }
    let (negative, digits, exponent) = shortest(f);
    scientific(negative, &digits, exponent, 1)
}

fn scientific(negative: bool, digits: &str, exponent: i32, width: usize) -> String {
    let sign = if negative { "-" } else { "" };
    let (first, rest) = digits.split_at(1.min(digits.len()));
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{rest}e{exponent_sign}{:0width$}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn prints_as_go_does() {
        let all = value!({"s": "x", "l": [1, "a", null, true, 1.5], "m": {}});
        assert_eq!(plain(&all), "map[l:[1 a <nil> true 1.5] m:map[] s:x]");
        assert_eq!(
            syntax(&all),
            r#"map[string]interface {}{"l":[]interface {}{1, "a", interface {}(nil), true, 1.5}, "m":map[string]interface {}{}, "s":"x"}"#
        );
        assert_eq!(json(&all), r#"{"l":[1,"a",null,true,1.5],"m":{},"s":"x"}"#);
        assert_eq!(verb_s(&value!(1)), "%!s(int64=1)");
        assert_eq!(verb_s(&value!("bogus")), "bogus");
    }

    #[test]
    fn floats_switch_to_exponents_where_go_does() {
        for (f, v, j) in [
            (1.0, "1", "1"),
            (-0.5, "-0.5", "-0.5"),
            (123456.7, "123456.7", "123456.7"),
            (1e6, "1e+06", "1000000"),
            (123456789.0, "1.23456789e+08", "123456789"),
            (1e-5, "1e-05", "0.00001"),
            (1.5e-7, "1.5e-07", "1.5e-7"),
            (1e21, "1e+21", "1e+21"),
            (-2.5e300, "-2.5e+300", "-2.5e+300"),
        ] {
            assert_eq!((float_g(f).as_str(), json_float(f).as_str()), (v, j));
        }
    }

    #[test]
    fn lengths_match_the_text() {
        for value in [
            value!({}),
            value!([]),
            value!([[], {}]),
            value!({"a<b": "\u{2028}\"\n\u{1}é", "b": [1, (-2.5), true, false, null], "c": {"d": {}}}),
        ] {
            assert_eq!(json_len(&value, usize::MAX - 1), json(&value).len(), "{}", json(&value));
        }
    }
}
