//! The terms of a selector by label, so that looking at an object costs by the object's labels and not by the selector's terms.

use super::{Operator, Requirement};

/// The labels that a selector names, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Terms {
    labels: Vec<Label>,
    /// How many of them an object must have.
    needed: usize,
}

/// All that is asked of one label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Label {
    key: String,
    /// Whether an object without it does not pass.
    needed: bool,
    /// Whether an object with it does not pass.
    unwanted: bool,
    /// The values of which it must have one, sorted; None where any other rule allows it.
    one_of: Option<Vec<String>>,
    /// The values that it must not have, sorted.
    none_of: Vec<String>,
    /// It must be a number above the first and below the second.
    above: Option<i64>,
    below: Option<i64>,
}

impl Terms {
    /// `requirements` are sorted by key.
    pub fn of(requirements: &[Requirement]) -> Terms {
        let mut terms = Terms::default();
        for group in requirements.chunk_by(|one, next| one.key == next.key) {
            let mut label = Label { key: group[0].key.clone(), ..Label::default() };
            group.iter().for_each(|requirement| label.restrict(requirement));
            label.none_of.sort_unstable();
            terms.needed += usize::from(label.needed);
            terms.labels.push(label);
        }
        terms
    }

    /// Whether these labels, each with another key, pass.
    pub fn allow<'l>(&self, labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let mut found = 0;
        for (key, value) in labels {
            let Ok(at) = self.labels.binary_search_by(|label| label.key.as_str().cmp(key)) else { continue };
            let label = &self.labels[at];
            if !label.allows(value) {
                return false;
            }
            found += usize::from(label.needed);
        }
        found == self.needed
    }
}

impl Label {
    fn restrict(&mut self, requirement: &Requirement) {
        let Requirement { operator, values, .. } = requirement;
        match operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                let mut values = values.clone();
                values.sort_unstable();
                if let Some(known) = &self.one_of {
                    values.retain(|value| has(known, value));
                }
                self.one_of = Some(values);
                self.needed = true;
            }
            Operator::NotEquals | Operator::NotIn => self.none_of.extend_from_slice(values),
            Operator::Exists => self.needed = true,
            Operator::DoesNotExist => self.unwanted = true,
            Operator::GreaterThan | Operator::LessThan => {
                self.needed = true;
                let limit = values.first().and_then(|value| value.parse().ok());
                match (operator, limit) {
                    (Operator::GreaterThan, Some(limit)) => self.above = self.above.max(Some(limit)),
                    (_, Some(limit)) => self.below = Some(self.below.map_or(limit, |below: i64| below.min(limit))),
                    // Nothing is more or less than what is no number.
                    (_, None) => self.unwanted = true,
                }
            }
        }
    }

    fn allows(&self, value: &str) -> bool {
        let is_number_within = || {
            let number = value.parse::<i64>();
            number.is_ok_and(|number| {
                self.above.is_none_or(|above| number > above) && self.below.is_none_or(|below| number < below)
            })
        };
        !self.unwanted
            && self.one_of.as_ref().is_none_or(|allowed| has(allowed, value))
            && !has(&self.none_of, value)
            && (self.above.is_none() && self.below.is_none() || is_number_within())
    }
}

fn has(sorted: &[String], value: &str) -> bool {
    sorted.binary_search_by(|candidate| candidate.as_str().cmp(value)).is_ok()
}
