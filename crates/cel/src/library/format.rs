//! `kubernetes.format`: named formats of texts.

use object::names;

use crate::arena::Arena;
use crate::cost::{REGEX_LENGTH, STRING_TRAVERSAL};
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::opaque::Opaque;
use crate::overload;
use crate::types::{Link, Type};
use crate::val::Val;
use object::url::Url;

pub static LIBRARY: Library =
    Library { name: "kubernetes.format", since: Version { major: 1, minor: 31 }, until: None, overloads: OVERLOADS };

const FORMAT: Type = Type::Abstract("kubernetes.NamedFormat");
const STRINGS: Type = Type::list_of(&Type::String);
const PROBLEMS: Type = Type::Optional(Link::Static(&STRINGS));
const MAYBE_FORMAT: Type = Type::Optional(Link::Static(&FORMAT));

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!(member "validate", "format-validate", (FORMAT, Type::String) -> PROBLEMS, validate, cost: cost),
    overload!("format.named", "format-named", (Type::String) -> MAYBE_FORMAT, named),
    overload!("format.dns1123Label", "format.dns1123Label", () -> FORMAT, |_, _| Ok(format(&FORMATS[0]))),
    overload!("format.dns1123Subdomain", "format.dns1123Subdomain", () -> FORMAT, |_, _| Ok(format(&FORMATS[1]))),
    overload!("format.dns1035Label", "format.dns1035Label", () -> FORMAT, |_, _| Ok(format(&FORMATS[2]))),
    overload!("format.qualifiedName", "format.qualifiedName", () -> FORMAT, |_, _| Ok(format(&FORMATS[3]))),
    overload!("format.dns1123LabelPrefix", "format.dns1123LabelPrefix", () -> FORMAT, |_, _| Ok(format(&FORMATS[4]))),
    overload!("format.dns1123SubdomainPrefix", "format.dns1123SubdomainPrefix", () -> FORMAT, |_, _| Ok(format(&FORMATS[5]))),
    overload!("format.dns1035LabelPrefix", "format.dns1035LabelPrefix", () -> FORMAT, |_, _| Ok(format(&FORMATS[6]))),
    overload!("format.labelValue", "format.labelValue", () -> FORMAT, |_, _| Ok(format(&FORMATS[7]))),
    overload!("format.uri", "format.uri", () -> FORMAT, |_, _| Ok(format(&FORMATS[8]))),
    overload!("format.uuid", "format.uuid", () -> FORMAT, |_, _| Ok(format(&FORMATS[9]))),
    overload!("format.byte", "format.byte", () -> FORMAT, |_, _| Ok(format(&FORMATS[10]))),
    overload!("format.date", "format.date", () -> FORMAT, |_, _| Ok(format(&FORMATS[11]))),
    overload!("format.datetime", "format.datetime", () -> FORMAT, |_, _| Ok(format(&FORMATS[12]))),
];

/// A format that texts can be checked against.
pub struct Format {
    /// By which `format.named` finds it.
    name: &'static str,
    /// The name that messages have for it.
    pub title: &'static str,
    /// The length of the regular expression by which upstream counts the cost of a check.
    regex_size: u64,
    check: fn(&str) -> Vec<String>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Format({})", self.name)
    }
}

#[rustfmt::skip]
static FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", title: "DNS1123Label", regex_size: 30, check: |text| names::name_is_dns_label(text, false) },
    Format { name: "dns1123Subdomain", title: "DNS1123Subdomain", regex_size: 60, check: |text| names::name_is_dns_subdomain(text, false) },
    Format { name: "dns1035Label", title: "DNS1035Label", regex_size: 30, check: |text| names::name_is_dns1035_label(text, false) },
    Format { name: "qualifiedName", title: "QualifiedName", regex_size: 60, check: names::label_key },
    Format { name: "dns1123LabelPrefix", title: "DNS1123LabelPrefix", regex_size: 30, check: |text| names::name_is_dns_label(text, true) },
    Format { name: "dns1123SubdomainPrefix", title: "DNS1123SubdomainPrefix", regex_size: 60, check: |text| names::name_is_dns_subdomain(text, true) },
    Format { name: "dns1035LabelPrefix", title: "DNS1035LabelPrefix", regex_size: 30, check: |text| names::name_is_dns1035_label(text, true) },
    Format { name: "labelValue", title: "LabelValue", regex_size: 40, check: names::label_value },
    Format { name: "uri", title: "URI", regex_size: 1103, check: uri },
    Format { name: "uuid", title: "uuid", regex_size: 70, check: |text| openapi("uuid", text, "does not match the UUID format") },
    Format { name: "byte", title: "byte", regex_size: 84, check: |text| openapi("byte", text, "invalid base64") },
    Format { name: "date", title: "date", regex_size: 71, check: |text| openapi("date", text, "invalid date") },
    Format { name: "datetime", title: "datetime", regex_size: 71, check: |text| openapi("datetime", text, "invalid datetime") },
];

fn format<'a>(format: &'static Format) -> Val<'a> {
    Val::Opaque(Opaque::Format(format))
}

fn uri(text: &str) -> Vec<String> {
    Url::parse_request_uri(text).err().into_iter().collect()
}

/// A format of OpenAPI schemas.
fn openapi(format: &str, text: &str, problem: &str) -> Vec<String> {
    if schema::check_format(format, text) == Some(true) { Vec::new() } else { vec![problem.to_string()] }
}

fn named<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(name)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let found = FORMATS.iter().find(|format| format.name == name);
    Ok(Val::Optional(found.map(|found| arena.copy(format(found)))))
}

fn validate<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Format(format)), Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let problems = (format.check)(text);
    if problems.is_empty() {
        return Ok(Val::Optional(None));
    }
    let problems: Vec<Val<'a>> = problems.iter().map(|problem| arena.string_val(problem)).collect();
    Ok(Val::Optional(Some(arena.copy(arena.list_val(&problems)))))
}

/// As a match of a regular expression.
fn cost<'a>(args: &[Val<'a>], _: Val<'a>, _: &'a Arena) -> u64 {
    let [Val::Opaque(Opaque::Format(format)), text] = args else { return 1 };
    let text = ((1 + text.size()) as f64 * STRING_TRAVERSAL).ceil() as u64;
    text.saturating_mul((format.regex_size as f64 * REGEX_LENGTH).ceil() as u64)
}
