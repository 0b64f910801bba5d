use object::value;

use super::*;

/// The bytes of `document` as hexadecimal text.
fn written(document: &Value, root: &Message) -> String {
    convert(document, root).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn messages_are_written_by_tag() {
    let info = value!({"swagger": "2.0", "info": {"title": "K", "version": "1"}, "x-b": [1], "host": "dropped"});
    // swagger, info{title, version}, extension{name, any{yaml}}
    assert_eq!(
        written(&info, &V2),
        "0a03322e3012060a014b1201318201".to_string() + "0d" + "0a03782d621206" + "12042d20310a"
    );
}

#[test]
fn choices_and_references() {
    let by_path = value!({"name": "n", "in": "path", "required": true});
    let path = value!({"paths": {"/": {"parameters": [{"$ref": "#/p"}, by_path]}}});
    let reference = "12050a03232f70";
    // The item, the parameter, the one that is not a body, the one in a path: required, in, name.
    let by_value = "0a0f120d220b080112047061746822016e";
    let list = format!("4a07{reference}4a11{by_value}");
    let item = format!("0a012f12{:02x}{list}", list.len() / 2);
    let entry = format!("12{:02x}{item}", item.len() / 2);
    assert_eq!(written(&path, &V2), format!("42{:02x}{entry}", entry.len() / 2));
}

#[test]
fn chosen_defaults_are_written_even_if_zero() {
    let schema = |default: Value| {
        let document = value!({"components": {"schemas": {"X": {"default": default}}}});
        let text = written(&document, &V3);
        // Behind components, schemas, the named entry, its name and the schema itself.
        text[text.find("0a0158").unwrap() + 6..].to_string()
    };
    assert_eq!(schema(value!("")), "12070a058a02021a00");
    assert_eq!(schema(value!(false)), "12070a058a02021000");
    assert_eq!(schema(value!(0)), "120e0a0c8a0209090000000000000000");
    assert_eq!(schema(value!({})), "12020a00");
}
