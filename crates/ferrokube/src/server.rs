//! [`Server`]: a server that is running.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::{Reverted, Running, StartError, TestDefinitions, TestServer, TestStore, TestUser, kubeconfig};
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
    /// The folder for keys and certificates cannot be made or written to.
    #[error("the folder for keys and certificates cannot be used: {0}")]
    Folder(std::io::Error),
    /// The server does not listen, or was told not to vouch for clients.
    #[error("the server has no kubeconfig: {0}")]
    NoKubeconfig(String),
    /// It was not made [resettable](Builder::resettable), or a user cannot be made.
    #[error("{0}")]
    Test(String),
}

/// A server that is running. It ends when this is dropped; [`Server::stop`] lets requests finish first.
pub struct Server {
    // In the order in which they end: loops, the server, its files.
    loops: JoinSet<()>,
    running: Running,
    listens: bool,
    folder: Folder,
    test: Option<TestServer>,
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

    pub(crate) fn new(running: Running, listens: bool, folder: Folder, test: Option<Arc<TestStore>>) -> Server {
        let control = |store| TestServer::new(store, &running.server, running.pki.clone(), running.address);
        let test = test.map(control);
        Server { loops: JoinSet::new(), running, listens, folder, test }
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

    /// `https://127.0.0.1:…`, by which clients on this machine reach it; None without a listener.
    pub fn url(&self) -> Option<String> {
        self.address().map(kubeconfig::url)
    }

    /// A link that signs a browser on this machine in to the console as the administrator, once and within a quarter of an hour;
    /// None if the server has no console.
    pub fn console_link(&self) -> Option<String> {
        self.running.console_link(&self.url()?)
    }

    /// Where it listens; None without a listener.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listens.then_some(self.running.address)
    }

    /// The authorities, in PEM, that clients verify the server's certificate with; None without a listener.
    pub fn authority(&self) -> Result<Option<String>, Error> {
        let read = || self.running.pki.authority().map_err(|why| Error::NoKubeconfig(why.to_string()));
        self.listens.then(read).transpose()
    }

    /// Whether the server's own authority vouches for clients, without which there are no kubeconfigs.
    pub fn vouches_for_clients(&self) -> bool {
        self.running.pki.own.clients
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
        match self.vouches_for_clients() {
            true => Ok(url),
            false => Err(Error::NoKubeconfig("its own authority does not vouch for clients".into())),
        }
    }

    /// Removes everything that was written since the start, and brings back what the server had made for itself. Revisions go on, and
    /// watches see the deletions. For servers that are [resettable](Builder::resettable).
    pub async fn reset(&self, definitions: TestDefinitions) -> Result<Reverted, Error> {
        self.test()?.reset(definitions).await.map_err(Error::Test)
    }

    /// A kubeconfig for a user, with the rights of a cluster role if one is named. For servers that are
    /// [resettable](Builder::resettable).
    pub async fn user(&self, user: &TestUser<'_>) -> Result<String, Error> {
        self.test()?.user(user).await.map_err(Error::Test)
    }

    /// The administrator's token, if the server is [resettable](Builder::resettable) and its options name no tokens.
    pub fn token(&self) -> Option<&str> {
        self.test.as_ref().map(TestServer::token)
    }

    fn test(&self) -> Result<&TestServer, Error> {
        self.test.as_ref().ok_or_else(|| Error::Test("the server cannot be emptied: it was not made resettable".into()))
    }

    /// The parts of the server, which change with every version.
    #[doc(hidden)]
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Stops in order: loops end, readiness fails, requests finish, the store is closed.
    pub async fn stop(self) {
        self.stop_after(Duration::ZERO).await;
    }

    /// The same, and waits for so long when readiness has failed, so that balancers notice.
    pub async fn stop_after(mut self, delay: Duration) {
        self.loops.shutdown().await;
        self.running.stop(delay).await;
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
