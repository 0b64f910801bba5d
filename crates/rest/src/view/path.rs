//! [`FieldPath`]: where something is in an object: `spec.replicas`, `metadata.labels['a.b/c']`, `status.conditions[type=Ready].status`.

use std::fmt;

use object::{Str, Value};

/// How many paths one parameter may have, how many steps a path, and how long the text of all of them may be.
const PATHS_MAX: usize = 32;
const STEPS_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 4 * 1024;

/// A path of one step at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(pub Vec<PathStep>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// The field, or entry of a map, with this name; below a list, that of each item.
    Field(Str),
    /// The items of a list that have this text in this field.
    Items(Str, Str),
}

impl FieldPath {
    /// Reads paths with commas between them.
    pub fn list(text: &str) -> Result<Vec<FieldPath>, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("has more than {TEXT_BYTES_MAX} bytes"));
        }
        let paths: Vec<FieldPath> = split(text).into_iter().map(FieldPath::parse).collect::<Result<_, _>>()?;
        if paths.len() > PATHS_MAX { Err(format!("has more than {PATHS_MAX} paths")) } else { Ok(paths) }
    }

    /// Reads one path.
    pub fn parse(text: &str) -> Result<FieldPath, String> {
        let wrong = |why: &str| format!("{} {why}", object::quote(text));
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            // A bracket may follow another one, and nothing else may be empty.
            if name.is_empty() && (steps.is_empty() || !after.starts_with('[')) {
                return Err(wrong("has an empty field name"));
            }
            if name.contains([']', '\'', '"', ' ']) {
                return Err(wrong("has a field name that must be in brackets and quotes"));
            }
            if !name.is_empty() {
                steps.push(PathStep::Field(name.into()));
            }
            rest = after;
            while let Some(inside) = rest.strip_prefix('[') {
                let (step, after) =
                    bracket(inside).ok_or_else(|| wrong("has brackets without ['name'] or [field=text]"))?;
                steps.push(step);
                rest = after;
            }
            if steps.len() > STEPS_MAX {
                return Err(wrong(&format!("has more than {STEPS_MAX} steps")));
            }
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.is_empty() => return Ok(FieldPath(steps)),
                None => return Err(wrong("has something else than a dot after brackets")),
            }
        }
    }

    /// The value that is there. A list has no fields of its own, so that a path leads to one value or to none.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            PathStep::Field(name) => value.as_map()?.get(name),
            PathStep::Items(field, text) => value.as_list()?.iter().find(|item| item.str_at(&[field]) == text.as_str()),
        })
    }

    /// The path with dots, if it has nothing but fields whose names have none.
    pub fn dotted(&self) -> Option<Str> {
        let names = self.0.iter().map(|step| match step {
            PathStep::Field(name) if !name.contains('.') => Some(name.as_str()),
            _ => None,
        });
        Some(names.collect::<Option<Vec<&str>>>()?.join(".").into())
    }
}

/// As it could have been written.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Field(name) if name.contains(['.', '[', ']', ' ', ',', '"']) => write!(f, "['{name}']")?,
                PathStep::Field(name) if name.contains('\'') => write!(f, "[\"{name}\"]")?,
                PathStep::Field(name) => write!(f, "{}{name}", if at > 0 { "." } else { "" })?,
                PathStep::Items(field, text) => write!(f, "[{field}={text}]")?,
            }
        }
        Ok(())
    }
}

/// The parts of a text between commas that are outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, char) in text.char_indices() {
        match char {
            '[' => is_inside = true,
            ']' => is_inside = false,
            ',' if !is_inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Reads what stands after an opening bracket: a step, and what follows the closing bracket.
fn bracket(text: &str) -> Option<(PathStep, &str)> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (name, after) = quoted.split_once(quote)?;
            return Some((PathStep::Field(name.into()), after.strip_prefix(']')?)).filter(|_| !name.is_empty());
        }
    }
    let (inside, after) = text.split_once(']')?;
    let (field, wanted) = inside.split_once('=')?;
    let is_plain = !field.is_empty() && !inside.contains(['[', '\'', '"']);
    is_plain.then(|| (PathStep::Items(field.into(), wanted.into()), after))
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn paths_are_read() {
        let object = value!({
            "spec": {"replicas": 3, "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]},
            "metadata": {"labels": {"a.b/c": "d", "e": "f"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}
        });
        let check = |text: &str, want: Result<Value, &str>| {
            let got = FieldPath::parse(text).map(|path| path.find(&object).cloned().unwrap_or(Value::Null));
            assert_eq!(got, want.map_err(|why| format!("{} {why}", object::quote(text))), "{text}");
        };
        check("spec.replicas", Ok(3.into()));
        check("spec.containers[name=b].image", Ok("y".into()));
        check("spec.containers[name=c].image", Ok(Value::Null));
        check("spec.containers.image", Ok(Value::Null));
        check("metadata.labels['a.b/c']", Ok("d".into()));
        check("metadata.labels[\"e\"]", Ok("f".into()));
        check("metadata['labels']['e']", Ok("f".into()));
        check("status.conditions[type=Ready].status", Ok("True".into()));
        check("spec.nothing.at.all", Ok(Value::Null));
        check("", Err("has an empty field name"));
        check(".a", Err("has an empty field name"));
        check("a..b", Err("has an empty field name"));
        check("a.", Err("has an empty field name"));
        check("['a']", Err("has an empty field name"));
        check("a[b]", Err("has brackets without ['name'] or [field=text]"));
        check("a[=b]", Err("has brackets without ['name'] or [field=text]"));
        check("a['b]", Err("has brackets without ['name'] or [field=text]"));
        check("a['']", Err("has brackets without ['name'] or [field=text]"));
        check("a[", Err("has brackets without ['name'] or [field=text]"));
        check("a]", Err("has a field name that must be in brackets and quotes"));
        check("a['b']c", Err("has something else than a dot after brackets"));
        check(&"a.".repeat(40), Err("has more than 16 steps"));
    }

    #[test]
    fn lists_of_paths_have_bounds() {
        let count = |text: &str| FieldPath::list(text).map(|paths| paths.len());
        assert_eq!(count("a,b.c,d[e=f,g].h,i['j,k']"), Ok(4));
        assert_eq!(count("a,,b"), Err("\"\" has an empty field name".into()));
        assert_eq!(count(&["a"; 33].join(",")), Err("has more than 32 paths".into()));
        assert_eq!(count(&"a".repeat(5000)), Err("has more than 4096 bytes".into()));
    }

    /// No text makes the reader fail, and what it reads is as long as it says.
    #[test]
    fn any_text_is_read_or_refused() {
        let mut state = 1u64;
        let alphabet: Vec<char> = "ab.['\"]=,é ".chars().collect();
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 14 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            if let Ok(paths) = FieldPath::list(&text) {
                assert!(paths.iter().all(|path| matches!(path.0.first(), Some(PathStep::Field(_)))), "{text}");
                let again: Vec<_> = paths.iter().map(|path| FieldPath::parse(&path.to_string())).collect();
                assert_eq!(again, paths.into_iter().map(Ok).collect::<Vec<_>>(), "{text}");
            }
        }
    }
}
