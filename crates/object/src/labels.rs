//! Label selectors: `app=web,tier in (a,b),!canary`, as the `labelSelector` of a list has them, and the LabelSelector of
//! an object given as parts.

mod parse;
mod terms;

use std::collections::BTreeSet;
use std::fmt;

use crate::errors::aggregate;
use crate::{names, quote};
use terms::Terms;

/// What the labels of an object must be; all of it must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    terms: Terms,
    /// False for the selector that nothing passes, which no requirement can say.
    selectable: bool,
}

/// A label and what is asked of it. [`Requirement::new`] checks that it makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The label has the value.
    Equals,
    /// `==`, which means the same and prints as it was written.
    DoubleEquals,
    /// The label does not have the value.
    NotEquals,
    /// The label has one of the values.
    In,
    /// The label has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The label is a larger integer.
    GreaterThan,
    /// The label is a smaller integer.
    LessThan,
}

/// Why something is no label selector, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorError(String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectorError {}

/// An entry of a LabelSelector's `matchExpressions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression<'a> {
    /// The label.
    pub key: &'a str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'a str,
    /// The values it is compared with.
    pub values: Vec<&'a str>,
}

impl Selector {
    /// The selector that any labels pass.
    pub fn everything() -> Selector {
        Selector { requirements: Vec::new(), terms: Terms::default(), selectable: true }
    }

    /// The selector that no labels pass.
    pub fn nothing() -> Selector {
        Selector { selectable: false, ..Selector::everything() }
    }

    /// A selector for objects that meet all of these.
    pub fn new(mut requirements: Vec<Requirement>) -> Selector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let terms = Terms::of(&requirements);
        Selector { requirements, terms, selectable: true }
    }

    /// Reads the text of a query. `path` is the field the text stands in, for the messages; a query has none.
    pub fn parse(text: &str, path: Option<&str>) -> Result<Selector, SelectorError> {
        parse::requirements(text, path).map(Selector::new).map_err(SelectorError)
    }

    /// A LabelSelector by its parts; without any it matches everything. (A selector that is not there at all matches
    /// nothing: [`Selector::nothing`].)
    pub fn from_parts<'a>(
        match_labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        match_expressions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in match_labels {
            requirements.push(Requirement::new(key, Operator::Equals, vec![value.to_string()], None)?);
        }
        for Expression { key, operator, values } in match_expressions {
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError(format!("{} is not a valid label selector operator", quote(other)))),
            };
            let values = values.into_iter().map(str::to_string).collect();
            requirements.push(Requirement::new(key, operator, values, None)?);
        }
        Ok(Selector::new(requirements))
    }

    /// The LabelSelector of an object, which is there.
    pub fn from_value(selector: &crate::Value) -> Result<Selector, SelectorError> {
        let labels = selector.field("matchLabels").as_map();
        let labels =
            labels.into_iter().flat_map(|map| map.iter()).map(|(key, value)| (key, value.as_str().unwrap_or("")));
        let expressions = selector.list_at(&["matchExpressions"]).iter().map(|expression| Expression {
            key: expression.str_at(&["key"]),
            operator: expression.str_at(&["operator"]),
            values: expression.list_at(&["values"]).iter().filter_map(crate::Value::as_str).collect(),
        });
        Selector::from_parts(labels, expressions)
    }

    /// The selector that exactly these labels pass, taken as they are, as the `selector` of a Service is.
    pub fn from_set<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Selector {
        let requirements = labels.into_iter().map(|(key, value)| Requirement {
            key: key.to_string(),
            operator: Operator::Equals,
            values: vec![value.to_string()],
        });
        Selector::new(requirements.collect())
    }

    /// Whether the labels of an object pass.
    pub fn matches<'l>(&self, labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> bool {
        self.selectable && self.terms.allow(labels)
    }

    /// Whether the selector restricts nothing.
    pub fn is_empty(&self) -> bool {
        self.selectable && self.requirements.is_empty()
    }

    /// Whether no labels at all can pass.
    pub fn is_nothing(&self) -> bool {
        !self.selectable
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The selector with more to ask for.
    pub fn and(self, more: impl IntoIterator<Item = Requirement>) -> Selector {
        if !self.selectable {
            return self;
        }
        Selector::new(self.requirements.into_iter().chain(more).collect())
    }

    /// The one value that `label` must have, if the first thing asked of it is that.
    pub fn requires_exact_match(&self, label: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|requirement| requirement.key == label)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl Requirement {
    /// Checks the key, the values, and that there are as many as the operator takes. `path` is the field that holds the
    /// requirement, for the messages.
    pub fn new(
        key: &str,
        operator: Operator,
        values: Vec<String>,
        path: Option<&str>,
    ) -> Result<Requirement, SelectorError> {
        let field = |name: &str| path.map_or_else(|| name.to_string(), |path| format!("{path}.{name}"));
        let mut errors: Vec<String> = invalid_key(key, &field("key")).into_iter().collect();
        if let Some(detail) = operator.wrong_count(values.len()) {
            errors.push(format!("{}: Invalid value: {}: {detail}", field("values"), json_list(&values)));
        }
        for (i, value) in values.iter().enumerate() {
            if operator.is_comparison() && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(format!("{}[{i}]: Invalid value: {}: {detail}", field("values"), quote(value)));
            }
        }
        for (i, value) in values.iter().enumerate() {
            let messages = names::label_value(value);
            if !messages.is_empty() {
                let at = format!("{}[{i}][{key}]", field("values"));
                errors.push(format!("{at}: Invalid value: {}: {}", quote(value), messages.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(Requirement { key: key.to_string(), operator, values })
        } else {
            Err(SelectorError(aggregate(errors)))
        }
    }

    /// The label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label is compared.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values it is compared with.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

impl Operator {
    fn is_comparison(self) -> bool {
        matches!(self, Operator::GreaterThan | Operator::LessThan)
    }

    fn wrong_count(self, values: usize) -> Option<&'static str> {
        let (fine, message) = match self {
            Operator::In | Operator::NotIn => (values > 0, "for 'in', 'notin' operators, values set can't be empty"),
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                (values == 1, "exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist => {
                (values == 0, "values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan => {
                (values == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        (!fine).then_some(message)
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
    /// Values are printed sorted, whatever order they are kept in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Labels or a selector as a table cell shows them.
pub fn cell(text: impl fmt::Display) -> String {
    let text = text.to_string();
    if text.is_empty() { "<none>".to_string() } else { text }
}

/// Labels as one line: `a=1,b=2`, sorted by key.
pub fn format_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let sorted: BTreeSet<(&str, &str)> = labels.into_iter().collect();
    let pairs: Vec<String> = sorted.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// The message for a key that is no label key.
fn invalid_key(key: &str, field: &str) -> Option<String> {
    let messages = names::label_key(key);
    (!messages.is_empty()).then(|| format!("{field}: Invalid value: {}: {}", quote(key), messages.join("; ")))
}

/// A list of strings as Go's JSON prints it; no values at all are a nil slice.
fn json_list(values: &[String]) -> String {
    if values.is_empty() {
        return "null".to_string();
    }
    let values: Vec<String> = values.iter().map(|value| crate::json_string(value)).collect();
    format!("[{}]", values.join(","))
}

#[cfg(test)]
mod tests;
