//! [`Server`]: a server that is running.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::{Running, StartError, kubeconfig};
use request::User;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::Builder;
use crate::client::{InProcess, Local};

/// Why a server does not start, or something cannot be had of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option, or a part that was added, cannot be used; the text names it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A folder for keys and certificates cannot be made.
    #[error("a temporary folder cannot be made: {0}")]
    Folder(std::io::Error),
    /// The server does not listen, or was told not to vouch for clients.
    #[error("the server has no kubeconfig: {0}")]
    NoKubeconfig(String),
}

/// A server that is running. It ends when this is dropped; [`Server::stop`] lets requests finish first.
pub struct Server {
    // In the order in which they end: loops, the server, its files.
    loops: JoinSet<()>,
    running: Running,
    listens: bool,
    folder: Folder,
}

/// Where keys and certificates are.
pub(crate) enum Folder {
    /// It ends with the server.
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    pub(crate) fn temporary() -> Result<Folder, Error> {
        tempfile::Builder::new().prefix("ferrokube-").tempdir().map(Folder::Temporary).map_err(Error::Folder)
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Folder::Temporary(folder) => folder.path(),
            Folder::Kept(path) => path,
        }
    }
}

impl Server {
    /// A server that keeps everything in memory and listens on a free port, until the builder is told otherwise.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(running: Running, listens: bool, folder: Folder) -> Server {
        Server { loops: JoinSet::new(), running, listens, folder }
    }

    pub(crate) fn loops(&mut self) -> &mut JoinSet<()> {
        &mut self.loops
    }

    /// A client of the administrator, who may do everything. Its requests do not leave the process.
    #[cfg(feature = "client")]
    pub fn client(&self) -> kube::Client {
        self.client_as(administrator())
    }

    /// A client of a user, who may do what the authorizers say. Its requests do not leave the process.
    #[cfg(feature = "client")]
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(self.in_process(user), "default")
    }

    /// A plain client of the administrator. Its requests do not leave the process.
    pub fn local(&self) -> Local {
        self.local_as(administrator())
    }

    /// A plain client of a user. Its requests do not leave the process.
    pub fn local_as(&self, user: User) -> Local {
        Local::new(self.in_process(user))
    }

    /// The server as a tower service for requests of a user, for other clients.
    pub fn in_process(&self, user: User) -> InProcess {
        InProcess::new(Arc::downgrade(&self.running.server), user)
    }

    /// `https://127.0.0.1:…`; None without a listener.
    pub fn url(&self) -> Option<String> {
        self.listens.then(|| format!("https://{}", self.running.address))
    }

    /// A kubeconfig of the administrator, with everything inside.
    pub fn kubeconfig(&self) -> Result<String, Error> {
        self.can_make_kubeconfig()?;
        kubeconfig::admin(&self.running.pki, self.running.address).map_err(|why| Error::NoKubeconfig(why.to_string()))
    }

    /// A kubeconfig of a user with groups, who may do what the authorizers say.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        let url = self.can_make_kubeconfig()?;
        let failed = |why: &dyn std::fmt::Display| Error::NoKubeconfig(why.to_string());
        let pki = &self.running.pki;
        let (certificate, key) = pki.client(user, groups).map_err(|why| failed(&why))?;
        kubeconfig::with_certificate(pki, &url, user, &certificate, &key).map_err(|why| failed(&why))
    }

    /// Writes the administrator's kubeconfig into the folder of the server, for programs that want a file.
    pub fn kubeconfig_file(&self) -> Result<PathBuf, Error> {
        let (text, path) = (self.kubeconfig()?, self.folder.path().join("kubeconfig"));
        kubeconfig::write(&path, &text).map_err(|why| Error::NoKubeconfig(format!("{}: {why}", path.display())))?;
        Ok(path)
    }

    fn can_make_kubeconfig(&self) -> Result<String, Error> {
        let url = self.url().ok_or_else(|| Error::NoKubeconfig("it does not listen".into()))?;
        match self.running.pki.own.clients {
            true => Ok(url),
            false => Err(Error::NoKubeconfig("its own authority does not vouch for clients".into())),
        }
    }

    /// Stops in order: loops end, readiness fails, requests finish, the store is closed.
    pub async fn stop(mut self) {
        self.loops.shutdown().await;
        self.running.stop(Duration::ZERO).await;
    }
}

/// The user of the clients that may do everything.
fn administrator() -> User {
    let groups = vec![User::MASTERS.to_string(), User::AUTHENTICATED.to_string()];
    User { name: "kubernetes-admin".into(), groups, ..User::default() }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url()).field("folder", &self.folder.path()).finish_non_exhaustive()
    }
}

/// A reference that lets the server end.
pub(crate) type Serving = Weak<server::Server>;
