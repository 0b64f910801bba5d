//! [`Given`]: what a flag was given, read as the type it is of. The last value counts where one is wanted.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use object::duration;

/// The values of one flag, in the order they were given.
#[derive(Clone, Copy)]
pub struct Given<'a>(pub &'a [String]);

impl<'a> Given<'a> {
    pub fn last(self) -> &'a str {
        self.0.last().map_or("", String::as_str)
    }

    /// All values, those with commas taken apart.
    pub fn list(self) -> impl Iterator<Item = String> + 'a {
        self.0.iter().flat_map(|value| value.split(',')).filter(|item| !item.is_empty()).map(str::to_string)
    }

    /// None takes a file away.
    pub fn path(self) -> Option<PathBuf> {
        Some(PathBuf::from(self.last())).filter(|path| !path.as_os_str().is_empty())
    }

    /// The value as a type of Rust's; `why_not` is what the error says of it.
    pub fn read<T: FromStr>(self, why_not: &str) -> Result<T, String> {
        let text = self.last();
        text.parse().map_err(|_| format!("{text} {why_not}"))
    }

    pub fn boolean(self) -> Result<bool, String> {
        boolean(self.last())
    }

    pub fn number(self) -> Result<i64, String> {
        let text = self.last();
        text.parse().map_err(|_| format!("strconv.ParseInt: parsing {}: invalid syntax", object::quote(text)))
    }

    /// A duration that is not negative.
    pub fn span(self) -> Result<Duration, String> {
        let nanos = u64::try_from(self.nanos()?);
        nanos.map(Duration::from_nanos).map_err(|_| format!("{} must not be negative", self.last()))
    }

    /// A duration; a negative one is none at all.
    pub fn span_or_zero(self) -> Result<Duration, String> {
        Ok(Duration::from_nanos(u64::try_from(self.nanos()?).unwrap_or(0)))
    }

    fn nanos(self) -> Result<i64, String> {
        duration::Duration::parse(self.last()).map(|parsed| parsed.0).map_err(|error| error.to_string())
    }
}

/// As Go reads a boolean.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "t" | "T" | "TRUE" | "True" => Ok(true),
        "false" | "0" | "f" | "F" | "FALSE" | "False" => Ok(false),
        other => Err(format!("strconv.ParseBool: parsing {}: invalid syntax", object::quote(other))),
    }
}
