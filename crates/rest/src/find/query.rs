//! [`FindQuery`]: the parameter `q` of find: words and `key:text`, with spaces between them.

use object::{Meta, Str, Value, quote};
use registry::Resource;

use crate::view::FieldPath;

/// How long a query may be, and how many terms it may have.
const TEXT_BYTES_MAX: usize = 1024;
const TERMS_MAX: usize = 16;

/// All terms of a query, which objects must have together.
#[derive(Debug, Default, PartialEq)]
pub struct FindQuery {
    /// Parts of the name.
    pub names: Vec<Str>,
    pub namespaces: Vec<Str>,
    /// Names, kinds or short names of resources.
    pub resources: Vec<Str>,
    /// Labels, with their values if these matter.
    pub labels: Vec<(Str, Option<Str>)>,
    /// Terms for which the whole object is needed.
    pub inside: Vec<InsideTerm>,
}

/// A term about something inside of an object.
#[derive(Debug, PartialEq)]
pub enum InsideTerm {
    Uid(Str),
    /// A part of the text of any field that is called `image`.
    Image(Str),
    /// The name, `Kind/name` or uid of an owner.
    Owner(Str),
    /// A part of any text.
    Text(Str),
    /// The text at a path.
    Field {
        path: FieldPath,
        text: Str,
        /// Whether the text may be a part of what is there.
        is_part: bool,
    },
}

/// The keys that a term can have.
const KEYS: &str = "name, namespace, resource, label, uid, image, owner, text or field";

impl FindQuery {
    /// Reads a query; Err says what is wrong with it.
    pub fn parse(text: &str) -> Result<FindQuery, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("has more than {TEXT_BYTES_MAX} bytes"));
        }
        let words = words(text)?;
        if words.is_empty() {
            return Err("must not be empty".into());
        }
        if words.len() > TERMS_MAX {
            return Err(format!("has more than {TERMS_MAX} terms"));
        }
        let mut query = FindQuery::default();
        words.iter().try_for_each(|word| query.add(word))?;
        Ok(query)
    }

    fn add(&mut self, word: &QueryWord) -> Result<(), String> {
        // A colon in quotes is a part of a name.
        let colon = word.text.find(':').filter(|at| *at < word.quoted_from);
        let (key, value) = match colon {
            Some(at) => (&word.text[..at], &word.text[at + 1..]),
            None => ("name", word.text.as_str()),
        };
        let wrong = |why: &str| format!("has the term {}, which {why}", quote(&word.text));
        if value.is_empty() {
            return Err(wrong("is empty"));
        }
        match key {
            "name" => self.names.push(value.into()),
            "namespace" => self.namespaces.push(value.into()),
            "resource" => self.resources.push(value.to_ascii_lowercase().into()),
            "label" => self.labels.push(match value.split_once('=') {
                Some((key, value)) => (key.into(), Some(value.into())),
                None => (value.into(), None),
            }),
            "uid" => self.inside.push(InsideTerm::Uid(value.into())),
            "image" => self.inside.push(InsideTerm::Image(value.into())),
            "owner" => self.inside.push(InsideTerm::Owner(value.into())),
            "text" => self.inside.push(InsideTerm::Text(value.into())),
            "field" => self.inside.push(field(value).map_err(|why| wrong(&why))?),
            _ => return Err(wrong(&format!("begins with none of {KEYS}, and a colon"))),
        }
        Ok(())
    }

    /// Whether objects of a resource can be meant.
    pub fn is_about(&self, resource: &Resource) -> bool {
        self.resources.iter().all(|asked| {
            let (name, group) =
                asked.split_once('.').map_or((asked.as_str(), None), |(name, group)| (name, Some(group)));
            let is_called = |known: &str| known.eq_ignore_ascii_case(name);
            let is_named = is_called(&resource.resource.resource)
                || is_called(&resource.singular)
                || is_called(&resource.kind.kind)
                || resource.short_names.iter().any(|short| is_called(short));
            is_named && group.is_none_or(|group| group == resource.resource.group)
        })
    }

    /// Whether an object has all the labels.
    pub fn has_labels(&self, header: &cache::Header) -> bool {
        self.labels.iter().all(|(key, value)| {
            let found = header.labels.iter().find(|(known, _)| known == key);
            found.is_some_and(|(_, known)| value.as_ref().is_none_or(|value| value == known))
        })
    }
}

impl InsideTerm {
    /// Whether an object has it.
    pub fn is_in(&self, object: &Value) -> bool {
        match self {
            InsideTerm::Uid(uid) => object.uid() == uid.as_str(),
            InsideTerm::Image(part) => {
                any_text(object, None, &|field, text| field == Some("image") && text.contains(part.as_str()))
            }
            InsideTerm::Owner(owner) => object.list_at(&["metadata", "ownerReferences"]).iter().any(|reference| {
                let (kind, name) = (reference.str_at(&["kind"]), reference.str_at(&["name"]));
                let is_both = || owner.split_once('/') == Some((kind, name));
                name == owner.as_str() || reference.str_at(&["uid"]) == owner.as_str() || is_both()
            }),
            InsideTerm::Text(part) => any_text(object, None, &|_, text| text.contains(part.as_str())),
            InsideTerm::Field { path, text, is_part } => match path.find(object) {
                Some(Value::String(found)) if *is_part => found.contains(text.as_str()),
                Some(Value::String(found)) => found == text,
                Some(Value::Map(_) | Value::List(_) | Value::Null) | None => false,
                Some(scalar) => {
                    let mut json = Vec::new();
                    codec::json::encode(scalar, None, &mut json);
                    json == text.as_bytes()
                }
            },
        }
    }

    /// A text that the stored bytes of every object have which has the term, however they are encoded: one without characters that an
    /// encoding writes in another way.
    pub fn stored_text(&self) -> Option<&str> {
        let text = match self {
            InsideTerm::Uid(text) | InsideTerm::Image(text) => text,
            InsideTerm::Owner(text) => text.rsplit_once('/').map_or(text.as_str(), |(_, name)| name),
            // Times and data are not stored as they are shown.
            InsideTerm::Text(_) | InsideTerm::Field { .. } => return None,
        };
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:@".contains(&byte)).then_some(text)
    }
}

/// Whether a text of an object is meant, given the field that it is in. Who wrote which field is not looked at.
fn any_text(value: &Value, field: Option<&str>, is_meant: &dyn Fn(Option<&str>, &str) -> bool) -> bool {
    match value {
        Value::String(text) => is_meant(field, text),
        Value::List(items) => items.iter().any(|item| any_text(item, field, is_meant)),
        Value::Map(map) => {
            map.iter().any(|(name, value)| name != "managedFields" && any_text(value, Some(name), is_meant))
        }
        _ => false,
    }
}

/// `path=text`, or `path~part`.
fn field(text: &str) -> Result<InsideTerm, String> {
    let mut is_inside = false;
    let at = text.find(|char| {
        is_inside = match char {
            '[' => true,
            ']' => false,
            _ => is_inside,
        };
        !is_inside && matches!(char, '=' | '~')
    });
    let at = at.ok_or("has no = or ~ after the path")?;
    let path = FieldPath::parse(&text[..at])?;
    Ok(InsideTerm::Field { path, text: text[at + 1..].into(), is_part: text[at..].starts_with('~') })
}

/// A word, and where its first quoted character stands.
struct QueryWord {
    text: String,
    quoted_from: usize,
}

/// The words of a text. Quotation marks are around what has spaces in it.
fn words(text: &str) -> Result<Vec<QueryWord>, String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<QueryWord>, false);
    for char in text.chars() {
        if char == '"' {
            is_quoted = !is_quoted;
            let word = word.get_or_insert_with(QueryWord::new);
            word.quoted_from = word.quoted_from.min(word.text.len());
        } else if char.is_whitespace() && !is_quoted {
            words.extend(word.take());
        } else {
            word.get_or_insert_with(QueryWord::new).text.push(char);
        }
    }
    if is_quoted {
        return Err("has a quotation mark without another one".into());
    }
    words.extend(word);
    Ok(words)
}

impl QueryWord {
    fn new() -> QueryWord {
        QueryWord { text: String::new(), quoted_from: usize::MAX }
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn queries_are_read() {
        let text = |text: &str| Str::from(text);
        let query = FindQuery::parse(
            r#"web name:system:node "a:b" namespace:x resource:Pods.core label:app label:app=web uid:u image:nginx owner:Pod/p text:"two words" field:status.conditions[type=Ready].status~Tr"#,
        );
        let path = FieldPath::parse("status.conditions[type=Ready].status").unwrap();
        let want = FindQuery {
            names: vec![text("web"), text("system:node"), text("a:b")],
            namespaces: vec![text("x")],
            resources: vec![text("pods.core")],
            labels: vec![(text("app"), None), (text("app"), Some(text("web")))],
            inside: vec![
                InsideTerm::Uid(text("u")),
                InsideTerm::Image(text("nginx")),
                InsideTerm::Owner(text("Pod/p")),
                InsideTerm::Text(text("two words")),
                InsideTerm::Field { path, text: text("Tr"), is_part: true },
            ],
        };
        assert_eq!(query, Ok(want));
        for (query, why) in [
            ("", "must not be empty"),
            ("  \t", "must not be empty"),
            ("name:", r#"has the term "name:", which is empty"#),
            ("\"\"", r#"has the term "", which is empty"#),
            ("lable:x", "which begins with none of name, namespace"),
            ("field:spec.x", "which has no = or ~ after the path"),
            ("field:a..b=c", "which \"a..b\" has an empty field name"),
            ("text:\"x", "has a quotation mark without another one"),
            (&"a ".repeat(17), "has more than 16 terms"),
            (&"a".repeat(1025), "has more than 1024 bytes"),
        ] {
            assert!(
                FindQuery::parse(query).is_err_and(|got| got.contains(why)),
                "{query}: {:?}",
                FindQuery::parse(query)
            );
        }
    }

    /// No text makes the reader fail, and none of it is dropped.
    #[test]
    fn any_text_is_read_or_refused() {
        let mut state = 3u64;
        let alphabet: Vec<char> = "ab:\"=~. é[]name".chars().collect();
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 18 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            if let Ok(query) = FindQuery::parse(&text) {
                let terms = query.names.len() + query.namespaces.len() + query.resources.len();
                assert_eq!(terms + query.labels.len() + query.inside.len(), words(&text).unwrap().len(), "{text}");
            }
        }
    }

    #[test]
    fn objects_have_what_is_inside() {
        let pod = value!({
            "metadata": {
                "name": "p", "uid": "u-1", "managedFields": [{"manager": "hidden"}],
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "uid": "u-2"}]
            },
            "spec": {"replicas": 3, "containers": [{"name": "c", "image": "example.com/nginx:1.2", "args": ["two words"]}]}
        });
        for (query, want) in [
            ("uid:u-1", true),
            ("uid:u", false),
            ("image:nginx", true),
            ("image:web", false),
            ("owner:web-1", true),
            ("owner:u-2", true),
            ("owner:ReplicaSet/web-1", true),
            ("owner:Pod/web-1", false),
            ("owner:web", false),
            ("text:\"two words\"", true),
            ("text:hidden", false),
            ("text:args", false),
            ("field:spec.replicas=3", true),
            ("field:spec.replicas=4", false),
            ("field:spec.containers[name=c].image~nginx", true),
            ("field:spec.containers[name=c].image=nginx", false),
            ("field:spec.containers=x", false),
        ] {
            let inside = FindQuery::parse(query).unwrap().inside;
            assert_eq!(inside.iter().all(|term| term.is_in(&pod)), want, "{query}");
            let mut json = Vec::new();
            codec::json::encode(&pod, None, &mut json);
            let is_stored = |term: &InsideTerm| {
                term.stored_text().is_none_or(|text| memchr::memmem::find(&json, text.as_bytes()).is_some())
            };
            assert!(!want || inside.iter().all(is_stored), "{query}");
        }
    }
}
