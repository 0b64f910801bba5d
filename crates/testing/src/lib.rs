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
//! It is the whole server: real authentication, RBAC, defaulting, validation, admission, watches and a store on disk, in a
//! temporary folder. By default it also empties deleted namespaces, collects owned objects and makes service accounts, as
//! a controller manager would; [`Builder::bare`] leaves that out, which is what envtest users are used to.

use std::path::PathBuf;
use std::time::Duration;

use apiserver::{Config, Running, StartError, kubeconfig};
use tempfile::TempDir;

/// Why a test server, or a client of it, could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a temporary folder cannot be made: {0}")]
    Folder(#[from] std::io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("a certificate cannot be made: {0}")]
    Certificate(String),
    #[cfg(feature = "client")]
    #[error("the kubeconfig cannot be read: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[cfg(feature = "client")]
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// What to start.
pub struct Builder {
    config: Config,
    folder: Option<PathBuf>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { config: Config { port: 0, standalone: true, ..Config::default() }, folder: None }
    }
}

impl Builder {
    /// Without the loops that a controller manager would run: nothing happens that the test does not do.
    pub fn bare(mut self) -> Builder {
        self.config.standalone = false;
        self.config.disable_admission_plugins.push("ServiceAccount".into());
        self
    }

    /// Keeps everything in this folder, so that a later server finds it. The default is a folder that goes away.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Builder {
        self.folder = Some(folder.into());
        self
    }

    /// Anything else that can be set.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Builder {
        change(&mut self.config);
        self
    }

    pub async fn start(mut self) -> Result<Server, Error> {
        let temporary = tempfile::tempdir()?;
        self.config.data_dir = self.folder.unwrap_or_else(|| temporary.path().join("data"));
        let data_dir = self.config.data_dir.clone();
        let running = apiserver::start(self.config).await?;
        let path = data_dir.join("kubeconfig");
        kubeconfig::write(&path, &kubeconfig::admin(&running.pki, running.address)?)?;
        Ok(Server { running, kubeconfig: path, _temporary: temporary })
    }
}

/// A server that is serving.
pub struct Server {
    running: Running,
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
        format!("https://{}", self.running.address)
    }

    /// A file that kubectl and every client library take; it speaks for the administrator.
    pub fn kubeconfig_path(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// A kubeconfig for a user with groups, who may do what RBAC objects say.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        let pki = &self.running.pki;
        let made = pki.client(user, groups).map_err(|error| Error::Certificate(error.to_string()))?;
        Ok(kubeconfig::with_certificate(pki, &self.url(), user, &made.0, &made.1)?)
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

    /// The server itself, for what goes beyond its API.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Stops in order: requests finish first. Dropping the server ends it at once.
    pub async fn stop(self) {
        self.running.stop(Duration::ZERO).await;
    }
}

#[cfg(feature = "client")]
async fn client(kubeconfig: &str) -> Result<kube::Client, Error> {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig)?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(kube::Client::try_from(config)?)
}
