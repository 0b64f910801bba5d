//! [`Credentials`]: how a client proves who it is.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gox509::KeyPair;
use http::{HeaderMap, HeaderValue, header};
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use crate::roots::Reloaded;

/// How often client-go looks whether a token file has changed.
const TOKEN_FILE_INTERVAL: Duration = Duration::from_secs(60);

/// The credentials that a client shows to servers. Without any of these it is anonymous.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Credentials {
    pub certificate: Option<Certificate>,
    pub token: Option<Token>,
    /// A user name and a password.
    pub basic: Option<(String, String)>,
    /// `Impersonate-*` headers.
    pub impersonation: Vec<(String, String)>,
}

/// A client certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Certificate {
    Pem {
        certificate: Vec<u8>,
        key: Vec<u8>,
    },
    /// Read again when they change.
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    Text(String),
    /// Read again every minute.
    File(PathBuf),
}

/// Puts the headers of [`Credentials`] onto requests.
pub(crate) struct Headers {
    fixed: HeaderMap,
    token_file: Option<TokenFile>,
}

struct TokenFile {
    path: PathBuf,
    latest: Mutex<Option<(Instant, HeaderValue)>>,
}

impl Headers {
    pub fn new(credentials: &Credentials) -> Result<Headers, String> {
        let mut fixed = HeaderMap::new();
        let secret = |text: String| -> Result<HeaderValue, String> {
            let mut value = HeaderValue::from_str(&text).map_err(|_| "net/http: invalid header field value")?;
            value.set_sensitive(true);
            Ok(value)
        };
        let mut token_file = None;
        match (&credentials.token, &credentials.basic) {
            (Some(Token::Text(token)), _) => {
                fixed.insert(header::AUTHORIZATION, secret(format!("Bearer {token}"))?);
            }
            (Some(Token::File(path)), _) => {
                token_file = Some(TokenFile { path: path.clone(), latest: Mutex::default() });
            }
            (None, Some((user, password))) => {
                let encoded = STANDARD.encode(format!("{user}:{password}"));
                fixed.insert(header::AUTHORIZATION, secret(format!("Basic {encoded}"))?);
            }
            (None, None) => {}
        }
        for (name, value) in &credentials.impersonation {
            let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            fixed.append(name, HeaderValue::from_str(value).map_err(|error| error.to_string())?);
        }
        Ok(Headers { fixed, token_file })
    }

    /// Adds the credentials, unless the request brings its own.
    pub fn put(&self, headers: &mut HeaderMap) -> Result<(), String> {
        if let Some(file) = &self.token_file
            && !headers.contains_key(header::AUTHORIZATION)
        {
            headers.insert(header::AUTHORIZATION, file.current()?);
        }
        for (name, value) in &self.fixed {
            if name != header::AUTHORIZATION || !headers.contains_key(name) {
                headers.append(name, value.clone());
            }
        }
        Ok(())
    }
}

impl TokenFile {
    fn current(&self) -> Result<HeaderValue, String> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, value)) = latest.as_ref()
            && read.elapsed() < TOKEN_FILE_INTERVAL
        {
            return Ok(value.clone());
        }
        let read = std::fs::read_to_string(&self.path).map_err(|error| {
            format!("failed to read token file {}: {}", object::quote(&self.path.display().to_string()), error)
        });
        let value = read.and_then(|text| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", text.trim()))
                .map_err(|_| "net/http: invalid header field value".to_string())?;
            value.set_sensitive(true);
            Ok(value)
        });
        match (value, latest.as_ref()) {
            (Ok(value), _) => {
                *latest = Some((Instant::now(), value.clone()));
                Ok(value)
            }
            // A file that cannot be read for a moment does not end a session that works.
            (Err(_), Some((_, old))) => Ok(old.clone()),
            (Err(error), None) => Err(error),
        }
    }
}

/// Answers a server that asks for a client certificate.
#[derive(Debug)]
pub(crate) enum ClientCertificate {
    None,
    Fixed(Arc<CertifiedKey>),
    Files(Reloaded<CertifiedKey>),
}

impl ClientCertificate {
    pub fn open(certificate: Option<&Certificate>) -> Result<ClientCertificate, String> {
        Ok(match certificate {
            None => ClientCertificate::None,
            Some(Certificate::Pem { certificate, key }) => {
                ClientCertificate::Fixed(Arc::new(certified(&[certificate.clone(), key.clone()])?))
            }
            Some(Certificate::Files { certificate, key }) => {
                ClientCertificate::Files(Reloaded::open(vec![certificate.clone(), key.clone()], certified)?)
            }
        })
    }
}

/// Servers decide what else they accept: a certificate of version 1, which `openssl x509 -req` makes, is fine.
fn certified(pems: &[Vec<u8>]) -> Result<CertifiedKey, String> {
    let [certificate, key] = pems else { return Err("a certificate and a key belong together".into()) };
    let pair = KeyPair::parse(certificate, key)?;
    let provider: CryptoProvider = rustls::crypto::aws_lc_rs::default_provider();
    let key = provider.key_provider.load_private_key(pair.key).map_err(|error| format!("tls: {error}"))?;
    Ok(CertifiedKey::new(pair.chain, key))
}

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        match self {
            ClientCertificate::None => None,
            ClientCertificate::Fixed(key) => Some(key.clone()),
            ClientCertificate::Files(files) => Some(files.current()),
        }
    }

    fn has_certs(&self) -> bool {
        !matches!(self, ClientCertificate::None)
    }
}
