//! [`Layout`]: where the revision goes in an object that is encoded already.
//!
//! Stored bytes carry no resource version, since it is only known once they are stored. A reader does not decode them to
//! put it in: the place is found once, when the bytes enter the cache, and serving an object is copying two slices with
//! the revision between them. The place is the one Go's encoder would have chosen, so the bytes are the same.

use super::encode::string_end;

/// Where to cut the compact JSON of an object to put its revision in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where the fields behind `kind` and `apiVersion` begin.
    body: u32,
    /// Where the revision is written.
    at: u32,
    /// Where the rest continues: at the same place, or behind a revision that was there before.
    resume: u32,
    comma: Comma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comma {
    Before,
    After,
    Neither,
}

/// The fields of `metadata` that Go prints in front of the resource version.
const BEFORE: [&[u8]; 5] = [b"name", b"generateName", b"namespace", b"selfLink", b"uid"];

impl Layout {
    /// Finds the place in the compact JSON of a built-in object, whose fields are in Go's order. `None` if there is no
    /// metadata to put it into.
    pub fn of(json: &[u8]) -> Option<Layout> {
        Layout::find(json, |key| !BEFORE.contains(&key))
    }

    /// The same for custom objects, whose fields are sorted.
    pub fn of_sorted(json: &[u8]) -> Option<Layout> {
        Layout::find(json, |key| key > b"resourceVersion")
    }

    fn find(json: &[u8], is_behind: impl Fn(&[u8]) -> bool) -> Option<Layout> {
        let mut body = None;
        for field in fields(json, 0)? {
            if !matches!(field.key, b"kind" | b"apiVersion") {
                body.get_or_insert(field.start);
            }
            if field.key == b"metadata" {
                let place = Layout::place(json, field.value, is_behind)?;
                return Some(Layout { body: u32::try_from(body?).ok()?, ..place });
            }
        }
        None
    }

    /// The place inside the metadata that begins at `start`.
    fn place(json: &[u8], start: usize, is_behind: impl Fn(&[u8]) -> bool) -> Option<Layout> {
        let layout = |at: usize, resume: usize, comma| {
            Some(Layout { body: 0, at: u32::try_from(at).ok()?, resume: u32::try_from(resume).ok()?, comma })
        };
        let mut end = start + 1;
        for field in fields(json, start)? {
            if field.key == b"resourceVersion" {
                return layout(field.start, field.end, Comma::Neither);
            }
            if is_behind(field.key) {
                return layout(field.start, field.start, Comma::After);
            }
            end = field.end;
        }
        layout(end, end, if end == start + 1 { Comma::Neither } else { Comma::Before })
    }

    /// The parts of the object around the revision.
    pub fn parts<'a>(&self, json: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (&json[..self.at as usize], &json[self.resume as usize..])
    }

    /// The same without `kind` and `apiVersion`, as items of built-in lists are printed; `{` is to be written first.
    pub fn item_parts<'a>(&self, json: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (&json[self.body as usize..self.at as usize], &json[self.resume as usize..])
    }

    /// Appends what stands between the parts.
    pub fn write_revision(&self, revision: &str, out: &mut Vec<u8>) {
        if self.comma == Comma::Before {
            out.push(b',');
        }
        out.extend_from_slice(b"\"resourceVersion\":");
        object::write_json_string(revision, out);
        if self.comma == Comma::After {
            out.push(b',');
        }
    }

    /// Appends the whole object with its revision.
    pub fn write(&self, json: &[u8], revision: &str, out: &mut Vec<u8>) {
        let (head, tail) = self.parts(json);
        out.reserve(json.len() + revision.len() + 24);
        out.extend_from_slice(head);
        self.write_revision(revision, out);
        out.extend_from_slice(tail);
    }

    /// Appends the whole object as one of another kind or version, for objects that are the same in both.
    pub fn write_as(&self, json: &[u8], api_version: &str, kind: &str, revision: &str, out: &mut Vec<u8>) {
        let (head, tail) = self.item_parts(json);
        out.reserve(json.len() + revision.len() + api_version.len() + kind.len() + 56);
        out.extend_from_slice(b"{\"kind\":");
        object::write_json_string(kind, out);
        out.extend_from_slice(b",\"apiVersion\":");
        object::write_json_string(api_version, out);
        out.push(b',');
        out.extend_from_slice(head);
        self.write_revision(revision, out);
        out.extend_from_slice(tail);
    }

    /// Appends the object as an item of a built-in list.
    pub fn write_item(&self, json: &[u8], revision: &str, out: &mut Vec<u8>) {
        let (head, tail) = self.item_parts(json);
        out.reserve(json.len() + revision.len() + 24);
        out.push(b'{');
        out.extend_from_slice(head);
        self.write_revision(revision, out);
        out.extend_from_slice(tail);
    }
}

/// One field of a map in compact JSON.
struct Place<'a> {
    key: &'a [u8],
    /// The offset of the key's opening quote.
    start: usize,
    value: usize,
    /// Behind the value.
    end: usize,
}

/// The fields of the map at `start`, none of them with escapes in its name that matter here.
fn fields(json: &[u8], start: usize) -> Option<impl Iterator<Item = Place<'_>>> {
    let mut at = (json.get(start) == Some(&b'{')).then_some(start + 1)?;
    Some(std::iter::from_fn(move || {
        if json.get(at) == Some(&b',') {
            at += 1;
        }
        if json.get(at) != Some(&b'"') {
            return None;
        }
        let start = at;
        let key_end = string_end(json, at + 1);
        let value = key_end + 1;
        at = value_end(json, value);
        Some(Place { key: json.get(start + 1..key_end - 1)?, start, value, end: at })
    }))
}

/// The end of the value that begins at `at`.
fn value_end(json: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                at = string_end(json, at + 1);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layout: Option<Layout>, json: &str, want: &str, want_item: &str) {
        let layout = layout.unwrap();
        let mut out = Vec::new();
        layout.write(json.as_bytes(), "42", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
        let mut out = Vec::new();
        layout.write_item(json.as_bytes(), "42", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want_item);
    }

    #[test]
    fn built_in_objects_have_it_behind_the_uid() {
        for (json, want, want_item) in [
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"x":"}\""}},"spec":{}}"#,
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"42","labels":{"x":"}\""}},"spec":{}}"#,
                r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"42","labels":{"x":"}\""}},"spec":{}}"#,
            ),
            (
                r#"{"kind":"A","metadata":{"name":"a"},"data":[1]}"#,
                r#"{"kind":"A","metadata":{"name":"a","resourceVersion":"42"},"data":[1]}"#,
                r#"{"metadata":{"name":"a","resourceVersion":"42"},"data":[1]}"#,
            ),
            (
                r#"{"metadata":{}}"#,
                r#"{"metadata":{"resourceVersion":"42"}}"#,
                r#"{"metadata":{"resourceVersion":"42"}}"#,
            ),
            (
                r#"{"metadata":{"name":"a","resourceVersion":"7","generation":1}}"#,
                r#"{"metadata":{"name":"a","resourceVersion":"42","generation":1}}"#,
                r#"{"metadata":{"name":"a","resourceVersion":"42","generation":1}}"#,
            ),
        ] {
            check(Layout::of(json.as_bytes()), json, want, want_item);
        }
    }

    #[test]
    fn the_kind_can_be_another_one() {
        let want = r#"{"kind":"B","apiVersion":"b/v2","metadata":{"name":"a","resourceVersion":"42"},"x":1}"#;
        for json in
            [r#"{"kind":"A","apiVersion":"a/v1","metadata":{"name":"a"},"x":1}"#, r#"{"metadata":{"name":"a"},"x":1}"#]
        {
            let mut out = Vec::new();
            Layout::of(json.as_bytes()).unwrap().write_as(json.as_bytes(), "b/v2", "B", "42", &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
    }

    #[test]
    fn custom_objects_have_it_in_sorted_place() {
        let json = r#"{"apiVersion":"a/v1","data":{"metadata":{}},"kind":"A","metadata":{"name":"a","uid":"u"},"z":1}"#;
        let want = r#"{"apiVersion":"a/v1","data":{"metadata":{}},"kind":"A","metadata":{"name":"a","resourceVersion":"42","uid":"u"},"z":1}"#;
        let mut out = Vec::new();
        Layout::of_sorted(json.as_bytes()).unwrap().write(json.as_bytes(), "42", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn anything_else_has_no_place_for_it() {
        for json in ["", "[]", "{}", r#"{"a":1}"#, r#"{"metadata":1}"#, r#"{"metadata"#, r#"{"metadata":{"#] {
            let layout = Layout::of(json.as_bytes());
            assert!(layout.is_none() || json.ends_with('{'), "{json}");
        }
    }
}
