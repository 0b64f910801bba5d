//! A TLS server of this process, for the API servers to connect to.

use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Listens on a free port and hands every connection to `serve`, in a task of its own. Its port, and its certificate as PEM.
pub async fn listen<Served>(
    protocols: &[&[u8]],
    serve: impl Fn(TlsStream<TcpStream>) -> Served + Clone + Send + 'static,
) -> Result<(u16, String), String>
where
    Served: Future<Output = ()> + Send,
{
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let key = rcgen::KeyPair::generate().map_err(|error| text(&error))?;
    let params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).map_err(|error| text(&error))?;
    let certificate = params.self_signed(&key).map_err(|error| text(&error))?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(difftest::crypto());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| text(&error))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .map_err(|error| text(&error))?;
    config.ignore_client_order = true;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| text(&error))?;
    let port = listener.local_addr().map_err(|error| text(&error))?.port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, serve) = (acceptor.clone(), serve.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream).await;
                }
            });
        }
    });
    Ok((port, certificate.pem()))
}
