//! Spans in OpenTelemetry's protobuf format.

use bytes::Bytes;

/// What a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work inside the server.
    Internal = 1,
    /// A request that the server answers.
    Server = 2,
    /// A call of another server.
    Client = 3,
}

/// A piece of work that was traced.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    #[prost(bytes = "bytes", tag = "1")]
    pub trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub span_id: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub parent_span_id: Bytes,
    #[prost(string, tag = "5")]
    pub name: String,
    /// A [`Kind`].
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

/// Something that happened at one moment of a span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Another trace that has to do with a span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Link {
    #[prost(bytes = "bytes", tag = "1")]
    pub trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub span_id: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    #[prost(string, tag = "2")]
    pub message: String,
    /// [`Status::ERROR`] for an error.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

impl Status {
    pub const ERROR: i32 = 2;
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    #[prost(oneof = "Scalar", tags = "1, 3")]
    pub value: Option<Scalar>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Scalar {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
}

impl KeyValue {
    pub fn text(key: &str, value: impl Into<String>) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(Scalar::Text(value.into())) }) }
    }

    pub fn int(key: &str, value: i64) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(Scalar::Int(value)) }) }
    }
}
