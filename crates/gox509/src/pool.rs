//! [`Pool`]: certificates by subject, as Go's `x509.CertPool` has them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::certificate::Certificate;
use crate::pem;

/// Certificates, each once.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    certificates: Vec<Arc<Certificate>>,
    by_subject: HashMap<Vec<u8>, Vec<usize>>,
}

impl Pool {
    pub fn new(certificates: impl IntoIterator<Item = Certificate>) -> Pool {
        let mut pool = Pool::default();
        for certificate in certificates {
            pool.add(certificate);
        }
        pool
    }

    fn add(&mut self, certificate: Certificate) {
        if self.contains(&certificate) {
            return;
        }
        self.by_subject.entry(certificate.raw_subject.clone()).or_default().push(self.certificates.len());
        self.certificates.push(Arc::new(certificate));
    }

    /// The certificates in a PEM text that can be read; what else is in it is passed over, as by Go's `AppendCertsFromPEM`.
    pub fn from_readable_pem(text: &[u8]) -> Pool {
        let blocks = pem::blocks(text).filter(|block| block.label == "CERTIFICATE" && !block.has_headers);
        Pool::new(blocks.filter_map(|block| Certificate::parse(&block.bytes).ok()))
    }

    /// The certificates in a bundle of a client: a webhook's `caBundle` or a kubeconfig's authorities. At least one must be
    /// readable; Err is what client-go says otherwise.
    pub fn from_client_pem(text: &[u8]) -> Result<Pool, String> {
        let pool = Pool::from_readable_pem(text);
        if !pool.is_empty() {
            return Ok(pool);
        }
        let mut rest = text;
        while !rest.is_empty() {
            let Some((block, after)) = pem::decode(rest) else {
                return Err("unable to parse bytes as PEM block".into());
            };
            rest = after;
            if block.label == "CERTIFICATE" && !block.has_headers {
                Certificate::parse(&block.bytes).map_err(|why| format!("failed to parse certificate: {why}"))?;
            }
        }
        Err("no valid certificate authority data seen".into())
    }

    /// The certificates of etcd's authorities: every PEM block must be one.
    pub fn from_etcd_pem(text: &[u8]) -> Result<Pool, String> {
        let certificates: Result<Vec<_>, _> = pem::blocks(text).map(|block| Certificate::parse(&block.bytes)).collect();
        certificates.map(Pool::new)
    }

    /// Whom this machine trusts, read once. Certificates that cannot be read are passed over.
    pub fn of_system() -> Arc<Pool> {
        static SYSTEM: OnceLock<Arc<Pool>> = OnceLock::new();
        let load = || {
            let found = rustls_native_certs::load_native_certs().certs;
            Arc::new(Pool::new(found.iter().filter_map(|der| Certificate::parse(der).ok())))
        };
        SYSTEM.get_or_init(load).clone()
    }

    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// The names of the certificates, as they stand in them.
    pub fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(|certificate| certificate.raw_subject.as_slice())
    }

    pub(crate) fn contains(&self, certificate: &Certificate) -> bool {
        self.named(&certificate.raw_subject).any(|known| known.raw == certificate.raw)
    }

    fn named(&self, subject: &[u8]) -> impl Iterator<Item = &Arc<Certificate>> {
        let places = self.by_subject.get(subject).map(Vec::as_slice).unwrap_or_default();
        places.iter().filter_map(|at| self.certificates.get(*at))
    }

    /// Those that may have signed a certificate: first where the identifiers of the key agree, then where one is missing, then
    /// the others.
    pub(crate) fn potential_parents(&self, child: &Certificate) -> Vec<&Arc<Certificate>> {
        let wanted = &child.extensions.authority_key_id;
        let rank = |parent: &&Arc<Certificate>| {
            let id = &parent.extensions.subject_key_id;
            match (id == wanted, id.is_empty() == wanted.is_empty()) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            }
        };
        let mut parents: Vec<_> = self.named(&child.raw_issuer).collect();
        parents.sort_by_key(rank);
        parents
    }
}

/// The certificates of an authority's file, as client-go's `ParseCertsPEM` reads them: blocks that are no certificates, or have
/// headers, are passed over, and every certificate must be readable.
pub fn parse_bundle(text: &[u8]) -> Result<Vec<Certificate>, String> {
    let blocks = pem::blocks(text).filter(|block| block.label == "CERTIFICATE" && !block.has_headers);
    let certificates: Vec<Certificate> =
        blocks.map(|block| Certificate::parse(&block.bytes)).collect::<Result<_, _>>()?;
    if certificates.is_empty() {
        return Err("data does not contain any valid RSA or ECDSA certificates".into());
    }
    Ok(certificates)
}
