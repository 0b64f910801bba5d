//! [`Shard`]: the part of a resource's objects that one client of several lists and watches (`shardSelector`).

use std::fmt;

use cache::Header;

/// The longest selector that is read.
const MAX_BYTES: usize = 16 * 1024;

/// Ranges of hashes of one field: `shardRange(object.metadata.uid, '0x…', '0x…') || …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    field: Field,
    ranges: Vec<HashRange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

/// From `start` up to but not including `end`, which may be 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HashRange {
    start: u128,
    end: u128,
}

impl Shard {
    /// Reads a shard selector.
    pub fn parse(text: &str) -> Result<Shard, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".into());
        }
        if text.len() > MAX_BYTES {
            return Err(format!("CEL parse error: expression exceeds {MAX_BYTES} bytes"));
        }
        let mut shard: Option<Shard> = None;
        for part in text.split("||") {
            let (field, range) = parse_call(part)?;
            match &mut shard {
                None => shard = Some(Shard { field, ranges: vec![range] }),
                Some(shard) if shard.field == field => shard.ranges.push(range),
                Some(shard) => {
                    let (first, other) = (shard.field.path(), field.path());
                    return Err(format!("all shard ranges must use the same field, got {first:?} and {other:?}"));
                }
            }
        }
        shard.ok_or_else(|| "CEL parse error: empty expression".into())
    }

    /// Whether an object is in the shard.
    pub fn matches(&self, header: &Header) -> bool {
        let hash = u128::from(match self.field {
            Field::Uid => header.uid_hash,
            Field::Namespace => hash(&header.namespace),
        });
        self.ranges.iter().any(|range| (range.start..range.end).contains(&hash))
    }
}

/// As lists repeat it in `metadata.shardInfo`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let or = if index > 0 { " || " } else { "" };
            write!(f, "{or}shardRange({}, '0x{:016x}', '0x{:016x}')", self.field.path(), range.start, range.end)?;
        }
        Ok(())
    }
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Field::Uid => "object.metadata.uid",
            Field::Namespace => "object.metadata.namespace",
        }
    }
}

/// FNV-1a with 64 bits, as upstream hashes fields.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn parse_call(text: &str) -> Result<(Field, HashRange), String> {
    let text = text.trim();
    let (function, rest) = text
        .split_once('(')
        .ok_or_else(|| "unexpected expression kind; expected shardRange() call or || operator".to_string())?;
    let function = function.trim();
    if function != "shardRange" {
        return Err(format!("unsupported function {function:?}; only shardRange() and || are allowed"));
    }
    let inside = rest.strip_suffix(')').ok_or("CEL parse error: Syntax error: missing ')'")?;
    let arguments: Vec<&str> = inside.split(',').map(str::trim).collect();
    let [field, start, end] = arguments[..] else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let field = match field {
        "object.metadata.uid" => Field::Uid,
        "object.metadata.namespace" => Field::Namespace,
        other => {
            return Err(format!(
                "unsupported field path {other:?}; supported: object.metadata.uid, object.metadata.namespace"
            ));
        }
    };
    let (start, end) = (parse_hash(start, "hexStart")?, parse_hash(end, "hexEnd")?);
    if start >= end {
        return Err(format!("shard range start 0x{start:016x} must be less than end 0x{end:016x}"));
    }
    Ok((field, HashRange { start, end }))
}

/// `'0x0123456789abcdef'`, or 2^64.
fn parse_hash(literal: &str, name: &str) -> Result<u128, String> {
    let quoted = |quote: char| literal.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    let text =
        quoted('\'').or_else(|| quoted('"')).ok_or_else(|| format!("{name} must be a string literal (e.g. '0xff')"))?;
    let hex = text.strip_prefix("0x").ok_or_else(|| format!("{name} must have '0x' prefix, got {text:?}"))?;
    if hex.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if hex.len() > 17 {
        return Err(format!("{name}: hex value too long ({} chars, max 17): {hex:?}", hex.len()));
    }
    if let Some(wrong) = hex.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!("{name}: invalid hex character {:?} in {text:?}", wrong.to_string()));
    }
    if hex.len() == 17 && text != "0x10000000000000000" {
        return Err(format!("{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {text:?}"));
    }
    if hex.len() < 16 {
        let meant = format!("0x{hex:0>16}");
        return Err(format!("{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean {meant:?}?)"));
    }
    u128::from_str_radix(hex, 16).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    const HIGH: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

    #[test]
    fn selectors_are_read_and_repeated() {
        let check = |text: &str, want: Result<&str, &str>| {
            let got = Shard::parse(text).map(|shard| shard.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
        };
        let both = format!("{LOW} || {HIGH}");
        check(LOW, Ok(LOW));
        check(&format!("  {LOW}||{HIGH} "), Ok(&both));
        check("shardRange(object.metadata.uid,\"0x0000000000000000\",\"0x8000000000000000\")", Ok(LOW));
        check("", Err("empty shard selector is not allowed; omit the parameter for unfiltered lists"));
        check("foo(1)", Err("unsupported function \"foo\"; only shardRange() and || are allowed"));
        check("true", Err("unexpected expression kind; expected shardRange() call or || operator"));
        check("shardRange(object.metadata.uid)", Err("shardRange() requires exactly 3 arguments, got 1"));
        let name = "shardRange(object.metadata.name, '0x0000000000000000', '0x8000000000000000')";
        let unsupported = "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, \
                           object.metadata.namespace";
        check(name, Err(unsupported));
        let short =
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)";
        check("shardRange(object.metadata.uid, '0x0', '0x8')", Err(short));
        let reversed = "shardRange(object.metadata.uid, '0x8000000000000000', '0x0000000000000000')";
        check(reversed, Err("shard range start 0x8000000000000000 must be less than end 0x0000000000000000"));
        let mixed = format!("{LOW} || {}", HIGH.replace("uid", "namespace"));
        let why =
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"";
        check(&mixed, Err(why));
    }

    #[test]
    fn every_object_is_in_one_shard() {
        let shards = [LOW, HIGH].map(|text| Shard::parse(text).unwrap());
        for number in 0..200 {
            let header = Header { uid_hash: hash(&format!("uid-{number}")), ..Header::default() };
            assert_eq!(shards.iter().filter(|shard| shard.matches(&header)).count(), 1, "{number}");
        }
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
