//! [`Client`]: a pool of connections that share trust, credentials and a way to connect.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gox509::tls::ServerVerifier;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use spans::{KeyValue, Kind, OpenSpan};

use crate::calls::CallMeters;
use crate::certificates::CertificateMeters;
use crate::connect::{Connector, Dial, Direct, io_error};
use crate::credentials::{ClientCertificate, Headers};
use crate::framing::{self, FramedExchange};
use crate::roots::{Roots, Source};
use crate::{Credentials, Error};

/// As client-go's transport has them.
const IDLE_CONNECTIONS_PER_HOST: usize = 25;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// A request's body, at once or as a stream.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A body that is there already.
pub fn body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Which versions of HTTP are offered to a server over TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocols {
    /// HTTP/2 where the server has it.
    #[default]
    Any,
    /// HTTP/1.1: each concurrent request gets a connection, which a load balancer can place; upgrades need it too.
    Http1,
}

/// How a [`Client`] connects and who it is.
#[derive(Clone)]
pub struct ClientOptions {
    pub roots: Roots,
    /// Whom servers must prove to be; the host of the URL where this is None.
    pub server_name: Option<String>,
    pub credentials: Credentials,
    pub protocols: Protocols,
    pub user_agent: String,
    pub dial: Arc<dyn Dial>,
    /// Counts [`Client::post`].
    pub calls: Arc<CallMeters>,
    pub certificates: Arc<CertificateMeters>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            roots: Roots::System,
            server_name: None,
            credentials: Credentials::default(),
            protocols: Protocols::Any,
            user_agent: "kube-apiserver".into(),
            dial: Arc::new(Direct),
            calls: Arc::default(),
            certificates: Arc::default(),
        }
    }
}

/// Sends requests over pooled connections, and each that asks for another protocol over one of its own. Redirects are not followed.
pub struct Client {
    http: legacy::Client<Connector, Body>,
    /// Makes the connections of requests that upgrade.
    alone: Connector,
    headers: Headers,
    user_agent: HeaderValue,
    pub(crate) calls: Arc<CallMeters>,
    certificates: Arc<CertificateMeters>,
}

impl Client {
    /// Reads certificates and keys. Err says in Go's words what is wrong with them.
    pub fn new(options: &ClientOptions) -> Result<Client, Error> {
        let connector = connector(options).map_err(Error::Settings)?;
        let alone = connector.clone().with_protocols(&[b"http/1.1"]);
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS_PER_HOST)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .set_host(true)
            .build(connector);
        let user_agent =
            HeaderValue::from_str(&options.user_agent).map_err(|error| Error::Settings(error.to_string()))?;
        let headers = Headers::new(&options.credentials).map_err(Error::Settings)?;
        let (calls, certificates) = (options.calls.clone(), options.certificates.clone());
        Ok(Client { http, alone, headers, user_agent, calls, certificates })
    }

    /// Sends a request with an absolute URL and answers as soon as the response's headers are there. `hyper::upgrade::on` the
    /// response gives the connection after `101 Switching Protocols`.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let headers = request.headers_mut();
        self.headers.put(headers).map_err(Error::Settings)?;
        headers.entry(header::USER_AGENT).or_insert_with(|| self.user_agent.clone());
        framing::frame(&mut request);
        let sent = match spans::begin(Kind::Client, || format!("HTTP {}", request.method())) {
            None => self.exchange(request).await,
            Some(span) => Box::pin(self.send_traced(request, span)).await,
        };
        if let Err(Error::Connect(why)) = &sent {
            self.certificates.refused(why);
        }
        sent
    }

    /// Sends a request whose headers are complete.
    async fn exchange(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let upgrades = framing::is_upgrade(request.headers());
        let (request, exchange) = FramedExchange::begin(request);
        if upgrades {
            return Box::pin(self.send_alone(request, exchange)).await;
        }
        let mut response = tokio::select! {
            sent = self.http.request(request) => sent.map_err(|error| from_hyper(&error))?,
            error = exchange.flooded() => return Err(error),
        };
        exchange.settle(&mut response);
        Ok(response)
    }

    /// Sends a request over a connection that no other request gets.
    async fn send_alone(
        &self,
        mut request: Request<Body>,
        exchange: FramedExchange,
    ) -> Result<Response<Incoming>, Error> {
        let uri = std::mem::take(request.uri_mut());
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().map_err(|error| Error::Exchange(format!("{error}")))?;
        if let Some(authority) = uri.authority() {
            let host = HeaderValue::from_str(authority.as_str());
            let host = host.map_err(|error| Error::Exchange(error.to_string()))?;
            request.headers_mut().entry(header::HOST).or_insert(host);
        }
        let failed = |error: hyper::Error| Error::Exchange(exchange_error(&error));
        let stream = TokioIo::new(self.alone.clone().connect(uri).await?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
        // It ends with the exchange, or goes over to what asked for the upgrade.
        tokio::spawn(connection.with_upgrades());
        let mut response = tokio::select! {
            sent = sender.send_request(request) => sent.map_err(failed)?,
            error = exchange.flooded() => return Err(error),
        };
        exchange.settle(&mut response);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS && !exchange.is_sent() {
            return Err(Error::Exchange("the server switched protocols before it had the whole request".into()));
        }
        Ok(response)
    }

    /// Sends a request in a span of its own, which the other server can continue.
    async fn send_traced(&self, mut request: Request<Body>, mut span: OpenSpan) -> Result<Response<Incoming>, Error> {
        let (method, uri) = (request.method().as_str(), request.uri());
        span.add([
            KeyValue::text("http.request.method", method),
            KeyValue::text("server.address", uri.authority().map_or("", |authority| authority.as_str())),
            KeyValue::text("url.full", uri.to_string()),
        ]);
        if let Ok(traceparent) = HeaderValue::from_str(&span.traceparent()) {
            request.headers_mut().insert("traceparent", traceparent);
        }
        let sent = span.run(self.exchange(request)).await;
        match &sent {
            Ok(response) => {
                span.add([KeyValue::int("http.response.status_code", i64::from(response.status().as_u16()))])
            }
            Err(error) => span.fail(error.to_string()),
        }
        sent
    }
}

/// Reads a body of at most `limit` bytes.
pub async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, Error> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let text = exchange_error(&error);
            Error::Body(if text == "EOF" { "unexpected EOF".into() } else { text })
        })?;
        if let Ok(data) = frame.into_data() {
            if whole.len() + data.len() > limit {
                return Err(Error::TooLarge { limit });
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

pub(crate) fn connector(options: &ClientOptions) -> Result<Connector, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = Source::open(&options.roots)?;
    let verifier = ServerVerifier::new(roots.map(|source| Box::new(source) as Box<dyn gox509::tls::Roots>));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let certificate = ClientCertificate::open(options.credentials.certificate.as_ref())?;
    let mut tls =
        builder.dangerous().with_custom_certificate_verifier(verifier).with_client_cert_resolver(Arc::new(certificate));
    tls.alpn_protocols = match options.protocols {
        Protocols::Any => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocols::Http1 => vec![b"http/1.1".to_vec()],
    };
    let server_name = match &options.server_name {
        None => None,
        Some(name) => {
            let parsed = ServerName::try_from(name.clone());
            Some(parsed.map_err(|_| format!("x509: invalid server name {}", object::quote(name)))?)
        }
    };
    Ok(Connector { dial: options.dial.clone(), tls: Arc::new(tls), server_name })
}

fn from_hyper(error: &legacy::Error) -> Error {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(ours) = cause.downcast_ref::<Error>() {
            return ours.clone();
        }
        if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
            return Error::Exchange(exchange_error(hyper));
        }
        source = cause.source();
    }
    Error::Exchange(error.to_string())
}

/// The text of Go's transport about a connection that failed in use.
fn exchange_error(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return "EOF".into();
    }
    if error.is_parse() || error.is_parse_too_large() {
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response".into();
    }
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return io_error(io);
        }
        source = cause.source();
    }
    error.to_string()
}
