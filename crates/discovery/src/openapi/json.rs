//! Writes JSON in the order it is told to. OpenAPI documents are large and mostly text, so no tree is built of them.

use object::Value;

/// A document being written. Commas take care of themselves.
pub struct Json {
    out: Vec<u8>,
    /// Something stands in front of what comes next, at the same level.
    comma: bool,
    /// Whether `<`, `>` and `&` are escaped, as Go's encoder does unless told otherwise.
    escape_html: bool,
}

impl Json {
    pub fn new(escape_html: bool) -> Json {
        Json { out: Vec::new(), comma: false, escape_html }
    }

    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    pub fn object(&mut self, fields: impl FnOnce(&mut Json)) {
        self.nest(b'{', fields, b'}');
    }

    pub fn list(&mut self, items: impl FnOnce(&mut Json)) {
        self.nest(b'[', items, b']');
    }

    fn nest(&mut self, open: u8, inside: impl FnOnce(&mut Json), close: u8) {
        self.next();
        self.out.push(open);
        self.comma = false;
        inside(self);
        self.out.push(close);
        self.comma = true;
    }

    /// The name of the field whose value comes next.
    pub fn key(&mut self, name: &str) -> &mut Json {
        self.string(name);
        self.out.push(b':');
        self.comma = false;
        self
    }

    pub fn string(&mut self, text: &str) {
        self.next();
        match self.escape_html {
            true => object::write_json_string(text, &mut self.out),
            false => object::write_json_string_for_no_html(text, &mut self.out),
        }
        self.comma = true;
    }

    pub fn strings<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        self.list(|json| texts.into_iter().for_each(|text| json.string(text)));
    }

    pub fn bool(&mut self, value: bool) {
        self.raw(if value { b"true" } else { b"false" });
    }

    /// JSON that is ready.
    pub fn raw(&mut self, json: &[u8]) {
        self.next();
        self.out.extend_from_slice(json);
        self.comma = true;
    }

    pub fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::List(items) => self.list(|json| items.iter().for_each(|item| json.value(item))),
            Value::Map(map) => self.object(|json| {
                for (key, value) in map.iter() {
                    json.key(key).value(value);
                }
            }),
            scalar => {
                let mut text = Vec::new();
                codec::json::encode(scalar, None, &mut text);
                self.raw(&text);
            }
        }
    }

    fn next(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_escapes() {
        let write = |escape_html: bool| {
            let mut json = Json::new(escape_html);
            json.object(|json| {
                json.key("a").strings(["x", "0 < x & \"y\"\n\u{1}"]);
                json.key("b").object(|_| {});
                json.key("c").list(|json| {
                    json.bool(true);
                    json.value(&object::value!({"n": 1, "f": 1.5, "z": null}));
                });
            });
            String::from_utf8(json.finish()).unwrap()
        };
        let want = r#"{"a":["x","0 < x & \"y\"\n\u0001"],"b":{},"c":[true,{"f":1.5,"n":1,"z":null}]}"#;
        assert_eq!(write(false), want);
        assert_eq!(write(true), want.replace('<', "\\u003c").replace('&', "\\u0026"));
    }
}
