//! [`Status`]: how a request fails, as clients see it.
//!
//! The constructors below are the only way failures get their code, reason and wording, so the wording is upstream's
//! everywhere.

use std::fmt;

use crate::{Errors, GroupKind, GroupResource, Map, Str, Value, quote};

/// A failed request: a `metav1.Status` with `status: Failure`.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The code of the HTTP response.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
    /// More about it, for machines.
    pub details: Option<Details>,
    /// Where a list that cannot be continued consistently goes on in the present: `metadata.continue`.
    pub continue_token: String,
}

/// What the failure was about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// The name of the object.
    pub name: String,
    /// The group of the resource or kind.
    pub group: Str,
    /// The resource for most failures, the kind for invalid objects.
    pub kind: Str,
    /// The uid of the object, where it matters.
    pub uid: String,
    /// Each single error.
    pub causes: Vec<Cause>,
    /// After how many seconds a client may try again; 0 where it says nothing.
    pub retry_after_seconds: u32,
}

/// One of the errors that a failure is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

/// The machine-readable reason; printed as its own name, `Unknown` as "".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No reason is given.
    Unknown,
    /// 401: nobody knows who asks.
    Unauthorized,
    /// 403: the user may not do this.
    Forbidden,
    /// 404: there is no such thing.
    NotFound,
    /// 409: the name is taken.
    AlreadyExists,
    /// 409: the object was changed meanwhile.
    Conflict,
    /// 410: it was there and is not any more.
    Gone,
    /// 422: the object breaks rules.
    Invalid,
    /// 500: the server did not finish in time; clients may try again.
    ServerTimeout,
    /// 500: a stored object cannot be read.
    StoreReadError,
    /// 504: the request took longer than it was given.
    Timeout,
    /// 429: clients should try again later.
    TooManyRequests,
    /// 400: the request cannot be understood.
    BadRequest,
    /// 405: the resource does not have this verb.
    MethodNotAllowed,
    /// 406: none of the accepted media types can be sent.
    NotAcceptable,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 415: the body is of a media type that cannot be read.
    UnsupportedMediaType,
    /// 500: the server failed.
    InternalError,
    /// 410: the revision or the continue token is too old.
    Expired,
    /// 503: the server cannot do this now.
    ServiceUnavailable,
    /// One that a webhook made up.
    Other(Str),
}

impl Status {
    fn new(code: u16, reason: Reason, message: impl Into<String>) -> Status {
        Status { code, reason, message: message.into(), details: None, continue_token: String::new() }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Status {
        self.details = Some(Details {
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            name: name.to_string(),
            ..Details::default()
        });
        self
    }

    fn retry_after(mut self, seconds: u32) -> Status {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, Reason::BadRequest, message)
    }

    /// 401.
    pub fn unauthorized(message: impl Into<String>) -> Status {
        Status::new(401, Reason::Unauthorized, message)
    }

    /// 403: the user may not do this to the object.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Status {
        let message = match (resource.group.is_empty() && resource.resource.is_empty(), name) {
            (true, _) => format!("forbidden: {why}"),
            (false, "") => format!("{resource} is forbidden: {why}"),
            (false, name) => format!("{resource} {} is forbidden: {why}", quote(name)),
        };
        Status::new(403, Reason::Forbidden, message).about(resource, name)
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Status {
        Status::new(404, Reason::NotFound, format!("{resource} {} not found", quote(name))).about(resource, name)
    }

    /// 409: there is such an object already.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Status {
        let message = format!("{resource} {} already exists", quote(name));
        Status::new(409, Reason::AlreadyExists, message).about(resource, name)
    }

    /// Every generated name that was tried is taken.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str) -> Status {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        Status::new(409, Reason::AlreadyExists, message).about(resource, name).retry_after(1)
    }

    /// 409: the object was changed meanwhile.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Status {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Status::new(409, Reason::Conflict, message).about(resource, name)
    }

    /// 409: other managers own fields of the applied configuration.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Status {
        let details = Some(Details { causes, ..Details::default() });
        Status { details, ..Status::new(409, Reason::Conflict, message) }
    }

    /// 410.
    pub fn gone(message: impl Into<String>) -> Status {
        Status::new(410, Reason::Gone, message)
    }

    /// The revision asked for has been compacted away.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, Reason::Expired, message)
    }

    /// 422: the object breaks these rules.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &Errors) -> Status {
        let causes = errors
            .iter()
            .map(|e| Cause { reason: e.kind.reason().to_string(), message: e.body(), field: e.field.clone() })
            .collect();
        let subject = format!("{kind} {} is invalid", quote(name));
        let message = if errors.is_empty() { subject } else { format!("{subject}: {}", errors.aggregate()) };
        let details = Details {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            name: name.to_string(),
            causes,
            ..Details::default()
        };
        Status { details: Some(details), ..Status::new(422, Reason::Invalid, message) }
    }

    /// 405.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Status {
        let message = format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Status::new(405, Reason::MethodNotAllowed, message).about(resource, "")
    }

    /// 406.
    pub fn not_acceptable(message: impl Into<String>) -> Status {
        Status::new(406, Reason::NotAcceptable, message)
    }

    /// 415.
    pub fn unsupported_media_type(message: impl Into<String>) -> Status {
        Status::new(415, Reason::UnsupportedMediaType, message)
    }

    /// 413.
    pub fn request_too_large(message: impl fmt::Display) -> Status {
        Status::new(413, Reason::RequestEntityTooLarge, format!("Request entity too large: {message}"))
    }

    /// 429.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::new(429, Reason::TooManyRequests, message).retry_after(retry_after_seconds)
    }

    /// 500: the server did not finish in time; clients may try again.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Status {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Status::new(500, Reason::ServerTimeout, message).about(resource, operation).retry_after(retry_after_seconds)
    }

    /// 504.
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: u32) -> Status {
        Status::new(504, Reason::Timeout, format!("Timeout: {message}")).retry_after(retry_after_seconds)
    }

    /// 500.
    pub fn internal(why: impl fmt::Display) -> Status {
        let cause = Cause { message: why.to_string(), ..Cause::default() };
        let details = Some(Details { causes: vec![cause], ..Details::default() });
        Status { details, ..Status::new(500, Reason::InternalError, format!("Internal error occurred: {why}")) }
    }

    /// Some objects of a list cannot be read, and these are the reasons.
    pub fn store_read_error(resource: &GroupResource, causes: Vec<Cause>) -> Status {
        let first = causes.first().map_or("", |cause| cause.message.as_str());
        let mut message = format!("failed to read one or more {resource} from the storage: {first}");
        if causes.len() > 1 {
            message.push_str(&format!(" (and {} more)", causes.len() - 1));
        }
        let mut status = Status::new(500, Reason::StoreReadError, message).about(resource, "list");
        status.details.get_or_insert_default().causes = causes;
        status
    }

    /// 503.
    pub fn unavailable(message: impl Into<String>) -> Status {
        Status::new(503, Reason::ServiceUnavailable, message)
    }

    /// An error that upstream passes on as it is, without a reason.
    pub fn unknown(code: u16, message: impl Into<String>) -> Status {
        Status::new(code, Reason::Unknown, message)
    }

    /// What upstream answers when all it knows is the status code.
    pub fn generic(code: u16, verb: &str, resource: &GroupResource, name: &str, server_message: &str) -> Status {
        let (reason, mut message) = generic_wording(code, verb, server_message);
        if !resource.resource.is_empty() {
            let name = if name.is_empty() { String::new() } else { format!(" {name}") };
            message = format!("{message} ({} {resource}{name})", verb.to_lowercase());
        }
        Status::new(code, reason, message).about(resource, name)
    }

    /// A Status object that another server sent. A code that HTTP does not have is 500.
    pub fn from_value(value: &Value) -> Status {
        let code = value.at(&["code"]).as_int().and_then(|code| u16::try_from(code).ok());
        Status {
            code: code.filter(|code| (100..1000).contains(code)).unwrap_or(500),
            reason: Reason::named(value.str_at(&["reason"])),
            message: value.str_at(&["message"]).to_string(),
            details: value.at(&["details"]).as_map().map(|_| Details::from_value(value.at(&["details"]))),
            continue_token: value.str_at(&["metadata", "continue"]).to_string(),
        }
    }

    /// The Status object that clients receive.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("kind", "Status");
        map.insert("apiVersion", "v1");
        let mut metadata = Map::new();
        put(&mut metadata, "continue", &self.continue_token);
        map.insert("metadata", Value::Map(metadata));
        map.insert("status", "Failure");
        put(&mut map, "message", &self.message);
        put(&mut map, "reason", self.reason.as_str());
        if let Some(details) = &self.details {
            map.insert("details", details.to_value());
        }
        map.insert("code", i64::from(self.code));
        Value::Map(map)
    }
}

fn generic_wording(code: u16, verb: &str, server_message: &str) -> (Reason, String) {
    let (reason, text) = match code {
        409 if verb == "POST" => (Reason::AlreadyExists, "the server reported a conflict"),
        409 => (Reason::Conflict, "the server reported a conflict"),
        404 => (Reason::NotFound, "the server could not find the requested resource"),
        400 => (Reason::BadRequest, "the server rejected our request for an unknown reason"),
        401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials"),
        403 => (Reason::Forbidden, server_message),
        406 if server_message.is_empty() || server_message == "unknown" => {
            (Reason::NotAcceptable, "the server was unable to respond with a content type that the client supports")
        }
        406 => (Reason::NotAcceptable, server_message),
        415 => (Reason::UnsupportedMediaType, server_message),
        405 => (Reason::MethodNotAllowed, "the server does not allow this method on the requested resource"),
        422 => (Reason::Invalid, "the server rejected our request due to an error in our request"),
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => (
            Reason::Timeout,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => {
            (Reason::TooManyRequests, "the server has received too many requests and has asked us to try again later")
        }
        500.. => {
            let message =
                format!("an error on the server ({}) has prevented the request from succeeding", quote(server_message));
            return (Reason::InternalError, message);
        }
        _ => {
            let message =
                format!("the server responded with the status code {code} but did not return more information");
            return (Reason::Unknown, message);
        }
    };
    (reason, text.to_string())
}

impl Details {
    fn from_value(value: &Value) -> Details {
        let seconds = value.at(&["retryAfterSeconds"]).as_int().and_then(|seconds| u32::try_from(seconds).ok());
        Details {
            name: value.str_at(&["name"]).to_string(),
            group: value.str_at(&["group"]).into(),
            kind: value.str_at(&["kind"]).into(),
            uid: value.str_at(&["uid"]).to_string(),
            causes: value.list_at(&["causes"]).iter().map(Cause::from_value).collect(),
            retry_after_seconds: seconds.unwrap_or(0),
        }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "name", &self.name);
        put(&mut map, "group", &self.group);
        put(&mut map, "kind", &self.kind);
        put(&mut map, "uid", &self.uid);
        if !self.causes.is_empty() {
            map.insert("causes", self.causes.iter().map(Cause::to_value).collect::<Vec<Value>>());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds", self.retry_after_seconds);
        }
        Value::Map(map)
    }
}

impl Cause {
    fn from_value(value: &Value) -> Cause {
        let text = |field: &str| value.str_at(&[field]).to_string();
        Cause { reason: text("reason"), message: text("message"), field: text("field") }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "reason", &self.reason);
        put(&mut map, "message", &self.message);
        put(&mut map, "field", &self.field);
        Value::Map(map)
    }
}

fn put(map: &mut Map, key: &'static str, text: &str) {
    if !text.is_empty() {
        map.insert(key, text);
    }
}

impl Reason {
    /// The reason with this name.
    pub fn named(name: &str) -> Reason {
        Reason::KNOWN
            .iter()
            .find(|reason| reason.as_str() == name)
            .cloned()
            .unwrap_or_else(|| Reason::Other(name.into()))
    }

    const KNOWN: [Reason; 20] = [
        Reason::Unknown,
        Reason::Unauthorized,
        Reason::Forbidden,
        Reason::NotFound,
        Reason::AlreadyExists,
        Reason::Conflict,
        Reason::Gone,
        Reason::Invalid,
        Reason::ServerTimeout,
        Reason::StoreReadError,
        Reason::Timeout,
        Reason::TooManyRequests,
        Reason::BadRequest,
        Reason::MethodNotAllowed,
        Reason::NotAcceptable,
        Reason::RequestEntityTooLarge,
        Reason::UnsupportedMediaType,
        Reason::InternalError,
        Reason::Expired,
        Reason::ServiceUnavailable,
    ];

    /// The reason as clients see it, "" for none.
    pub fn as_str(&self) -> &str {
        match self {
            Reason::Unknown => "",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Invalid => "Invalid",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::StoreReadError => "StorageReadError",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::BadRequest => "BadRequest",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::InternalError => "InternalError",
            Reason::Expired => "Expired",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Other(name) => name,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;

    #[test]
    fn invalid_carries_causes() {
        let mut errors = Errors::new();
        errors.required(&Path::of("metadata.name"), "name or generateName is required");
        let status = Status::invalid(&GroupKind::new("", "Node"), "", &errors);
        assert_eq!(
            status.to_value(),
            value!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Node \"\" is invalid: metadata.name: Required value: name or generateName is required",
                "reason": "Invalid",
                "details": {"kind": "Node", "causes": [{
                    "reason": "FieldValueRequired",
                    "message": "Required value: name or generateName is required",
                    "field": "metadata.name"
                }]},
                "code": 422
            })
        );
    }

    #[test]
    fn wording_is_upstreams() {
        let deployments = GroupResource::new("apps", "deployments");
        let none = GroupResource::default();
        for (status, want) in [
            (Status::not_found(&deployments, "web"), r#"deployments.apps "web" not found"#),
            (Status::forbidden(&deployments, "", "no"), "deployments.apps is forbidden: no"),
            (Status::forbidden(&none, "", "no"), "forbidden: no"),
            (Status::generic(404, "get", &none, "", "unknown"), "the server could not find the requested resource"),
            (
                Status::method_not_supported(&deployments, "patch"),
                r#"patch is not supported on resources of kind "deployments.apps""#,
            ),
        ] {
            assert_eq!(status.message, want);
        }
    }
}
