//! A TLS server of the test's own that the server under attack connects to: a kubelet, a webhook, another API server.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::credentials::shown;

pub struct Peer {
    pub listener: TcpListener,
    pub acceptor: TlsAcceptor,
    pub port: u16,
    /// Its certificate as PEM.
    pub certificate: String,
}

impl Peer {
    /// Listens on a free port, with a certificate for this name that is signed by itself.
    pub async fn bind(name: &str) -> Peer {
        let made = rcgen::generate_simple_self_signed(vec![name.to_string()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        Peer { certificate: made.cert.pem(), ..Peer::bind_as(vec![made.cert.der().clone()], key).await }
    }

    /// Listens on a free port and shows this chain.
    pub async fn bind_as(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Peer {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(shown((chain, key))));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Peer { listener, acceptor: TlsAcceptor::from(Arc::new(config)), port, certificate: String::new() }
    }
}
