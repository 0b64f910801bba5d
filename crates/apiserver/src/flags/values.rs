//! Whether a flag's values are of its type, in the words of Go's flag library.

use std::net::IpAddr;

use object::duration;

/// The values as the rest reads them: numbers in decimal. Or the message that kube-apiserver ends with.
pub fn checked(flag: &str, kind: &str, values: Vec<String>) -> Result<Vec<String>, String> {
    values.into_iter().map(|value| one(kind, &value).map_err(|why| wrong(flag, &value, &why))).collect()
}

/// That a flag cannot be given a value.
pub fn wrong(flag: &str, value: &str, why: &str) -> String {
    let name = if flag == "v" { "-v, --v".to_string() } else { format!("--{flag}") };
    format!("invalid argument {} for \"{name}\" flag: {why}", object::quote(value))
}

fn one(kind: &str, value: &str) -> Result<String, String> {
    let failed = |function: &str, why: &str| format!("strconv.{function}: parsing {}: {why}", object::quote(value));
    match kind {
        "bool" => super::boolean(value).map(drop)?,
        "int" => {
            let number = integer(value).and_then(|number| i64::try_from(number).map_err(|_| RANGE));
            return number.map(|number| number.to_string()).map_err(|why| failed("ParseInt", why));
        }
        "uint" | "verbosity" => {
            let is_signed = value.starts_with(['-', '+']);
            let number = if is_signed { Err(SYNTAX) } else { integer(value) };
            let number = number.and_then(|number| match kind {
                "uint" => u64::try_from(number).map_err(|_| RANGE),
                _ => u32::try_from(number).map(u64::from).map_err(|_| RANGE),
            });
            return number.map(|number| number.to_string()).map_err(|why| failed("ParseUint", why));
        }
        "int32Slice" => {
            let items = value.split(',').map(|item| match item.parse::<i32>() {
                Ok(number) => Ok(number.to_string()),
                Err(_) => Err(format!("strconv.ParseInt: parsing {}: {SYNTAX}", object::quote(item))),
            });
            return Ok(items.collect::<Result<Vec<_>, _>>()?.join(","));
        }
        "float" | "float32" if value.parse::<f64>().is_err() => return Err(failed("ParseFloat", SYNTAX)),
        "duration" => {
            duration::Duration::parse(value).map_err(|error| error.to_string())?;
        }
        "ip" if !value.is_empty() && value.parse::<IpAddr>().is_err() => {
            return Err(format!("failed to parse IP: {}", object::quote(value)));
        }
        "portRange" => port_range(value)?,
        "quantity" => {
            object::quantity::Quantity::parse(value).map_err(|error| error.to_string())?;
        }
        _ => {}
    }
    Ok(value.to_string())
}

const SYNTAX: &str = "invalid syntax";
const RANGE: &str = "value out of range";

/// An integer as Go reads it without a base: `0x10`, `0o17`, `017`, `0b11` and `1_000` are some.
fn integer(text: &str) -> Result<i128, &'static str> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixed = [("0x", 16), ("0b", 2), ("0o", 8)].into_iter();
    let found = prefixed.filter_map(|(prefix, base)| Some((lower.strip_prefix(prefix)?, base))).next();
    let (digits, base) = match found {
        Some((rest, base)) => (rest.strip_prefix('_').unwrap_or(rest), base),
        None => match lower.strip_prefix('0').filter(|rest| !rest.is_empty()) {
            Some(rest) => (rest.strip_prefix('_').unwrap_or(rest), 8),
            None => (lower.as_str(), 10),
        },
    };
    let groups: Vec<&str> = digits.split('_').collect();
    if groups.iter().any(|group| group.is_empty() || !group.chars().all(|digit| digit.is_digit(base))) {
        return Err(SYNTAX);
    }
    let number = i128::from_str_radix(&groups.concat(), base).map_err(|_| RANGE)?;
    Ok(if negative { -number } else { number })
}

/// `first-last`, `first+count` or one port, as upstream's type reads it.
fn port_range(value: &str) -> Result<(), String> {
    let number = |text: &str| {
        let why = || format!("strconv.Atoi: parsing {}: {SYNTAX}", object::quote(text));
        text.parse::<i64>().map_err(|_| why())
    };
    let value = value.trim();
    let (first, last) = match (value.split_once('-'), value.split_once('+')) {
        _ if value.is_empty() => return Ok(()),
        (Some((first, last)), _) => (number(first)?, number(last)?),
        (None, Some((first, more))) => (number(first)?, number(first)? + number(more)?),
        (None, None) => (number(value)?, number(value)?),
    };
    match () {
        () if first > 65535 || last > 65535 => Err(format!("the port range cannot be greater than 65535: {value}")),
        () if last < first => Err(format!("end port cannot be less than start port: {value}")),
        () => Ok(()),
    }
}
