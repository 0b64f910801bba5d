//! [`Problems`]: where a value does not fit its type, in upstream's words.

use std::fmt;

/// More than these are not collected: the message would only grow.
const MAX_PROBLEMS: usize = 100;

/// What is wrong and where, innermost path element last.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Problems(Vec<(String, String)>);

impl Problems {
    pub fn none() -> Problems {
        Problems::default()
    }

    pub fn one(message: impl Into<String>) -> Problems {
        Problems(vec![(String::new(), message.into())])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.0.len() >= MAX_PROBLEMS
    }

    pub fn push(&mut self, message: impl Into<String>) {
        self.add(Problems::one(message));
    }

    pub fn add(&mut self, other: Problems) {
        let room = MAX_PROBLEMS - self.0.len().min(MAX_PROBLEMS);
        self.0.extend(other.0.into_iter().take(room));
    }

    /// The same problems one step further down: `step` goes before every path.
    pub fn below(mut self, step: impl fmt::Display) -> Problems {
        for (path, _) in &mut self.0 {
            path.insert_str(0, &step.to_string());
        }
        self
    }

    pub fn into_result<T>(self, value: T) -> Result<T, Problems> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, (path, message): &(String, String)| match path.as_str() {
            "" => f.write_str(message),
            path => write!(f, "{path}: {message}"),
        };
        match self.0.as_slice() {
            [only] => write(f, only),
            several => {
                f.write_str("errors:")?;
                several.iter().try_for_each(|problem| {
                    f.write_str("\n  ")?;
                    write(f, problem)
                })
            }
        }
    }
}
