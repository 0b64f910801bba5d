//! The console as a part of this server.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use authn::Authenticator;
pub use console::Console;
use console::{
    CertificateRow, ConsolePaths, CookieMethod, MemoryParts, ReadCertificates, SignInAuthorizer, StaticPages,
};
use hashbrown::HashSet;
use rest::Api;
use server::{Metrics, Paths, PublicPages, RequestObserver, Seats, Unfinished};

use crate::store::OwnConsoleCell;
use crate::{Config, Pki, ProgramParts, serving};

/// The cookie of signed-in browsers; None if the console is off.
pub fn cookie(config: &Config) -> Option<&'static str> {
    config.console.then_some(console::COOKIE)
}

/// The address that signs a browser in, once.
pub fn link(console: &Console, server: &str) -> String {
    console::link(server, &console.make_code())
}

/// The console before the server is put together that it belongs to.
pub struct OwnConsole {
    console: Arc<Console>,
    /// Where sessions find the authenticator, which is made later.
    authenticator: Arc<OnceLock<Weak<Authenticator>>>,
    certificates: ReadCertificates,
    version: String,
}

impl OwnConsole {
    /// Adds how signed-in browsers are authenticated, and that they may sign in. None if the console is off, or no browser can connect.
    pub fn open(
        config: &Config,
        parts: &mut ProgramParts,
        pki: &Pki,
        socket: &OwnConsoleCell,
    ) -> Result<Option<OwnConsole>, String> {
        if !config.console || !config.listens {
            return Ok(None);
        }
        let console = Console::new(parts.clock.clone());
        let (method, authenticator) = CookieMethod::new(console.clone());
        // A browser that has signed in is asked for its session first, and for its certificate then.
        parts.methods.insert(0, Box::new(method));
        parts.authorizers.insert(0, ("console".to_string(), Arc::new(SignInAuthorizer)));
        // Set once, since a store is opened for one server.
        let _ = socket.set(console.clone());
        let (certificates, version) = (certificates(config, pki), config.version().git_version);
        Ok(Some(OwnConsole { console, authenticator, certificates, version }))
    }

    /// The files of the pages.
    pub fn pages(&self) -> Arc<dyn PublicPages> {
        Arc::new(StaticPages::default())
    }

    /// Is told what requests cost.
    pub fn observer(&self) -> Arc<dyn RequestObserver> {
        self.console.observer()
    }

    pub fn into_console(self) -> Arc<Console> {
        self.console
    }

    /// Answers the console's paths.
    pub fn paths(
        &self,
        api: &Arc<Api>,
        authenticator: &Arc<Authenticator>,
        metrics: &Arc<Metrics>,
        seats: &Seats,
        unfinished: &Unfinished,
    ) -> Arc<dyn Paths> {
        // Set once, since this is called once.
        let _ = self.authenticator.set(Arc::downgrade(authenticator));
        Arc::new(ConsolePaths {
            console: self.console.clone(),
            authenticator: authenticator.clone(),
            metrics: metrics.clone(),
            seats: seats.clone(),
            version: self.version.clone(),
            memory: memory(api, unfinished),
            certificates: self.certificates.clone(),
        })
    }
}

/// The parts of memory that grow with objects and clients.
fn memory(api: &Arc<Api>, unfinished: &Unfinished) -> MemoryParts {
    let (api, unfinished) = (Arc::downgrade(api), unfinished.clone());
    Box::new(move || {
        let Some(api) = api.upgrade() else { return Vec::new() };
        let catalog = api.catalog.load();
        let (mut seen, mut objects, mut renditions) = (HashSet::new(), 0, 0);
        for storage in catalog.resources().filter_map(|resource| resource.storage.as_ref()) {
            // A resource has one cache for all its versions, and all caches share one budget.
            if seen.insert(Arc::as_ptr(&storage.cache)) {
                objects += storage.cache.encoded_bytes();
                renditions = storage.cache.budget().used();
            }
        }
        vec![
            ("objects as they are stored", objects),
            ("other encodings of objects", renditions),
            ("answers that were not read yet", api.answers.bytes()),
            ("requests that have not arrived completely", unfinished.bytes()),
        ]
    })
}

/// The certificates in the files that the server uses, read when they are asked for.
fn certificates(config: &Config, pki: &Pki) -> ReadCertificates {
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
    let files: Vec<(&'static str, PathBuf)> =
        files.into_iter().filter_map(|(purpose, path)| Some((purpose, path?))).collect();
    Arc::new(move || files.iter().flat_map(|(purpose, path)| read_certificates(purpose, path)).collect())
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
