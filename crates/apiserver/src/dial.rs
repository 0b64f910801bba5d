//! Connections to kubelets, pods and services.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Request, Response, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use outbound::{Address, Certificate, Client, ClientOptions, Credentials, Error, Protocols, Roots, Stream, Throttle};
use registry::Target;
use rest::{ForwardBody, ForwardClient, Unreachable};

use crate::serving::Kubelets;

/// Connects to kubelets with the server's client certificate, and to pods and services without one.
pub struct Dialer {
    plain: Clients,
    /// For requests that upgrade their connection, which carries no more than `--max-connection-bytes-per-sec`.
    upgrading: Clients,
}

struct Clients {
    kubelets: Client,
    unverified_kubelets: Client,
    others: Client,
    /// For nodes, whose addresses must not be those of this machine.
    global_kubelets: Client,
    global_others: Client,
}

impl Dialer {
    /// `dial` makes the connections into the cluster.
    pub fn new(kubelet: &Kubelets, dial: &Arc<dyn outbound::Dial>) -> Result<Arc<Dialer>, String> {
        let throttled: Arc<dyn outbound::Dial> = match kubelet.max_bytes_per_second {
            0 => dial.clone(),
            bytes_per_second => Arc::new(Throttle { dial: dial.clone(), bytes_per_second }),
        };
        Ok(Arc::new(Dialer { plain: Clients::new(kubelet, dial)?, upgrading: Clients::new(kubelet, &throttled)? }))
    }
}

impl Clients {
    /// Without an authority a kubelet's certificate is not verified, as upstream has it. Nor is that of pods and services, for
    /// which there is no authority to ask.
    fn new(kubelet: &Kubelets, dial: &Arc<dyn outbound::Dial>) -> Result<Clients, String> {
        let certificate = match (&kubelet.certificate, &kubelet.key) {
            (Some(certificate), Some(key)) => {
                Some(Certificate::Files { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        let shown = Credentials { certificate, ..Credentials::default() };
        let roots = kubelet.authority.clone().map_or(Roots::Insecure, Roots::File);
        let global: Arc<dyn outbound::Dial> = Arc::new(GlobalOnly(dial.clone()));
        let client = |roots: &Roots, credentials: &Credentials, dial: &Arc<dyn outbound::Dial>| {
            let options = ClientOptions {
                roots: roots.clone(),
                credentials: credentials.clone(),
                protocols: Protocols::Http1,
                dial: dial.clone(),
                ..ClientOptions::default()
            };
            Client::new(&options).map_err(|error| error.to_string())
        };
        let (any, nothing) = (Roots::Insecure, Credentials::default());
        Ok(Clients {
            kubelets: client(&roots, &shown, dial)?,
            unverified_kubelets: client(&any, &shown, dial)?,
            others: client(&any, &nothing, dial)?,
            global_kubelets: client(&roots, &shown, &global)?,
            global_others: client(&any, &nothing, &global)?,
        })
    }

    fn for_target(&self, target: &Target) -> &Client {
        match target {
            Target { kubelet: true, only_global: true, .. } => &self.global_kubelets,
            Target { kubelet: true, unverified: true, .. } => &self.unverified_kubelets,
            Target { kubelet: true, .. } => &self.kubelets,
            Target { only_global: true, .. } => &self.global_others,
            _ => &self.others,
        }
    }
}

#[async_trait]
impl ForwardClient for Dialer {
    async fn send(
        &self,
        target: &Target,
        mut request: Request<ForwardBody>,
    ) -> Result<Response<Incoming>, Unreachable> {
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        let clients = if is_upgrade { &self.upgrading } else { &self.plain };
        let client = clients.for_target(target);
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let scheme = if target.tls { "https" } else { "http" };
        let uri = Uri::builder().scheme(scheme).authority(target.authority()).path_and_query(path).build();
        *request.uri_mut() = uri.map_err(|error| Unreachable::Failed(error.to_string()))?;
        let sent = client.send(request.map(|body| body.map_err(Into::into).boxed_unsync())).await;
        sent.map_err(|error| match error {
            Error::NotAllowed(why) => Unreachable::NotAllowed(why),
            Error::Connect(why) | Error::Settings(why) => Unreachable::Failed(why),
            other => Unreachable::Broken(other.to_string()),
        })
    }
}

/// Connects to global unicast addresses only. A name is looked up once, so that the address that was checked is the one that
/// is connected to.
struct GlobalOnly(Arc<dyn outbound::Dial>);

#[async_trait]
impl outbound::Dial for GlobalOnly {
    async fn dial(&self, address: &Address) -> Result<Box<dyn Stream>, Error> {
        let found = outbound::lookup(address).await.map_err(|error| Error::NotAllowed(error.to_string()))?;
        let Some(first) = found.first() else { return Err(Error::Connect("no addresses for hostname".into())) };
        if !found.iter().all(|found| object::names::is_global_unicast(found.ip())) {
            return Err(Error::NotAllowed("address not allowed".into()));
        }
        self.0.dial(&Address { host: first.ip().to_string(), port: first.port() }).await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Empty;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    const BODY_BYTES: usize = 3000;

    /// Connections on which each request is answered with as many bytes.
    struct Answers;

    #[async_trait]
    impl outbound::Dial for Answers {
        async fn dial(&self, _: &Address) -> Result<Box<dyn Stream>, Error> {
            let (near, mut far) = tokio::io::duplex(1 << 20);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(far.read_u8().await.unwrap());
                }
                let answer =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n{}", "x".repeat(BODY_BYTES));
                far.write_all(answer.as_bytes()).await.unwrap();
            });
            Ok(Box::new(near))
        }
    }

    /// `--max-connection-bytes-per-sec` is for connections that are upgraded.
    #[tokio::test(start_paused = true)]
    async fn only_connections_to_be_upgraded_are_throttled() {
        let dial: Arc<dyn outbound::Dial> = Arc::new(Answers);
        let pod = Target {
            kubelet: false,
            tls: false,
            host: "10.0.0.1".into(),
            port: 80,
            path: "/".into(),
            only_global: false,
            unverified: false,
            websockets: false,
        };
        for (max_bytes_per_second, upgrade, seconds) in
            [(1000, None, 0), (1000, Some("SPDY/3.1"), 3), (0, Some("SPDY/3.1"), 0)]
        {
            let dialer = Dialer::new(&Kubelets { max_bytes_per_second, ..Kubelets::default() }, &dial).unwrap();
            let mut request = Request::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
            if let Some(protocol) = upgrade {
                request.headers_mut().insert(header::UPGRADE, protocol.parse().unwrap());
            }
            let began = Instant::now();
            let Ok(response) = dialer.send(&pod, request).await else { panic!("no answer to {upgrade:?}") };
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), BODY_BYTES);
            assert_eq!(began.elapsed().as_secs_f64().round() as u64, seconds, "{max_bytes_per_second} {upgrade:?}");
        }
    }
}
