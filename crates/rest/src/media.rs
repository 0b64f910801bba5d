//! What a client wants to read: media type, transformation, indentation.

use http::HeaderMap;
use object::{GroupResource, Status};

use crate::Call;
use crate::accept::{self, AskedKind};
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
    /// Fields that the client does not want, as it lists them; "" for none.
    pub drop: String,
    /// What a Status is written as if the clause that was chosen turns objects into something that a Status is not
    /// turned into: there may be another clause for it.
    refusal: (Media, bool),
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

/// The media type of a Content-Type header in lower case, as Go's mime.ParseMediaType reads it; None where that fails.
pub fn media_type(header: &str) -> Option<String> {
    let (essence, mut parameters) = header.split_at(header.find(';').unwrap_or(header.len()));
    let mut names = Vec::new();
    while !matches!(parameters.trim(), "" | ";") {
        let (name, rest) = split_token(parameters.trim_start().strip_prefix(';')?.trim_start());
        let rest = rest.trim_start().strip_prefix('=').filter(|_| !name.is_empty())?.trim_start();
        names.push(name.to_ascii_lowercase());
        parameters = match rest.strip_prefix('"') {
            Some(quoted) => after_quote(quoted)?,
            None => Some(split_token(rest)).filter(|(value, _)| !value.is_empty())?.1,
        };
    }
    names.sort_unstable();
    let repeated = names.windows(2).any(|pair| pair[0] == pair[1]);
    (!repeated).then(|| essence.trim().to_ascii_lowercase())
}

/// A token of RFC 2045 and what follows it.
fn split_token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c);
    text.split_at(text.find(|c| !is_token(c)).unwrap_or(text.len()))
}

/// What follows a quoted string whose first quote has been read.
fn after_quote(text: &str) -> Option<&str> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    Some(&text[end + 1..])
}

const TEXT: &str = "text/plain";

/// What a resource can answer with.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Whether whole objects have a protobuf form. Their metadata and errors always do.
    pub protobuf: bool,
    pub cbor: bool,
    /// Whether objects can be shown as tables; all can be as their metadata.
    pub tables: bool,
    /// Whether upstream's router refuses unknown media types first; custom resources are not behind it.
    pub router: bool,
    /// Whether the router lets `text/plain` pass, for the logs of pods.
    pub text: bool,
}

impl Offer {
    fn media(self) -> impl Iterator<Item = Media> {
        [Media::Json, Media::Yaml, Media::Proto, Media::Cbor]
            .into_iter()
            .filter(move |m| *m != Media::Cbor || self.cbor)
    }

    /// Whether bodies and untransformed objects can be of this type.
    pub fn has(self, media: Media) -> bool {
        !matches!(media, Media::Proto if !self.protobuf) && !matches!(media, Media::Cbor if !self.cbor)
    }

    /// What objects are to be turned into for a clause that asks for this; None if they cannot.
    fn transform(self, media: Media, convert: Option<AskedKind<'_>>) -> Option<Transform> {
        let Some(AskedKind { group, version, kind }) = convert else {
            return self.has(media).then_some(Transform::None);
        };
        let known = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
        let is_text = matches!(media, Media::Json | Media::Yaml);
        match kind {
            "Table" if known && self.tables && is_text => Some(Transform::Table(version.to_string())),
            "PartialObjectMetadata" if known => Some(Transform::Partial(version.to_string())),
            "PartialObjectMetadataList" if known => Some(Transform::PartialList(version.to_string())),
            _ => None,
        }
    }

    /// The media types as refusals of bodies list them.
    pub fn list(self) -> String {
        self.media().filter(|media| self.has(*media)).map(Media::content_type).collect::<Vec<_>>().join(", ")
    }

    /// A refusal to write objects in any type that the client accepts.
    fn refuse(self) -> Status {
        let all: Vec<_> = self.media().map(Media::content_type).collect();
        Status::not_acceptable(format!("only the following media types are accepted: {}", all.join(", ")))
    }

    /// The same for a watch, which has no YAML form.
    pub fn check_stream(self, media: Media) -> Result<(), Status> {
        if media != Media::Yaml {
            return Ok(());
        }
        let cbor = if self.cbor { ", application/cbor-seq" } else { "" };
        Err(Status::not_acceptable(format!(
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch{cbor}"
        )))
    }

    /// The router's refusal of unknown media types.
    fn not_acceptable(self, call: &Call) -> String {
        let mut all = self.list();
        if self.text {
            all = format!("{TEXT}, {all}");
        }
        if matches!(call.info.verb, request::Verb::List | request::Verb::Watch) {
            all.push_str(", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch");
        }
        accept::not_acceptable(&all)
    }
}

impl Accept {
    /// JSON without any transformation, for failures before negotiation.
    pub fn json() -> Accept {
        Accept::plain(Media::Json, false)
    }

    /// Indented JSON, for clients that accept none of the media types on offer.
    pub fn indented() -> Accept {
        Accept::plain(Media::Json, true)
    }

    /// For a resource: the first clause of the Accept header, by weight, that can be honoured.
    pub fn negotiate(call: &Call, offer: Offer) -> Result<Accept, Refused> {
        let offered: Vec<Media> = offer.media().collect();
        let text = offer.text.then_some(TEXT);
        let names: Vec<&str> = text.into_iter().chain(offered.iter().map(|media| media.content_type())).collect();
        if offer.router && !accept::passes_router(accept::header(&call.headers), &names) {
            let status = Status::generic(406, "", &GroupResource::default(), "", &offer.not_acceptable(call));
            return Err(Refused::ByRouter(status));
        }
        let allows = |media, convert| offer.transform(media, convert).is_some();
        let chosen = accept::choose(&call.headers, &call.query, &offered, allows).and_then(|chosen| {
            let transform = offer.transform(chosen.media, chosen.convert)?;
            let written = Accept { drop: chosen.drop.to_string(), ..Accept::plain(chosen.media, chosen.pretty) };
            if transform == Transform::None {
                return Some(written);
            }
            let refusal = Accept::of_status_in(&call.headers, &call.query, &offered).refusal;
            Some(Accept { transform, refusal, ..written })
        });
        chosen.ok_or_else(|| {
            let written = Accept::of_status_in(&call.headers, &call.query, &offered);
            Refused::ByResource(offer.refuse(), written)
        })
    }

    /// For a Status that has nothing to do with a resource.
    pub fn of_status(headers: &HeaderMap, query: &[(String, String)]) -> Accept {
        Accept::of_status_in(headers, query, &[Media::Json, Media::Yaml, Media::Proto])
    }

    /// Where these can be written.
    pub fn of_status_in(headers: &HeaderMap, query: &[(String, String)], offered: &[Media]) -> Accept {
        let chosen = accept::choose(headers, query, offered, |_, convert| convert.is_none());
        chosen.map_or_else(Accept::indented, |chosen| Accept::plain(chosen.media, chosen.pretty))
    }

    /// Objects as they are.
    pub fn plain(media: Media, pretty: bool) -> Accept {
        Accept { media, transform: Transform::None, pretty, drop: String::new(), refusal: (media, pretty) }
    }

    /// The same for something that is not transformed.
    pub fn as_is(&self) -> Accept {
        Accept::plain(self.media, self.pretty)
    }

    /// How a Status is written that is the answer instead of objects.
    pub fn refusal(&self) -> Accept {
        Accept::plain(self.refusal.0, self.refusal.1)
    }
}

/// The objects cannot be written in any form that the client accepts.
#[derive(Debug)]
pub enum Refused {
    /// Before the request has reached its resource, and what there is to say about that: in indented JSON.
    ByRouter(Status),
    /// With how the Status is written.
    ByResource(Status, Accept),
}

impl Refused {
    pub fn reply(&self, warnings: &[String]) -> Reply {
        match self {
            Refused::ByRouter(status) => failure(status, &Accept::indented()),
            Refused::ByResource(status, written) => failure(status, written).warn(warnings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::media_type;

    #[test]
    fn media_types_are_read_as_go_reads_them() {
        for (header, want) in [
            ("application/json", Some("application/json")),
            ("Application/JSON ; charset=utf-8", Some("application/json")),
            ("application/json;", Some("application/json")),
            ("application/json; a=\"b;\\\"c\" ; d=e;", Some("application/json")),
            ("application/json;x", None),
            ("application/json; charset", None),
            ("application/json; charset=", None),
            ("application/json; charset=\"", None),
            ("application/json; x=1; X=2", None),
            ("application/json; =1", None),
            ("application/json;; x=1", None),
        ] {
            assert_eq!(media_type(header).as_deref(), want, "{header}");
        }
    }
}
