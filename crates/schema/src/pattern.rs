//! The `pattern` of a schema: a regular expression of Go's.

use std::fmt;
use std::sync::{Arc, OnceLock};

use goregex::Regex;
use object::Str;

/// A `pattern` of a schema, compiled when first used.
#[derive(Clone)]
pub struct Pattern {
    source: Str,
    compiled: Arc<OnceLock<Option<Regex>>>,
}

impl Pattern {
    /// A pattern that is compiled when it is first used.
    pub fn new(source: impl Into<Str>) -> Pattern {
        Pattern { source: source.into(), compiled: Arc::default() }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// What Go says about a pattern that is no regular expression.
    pub fn problem(&self) -> Option<String> {
        goregex::check(&self.source).err().map(|error| error.to_string())
    }

    /// Whether some part of `text` matches; none for a pattern that is no regular expression.
    pub fn matches(&self, text: &str) -> Option<bool> {
        let compiled = self.compiled.get_or_init(|| Regex::new(&self.source).ok());
        compiled.as_ref().map(|regex| regex.is_match(text))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn means_what_go_means() {
        for (pattern, text, want) in [
            ("^[a-z]+$", "abc", Some(true)),
            ("^[a-z]+$", "abC", Some(false)),
            (r"^\d$", "٣", Some(false)),
            (r"\bcat\b", "écat", Some(true)),
            (r"^a{,2}$", "a{,2}", Some(true)),
            (r"^[a&&b]+$", "a&b", Some(true)),
            ("(", "", None),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), want, "{pattern:?} on {text:?}");
        }
        assert_eq!(Pattern::new("a").problem(), None);
        let problem = "error parsing regexp: invalid nested repetition operator: `**`";
        assert_eq!(Pattern::new("a**").problem().as_deref(), Some(problem));
    }
}
