//! What commands that look after data print, as text or as JSON, and what they end with.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgMatches};
use object::Value;
use storage_embedded::OpenError;

use super::{name, say};

/// Exit codes; docs/reference/commands.md has them too. clap ends with 2 when the command line is wrong.
const FAILED: u8 = 1;
const DAMAGED: u8 = 3;
const IN_USE: u8 = 4;

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Text,
    /// One JSON object to a line.
    Json,
}

impl Output {
    const NAME: &'static str = "output";

    pub fn arg() -> Arg {
        Arg::new(Output::NAME)
            .long(Output::NAME)
            .short('o')
            .value_name("FORMAT")
            .value_parser(["text", "json"])
            .default_value("text")
            .help("How to print the result, and on standard error how far the work is: text, or json with an object to a line")
    }

    /// The format that was asked for; text of a command that has no such flag.
    pub fn of(matches: &ArgMatches) -> Output {
        match matches.try_get_one::<String>(Output::NAME) {
            Ok(Some(format)) if format == "json" => Output::Json,
            _ => Output::Text,
        }
    }

    /// Prints a result.
    pub fn say(self, text: &str, result: &Value) {
        match self {
            Output::Text => say(text),
            Output::Json => say(&json(result)),
        }
    }
}

pub fn json(value: &Value) -> String {
    let mut bytes = Vec::new();
    codec::json::encode(value, None, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why a command failed, and the exit code that says so to scripts.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    why: String,
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure { code: FAILED, why }
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        why.to_string().into()
    }
}

/// A store that cannot be used, and what can be done about it.
impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        Failure { code: code_of(&error), why: apiserver::admin::with_way_out(&error) }
    }
}

impl Failure {
    /// A store that is damaged, with a text of its own.
    pub fn damaged(why: String) -> Failure {
        Failure { code: DAMAGED, why }
    }

    /// The same failure, told otherwise.
    pub fn told(error: &OpenError, why: String) -> Failure {
        Failure { code: code_of(error), why }
    }

    /// Tells it on standard error and ends the process with its code.
    pub fn end(&self, output: Output) -> ExitCode {
        let line = match output {
            Output::Text => format!("{}: {}", name(), self.why),
            Output::Json => json(&object::value!({"code": (i64::from(self.code)), "error": (self.why.clone())})),
        };
        let _ = writeln!(std::io::stderr(), "{line}");
        ExitCode::from(self.code)
    }
}

fn code_of(error: &OpenError) -> u8 {
    match error {
        OpenError::Locked { .. } => IN_USE,
        error if error.is_damage() => DAMAGED,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_documented() {
        let page = include_str!("../../../docs/reference/commands.md");
        for code in [FAILED, DAMAGED, IN_USE] {
            assert!(page.contains(&format!("\n| {code} | ")), "{code}");
        }
    }

    #[test]
    fn failures_have_their_codes() {
        let path = std::path::PathBuf::from("store");
        for (error, code) in [
            (OpenError::Locked { path: path.clone() }, IN_USE),
            (OpenError::Corrupt { path: path.clone(), message: "torn".into() }, DAMAGED),
            (OpenError::Exists { path }, FAILED),
        ] {
            assert_eq!(Failure::from(error).code, code);
        }
        assert_eq!(Failure::from("no").code, FAILED);
    }
}
