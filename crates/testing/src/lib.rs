//! A Kubernetes API server inside a test: started in milliseconds on a free port, gone when it is dropped.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Namespace;
//!
//! let server = testing::Server::start().await?;
//! let namespaces = kube::Api::<Namespace>::all(server.client().await?);
//! assert!(namespaces.get_opt("kube-system").await?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! It is the whole server: real authentication, RBAC, defaulting, validation, admission and watches. Objects are in memory, so
//! that [`Server::reset`] empties it between tests in a few milliseconds; [`Builder::on_disk`] takes the store of every other
//! server. By default it also empties deleted namespaces, collects owned objects and makes service accounts, as a controller
//! manager would; [`Builder::bare`] leaves that out, which is what envtest users are used to.
//!
//! [`Process`] is the same in a process of its own, the program `ferrokube`: what is compiled into the test is a client.

#[cfg(feature = "client")]
mod process;

use std::path::PathBuf;

use ferrokube::Options;
use tempfile::TempDir;

pub use apiserver::{PollMeter, Running};
pub use ferrokube::testing::{Reverted, TestDefinitions};
#[cfg(feature = "client")]
pub use process::{Process, ProcessBuilder};

/// Why a test server, or a client of it, could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a temporary folder cannot be made: {0}")]
    Folder(#[from] std::io::Error),
    #[error(transparent)]
    Server(#[from] ferrokube::Error),
    #[cfg(feature = "client")]
    #[error("{0}")]
    Process(String),
    #[cfg(feature = "client")]
    #[error("{0} does not start: {1}")]
    Program(PathBuf, String),
    #[cfg(feature = "client")]
    #[error("the kubeconfig cannot be read: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[cfg(feature = "client")]
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// What to start.
#[derive(Default)]
pub struct Builder {
    builder: ferrokube::Builder,
    folder: Option<PathBuf>,
    on_disk: bool,
}

impl Builder {
    /// Without the loops that a controller manager would run: nothing happens that the test does not do.
    pub fn bare(mut self) -> Builder {
        self.builder = self.builder.bare();
        self
    }

    /// Keeps everything in this folder, so that a later server finds it. The default is a folder that goes away.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Builder {
        self.folder = Some(folder.into());
        self.on_disk()
    }

    /// Keeps objects in the embedded store, as every server does that is not for tests. It cannot be reset.
    pub fn on_disk(mut self) -> Builder {
        self.on_disk = true;
        self
    }

    /// Keeps objects in memory, which is the default.
    pub fn in_memory(mut self) -> Builder {
        (self.on_disk, self.folder) = (false, None);
        self
    }

    /// Anything else that can be set.
    pub fn configure(mut self, change: impl FnOnce(&mut Options)) -> Builder {
        let mut is_on_etcd = false;
        self.builder = self.builder.options(|options| {
            change(options);
            is_on_etcd = !options.store.etcd_servers.is_empty();
        });
        self.on_disk |= is_on_etcd;
        self
    }

    pub async fn start(self) -> Result<Server, Error> {
        let temporary = tempfile::tempdir()?;
        let folder = self.folder.unwrap_or_else(|| temporary.path().join("data"));
        let builder = self.builder.data_dir(folder.clone());
        let builder = if self.on_disk { builder } else { builder.resettable() };
        let server = builder.start().await?;
        let kubeconfig = match server.vouches_for_clients() {
            true => server.kubeconfig_file()?,
            false => folder.join("kubeconfig"),
        };
        Ok(Server { server, kubeconfig, _temporary: temporary })
    }
}

/// A server that is serving: a [`ferrokube::Server`] with clients that connect to it, as those of the tested program do.
pub struct Server {
    server: ferrokube::Server,
    kubeconfig: PathBuf,
    _temporary: TempDir,
}

impl Server {
    /// A server with nothing special about it.
    pub async fn start() -> Result<Server, Error> {
        Server::builder().start().await
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `https://127.0.0.1:…`
    pub fn url(&self) -> String {
        self.server.url().unwrap_or_default()
    }

    /// A file that kubectl and every client library take; it speaks for the administrator. There is none if
    /// `Options::own_authority` was set to false.
    pub fn kubeconfig_path(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// A kubeconfig for a user with groups, who may do what RBAC objects say.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        Ok(self.server.kubeconfig_for(user, groups)?)
    }

    /// A client that may do everything.
    #[cfg(feature = "client")]
    pub async fn client(&self) -> Result<kube::Client, Error> {
        client(&std::fs::read_to_string(&self.kubeconfig)?).await
    }

    /// A client for a user with groups, who may do what RBAC objects say.
    #[cfg(feature = "client")]
    pub async fn client_for(&self, user: &str, groups: &[&str]) -> Result<kube::Client, Error> {
        client(&self.kubeconfig_for(user, groups)?).await
    }

    /// Removes everything that was written since the start, and brings back what the server had made for itself. Revisions go
    /// on, and watches see the deletions.
    pub async fn reset(&self) -> Result<Reverted, Error> {
        self.reset_but(TestDefinitions::Remove).await
    }

    /// The same, and says what becomes of custom resource definitions.
    pub async fn reset_but(&self, definitions: TestDefinitions) -> Result<Reverted, Error> {
        Ok(self.server.reset(definitions).await?)
    }

    /// The server itself, for what goes beyond its API.
    pub fn running(&self) -> &Running {
        self.server.running()
    }

    /// Stops in order: requests finish first. Dropping the server ends it at once.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

#[cfg(feature = "client")]
async fn client(kubeconfig: &str) -> Result<kube::Client, Error> {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig)?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(kube::Client::try_from(config)?)
}
