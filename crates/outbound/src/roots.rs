//! [`Roots`]: which certificate authorities a client trusts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use gox509::Pool;

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

/// Reads the certificates of a bundle; Err is what client-go says.
fn parse(pem: &[u8]) -> Result<Pool, String> {
    Pool::from_client_pem(pem).map_err(|why| format!("unable to load root certificates: {why}"))
}

/// Where trusted certificates come from.
#[derive(Debug)]
pub(crate) enum Source {
    Fixed(Arc<Pool>),
    File(Reloaded<Pool>),
}

impl Source {
    /// None trusts every server.
    pub fn open(roots: &Roots) -> Result<Option<Source>, String> {
        Ok(Some(match roots {
            Roots::Insecure => return Ok(None),
            Roots::System => Source::Fixed(Pool::of_system()),
            Roots::Pem(pem) => Source::Fixed(Arc::new(parse(pem)?)),
            Roots::File(path) => Source::File(Reloaded::open(vec![path.clone()], |texts| parse(&texts[0]))?),
        }))
    }
}

impl gox509::tls::Roots for Source {
    fn current(&self) -> Arc<Pool> {
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
                    tracing::warn!(%error, files = names(&self.files), "changed files cannot be used; the old ones stay")
                }
            }
        }
        latest.1.clone()
    }
}

fn names(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(",")
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
