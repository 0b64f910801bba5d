//! The console as a part of this server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::audit::{Auditor, Policy};
use async_trait::async_trait;
use authn::{Authenticator, Method};
use authz::Authorizer;
pub use console::Console;
use console::{
    CertificateRow, ConsoleAuthentication, ConsolePages, ConsolePaths, CookieMethod, LogFigures, ServerParts,
    SignInAuthorizer, StoreFigures, WatchedResource,
};
use hashbrown::HashSet;
use object::Clock;
use registry::{Resource, ResourceStorage};
use rest::Api;
use server::{Metrics, Paths, PublicPages, RequestObserver, Seats, Unfinished};
use storage::{Health, Status, Store};

use crate::authentication::{Authentication, Issuers};
use crate::start::StartSettings;
use crate::store::OpenedStore;
use crate::{Config, Pki, flags, serving};

/// How long a store may take to say how it is.
const STORE_TIME: Duration = Duration::from_secs(3);

/// The cookie of signed-in browsers; None if the console is off.
pub fn cookie(config: &Config) -> Option<&'static str> {
    config.console.then_some(console::COOKIE)
}

/// The address that signs a browser in, once.
pub fn link(console: &Console, server: &str) -> String {
    console::link(server, &console.make_code())
}

/// The console; None if it is off, or no browser can connect.
pub fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Option<Arc<Console>>, String> {
    Ok((config.console && config.listens).then(|| Console::new(clock.clone())))
}

/// Authenticates signed-in browsers, as a method of the authenticator.
pub fn method(console: &Arc<Console>, authenticator: &Weak<Authenticator>, issuers: &Issuers) -> Box<dyn Method> {
    let parts = ConsoleAuthentication { authenticator: authenticator.clone(), issuers: issuers.of_browsers() };
    Box::new(CookieMethod::new(console.clone(), parts))
}

/// Lets users sign in.
pub fn authorizer(_: &Console) -> (String, Arc<dyn Authorizer>) {
    ("console".to_string(), Arc::new(SignInAuthorizer))
}

/// The pages that are sent to everyone.
pub fn pages(_: &Console, authentication: &Authentication) -> Arc<dyn PublicPages> {
    Arc::new(ConsolePages::new(authentication.issuers.of_browsers()))
}

/// Is told what requests cost.
pub fn observer(console: &Console) -> Arc<dyn RequestObserver> {
    console.observer()
}

/// The console and what its paths show of the server.
pub struct OwnConsole<'a> {
    pub console: &'a Arc<Console>,
    pub settings: &'a StartSettings,
    pub pki: &'a Pki,
    pub store: &'a OpenedStore,
}

impl OwnConsole<'_> {
    /// Answers the console's paths.
    pub fn paths(
        &self,
        api: &Arc<Api>,
        authentication: &Authentication,
        auditor: Option<&Arc<Auditor>>,
        metrics: &Arc<Metrics>,
        seats: &Seats,
        unfinished: &Unfinished,
    ) -> Arc<dyn Paths> {
        let config = &self.settings.config;
        let flags = config.flags.iter().map(|(name, value)| (name.clone(), flags::without_password(value))).collect();
        Arc::new(ConsolePaths {
            console: self.console.clone(),
            authenticator: authentication.authenticator.clone(),
            authorizer: api.authorizer.clone(),
            metrics: metrics.clone(),
            seats: seats.clone(),
            version: config.version().git_version,
            parts: Arc::new(OwnParts {
                api: Arc::downgrade(api),
                auditor: auditor.map(Arc::downgrade).unwrap_or_default(),
                unfinished: unfinished.clone(),
                stores: self.store.engines().iter().map(Arc::downgrade).collect(),
                certificates: certificates(config, self.pki),
                flags,
            }),
        })
    }
}

/// The parts of this server that its console asks for.
struct OwnParts {
    api: Weak<Api>,
    /// Gone if no audit log is kept.
    auditor: Weak<Auditor>,
    unfinished: Unfinished,
    stores: Vec<Weak<dyn Store>>,
    certificates: Vec<(&'static str, PathBuf)>,
    flags: BTreeMap<String, String>,
}

#[async_trait]
impl ServerParts for OwnParts {
    fn memory(&self) -> Vec<(&'static str, usize)> {
        let Some(api) = self.api.upgrade() else { return Vec::new() };
        let (mut objects, mut rings, mut renditions) = (0, 0, 0);
        each_cached(&api, |_, storage| {
            objects += storage.cache.encoded_bytes();
            rings += storage.cache.ring_bytes();
            // All caches share one budget.
            renditions = storage.cache.budget().used();
        });
        vec![
            ("objects as they are stored", objects),
            ("other encodings of objects", renditions),
            ("old versions for watchers", rings),
            ("answers that were not read yet", api.answers.bytes()),
            ("requests that have not arrived completely", self.unfinished.bytes()),
        ]
    }

    fn watched(&self) -> Vec<WatchedResource> {
        let Some(api) = self.api.upgrade() else { return Vec::new() };
        let mut rows = Vec::new();
        each_cached(&api, |resource, storage| {
            let lag = storage.cache.watch_lag();
            if lag.watchers > 0 {
                let object::GroupVersionResource { group, resource, .. } = &resource.resource;
                rows.push(WatchedResource {
                    group: group.to_string(),
                    resource: resource.to_string(),
                    watchers: lag.watchers,
                    behind: lag.behind,
                    events: lag.events_max,
                });
            }
        });
        rows
    }

    async fn stores(&self) -> Vec<StoreFigures> {
        let stores: Vec<Arc<dyn Store>> = self.stores.iter().filter_map(Weak::upgrade).collect();
        let mut figures = Vec::with_capacity(stores.len());
        for store in stores {
            let status = tokio::time::timeout(STORE_TIME, store.status()).await;
            let problem = |problem: String| StoreFigures { problem, ..StoreFigures::default() };
            figures.push(match status {
                Ok(Ok(status)) => store_figures(status),
                Ok(Err(error)) => problem(error.to_string()),
                Err(_) => problem("the store does not answer".to_string()),
            });
        }
        figures
    }

    fn certificates(&self) -> Vec<CertificateRow> {
        self.certificates.iter().flat_map(|(purpose, path)| read_certificates(purpose, path)).collect()
    }

    fn flags(&self) -> &BTreeMap<String, String> {
        &self.flags
    }

    fn audit_policy(&self) -> Option<Arc<Policy>> {
        self.auditor.upgrade().map(|auditor| auditor.policy())
    }
}

fn store_figures(status: Status) -> StoreFigures {
    let problem = match status.health {
        Health::Healthy => String::new(),
        Health::Degraded(why) | Health::Full(why) => why,
    };
    let log = status.log.map(|log| LogFigures {
        size: log.size,
        pending: log.pending,
        checkpoint: log.checkpoint,
        commits: log.commits,
        seconds: log.commit_time.as_secs_f64(),
        seconds_max: log.commit_time_max.as_secs_f64(),
    });
    let Status { revision, compacted, size, size_in_use, .. } = status;
    StoreFigures { problem, revision, compacted, size, in_use: size_in_use, log }
}

/// Calls with each stored resource once: one cache is for all its versions.
fn each_cached(api: &Api, mut show: impl FnMut(&Resource, &ResourceStorage)) {
    let (catalog, mut seen) = (api.catalog.load(), HashSet::new());
    for resource in catalog.resources() {
        if let Some(storage) = &resource.storage
            && seen.insert(Arc::as_ptr(&storage.cache))
        {
            show(resource, storage);
        }
    }
}

/// The files with the certificates that the server uses, and for what.
fn certificates(config: &Config, pki: &Pki) -> Vec<(&'static str, PathBuf)> {
    let own = |path: &Path, is_used: bool| is_used.then(|| path.to_path_buf());
    let serving = serving::serving_files(config, pki).ok().map(|(certificate, _)| certificate);
    let (kubelet, request_header) = (&config.serving.kubelet, &config.authentication.request_header);
    let files = [
        ("serving", serving),
        ("authority of the data directory", own(&pki.ca, pki.is_used())),
        ("administrator", own(&pki.admin_cert, pki.own.clients)),
        ("clients' authority", config.client_ca_file.clone()),
        ("front proxies' authority", request_header.client_ca_file.clone()),
        ("to extension servers", config.aggregation.certificate.clone()),
        ("to kubelets", kubelet.certificate.clone()),
        ("kubelets' authority", kubelet.authority.clone()),
        ("to etcd", config.store.etcd_certfile.clone()),
        ("etcd's authority", config.store.etcd_cafile.clone()),
    ];
    files.into_iter().filter_map(|(purpose, path)| Some((purpose, path?))).collect()
}

/// A row for each certificate of a file, or one that says why there is none.
fn read_certificates(purpose: &'static str, path: &Path) -> Vec<CertificateRow> {
    let file = path.display().to_string();
    let row = |name: String, ends, problem| CertificateRow { purpose, file: file.clone(), name, ends, problem };
    let read = std::fs::read(path).map_err(|error| error.to_string());
    match read.and_then(|bytes| gox509::parse_bundle(&bytes)) {
        Ok(certificates) => certificates
            .iter()
            .map(|one| row(one.subject.common_name.clone(), Some(one.not_after.seconds), String::new()))
            .collect(),
        Err(problem) => vec![row(String::new(), None, problem)],
    }
}
