//! The HTTPS client with which the server calls webhooks, token issuers and other API servers.
//!
//! A [`Client`] stands for one identity and one set of trusted certificates, and pools connections per address.
//! [`Client::send`] passes any request on and answers with a streamed body, or an upgraded connection; [`Client::post`] makes
//! a JSON call as client-go's REST client does, and [`Client::get`] fetches a document. Error texts are those of Go's `net/http`, `crypto/tls` and `crypto/x509`,
//! because clients of the API see them.

mod call;
mod calls;
mod certificates;
mod client;
mod connect;
mod credentials;
mod egress;
mod error;
mod framing;
mod get;
mod grpc;
mod kubeconfig;
pub mod otlp;
mod pauses;
mod roots;
mod services;
mod throttle;
mod webhook;

pub use call::{CallError, Request};
pub use calls::CallMeters;
pub use certificates::CertificateMeters;
pub use client::{Body, Client, ClientOptions, Protocols, body, read};
pub use connect::{Dial, Direct, Stream, in_gos_words, lookup};
pub use credentials::{Certificate, Credentials, Token};
pub use egress::{Egress, EgressMeters};
pub use error::Error;
pub use get::Fetched;
pub use grpc::{GrpcError, UnixGrpc};
pub use kubeconfig::Kubeconfig;
pub use pauses::Pauses;
pub use roots::Roots;
pub use services::{Address, Resolve};
pub use throttle::Throttle;
pub use webhook::{WebhookOptions, WebhookTarget, Webhooks};
