//! What a client wants to read: media type, transformation, indentation.

use object::{GroupResource, Status};

use crate::Call;
use crate::reply::{Reply, failure};

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Media {
    Json,
    Yaml,
    Proto,
    Cbor,
}

/// What objects are turned into before they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transform {
    None,
    /// `as=Table`, in this version of meta.k8s.io.
    Table(String),
    /// `as=PartialObjectMetadata`.
    Partial(String),
    /// `as=PartialObjectMetadataList`.
    PartialList(String),
}

/// The outcome of negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    pub media: Media,
    pub transform: Transform,
    pub pretty: bool,
}

impl Media {
    pub fn content_type(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
            Media::Proto => "application/vnd.kubernetes.protobuf",
            Media::Cbor => "application/cbor",
        }
    }

    pub fn of(content_type: &str) -> Option<Media> {
        match content_type {
            "application/json" => Some(Media::Json),
            "application/yaml" => Some(Media::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Media::Proto),
            "application/cbor" => Some(Media::Cbor),
            _ => None,
        }
    }
}

/// What a place can answer with.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Whether there is a protobuf form.
    pub proto: bool,
    pub cbor: bool,
    /// Whether objects can be shown as tables; all can be as their metadata.
    pub tables: bool,
}

impl Offer {
    fn media(self) -> impl Iterator<Item = Media> {
        let all = [(Media::Json, true), (Media::Yaml, true), (Media::Proto, self.proto), (Media::Cbor, self.cbor)];
        all.into_iter().filter(|(_, offered)| *offered).map(|(media, _)| media)
    }

    fn has(self, media: Media) -> bool {
        self.media().any(|offered| offered == media)
    }

    /// The media types as refusals list them.
    pub fn list(self) -> String {
        self.media().map(Media::content_type).collect::<Vec<_>>().join(", ")
    }
}

impl Offer {
    /// What the router says to a media type it has never heard of.
    fn not_acceptable(self, call: &Call) -> String {
        let mut all = self.list();
        if matches!(call.info.verb, request::Verb::List | request::Verb::Watch) {
            all.push_str(", application/json;stream=watch");
            if self.proto {
                all.push_str(", application/vnd.kubernetes.protobuf;stream=watch");
            }
        }
        format!("406: Not Acceptable\n\nAvailable representations: {all}")
    }
}

impl Accept {
    /// JSON without any transformation: the form of last resort.
    pub fn json() -> Accept {
        Accept { media: Media::Json, transform: Transform::None, pretty: false }
    }

    /// Picks the first clause of the Accept header, by weight, that can be honoured.
    pub fn negotiate(call: &Call, offer: Offer) -> Result<Accept, Refused> {
        let accepts: Vec<&str> =
            call.headers.get_all("accept").iter().filter_map(|value| value.to_str().ok()).collect();
        let header = accepts.join(",");
        let pretty = wants_pretty(call);
        if header.trim().is_empty() {
            return Ok(Accept { pretty, ..Accept::json() });
        }
        let clauses = clauses(&header);
        // Upstream's router looks at media types first. It knows nothing of what may follow them, and of no wildcard but
        // the one for everything.
        let passes = |clause: &Clause| clause.kind == "*/*" || Media::of(clause.kind).is_some_and(|m| offer.has(m));
        if !clauses.iter().any(passes) {
            let status = Status::generic(406, "", &GroupResource::default(), "", &offer.not_acceptable(call));
            return Err(Refused::ByRouter(status));
        }
        for clause in &clauses {
            if let Some((media, transform, clause_pretty)) = clause.pick(offer) {
                return Ok(Accept { media, transform, pretty: clause_pretty.unwrap_or(pretty) });
            }
        }
        let all = offer.list();
        let status = Status::not_acceptable(format!("only the following media types are accepted: {all}"));
        Err(Refused::ByResource(status))
    }
}

/// Nothing that the client reads can be written. There is no telling how it would like to hear that: indented JSON it is.
#[derive(Debug)]
pub enum Refused {
    /// Before the request has reached its resource, and what there is to say about that.
    ByRouter(Status),
    ByResource(Status),
}

impl Refused {
    pub fn reply(&self, warnings: &[String]) -> Reply {
        let indented = Accept { pretty: true, ..Accept::json() };
        match self {
            Refused::ByRouter(status) => failure(status, &indented),
            Refused::ByResource(status) => failure(status, &indented).warn(warnings),
        }
    }
}

struct Clause<'a> {
    kind: &'a str,
    weight: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    fn pick(&self, offer: Offer) -> Option<(Media, Transform, Option<bool>)> {
        let media = offer.media().find(|media| self.covers(media.content_type()))?;
        // Parameters of other media types are theirs to interpret; ours are only honoured on ours.
        let transform = match (self.parameter("as"), self.parameter("g"), self.parameter("v")) {
            ("", _, _) => Transform::None,
            (kind, "meta.k8s.io", version @ ("v1" | "v1beta1")) => match kind {
                "Table" if offer.tables => Transform::Table(version.to_string()),
                "PartialObjectMetadata" => Transform::Partial(version.to_string()),
                "PartialObjectMetadataList" => Transform::PartialList(version.to_string()),
                _ => return None,
            },
            _ => return None,
        };
        let pretty = match self.parameter("pretty") {
            "" => None,
            value => Some(value == "1"),
        };
        Some((media, transform, pretty))
    }

    fn covers(&self, content_type: &str) -> bool {
        match self.kind.split_once('/') {
            Some(("*", "*")) => true,
            Some((kind, "*")) => content_type.split('/').next() == Some(kind),
            _ => self.kind == content_type,
        }
    }
}

/// The clauses of an Accept header, heaviest first.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(parse_clause).collect();
    clauses.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    clauses
}

fn parse_clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().filter(|kind| !kind.is_empty())?;
    let parameters: Vec<(&str, &str)> =
        parts.map(|part| part.split_once('=').unwrap_or((part, ""))).map(|(k, v)| (k.trim(), v.trim())).collect();
    let weight = parameters.iter().find(|(key, _)| *key == "q").and_then(|(_, q)| q.parse().ok()).unwrap_or(1.0);
    Some(Clause { kind, weight, parameters })
}

/// People get indented JSON: whoever asks for it, and the tools people type at.
fn wants_pretty(call: &Call) -> bool {
    if let Some(pretty) = call.query("pretty") {
        return !matches!(pretty, "false" | "0" | "f" | "F" | "FALSE" | "False");
    }
    let agent = call.header("user-agent");
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
}
