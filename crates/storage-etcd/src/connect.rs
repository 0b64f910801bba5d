//! Connections to members, plain or TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gox509::tls::ServerVerifier;
use gox509::{KeyPair, Pool};
use http::Uri;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::{EtcdDial, EtcdOptions, Io, StartError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A request that failed with this was never sent.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot connect to {address}: {why}")]
pub(crate) struct CannotConnect {
    address: String,
    why: String,
}

/// One member: its address and how to speak to it.
#[derive(Debug)]
pub(crate) struct EtcdEndpoint {
    place: MemberAddress,
    tls: Option<Tls>,
    dial: Option<EtcdDial>,
}

/// Where a member listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberAddress {
    Tcp { host: String, port: u16 },
    Socket(PathBuf),
}

impl std::fmt::Display for MemberAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MemberAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
            MemberAddress::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

impl MemberAddress {
    /// What the member is called in requests, and in its certificate.
    fn host(&self) -> &str {
        match self {
            MemberAddress::Tcp { host, .. } => host.trim_start_matches('[').trim_end_matches(']'),
            MemberAddress::Socket(_) => "localhost",
        }
    }

    fn authority(&self) -> String {
        match self {
            MemberAddress::Tcp { .. } => self.to_string(),
            MemberAddress::Socket(_) => "localhost".into(),
        }
    }
}

#[derive(Clone, Debug)]
struct Tls {
    /// Who signs the members' certificates; without it, those whom this machine trusts.
    ca_file: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
}

impl EtcdEndpoint {
    pub fn parse(endpoint: &str, options: &EtcdOptions) -> Result<EtcdEndpoint, StartError> {
        let wrong = |why: &str| StartError(format!("etcd endpoint {endpoint:?} {why}"));
        let (scheme, address) = endpoint.split_once("://").unwrap_or(("http", endpoint));
        let place = if matches!(scheme, "unix" | "unixs") {
            // As etcd reads it: `unix:///run/etcd.sock`, or relative to the working directory, `unix://localhost:2379`.
            if address.is_empty() {
                return Err(wrong("has no path"));
            }
            MemberAddress::Socket(address.into())
        } else {
            let uri: Uri =
                format!("http://{}", address.trim_end_matches('/')).parse().map_err(|_| wrong("is no URL"))?;
            let host = uri.host().ok_or_else(|| wrong("has no host"))?.to_string();
            MemberAddress::Tcp { host, port: uri.port_u16().unwrap_or(2379) }
        };
        let tls = match scheme {
            "http" | "unix" => None,
            "https" | "unixs" => {
                let identity = match (&options.cert_file, &options.key_file) {
                    (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
                    (None, None) => None,
                    _ => return Err(StartError("etcd-certfile and etcd-keyfile belong together".into())),
                };
                Some(Tls { ca_file: options.ca_file.clone(), identity })
            }
            _ => return Err(wrong("is neither http, https, unix nor unixs")),
        };
        Ok(EtcdEndpoint { place, tls, dial: options.dial.clone() })
    }

    /// Reads the certificates once, so that a wrong file is found when the server is started.
    pub fn check_files(&self) -> Result<(), StartError> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.config().map(drop)).map_err(StartError)
    }

    /// What requests to the member begin with.
    pub fn origin(&self) -> Result<Uri, http::uri::InvalidUri> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.place.authority()).parse()
    }

    pub async fn connect(&self) -> Result<Box<dyn Io>, CannotConnect> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.attempt()).await;
        connected.unwrap_or_else(|_| Err("timed out".into())).map_err(|why| self.cannot_connect(&why))
    }

    pub fn cannot_connect(&self, why: &dyn std::fmt::Display) -> CannotConnect {
        CannotConnect { address: self.place.to_string(), why: why.to_string() }
    }

    async fn attempt(&self) -> Result<Box<dyn Io>, String> {
        let stream = match (&self.dial, &self.place) {
            (Some(EtcdDial(dial)), MemberAddress::Tcp { port, .. }) => {
                dial(self.place.host().to_string(), *port).await?
            }
            _ => self.dial().await.map_err(|error| error.to_string())?,
        };
        let Some(tls) = &self.tls else { return Ok(stream) };
        let name = ServerName::try_from(self.place.host().to_string()).map_err(|error| error.to_string())?;
        let stream =
            TlsConnector::from(tls.config()?).connect(name, stream).await.map_err(|error| error.to_string())?;
        Ok(Box::new(stream))
    }

    async fn dial(&self) -> std::io::Result<Box<dyn Io>> {
        match &self.place {
            MemberAddress::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            MemberAddress::Tcp { port, .. } => {
                let stream = TcpStream::connect((self.place.host(), *port)).await?;
                // Requests are small and answers are waited for.
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

impl Tls {
    fn config(&self) -> Result<Arc<rustls::ClientConfig>, String> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let wrong = |path: &Path, why: String| format!("{}: {why}", path.display());
        let roots = match &self.ca_file {
            Some(file) => Arc::new(signers(&read(file)?).map_err(|why| wrong(file, why))?),
            None => trusted_here()?,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(ServerVerifier::new(Some(Box::new(roots))));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let pair = KeyPair::parse(&read(cert)?, &read(key)?).map_err(|why| wrong(cert, why))?;
                let key = provider.key_provider.load_private_key(pair.key);
                let key = key.map_err(|error| wrong(cert, error.to_string()))?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(pair.chain, key))))
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

fn signers(pem: &[u8]) -> Result<Pool, String> {
    let pool = Pool::from_etcd_pem(pem)?;
    if pool.is_empty() { Err("has no certificate in it".into()) } else { Ok(pool) }
}

/// Whom this machine trusts.
fn trusted_here() -> Result<Arc<Pool>, String> {
    let pool = Pool::of_system();
    if pool.is_empty() {
        return Err(
            "this machine trusts no certificate authority: name who signs etcd's certificate (etcd-cafile)".into()
        );
    }
    Ok(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let with_ca = EtcdOptions { ca_file: Some("ca.pem".into()), ..EtcdOptions::at([]) };
        let half = EtcdOptions { cert_file: Some("me.pem".into()), ..with_ca.clone() };
        let tcp = |host: &str, port| MemberAddress::Tcp { host: host.into(), port };
        let cases = [
            ("http://10.0.0.1:2379", &with_ca, Ok((tcp("10.0.0.1", 2379), false))),
            ("https://etcd-0.example:4001/", &with_ca, Ok((tcp("etcd-0.example", 4001), true))),
            ("https://[::1]:2379", &with_ca, Ok((tcp("[::1]", 2379), true))),
            ("localhost:1", &with_ca, Ok((tcp("localhost", 1), false))),
            ("http://etcd", &with_ca, Ok((tcp("etcd", 2379), false))),
            ("unix:///run/etcd.sock", &with_ca, Ok((MemberAddress::Socket("/run/etcd.sock".into()), false))),
            ("unixs://localhost:2379", &with_ca, Ok((MemberAddress::Socket("localhost:2379".into()), true))),
            ("unix://", &with_ca, Err("has no path")),
            ("ftp://etcd", &with_ca, Err("neither http, https, unix nor unixs")),
            ("https://etcd", &EtcdOptions::at([]), Ok((tcp("etcd", 2379), true))),
            ("https://etcd", &half, Err("belong together")),
            ("http://", &with_ca, Err("is no URL")),
        ];
        for (endpoint, options, expected) in cases {
            match (EtcdEndpoint::parse(endpoint, options), expected) {
                (Ok(target), Ok(expected)) => {
                    assert_eq!((target.place, target.tls.is_some()), expected, "{endpoint}");
                }
                (Err(error), Err(part)) => assert!(error.0.contains(part), "{endpoint}: {error}"),
                (got, _) => panic!("{endpoint}: {got:?}"),
            }
        }
    }
}
