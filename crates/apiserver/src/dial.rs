//! Connections to kubelets, pods and services: TCP, TLS where it is spoken, and one HTTP/1.1 request.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use registry::Target;
use rest::{Dial, ForwardBody, Unreachable};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::serving::KubeletFiles;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to kubelets with the server's client certificate, and to pods and services without one.
pub struct Dialer {
    kubelets: TlsConnector,
    others: TlsConnector,
    /// How the cluster's network is reached, if not directly.
    cluster: Option<Arc<dyn outbound::Dial>>,
}

impl Dialer {
    /// Without an authority a kubelet's certificate is not verified, as upstream has it; nor is that of anybody else, for
    /// whom there is nobody to ask.
    pub fn new(kubelet: &KubeletFiles, cluster: Option<Arc<dyn outbound::Dial>>) -> Result<Arc<Dialer>, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match &kubelet.authority {
            None => Arc::new(Unverified(provider.clone())),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
                }
                let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
                built.map_err(|error| format!("{}: {error}", path.display()))?
            }
        };
        let builder = || -> Result<_, String> {
            let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
            Ok(builder.map_err(|error| error.to_string())?.dangerous())
        };
        let known = builder()?.with_custom_certificate_verifier(verifier);
        let kubelets = match (&kubelet.certificate, &kubelet.key) {
            (Some(certificate), Some(key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{}: {error}", key.display()))?;
                known.with_client_auth_cert(certificates(certificate)?, key).map_err(|error| error.to_string())?
            }
            _ => known.with_no_client_auth(),
        };
        let others =
            builder()?.with_custom_certificate_verifier(Arc::new(Unverified(provider.clone()))).with_no_client_auth();
        let connector = |config| TlsConnector::from(Arc::new(config));
        Ok(Arc::new(Dialer { kubelets: connector(kubelets), others: connector(others), cluster }))
    }

    async fn connect(&self, target: &Target, request: Request<ForwardBody>) -> Result<Response<Incoming>, Unreachable> {
        let stream = self.open(target).await?;
        if !target.tls {
            return exchange(stream, request).await.map_err(Unreachable::Failed);
        }
        let name = ServerName::try_from(target.host.clone());
        let name = name.map_err(|error| Unreachable::Failed(error.to_string()))?;
        let connector = if target.kubelet { &self.kubelets } else { &self.others };
        let stream = connector.connect(name, stream).await;
        let stream = stream.map_err(|error| Unreachable::Failed(format!("tls: {error}")))?;
        exchange(stream, request).await.map_err(Unreachable::Failed)
    }
}

impl Dialer {
    async fn open(&self, target: &Target) -> Result<Box<dyn outbound::Stream>, Unreachable> {
        if let Some(cluster) = &self.cluster {
            // The proxy resolves names; what is an address already is checked here.
            let address = target.host.parse::<std::net::IpAddr>();
            if target.only_global && address.is_ok_and(|address| !object::names::is_global_unicast(address)) {
                return Err(Unreachable::NotAllowed);
            }
            let address = outbound::Address { host: target.host.clone(), port: target.port };
            return cluster.dial(&address).await.map_err(Unreachable::Failed);
        }
        let addresses = resolve(target).await?;
        let stream = TcpStream::connect(addresses.as_slice()).await;
        let address = format!("{}:{}", target.host, target.port);
        let failed = |error| Unreachable::Failed(format!("dial tcp {address}: connect: {}", in_gos_words(&error)));
        let stream = stream.map_err(failed)?;
        let _ = stream.set_nodelay(true);
        Ok(Box::new(stream))
    }
}

#[async_trait]
impl Dial for Dialer {
    async fn send(&self, target: &Target, request: Request<ForwardBody>) -> Result<Response<Incoming>, Unreachable> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.connect(target, request)).await {
            Ok(result) => result,
            Err(_) => Err(Unreachable::Failed(format!("dial tcp {}:{}: i/o timeout", target.host, target.port))),
        }
    }
}

/// The addresses of a target. They are looked up once and then connected to, so that what was checked is what is used.
async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, Unreachable> {
    let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
    let found = found.map_err(|error| Unreachable::Failed(format!("dial tcp: lookup {}: {error}", target.host)))?;
    let found: Vec<SocketAddr> = found.collect();
    if target.only_global && !found.iter().all(|address| object::names::is_global_unicast(address.ip())) {
        return Err(Unreachable::NotAllowed);
    }
    Ok(found)
}

async fn exchange<S>(stream: S, request: Request<ForwardBody>) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a node ended early");
        }
    });
    sender.send_request(request).await.map_err(|error| error.to_string())
}

/// What Go's dialer says.
fn in_gos_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        std::io::ErrorKind::HostUnreachable => "no route to host".into(),
        std::io::ErrorKind::NetworkUnreachable => "network is unreachable".into(),
        _ => error.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|error| format!("{}: {error}", path.display()))
}

/// Takes any certificate and checks only that the other end holds its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
