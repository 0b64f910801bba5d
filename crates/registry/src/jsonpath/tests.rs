use object::{Value, value};

use super::JsonPath;

/// The values a path leads to, as JSON; or the error.
fn check(path: &str, want: &str) {
    let object = value!({
        "spec": {"a": "x", "dotted.key": 1, "list": [1, 2, 3], "none": null},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Done", "status": "False", "n": 2},
        ]},
    });
    let found = JsonPath::parse(path).and_then(|parsed| {
        let found = parsed.find(&object)?;
        let mut out = Vec::new();
        codec::json::encode(&Value::List(found.into_iter().cloned().collect()), None, &mut out);
        String::from_utf8(out).map_err(|error| error.to_string())
    });
    assert_eq!(found.unwrap_or_else(|error| format!("error: {error}")), want, "{path}");
}

#[test]
fn templates_go_on_behind_a_closing_brace() {
    for (text, want) in [
        ("spec.validations[0].expression", Ok(())),
        ("", Ok(())),
        ("a} text {.b", Ok(())),
        ("a} text { %", Err("unrecognized character in action: U+0025 '%'")),
        ("a} {.b[", Err("unterminated array")),
        ("a{b", Err("unrecognized character in action: U+007B '{'")),
        ("spec.validations[x]", Err("invalid array index x")),
    ] {
        assert_eq!(JsonPath::check(text), want.map_err(str::to_string), "{text}");
    }
}

#[test]
fn paths_lead_where_client_go_goes() {
    for (path, want) in [
        (".spec.a", r#"["x"]"#),
        (".spec.missing", "[]"),
        (".spec.none", "[null]"),
        (r".spec.dotted\.key", "[1]"),
        (".spec['dotted\\.key']", "[1]"),
        (".spec.list[0]", "[1]"),
        (".spec.list[-1]", "[3]"),
        (".spec.list[1:]", "[2,3]"),
        (".spec.list[*]", "[1,2,3]"),
        (".spec.list[0,2]", "[1,3]"),
        (".spec.list[5]", "error: array index out of bounds: index 5, length 3"),
        (".spec.a[0]", "error: string is not array or slice"),
        (r#".status.conditions[?(@.type=="Ready")].status"#, r#"["True"]"#),
        (".status.conditions[?(@.type=='Done')].n", "[2]"),
        (".status.conditions[?(@.n>1)].type", r#"["Done"]"#),
        (".status.conditions[?(@.n)].n", "[1,2]"),
        (".status.conditions[?(@.missing==1)].n", "[]"),
        ("..type", r#"["Ready","Done"]"#),
        (".spec.*", r#"["x",1,[1,2,3],null]"#),
        (".spec.list[", "error: unterminated array"),
        (".spec.list[a]", "error: invalid array index a"),
        (".spec[?(", "error: unterminated filter"),
        (".spec%", "[]"),
        ("%", "error: unrecognized character in action: U+0025 '%'"),
    ] {
        check(path, want);
    }
}
