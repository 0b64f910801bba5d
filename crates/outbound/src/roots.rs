//! [`Roots`]: which certificate authorities a client trusts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Which certificate authorities vouch for a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Roots {
    /// Those of this machine.
    #[default]
    System,
    /// The certificates of a PEM bundle.
    Pem(Vec<u8>),
    /// The certificates of a PEM file, read again when it changes.
    File(PathBuf),
    /// Every server is trusted: `insecureSkipTLSVerify`.
    Insecure,
}

/// Trusted certificates, ready for verification.
#[derive(Debug)]
pub(crate) struct Trusted {
    pub anchors: Arc<RootCertStore>,
    /// Go accepts a server's certificate that is itself in the pool, whatever its constraints say.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Trusted {
    pub fn parse(pem: &[u8]) -> Result<Trusted, String> {
        let wrong = |why: &str| format!("unable to load root certificates: {why}");
        let found: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates =
            found.map_err(|_| wrong("failed to parse certificate: unable to parse bytes as PEM block"))?;
        if certificates.is_empty() {
            return Err(wrong("unable to parse bytes as PEM block"));
        }
        let mut anchors = RootCertStore::empty();
        let (added, _) = anchors.add_parsable_certificates(certificates.iter().cloned());
        if added == 0 {
            return Err(wrong("failed to parse certificate: x509: malformed certificate"));
        }
        Ok(Trusted { anchors: Arc::new(anchors), certificates })
    }

    /// The authorities of this machine, read once.
    fn system() -> Arc<Trusted> {
        static SYSTEM: OnceLock<Arc<Trusted>> = OnceLock::new();
        let load = || {
            let certificates = rustls_native_certs::load_native_certs().certs;
            let mut anchors = RootCertStore::empty();
            anchors.add_parsable_certificates(certificates.iter().cloned());
            Arc::new(Trusted { anchors: Arc::new(anchors), certificates })
        };
        SYSTEM.get_or_init(load).clone()
    }
}

/// Where trusted certificates come from.
#[derive(Debug)]
pub(crate) enum Source {
    Fixed(Arc<Trusted>),
    File(Reloaded<Trusted>),
}

impl Source {
    /// None trusts every server.
    pub fn open(roots: &Roots) -> Result<Option<Source>, String> {
        Ok(Some(match roots {
            Roots::Insecure => return Ok(None),
            Roots::System => Source::Fixed(Trusted::system()),
            Roots::Pem(pem) => Source::Fixed(Arc::new(Trusted::parse(pem)?)),
            Roots::File(path) => Source::File(Reloaded::open(vec![path.clone()], |texts| Trusted::parse(&texts[0]))?),
        }))
    }

    pub fn current(&self) -> Arc<Trusted> {
        match self {
            Source::Fixed(trusted) => trusted.clone(),
            Source::File(file) => file.current(),
        }
    }
}

/// Something made of files, made again when one of them has changed. While the new files cannot be used, the old value stays.
pub(crate) struct Reloaded<T> {
    files: Vec<PathBuf>,
    make: fn(&[Vec<u8>]) -> Result<T, String>,
    latest: Mutex<(Vec<Option<SystemTime>>, Arc<T>)>,
}

impl<T> std::fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloaded").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<T> Reloaded<T> {
    pub fn open(files: Vec<PathBuf>, make: fn(&[Vec<u8>]) -> Result<T, String>) -> Result<Reloaded<T>, String> {
        let times = times(&files);
        let made = make(&read(&files)?)?;
        Ok(Reloaded { files, make, latest: Mutex::new((times, Arc::new(made))) })
    }

    pub fn current(&self) -> Arc<T> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = times(&self.files);
        if now != latest.0 {
            match read(&self.files).and_then(|texts| (self.make)(&texts)) {
                Ok(made) => *latest = (now, Arc::new(made)),
                Err(error) => {
                    tracing::warn!(%error, files = ?self.files, "changed files cannot be used; the old ones stay")
                }
            }
        }
        latest.1.clone()
    }
}

fn times(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    files.iter().map(|file| std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()).collect()
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let open = |file: &PathBuf| std::fs::read(file).map_err(|error| in_gos_words(file, &error));
    files.iter().map(open).collect()
}

pub(crate) fn in_gos_words(file: &Path, error: &std::io::Error) -> String {
    format!("open {}: {}", file.display(), crate::connect::in_gos_words(error))
}
