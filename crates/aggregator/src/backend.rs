//! [`Backend`]: another API server behind a Service, and requests of our own to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use object::{GroupVersion, Str, quote};
use outbound::{Address, Certificate, CertificateMeters, Client, ClientOptions, Credentials, Dial, Resolve, Roots};
use request::User;
use tokio::sync::{Notify, watch};

use crate::service::{ApiService, Reference};
use crate::{Discovered, Specification, proxy};

/// How the server calls backends.
pub struct AggregatorSettings {
    /// From a Service to an address: its ClusterIP, or an endpoint.
    pub services: Arc<dyn Resolve>,
    /// Opens connections into the cluster.
    pub dial: Arc<dyn Dial>,
    /// How this server proves to backends that it may speak for its users: `--proxy-client-cert-file`.
    pub certificate: Option<Certificate>,
    /// `--aggregator-reject-forwarding-redirect`.
    pub reject_redirects: bool,
    /// Whether backends are told the user's UID: the feature gate RemoteRequestHeaderUID.
    pub sends_uid: bool,
    /// Counts refused certificates of backends.
    pub certificates: Arc<CertificateMeters>,
}

/// The server that answers for one APIService.
pub struct Backend {
    pub name: Str,
    pub version: GroupVersion,
    pub reference: Reference,
    pub(crate) settings: Arc<AggregatorSettings>,
    available: AtomicBool,
    /// Err says why there can be none, such as a CA bundle that is not PEM.
    client: Result<Arc<Client>, String>,
    /// Asks for a check now.
    pub(crate) recheck: Notify,
    /// Tells that it became available or unavailable, so that what it serves is fetched again.
    pub(crate) changes: watch::Sender<()>,
    pub(crate) discovered: ArcSwapOption<Discovered>,
    pub(crate) specification: ArcSwapOption<Specification>,
}

/// A request of our own without a body.
pub struct Fetch<'a> {
    pub method: Method,
    pub path: &'a str,
    pub accept: &'static str,
    /// That of the document which is known already, "" for none.
    pub etag: &'a str,
    /// The largest body that is read, in bytes.
    pub limit: usize,
    pub timeout: Duration,
    pub user: User,
}

/// A whole response to a request of our own.
pub struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Backend {
    pub(crate) fn new(service: &ApiService, reference: Reference, settings: Arc<AggregatorSettings>) -> Arc<Backend> {
        let client = open(&reference, &settings);
        Arc::new(Backend {
            name: service.name.clone(),
            version: service.version.clone(),
            reference,
            settings,
            available: AtomicBool::new(service.available),
            client,
            recheck: Notify::new(),
            changes: watch::Sender::new(()),
            discovered: ArcSwapOption::empty(),
            specification: ArcSwapOption::empty(),
        })
    }

    /// Whether the APIService's condition Available is True.
    pub fn is_available(&self) -> bool {
        self.available.load(Ordering::Acquire)
    }

    pub(crate) fn set_available(&self, available: bool) {
        if self.available.swap(available, Ordering::AcqRel) != available {
            self.changes.send_replace(());
        }
    }

    /// Its resources of its group-version; None until the first attempt to fetch them has ended.
    pub fn discovered(&self) -> Option<Arc<Discovered>> {
        self.discovered.load_full()
    }

    /// Its OpenAPI documents, as far as they could be fetched.
    pub fn specification(&self) -> Option<Arc<Specification>> {
        self.specification.load_full()
    }

    pub(crate) fn client(&self) -> Result<&Arc<Client>, &str> {
        self.client.as_ref().map_err(String::as_str)
    }

    pub(crate) async fn resolve(&self) -> Result<Address, String> {
        self.settings.services.resolve(&self.reference.namespace, &self.reference.name, self.reference.port).await
    }

    /// Sends a request of our own, and answers with the response once its headers are there.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        user: &User,
    ) -> Result<http::Response<Incoming>, String> {
        // Go's client names the operation so.
        let operation = if method == Method::GET { "Get" } else { "Delete" };
        let failed = |error: &dyn std::fmt::Display| format!("{operation} {}: {error}", quote(url));
        let client = self.client().map_err(str::to_string)?;
        let request = Request::builder().method(method).uri(url).body(outbound::body(Bytes::new()));
        let mut request = request.map_err(|error| failed(&error))?;
        *request.headers_mut() = headers;
        proxy::set_identity(request.headers_mut(), user, &user.uid).map_err(|error| failed(&error))?;
        client.send(request).await.map_err(|error| failed(&error))
    }

    /// Sends a request and reads the whole response.
    pub async fn fetch(&self, fetch: Fetch<'_>) -> Result<Fetched, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(fetch.accept));
        if let Ok(etag) = HeaderValue::from_str(fetch.etag)
            && !etag.is_empty()
        {
            headers.insert(header::IF_NONE_MATCH, etag);
        }
        let fetching = async {
            let url = format!("https://{}{}", self.resolve().await?, fetch.path);
            let (parts, body) = self.send(fetch.method, &url, headers, &fetch.user).await?.into_parts();
            let body = outbound::read(body, fetch.limit).await.map_err(|error| error.to_string())?;
            Ok(Fetched { status: parts.status, headers: parts.headers, body })
        };
        let timed_out = |_| Err("context deadline exceeded".to_string());
        tokio::time::timeout(fetch.timeout, fetching).await.unwrap_or_else(timed_out)
    }
}

/// Who the aggregator is towards backends when it asks for itself.
pub fn aggregator_user() -> User {
    User { name: "system:kube-aggregator".into(), groups: vec![User::MASTERS.into()], ..User::default() }
}

fn open(reference: &Reference, settings: &AggregatorSettings) -> Result<Arc<Client>, String> {
    let roots = match (reference.insecure, reference.ca_bundle.as_slice()) {
        (true, _) => Roots::Insecure,
        (false, []) => Roots::System,
        (false, bundle) => Roots::Pem(bundle.to_vec()),
    };
    let options = ClientOptions {
        roots,
        server_name: Some(format!("{}.{}.svc", reference.name, reference.namespace)),
        credentials: Credentials { certificate: settings.certificate.clone(), ..Credentials::default() },
        user_agent: "kube-aggregator".into(),
        dial: settings.dial.clone(),
        certificates: settings.certificates.clone(),
        ..ClientOptions::default()
    };
    Client::new(&options).map(Arc::new).map_err(|error| error.to_string())
}
