//! [`Trust`]: the authorities of client certificates and front proxies, read again when their files change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use authn::{CertificateAuthority, UserHeaders};
use gox509::Certificate;
use registry::Features;
use server::tls::Handshake;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::reload::{self, Outcome, Reload};
use crate::{Config, Pki};

/// Who vouches for clients and for front proxies.
pub struct Trust {
    /// None where no client certificate is accepted.
    pub clients: Option<Arc<CertificateAuthority>>,
    /// None where no front proxy is believed.
    pub proxies: Option<Arc<CertificateAuthority>>,
    /// This server's own authority, which signed the administrator's certificate; empty where it does not vouch for clients. It is
    /// told to others only where no other was given.
    own: Vec<Certificate>,
    client_file: Option<PathBuf>,
    proxy_file: Option<PathBuf>,
    /// The files' contents that are in use.
    bundles: watch::Sender<Bundles>,
    /// The headers of front proxies, as extension servers are told.
    headers: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
struct Bundles {
    clients: Vec<u8>,
    proxies: Vec<u8>,
}

impl Trust {
    pub fn open(config: &Config, pki: &Pki, features: &Features) -> Result<Arc<Trust>, String> {
        let own = if pki.own.clients { certificates(&pki.ca)? } else { Vec::new() };
        let client_file = config.client_ca_file.clone().or_else(|| pki.own.clients.then(|| pki.ca.clone()));
        let (mut clients, mut bundle) = (None, Vec::new());
        if let Some(path) = &client_file {
            bundle = read(path)?;
            let authorities = with_own(&own, parse(CLIENTS, path, &bundle)?);
            let reads_uid = features.enabled("AllowParsingUserUIDFromCertAuth");
            clients = Some(Arc::new(CertificateAuthority::new(authorities, reads_uid)));
        }
        let flags = &config.authentication.request_header;
        let (mut proxies, mut proxy_bundle) = (None, Vec::new());
        if let Some(path) = &flags.client_ca_file {
            proxy_bundle = read(path)?;
            proxies = Some(Arc::new(CertificateAuthority::new(parse(PROXIES, path, &proxy_bundle)?, false)));
        }
        let (bundles, _) = watch::channel(Bundles { clients: bundle, proxies: proxy_bundle });
        let proxy_file = flags.client_ca_file.clone();
        let headers = published_headers(&flags.given, &flags.allowed_names);
        Ok(Arc::new(Trust { clients, proxies, own, client_file, proxy_file, bundles, headers }))
    }

    /// The authorities that a handshake names.
    pub fn named(&self) -> Result<Vec<Certificate>, String> {
        let bundles = self.bundles.borrow();
        let mut named = Vec::new();
        for (purpose, file, bundle) in
            [(CLIENTS, &self.client_file, &bundles.clients), (PROXIES, &self.proxy_file, &bundles.proxies)]
        {
            if let Some(path) = file {
                named.extend(parse(purpose, path, bundle)?);
            }
        }
        Ok(named)
    }

    /// The config map's data for extension servers: whose certificates are believed, and in which headers front proxies name users.
    pub fn published(&self) -> BTreeMap<String, String> {
        let bundles = self.bundles.borrow();
        let text = |bundle: &[u8]| String::from_utf8_lossy(bundle).into_owned();
        let mut data = BTreeMap::new();
        if self.client_file.is_some() {
            data.insert("client-ca-file".to_string(), text(&bundles.clients));
        }
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

    /// Reads the files again when they change, for as long as the tasks run, and tells the handshake, which names the authorities.
    pub fn run(self: &Arc<Trust>, handshake: Option<Arc<Handshake>>, tasks: &mut JoinSet<()>) {
        let bundles = self.bundles.borrow().clone();
        let target = |proxies| BundleFile { trust: self.clone(), handshake: handshake.clone(), proxies };
        if let Some(path) = self.client_file.clone() {
            tasks.spawn(reload::run(path, bundles.clients, target(false)));
        }
        if let Some(path) = self.proxy_file.clone() {
            tasks.spawn(reload::run(path, bundles.proxies, target(true)));
        }
    }

    /// Believes other authorities from now on.
    fn replace(&self, proxies: bool, bundle: &[u8]) -> Result<(), String> {
        let (purpose, authority, file) = if proxies {
            (PROXIES, &self.proxies, &self.proxy_file)
        } else {
            (CLIENTS, &self.clients, &self.client_file)
        };
        if let (Some(authority), Some(path)) = (authority, file) {
            let given = parse(purpose, path, bundle)?;
            authority.replace(if proxies { given } else { with_own(&self.own, given) });
        }
        self.bundles.send_modify(|bundles| {
            *(if proxies { &mut bundles.proxies } else { &mut bundles.clients }) = bundle.to_vec();
        });
        Ok(())
    }
}

/// One of the two files.
struct BundleFile {
    trust: Arc<Trust>,
    /// None where there is no listener.
    handshake: Option<Arc<Handshake>>,
    proxies: bool,
}

impl BundleFile {
    fn replace(&self, bundle: &[u8]) -> Result<(), String> {
        self.trust.replace(self.proxies, bundle)?;
        match &self.handshake {
            Some(handshake) => handshake.set_authorities(&self.trust.named()?),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Reload for BundleFile {
    async fn reload(&mut self, contents: Result<&[u8], &std::io::Error>) -> Outcome {
        let outcome = match contents {
            Ok(bundle) => self.replace(bundle),
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

fn with_own(own: &[Certificate], mut given: Vec<Certificate>) -> Vec<Certificate> {
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

/// Upstream's names for the two files in errors.
const CLIENTS: &str = "client-ca-bundle";
const PROXIES: &str = "request-header";

/// The certificates in a file of clients' authorities.
pub fn certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    parse(CLIENTS, path, &read(path)?)
}

/// Err is what upstream says: the file must hold a certificate, and every certificate in it must be readable.
fn parse(purpose: &str, path: &Path, pem: &[u8]) -> Result<Vec<Certificate>, String> {
    let name = object::quote(&format!("{purpose}::{}", path.display()));
    if pem.is_empty() {
        return Err(format!("missing content for CA bundle {name}"));
    }
    gox509::parse_bundle(pem).map_err(|why| format!("error loading CA bundle for {name}: {why}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file without a usable certificate is refused in upstream's words, whoever it is for.
    #[test]
    fn files_without_certificates_are_refused() {
        let made = rcgen::generate_simple_self_signed(vec!["a".to_string()]).unwrap();
        let (good, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let none = "data does not contain any valid RSA or ECDSA certificates";
        let with_header =
            good.replacen("-----\n", "-----\nKey: value\n", 1).replacen("-----\r\n", "-----\nKey: value\n", 1);
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, want) in [
            ("", "missing content for CA bundle \"client-ca-bundle::ca.crt\"".to_string()),
            ("\n", format!("error loading CA bundle for \"client-ca-bundle::ca.crt\": {none}")),
            (&key, format!("error loading CA bundle for \"client-ca-bundle::ca.crt\": {none}")),
            (&with_header, format!("error loading CA bundle for \"client-ca-bundle::ca.crt\": {none}")),
            (
                broken,
                "error loading CA bundle for \"client-ca-bundle::ca.crt\": x509: malformed certificate".to_string(),
            ),
            (
                &format!("{good}{broken}"),
                "error loading CA bundle for \"client-ca-bundle::ca.crt\": x509: malformed certificate".to_string(),
            ),
        ] {
            assert_eq!(parse(CLIENTS, Path::new("ca.crt"), text.as_bytes()).err(), Some(want), "{text}");
        }
        let found = parse(PROXIES, Path::new("ca.crt"), format!("junk\n{key}{good}").as_bytes());
        assert_eq!(found.unwrap().len(), 1);
    }
}
