//! TLS: certificates by server name, reloaded when they change; client certificates asked for and judged later.

mod curves;
mod files;
mod suites;

use std::collections::HashMap;
use std::sync::Arc;

use gox509::tls::ClientAsker;
use gox509::{Certificate, KeyPair};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

pub use files::{CertificateFiles, follow};

/// The certificates the server shows, by the name a client asks for. Changing them affects new connections.
#[derive(Debug, Default)]
pub struct Certificates {
    default: RwLock<Option<Arc<CertifiedKey>>>,
    by_name: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

impl Certificates {
    /// Reads a certificate chain and its key from PEM text.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
        let pair = KeyPair::parse(chain, key)?;
        let key = provider().key_provider.load_private_key(pair.key).map_err(|error| format!("tls: {error}"))?;
        Ok(Arc::new(CertifiedKey::new(pair.chain, key)))
    }

    pub fn set_default(&self, key: Arc<CertifiedKey>) {
        *self.default.write() = Some(key);
    }

    /// The certificates for names; `*.example.com` covers one label.
    pub fn set_names(&self, names: HashMap<String, Arc<CertifiedKey>>) {
        *self.by_name.write() = names;
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let by_name = self.by_name.read();
        let named = hello.server_name().and_then(|name| {
            let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
            by_name.get(name).or_else(|| by_name.get(&wildcard?)).cloned()
        });
        named.or_else(|| self.default.read().clone())
    }
}

/// Which TLS versions, cipher suites, key exchanges and HTTP versions are offered.
#[derive(Clone, Debug, Default)]
pub struct Protocols {
    /// `--tls-min-version`: VersionTLS12 unless told otherwise.
    pub min_version: String,
    /// `--tls-cipher-suites` by Go's names; empty for all that are safe.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences` by number; empty for Go's defaults.
    pub curves: Vec<i64>,
    /// `--disable-http2-serving`.
    pub http1_only: bool,
}

/// The server's side of TLS 1.2 and 1.3, HTTP/2 preferred. Clients are told which authorities' certificates are accepted, so that
/// those with several can choose; these authorities can change, which affects new connections.
pub struct Handshake {
    certificates: Arc<Certificates>,
    protocols: Protocols,
    current: RwLock<Arc<ServerConfig>>,
}

impl Handshake {
    pub fn new(
        certificates: Arc<Certificates>,
        protocols: &Protocols,
        authorities: &[Certificate],
    ) -> Result<Arc<Handshake>, String> {
        let current = RwLock::new(config(certificates.clone(), protocols, authorities)?);
        Ok(Arc::new(Handshake { certificates, protocols: protocols.clone(), current }))
    }

    /// Names other authorities from now on.
    pub fn set_authorities(&self, authorities: &[Certificate]) -> Result<(), String> {
        let changed = config(self.certificates.clone(), &self.protocols, authorities)?;
        *self.current.write() = changed;
        Ok(())
    }

    /// The configuration of the next connection.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.read().clone()
    }
}

fn config(
    certificates: Arc<Certificates>,
    protocols: &Protocols,
    authorities: &[Certificate],
) -> Result<Arc<ServerConfig>, String> {
    let versions = suites::versions(&protocols.min_version)?;
    let mut provider = provider();
    suites::narrow(&mut provider, &protocols.cipher_suites)?;
    curves::narrow(&mut provider, &protocols.curves).map_err(|why| format!("--tls-curve-preferences: {why}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(ClientAsker::new(authorities))
        .with_cert_resolver(certificates);
    let offered: &[&[u8]] = if protocols.http1_only { &[b"http/1.1"] } else { &[b"h2", b"http/1.1"] };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    // Sessions can be resumed without another full handshake; one ticket is enough for that.
    config.send_tls13_tickets = 1;
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| error.to_string())?;
    Ok(Arc::new(config))
}

fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
