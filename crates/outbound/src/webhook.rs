//! [`Webhooks`]: clients for the `clientConfig` of webhooks, kept while they are in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use object::{Value, quote};
use tokio::time::Instant;

use crate::{
    Address, CallError, CallMeters, CertificateMeters, Client, ClientOptions, Dial, Egress, Error, Kubeconfig,
    Protocols, Request, Resolve, Roots,
};

/// As many clients as upstream keeps. Making one costs a parsed certificate bundle; its connections are lost with it.
const CLIENTS_MAX: usize = 200;
/// A patch that makes the largest object we accept out of nothing, in base64, fits twice.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
const DEFAULT_PORT: u16 = 443;

/// Makes clients for webhooks and calls them.
pub struct Webhooks {
    options: WebhookOptions,
    clients: Mutex<Clients>,
}

/// The settings that all webhooks of a server share.
pub struct WebhookOptions {
    /// The server's credentials by target.
    pub kubeconfig: Kubeconfig,
    pub services: Arc<dyn Resolve>,
    /// Opens connections to services.
    pub cluster: Arc<dyn Dial>,
    /// Opens connections to URLs.
    pub control_plane: Arc<dyn Dial>,
    pub calls: Arc<CallMeters>,
    pub certificates: Arc<CertificateMeters>,
}

impl WebhookOptions {
    /// Without credentials.
    pub fn new(services: Arc<dyn Resolve>, egress: &Egress) -> WebhookOptions {
        let kubeconfig = Kubeconfig::default();
        let (cluster, control_plane) = (egress.to_cluster(), egress.to_control_plane());
        let (calls, certificates) = (egress.calls.clone(), egress.certificates.clone());
        WebhookOptions { kubeconfig, services, cluster, control_plane, calls, certificates }
    }
}

/// The least recently used client goes when there are too many.
#[derive(Default)]
struct Clients {
    by_target: HashMap<WebhookTarget, (u64, Arc<Client>)>,
    uses: u64,
}

/// A webhook's `clientConfig`, understood.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebhookTarget {
    /// `https://host:port`, as error texts show it.
    base: String,
    path: String,
    host: String,
    port: u16,
    ca_bundle: Vec<u8>,
    service: Option<Service>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Service {
    namespace: String,
    name: String,
}

impl WebhookTarget {
    /// Reads `{url, service: {namespace, name, path, port}, caBundle}`.
    pub fn read(config: &Value) -> Result<WebhookTarget, String> {
        let bundle = STANDARD.decode(config.str_at(&["caBundle"]));
        let ca_bundle = bundle.map_err(|error| format!("unable to load root certificates: {error}"))?;
        let service = config.field("service");
        if !service.is_null() {
            let (namespace, name) = (service.str_at(&["namespace"]), service.str_at(&["name"]));
            let port = service.field("port").as_int().filter(|port| *port != 0);
            let port = port.map_or(Ok(DEFAULT_PORT), u16::try_from).map_err(|error| error.to_string())?;
            let host = format!("{name}.{namespace}.svc");
            return Ok(WebhookTarget {
                base: format!("https://{host}:{port}"),
                path: cleaned(service.str_at(&["path"])),
                host,
                port,
                ca_bundle,
                service: Some(Service { namespace: namespace.to_string(), name: name.to_string() }),
            });
        }
        let url = config.str_at(&["url"]);
        if url.is_empty() {
            return Err("webhook configuration must have either service or URL".into());
        }
        let uri: http::Uri = url.parse().map_err(|error| format!("Unparsable URL: parse {}: {error}", quote(url)))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(format!("Unparsable URL: {url}"));
        };
        Ok(WebhookTarget {
            base: format!("{scheme}://{authority}"),
            path: cleaned(uri.path()),
            host: authority.host().trim_matches(['[', ']']).to_string(),
            port: authority.port_u16().unwrap_or(DEFAULT_PORT),
            ca_bundle,
            service: None,
        })
    }

    fn is_local(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }

    /// Its name in a kubeconfig.
    fn name(&self) -> String {
        Address { host: self.host.clone(), port: self.port }.to_string()
    }
}

/// Go's `path.Join("/", path)`.
fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl Webhooks {
    pub fn new(options: WebhookOptions) -> Webhooks {
        Webhooks { options, clients: Mutex::default() }
    }

    /// The client for a target. Err says why there cannot be one: a bundle or credentials that cannot be used.
    pub fn client(&self, target: &WebhookTarget) -> Result<Arc<Client>, String> {
        let lock = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = lock().used(target) {
            return Ok(client);
        }
        let client = Arc::new(self.open(target)?);
        lock().put(target.clone(), client.clone());
        Ok(client)
    }

    fn open(&self, target: &WebhookTarget) -> Result<Client, String> {
        let (dial, server_name) = match &target.service {
            Some(_) => (self.options.cluster.clone(), Some(target.host.clone())),
            None => (self.options.control_plane.clone(), None),
        };
        let roots = if target.ca_bundle.is_empty() { Roots::System } else { Roots::Pem(target.ca_bundle.clone()) };
        // Over HTTP/2 all calls would go to one of the servers behind a load balancer.
        let protocols = if target.is_local() { Protocols::Any } else { Protocols::Http1 };
        let options = ClientOptions {
            roots,
            server_name,
            credentials: self.options.kubeconfig.credentials_for(&target.name())?,
            protocols,
            user_agent: "kube-apiserver-admission".into(),
            dial,
            calls: self.options.calls.clone(),
            certificates: self.options.certificates.clone(),
        };
        Client::new(&options).map_err(|error| error.to_string())
    }

    /// Posts JSON to a webhook, and tells it in whole seconds how much time it has; it is waited for as long as `waited`.
    pub async fn call(
        &self,
        client: &Client,
        target: &WebhookTarget,
        body: Bytes,
        (told, waited): (Duration, Duration),
    ) -> Result<Bytes, CallError> {
        let deadline = Instant::now() + waited;
        let seconds = told.as_secs() + u64::from(told.subsec_nanos() > 0);
        let url = format!("{}{}?timeout={seconds}s", target.base, target.path);
        let address = match &target.service {
            None => None,
            Some(service) => {
                let found = self.options.services.resolve(&service.namespace, &service.name, target.port).await;
                let failed =
                    |why| CallError::Transport { operation: "Post", url: quote(&url), error: Error::Connect(why) };
                Some(found.map_err(failed)?)
            }
        };
        let request = Request { url: &url, address, body, deadline, response_bytes_max: RESPONSE_BYTES_MAX };
        client.post(&request).await
    }
}

impl Clients {
    fn used(&mut self, target: &WebhookTarget) -> Option<Arc<Client>> {
        self.uses += 1;
        let (last, client) = self.by_target.get_mut(target)?;
        *last = self.uses;
        Some(client.clone())
    }

    fn put(&mut self, target: WebhookTarget, client: Arc<Client>) {
        if self.by_target.len() >= CLIENTS_MAX {
            let oldest = self.by_target.iter().min_by_key(|(_, (used, _))| *used).map(|(target, _)| target.clone());
            oldest.map(|target| self.by_target.remove(&target));
        }
        self.uses += 1;
        self.by_target.insert(target, (self.uses, client));
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn client_configs_are_services_or_urls() {
        let service = value!({"service": {"namespace": "ns", "name": "svc", "path": "/a//b/../c/"}});
        let target = WebhookTarget::read(&service).unwrap();
        assert_eq!((target.base.as_str(), target.path.as_str()), ("https://svc.ns.svc:443", "/a/c"));
        assert!(!target.is_local());
        let url = value!({"url": "https://127.0.0.1:8443/x"});
        let target = WebhookTarget::read(&url).unwrap();
        assert_eq!((target.base.as_str(), target.path.as_str()), ("https://127.0.0.1:8443", "/x"));
        assert!(target.is_local());
        assert_eq!(target.name(), "127.0.0.1:8443");
        assert_eq!(WebhookTarget::read(&value!({"url": "https://example"})).unwrap().name(), "example:443");
        assert!(WebhookTarget::read(&value!({})).unwrap_err().contains("either service or URL"));
        assert!(WebhookTarget::read(&value!({"url": "https://a", "caBundle": "!"})).is_err());
    }
}
