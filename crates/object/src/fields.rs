//! Field selectors: `metadata.name=a,status.phase!=Running`, as the `fieldSelector` of a list has them.

use std::collections::BTreeMap;
use std::fmt;

/// What the fields of an object must be; all of it must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector {
    requirements: Vec<Requirement>,
    terms: Vec<Term>,
}

/// All that is asked of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    /// The value that it must have.
    equals: Option<String>,
    /// Whether it must have several values, so that nothing passes.
    contradictory: bool,
    /// The values that it must not have, sorted.
    none_of: Vec<String>,
}

/// One term of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The name of the field.
    pub field: String,
    /// How it is compared.
    pub operator: Operator,
    /// The value it is compared with.
    pub value: String,
}

/// How a field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The field has the value.
    Equals,
    /// The field has another value.
    NotEquals,
}

/// Why a text is no field selector, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator {
        /// The whole selector.
        selector: String,
        /// The term without an operator.
        term: String,
    },
    /// A backslash stands before a character that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    BadEscape(String),
    /// A character that needs a backslash has none. Upstream prints the character's number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

impl Selector {
    /// The selector that any object passes.
    pub fn everything() -> Selector {
        Selector::default()
    }

    /// A selector for objects whose field has this value.
    pub fn equals(field: impl Into<String>, value: impl Into<String>) -> Selector {
        Selector::from_iter([Requirement { field: field.into(), operator: Operator::Equals, value: value.into() }])
    }

    /// Terms between commas, each a field, an operator and a value in which `\`, `,` and `=` stand behind a backslash.
    pub fn parse(selector: &str) -> Result<Selector, ParseError> {
        let mut terms = split_terms(selector);
        // Upstream sorts the terms as text, so that selectors which say the same print the same.
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let (field, operator, value) = split_term(term)
                .ok_or_else(|| ParseError::NoOperator { selector: selector.to_string(), term: term.to_string() })?;
            requirements.push(Requirement { field: field.to_string(), operator, value: unescape(value)? });
        }
        // A term that says nothing, such as `=`, asks for nothing.
        requirements.retain(|requirement| !requirement.field.is_empty() || !requirement.value.is_empty());
        Ok(Selector::from_iter(requirements))
    }

    /// Whether every object is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The terms, of which all must hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The fields that it looks at, each once.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// Whether an object passes. `lookup` gives a field's value; one that is not there counts as empty.
    pub fn matches<S: AsRef<str>>(&self, lookup: impl Fn(&str) -> Option<S>) -> bool {
        self.terms.iter().all(|term| term.allows(lookup(&term.field).as_ref().map_or("", AsRef::as_ref)))
    }

    /// The value that `field` must have, if the selector names one.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let mut exact = self.requirements.iter().filter(|requirement| requirement.operator == Operator::Equals);
        exact.find(|requirement| requirement.field == field).map(|requirement| requirement.value.as_str())
    }

    /// The selector with every field and value rewritten; a requirement whose field and value both become empty is
    /// dropped, and the first refusal ends it.
    pub fn transform<E>(
        &self,
        mut rewrite: impl FnMut(&str, &str) -> Result<(String, String), E>,
    ) -> Result<Selector, E> {
        let mut requirements = Vec::with_capacity(self.requirements.len());
        for Requirement { field, operator, value } in &self.requirements {
            let (field, value) = rewrite(field, value)?;
            if !field.is_empty() || !value.is_empty() {
                requirements.push(Requirement { field, operator: *operator, value });
            }
        }
        Ok(Selector::from_iter(requirements))
    }
}

impl FromIterator<Requirement> for Selector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Selector {
        let requirements: Vec<Requirement> = requirements.into_iter().collect();
        let mut by_field: BTreeMap<&str, Term> = BTreeMap::new();
        for requirement in &requirements {
            let term = by_field.entry(&requirement.field).or_insert_with(|| Term::of(&requirement.field));
            term.restrict(requirement);
        }
        let mut terms: Vec<Term> = by_field.into_values().collect();
        terms.iter_mut().for_each(|term| term.none_of.sort_unstable());
        Selector { requirements, terms }
    }
}

impl Term {
    fn of(field: &str) -> Term {
        Term { field: field.to_string(), equals: None, contradictory: false, none_of: Vec::new() }
    }

    fn restrict(&mut self, requirement: &Requirement) {
        let value = &requirement.value;
        match (requirement.operator, &self.equals) {
            (Operator::NotEquals, _) => self.none_of.push(value.clone()),
            (Operator::Equals, None) => self.equals = Some(value.clone()),
            (Operator::Equals, Some(known)) => self.contradictory |= known != value,
        }
    }

    fn allows(&self, value: &str) -> bool {
        !self.contradictory
            && self.equals.as_ref().is_none_or(|wanted| wanted == value)
            && self.none_of.binary_search_by(|unwanted| unwanted.as_str().cmp(value)).is_err()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Equals => "=",
            Operator::NotEquals => "!=",
        };
        write!(f, "{}{operator}{}", self.field, escape(&self.value))
    }
}

/// A value as it stands in a selector.
pub fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The value that [`escape`] was given.
pub fn unescape(text: &str) -> Result<String, ParseError> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(ParseError::BadEscape(format!("\\{other}"))),
                None => return Err(ParseError::BadEscape("\\".to_string())),
            },
            ',' | '=' => return Err(ParseError::Unescaped(c)),
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// The terms between commas that have no backslash in front.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut escaped = false;
    let is_end_of_term = |c: char| {
        let ends = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    };
    selector.split(is_end_of_term).collect()
}

/// The field, operator and value of a term, split at the first operator; a field cannot hold one.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    // Of two operators that start at the same place, the longer must come first.
    const OPERATORS: [(&str, Operator); 3] =
        [("!=", Operator::NotEquals), ("==", Operator::Equals), ("=", Operator::Equals)];
    for (at, _) in term.char_indices() {
        for (text, operator) in OPERATORS {
            if let Some(value) = term[at..].strip_prefix(text) {
                return Some((&term[..at], operator, value));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(field: &str) -> Option<&'static str> {
        match field {
            "metadata.name" => Some("a"),
            "spec.odd" => Some(r"x,y=\z"),
            _ => None,
        }
    }

    #[test]
    fn selectors_parse_match_and_print() {
        let cases = [
            ("", true, ""),
            (",,", true, ""),
            ("metadata.name=a", true, "metadata.name=a"),
            ("metadata.name==a", true, "metadata.name=a"),
            ("metadata.name!=a", false, "metadata.name!=a"),
            ("metadata.name=b", false, "metadata.name=b"),
            ("missing=", true, "missing="),
            ("missing!=", false, "missing!="),
            ("z=,metadata.name=a", true, "metadata.name=a,z="),
            (r"spec.odd=x\,y\=\\z", true, r"spec.odd=x\,y\=\\z"),
            ("=x", false, "=x"),
            ("=,!=", true, ""),
            ("missing!=a,missing!=b", true, "missing!=a,missing!=b"),
        ];
        for (text, matches, printed) in cases {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.matches(lookup), matches, "{text}");
            assert_eq!(selector.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn errors_are_upstreams() {
        let cases = [
            ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
            ("a=b,foo", "invalid selector: 'a=b,foo'; can't understand 'foo'"),
            (r"x=a\", r"invalid field selector: invalid escape sequence: \"),
            (r"x=a\b", r"invalid field selector: invalid escape sequence: \b"),
            ("x===", "invalid field selector: unescaped character in value: 61"),
            ("x=a=b", "invalid field selector: unescaped character in value: 61"),
        ];
        for (text, want) in cases {
            assert_eq!(Selector::parse(text).map_err(|e| e.to_string()), Err(want.to_string()), "{text}");
        }
        assert_eq!(
            unescape(",").map_err(|e| e.to_string()),
            Err("invalid field selector: unescaped character in value: 44".to_string())
        );
    }

    #[test]
    fn exact_matches_are_found() {
        let selector = Selector::parse("a=1,b!=2,a=3").unwrap();
        assert_eq!(selector.requires_exact_match("a"), Some("1"));
        assert_eq!(selector.requires_exact_match("b"), None);
        assert_eq!(selector.requires_exact_match("c"), None);
    }

    #[test]
    fn a_transformation_rewrites_drops_and_refuses() {
        let selector = Selector::parse("a=1,b!=2").unwrap();
        let renamed = selector.transform(|field, value| match field {
            "a" => Ok((String::new(), String::new())),
            _ => Ok::<_, ()>((field.to_uppercase(), value.to_string())),
        });
        assert_eq!(renamed.unwrap().to_string(), "B!=2");
        assert_eq!(selector.transform(|field, _| Err::<_, String>(field.to_string())), Err("a".to_string()));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_agree(terms in proptest::collection::vec(("[a-z.]{1,8}", any::<bool>(), ".{0,8}"), 0..5)) {
            let requirements = terms.into_iter().map(|(field, equals, value)| {
                let operator = if equals { Operator::Equals } else { Operator::NotEquals };
                Requirement { field, operator, value }
            });
            let printed = Selector::from_iter(requirements).to_string();
            let parsed = Selector::parse(&printed).unwrap();
            prop_assert_eq!(Selector::parse(&parsed.to_string()), Ok(parsed.clone()));
            prop_assert_eq!(parsed.to_string().len(), printed.len());
        }

        #[test]
        fn values_survive_escaping(value in ".{0,20}") {
            prop_assert_eq!(unescape(&escape(&value)), Ok(value));
        }
    }
}
