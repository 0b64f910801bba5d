//! [`Trust`]: the authorities of client certificates and front proxies, read again when their files change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use authn::{CertificateAuthority, UserHeaders};
use registry::Features;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use server::tls::Handshake;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::reload::{self, Outcome, Reload};
use crate::{Config, Pki};

/// Who vouches for clients and for front proxies.
pub struct Trust {
    pub clients: Arc<CertificateAuthority>,
    /// None where no front proxy is believed.
    pub proxies: Option<Arc<CertificateAuthority>>,
    /// This server's own authority, which signed the administrator's certificate. It is accepted always, and told to others
    /// only where no other was given.
    own: Vec<CertificateDer<'static>>,
    client_file: PathBuf,
    proxy_file: Option<PathBuf>,
    /// The files' contents that are in use.
    bundles: watch::Sender<Bundles>,
    /// What extension servers are told about the headers of front proxies.
    headers: BTreeMap<String, String>,
    /// The handshake names the authorities.
    handshake: OnceLock<Arc<Handshake>>,
}

#[derive(Clone, Default)]
struct Bundles {
    clients: Vec<u8>,
    proxies: Vec<u8>,
}

impl Trust {
    pub fn open(config: &Config, pki: &Pki, features: &Features) -> Result<Arc<Trust>, String> {
        let own = certificates(&pki.ca)?;
        let client_file = config.client_ca_file.clone().unwrap_or_else(|| pki.ca.clone());
        let bundle = read(&client_file)?;
        let authorities = with_own(&own, parse(&client_file, &bundle)?);
        let reads_uid = features.enabled("AllowParsingUserUIDFromCertAuth");
        let clients = Arc::new(CertificateAuthority::new(authorities, reads_uid)?);
        let flags = &config.authentication.request_header;
        let (mut proxies, mut proxy_bundle) = (None, Vec::new());
        if let Some(path) = &flags.client_ca_file {
            proxy_bundle = read(path)?;
            proxies = Some(Arc::new(CertificateAuthority::new(parse(path, &proxy_bundle)?, false)?));
        }
        let (bundles, _) = watch::channel(Bundles { clients: bundle, proxies: proxy_bundle });
        let proxy_file = flags.client_ca_file.clone();
        let headers = published_headers(&flags.given, &flags.allowed_names);
        let handshake = OnceLock::new();
        Ok(Arc::new(Trust { clients, proxies, own, client_file, proxy_file, bundles, headers, handshake }))
    }

    /// The authorities that a handshake names.
    pub fn named(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let bundles = self.bundles.borrow();
        let mut named = parse(&self.client_file, &bundles.clients)?;
        if let Some(path) = &self.proxy_file {
            named.extend(parse(path, &bundles.proxies)?);
        }
        Ok(named)
    }

    /// Lets changes reach the handshake.
    pub fn connect(&self, handshake: &Arc<Handshake>) {
        let _ = self.handshake.set(handshake.clone());
    }

    /// What extension servers are told: whose certificates are believed, and in which headers front proxies name users.
    pub fn published(&self) -> BTreeMap<String, String> {
        let bundles = self.bundles.borrow();
        let text = |bundle: &[u8]| String::from_utf8_lossy(bundle).into_owned();
        let mut data = BTreeMap::from([("client-ca-file".to_string(), text(&bundles.clients))]);
        if self.proxy_file.is_some() {
            data.extend(self.headers.clone());
            data.insert("requestheader-client-ca-file".into(), text(&bundles.proxies));
        }
        data
    }

    /// Tells of changes of what is published.
    pub fn changes(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut bundles = self.bundles.subscribe();
        async move {
            if bundles.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Reads the files again when they change, for as long as the tasks run.
    pub fn follow(self: &Arc<Trust>, tasks: &mut JoinSet<()>) {
        let bundles = self.bundles.borrow().clone();
        let target = |proxies| BundleFile { trust: self.clone(), proxies };
        tasks.spawn(reload::follow(self.client_file.clone(), bundles.clients, target(false)));
        if let Some(path) = self.proxy_file.clone() {
            tasks.spawn(reload::follow(path, bundles.proxies, target(true)));
        }
    }

    /// Believes other authorities from now on.
    fn replace(&self, proxies: bool, bundle: &[u8]) -> Result<(), String> {
        match (&self.proxies, &self.proxy_file) {
            (Some(authority), Some(path)) if proxies => authority.replace(parse(path, bundle)?)?,
            _ => self.clients.replace(with_own(&self.own, parse(&self.client_file, bundle)?))?,
        }
        self.bundles.send_modify(|bundles| {
            *(if proxies { &mut bundles.proxies } else { &mut bundles.clients }) = bundle.to_vec();
        });
        match self.handshake.get() {
            Some(handshake) => handshake.set_authorities(&self.named()?),
            None => Ok(()),
        }
    }
}

/// One of the two files.
struct BundleFile {
    trust: Arc<Trust>,
    proxies: bool,
}

#[async_trait]
impl Reload for BundleFile {
    async fn reload(&mut self, contents: Result<&[u8], &std::io::Error>) -> Outcome {
        let outcome = match contents {
            Ok(bundle) => self.trust.replace(self.proxies, bundle),
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(()) => {
                tracing::info!(proxies = self.proxies, "client CA certificates were read again");
                Outcome::Settled
            }
            Err(why) => {
                tracing::error!(why, "client CA certificates cannot be read; the old ones stay in use");
                Outcome::Again
            }
        }
    }
}

fn with_own(own: &[CertificateDer<'static>], mut given: Vec<CertificateDer<'static>>) -> Vec<CertificateDer<'static>> {
    given.extend(own.iter().cloned());
    given
}

fn published_headers(given: &UserHeaders, allowed_names: &[String]) -> BTreeMap<String, String> {
    let list =
        |items: &[String]| format!("[{}]", items.iter().map(|item| object::quote(item)).collect::<Vec<_>>().join(","));
    let mut data = BTreeMap::from([
        ("requestheader-username-headers".to_string(), list(&given.names)),
        ("requestheader-group-headers".to_string(), list(&given.groups)),
        ("requestheader-extra-headers-prefix".to_string(), list(&given.extra_prefixes)),
        ("requestheader-allowed-names".to_string(), list(allowed_names)),
    ]);
    if !given.uids.is_empty() {
        data.insert("requestheader-uid-headers".into(), list(&given.uids));
    }
    data
}

/// The certificates in a PEM file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    parse(path, &read(path)?)
}

fn parse(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{} is not PEM: {error}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
