//! Accept headers, settled as upstream settles them.
//!
//! Clauses are taken apart and ordered as Go's `goautoneg` does it, down to its order of clauses of the same weight, and
//! parameters are read as the API server reads them: `as`, `g` and `v` ask for another kind of document.

use http::{HeaderMap, Method};
use object::{GroupResource, Status};

use crate::{Call, Media};

/// One clause of an Accept header.
#[derive(Debug, Clone, PartialEq)]
pub struct Clause<'a> {
    pub kind: &'a str,
    pub subkind: &'a str,
    weight: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// The kind of document that a clause asks for instead of the usual one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskedKind<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

/// The outcome: how to write, and what if not the usual document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen<'a> {
    pub media: Media,
    pub convert: Option<AskedKind<'a>>,
    pub pretty: bool,
    /// Which variant of a discovery document: `nopeer`, "" for the usual one.
    pub profile: &'a str,
    /// Fields that the client does not want of objects; "" for none.
    pub drop: &'a str,
}

/// The first Accept header: Go's servers do not look at more of them.
pub fn header(headers: &HeaderMap) -> &str {
    headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// The first clause that can be honoured with one of the media types on offer; `allows` says whether the document it asks
/// for can be had in that type.
pub fn choose<'a>(
    headers: &'a HeaderMap,
    query: &[(String, String)],
    offered: &[Media],
    allows: impl Fn(Media, Option<AskedKind<'a>>) -> bool,
) -> Option<Chosen<'a>> {
    let accept = header(headers);
    let pretty = wants_pretty(headers, query);
    if accept.is_empty() {
        return offered.first().map(|&media| Chosen { media, convert: None, pretty, profile: "", drop: "" });
    }
    for clause in parse(accept) {
        for &media in offered.iter().filter(|media| clause.covers(media.content_type())) {
            if let Some(convert) = clause.convert(media).filter(|&convert| allows(media, convert)) {
                let pretty = pretty || clause.parameter("pretty") == Some("1");
                let text = |name: &str| clause.parameter(name).unwrap_or("");
                return Some(Chosen { media, convert, pretty, profile: text("profile"), drop: text("drop") });
            }
        }
    }
    None
}

/// What upstream's router says to a request for a path that can only be read: in these media types, whatever the request
/// says of a body that is not read, as long as it `consumes` that.
pub fn check_route(call: &Call, produces: &[&str], consumes: &[&str]) -> Result<(), Status> {
    let refuse = |code, message: &str| Err(Status::generic(code, "", &GroupResource::default(), "", message));
    if call.method != Method::GET {
        return refuse(405, "");
    }
    let content = call.header("content-type");
    if !consumes.is_empty() && !content.is_empty() && !names(content).any(|name| consumes.contains(&name)) {
        return refuse(415, "415: Unsupported Media Type");
    }
    if !passes_router(header(&call.headers), produces) {
        return refuse(406, &not_acceptable(&produces.join(", ")));
    }
    Ok(())
}

/// The router's refusal of unknown media types.
pub fn not_acceptable(available: &str) -> String {
    format!("406: Not Acceptable\n\nAvailable representations: {available}")
}

/// Whether upstream's router lets a request through at all: it knows exact types and `*/*`, and nothing between.
pub fn passes_router(accept: &str, offered: &[&str]) -> bool {
    accept.is_empty() || names(accept).any(|name| name == "*/*" || offered.contains(&name))
}

/// The media types of a header without their parameters.
fn names(header: &str) -> impl Iterator<Item = &str> {
    header.split(',').map(|clause| clause.split(';').next().unwrap_or("").trim_matches(' '))
}

/// The clauses of a header, the ones to try first in front. What is not of the form `type/subtype` is passed over.
pub fn parse(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    for text in header.split(',') {
        let Some(clause) = Clause::parse(text.trim_matches(' ')) else { continue };
        // Go sorts with a comparison that is no order (a lighter clause comes before a heavier wildcard and after it),
        // so the result depends on how it sorts: by insertion.
        let mut at = clauses.len();
        while at > 0 && clause.goes_before(&clauses[at - 1]) {
            at -= 1;
        }
        clauses.insert(at, clause);
    }
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let (name, rest) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subkind) = name.split_once('/').unwrap_or((name, ""));
        let kind = kind.trim_matches(' ');
        let subkind = match subkind {
            "" if kind == "*" => "*",
            "" => return None,
            more if more.contains('/') => return None,
            subkind => subkind.trim_matches(' '),
        };
        let mut clause = Clause { kind, subkind, weight: 1.0, parameters: Vec::new() };
        for parameter in rest.split(';') {
            match parameter.split_once('=') {
                Some((key, value)) if !value.is_empty() && !value.contains('=') => match key.trim_matches(' ') {
                    "q" => clause.weight = value.parse().unwrap_or(0.0),
                    key => clause.parameters.push((key, value.trim_matches(' '))),
                },
                _ => {}
            }
        }
        Some(clause)
    }

    fn goes_before(&self, other: &Clause<'_>) -> bool {
        self.weight > other.weight
            || (self.kind != "*" && other.kind == "*")
            || (self.subkind != "*" && other.subkind == "*")
    }

    /// The last value of a parameter.
    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().rfind(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Whether a media type is one that the clause accepts.
    pub fn covers(&self, media: &str) -> bool {
        match (self.kind, self.subkind) {
            ("*", "*") => true,
            (kind, "*") => media.split('/').next() == Some(kind),
            (kind, subkind) => media.split_once('/') == Some((kind, subkind)),
        }
    }

    /// What kind of document is asked for, or None if a parameter cannot be honoured.
    #[allow(clippy::option_option)] // Nothing asked for and nothing possible are two things.
    pub fn convert(&self, media: Media) -> Option<Option<AskedKind<'a>>> {
        // Only watches have a stream, and YAML has none.
        if self.parameter("stream").is_some_and(|stream| stream != "watch" || media == Media::Yaml) {
            return None;
        }
        if self.parameter("sv").is_some() {
            return None;
        }
        let (kind, group, version) = (self.parameter("as"), self.parameter("g"), self.parameter("v"));
        if kind.is_none() && group.is_none() && version.is_none() {
            return Some(None);
        }
        let text = |value: Option<&'a str>| value.unwrap_or("");
        Some(Some(AskedKind { group: text(group), version: text(version), kind: text(kind) }))
    }
}

/// Whether JSON is indented: if `pretty` asks for it, or the user agent is curl, wget or a browser.
fn wants_pretty(headers: &HeaderMap, query: &[(String, String)]) -> bool {
    match query.iter().find(|(key, _)| key == "pretty").map_or("", |(_, value)| value.as_str()) {
        "" => {
            let agent = headers.get(http::header::USER_AGENT).map_or(&b""[..], |agent| agent.as_bytes());
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool.as_bytes()))
        }
        pretty => matches!(pretty, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_come_in_upstreams_order() {
        let check = |header: &str, want: &[&str]| {
            let got: Vec<String> = parse(header).iter().map(|c| format!("{}/{}", c.kind, c.subkind)).collect();
            assert_eq!(got, want, "{header}");
        };
        check("application/json, application/yaml", &["application/json", "application/yaml"]);
        check("application/json;q=0.5,application/yaml", &["application/yaml", "application/json"]);
        check("*/*, application/json", &["application/json", "*/*"]);
        check("text/*;q=0.9, text/html;q=0.1", &["text/html", "text/*"]);
        check("*", &["*/*"]);
        check("garbage, a/b/c, ;;;, ,", &[]);
        check("application/json;q=x, application/yaml", &["application/yaml", "application/json"]);
    }

    #[test]
    fn the_router_knows_exact_types_only() {
        let offered = [Media::Json, Media::Yaml, Media::Proto].map(Media::content_type);
        for (accept, want) in [
            ("", true),
            ("*/*", true),
            ("application/json", true),
            ("application/json;as=Table", true),
            ("text/html, */*;q=0.1", true),
            ("application/*", false),
            ("APPLICATION/JSON", false),
            ("garbage", false),
            ("text/html, application/json;q=0.9", true),
            ("application/jwk-set+json", false),
        ] {
            assert_eq!(passes_router(accept, &offered), want, "{accept}");
        }
    }
}
