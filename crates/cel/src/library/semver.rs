//! `kubernetes.Semver`: semantic versions.

use std::cmp::Ordering;
use std::fmt;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::opaque::Opaque;
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.Semver", since: Version { major: 1, minor: 33 }, until: None, overloads: OVERLOADS };

const SEMVER: Type = Type::Abstract("kubernetes.Semver");

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!("semver", "string_to_semver", (Type::String) -> SEMVER, semver),
    overload!("semver", "string_bool_to_semver", (Type::String, Type::Bool) -> SEMVER, semver),
    overload!("isSemver", "is_semver_string", (Type::String) -> Type::Bool, is_semver),
    overload!("isSemver", "is_semver_string_bool", (Type::String, Type::Bool) -> Type::Bool, is_semver),
    overload!(member "isGreaterThan", "semver_is_greater_than", (SEMVER, SEMVER) -> Type::Bool, is_greater),
    overload!(member "isLessThan", "semver_is_less_than", (SEMVER, SEMVER) -> Type::Bool, is_less),
    overload!(member "compareTo", "semver_compare_to", (SEMVER, SEMVER) -> Type::Int, compare),
    overload!(member "major", "semver_major", (SEMVER) -> Type::Int, major),
    overload!(member "minor", "semver_minor", (SEMVER) -> Type::Int, minor),
    overload!(member "patch", "semver_patch", (SEMVER) -> Type::Int, patch),
];

/// A version; the build, which follows a `+`, does not count in comparisons.
#[derive(Clone, Debug)]
pub struct Semver {
    numbers: [u64; 3],
    prerelease: Vec<PrereleasePart>,
    build: Option<String>,
}

/// A part of a prerelease. Numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrereleasePart {
    Number(u64),
    Word(String),
}

impl Semver {
    /// Reads a version with the errors of the package that upstream uses.
    fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_string());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_string());
        };
        let (major, minor) = (number("Major", major)?, number("Minor", minor)?);
        let (rest, build) = cut(rest, '+');
        let (patch, prerelease) = cut(rest, '-');
        let patch = number("Patch", patch)?;
        let prerelease = prerelease.map_or(Ok(Vec::new()), |text| text.split('.').map(part).collect())?;
        for part in build.into_iter().flat_map(|build: &str| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_string());
            }
            if !part.bytes().all(is_word) {
                return Err(format!("Invalid character(s) found in build meta data {}", object::quote(part)));
            }
        }
        Ok(Semver { numbers: [major, minor, patch], prerelease, build: build.map(str::to_string) })
    }

    /// Reads a version that may begin with a `v`, have leading zeros or lack its last numbers.
    fn parse_normalized(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_string());
            }
            parts.resize(3, "0".to_string());
        }
        Semver::parse(&parts.join("."))
    }

    pub fn compare(&self, other: &Semver) -> Ordering {
        let released = self.prerelease.is_empty().cmp(&other.prerelease.is_empty());
        self.numbers.cmp(&other.numbers).then(released).then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (at, part) in self.prerelease.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                PrereleasePart::Number(number) => write!(f, "{number}")?,
                PrereleasePart::Word(word) => f.write_str(word)?,
            }
        }
        match &self.build {
            Some(build) => write!(f, "+{build}"),
            None => Ok(()),
        }
    }
}

fn cut(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_string();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_string() } else { format!("0{trimmed}") }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    let quoted = object::quote(text);
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {quoted}", name.to_ascii_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {quoted}"));
    }
    unsigned(text)
}

/// Digits, or none, as a number.
fn unsigned(digits: &str) -> Result<u64, String> {
    digits.parse().map_err(|_| {
        let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {reason}", object::quote(digits))
    })
}

fn part(text: &str) -> Result<PrereleasePart, String> {
    let quoted = object::quote(text);
    if text.is_empty() {
        return Err("Prerelease is empty".to_string());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {quoted}"));
        }
        return unsigned(text).map(PrereleasePart::Number);
    }
    if !text.bytes().all(is_word) {
        return Err(format!("Invalid character(s) found in prerelease {quoted}"));
    }
    Ok(PrereleasePart::Word(text.to_string()))
}

fn is_word(byte: u8) -> bool {
    byte == b'-' || byte.is_ascii_alphanumeric()
}

/// Reads the text in the first argument, tolerantly if the second says so.
fn read<'a>(args: &[Val<'a>]) -> Outcome<'a, Result<Semver, String>> {
    match *args {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => Ok(Semver::parse(text)),
        [Val::String(text), Val::Bool(true)] => Ok(Semver::parse_normalized(text)),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

fn semver<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let version = read(args)?.map_err(|error| arena.error(format_args!("{error}")))?;
    Ok(Val::Opaque(Opaque::Semver(arena.keep(version))))
}

fn is_semver<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    Ok(Val::Bool(read(args)?.is_ok()))
}

fn is_greater<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    order(args).map(|order| Val::Bool(order.is_gt()))
}

fn is_less<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    order(args).map(|order| Val::Bool(order.is_lt()))
}

fn compare<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    order(args).map(|order| Val::Int(order as i64))
}

fn order<'a>(args: &[Val<'a>]) -> Outcome<'a, Ordering> {
    match *args {
        [Val::Opaque(Opaque::Semver(a)), Val::Opaque(Opaque::Semver(b))] => Ok(a.compare(b)),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

fn major<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    nth(args, 0)
}

fn minor<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    nth(args, 1)
}

fn patch<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    nth(args, 2)
}

/// One of the numbers; as in Go, one that is too large for an integer wraps around.
fn nth<'a>(args: &[Val<'a>], index: usize) -> Outcome<'a> {
    match *args {
        [Val::Opaque(Opaque::Semver(version))] => Ok(Val::Int(version.numbers[index] as i64)),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}
