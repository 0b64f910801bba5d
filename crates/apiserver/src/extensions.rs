//! [`ProgramParts`]: what a program that embeds the server adds to it, besides what a configuration can say.

use std::net::SocketAddr;
use std::sync::Arc;

use admission::{Plugin, Sees};
use aggregator::Aggregator;
use audit::EventSink;
use authn::{Method, TokenMethod};
use authz::Authorizer;
use crd::OwnDefinition;
use object::{Clock, Randomness, SystemClock, ThreadRandomness};
use outbound::Egress;
use rest::{Api, RunWrite};
use server::{Check, Endpoint, Health, Metrics, Paths};
use storage::Store;

use crate::Pki;

/// The parts of a server that there are when the paths of the program are made.
pub struct Built<'a> {
    pub api: &'a Arc<Api>,
    pub pki: &'a Pki,
    pub address: SocketAddr,
    /// The beginning of all keys in the store.
    pub prefix: String,
    pub(crate) aggregator: &'a Arc<Aggregator>,
}

/// Makes what answers paths, before the server accepts connections.
pub type MakePaths = Box<dyn FnOnce(&Built<'_>) -> Arc<dyn Paths> + Send>;

/// Parts of a server that are values of the program it runs in. By default there are none.
pub struct ProgramParts {
    /// Where objects are kept, instead of the store that the configuration names.
    pub store: Option<Arc<dyn Store>>,
    /// The time that objects are stamped with and tokens are judged by.
    pub clock: Arc<dyn Clock>,
    /// For uids, generated names and audit ids; nothing that must not be guessed is made of it.
    pub randomness: Arc<dyn Randomness>,
    /// Asked who sent a request before the methods of the configuration.
    pub methods: Vec<Box<dyn Method>>,
    /// Asked whose a bearer token is before those of the configuration.
    pub tokens: Vec<Box<dyn TokenMethod>>,
    /// Asked before the authorizers of the configuration, in order; the name is told with their reasons.
    pub authorizers: Vec<(String, Arc<dyn Authorizer>)>,
    /// Run after the plugins of the configuration, in order.
    pub admission: Vec<(Arc<dyn Plugin>, Sees)>,
    /// Get every audit event that the policy asks for. Without a policy of the configuration that is the metadata of every request.
    pub audit: Vec<Arc<dyn EventSink>>,
    /// Checked by the endpoints that are named.
    pub checks: Vec<(Arc<dyn Check>, Vec<Endpoint>)>,
    /// Answer paths that are not resources, before the server's own.
    pub paths: Vec<MakePaths>,
    /// Write further metrics in the text format of Prometheus.
    pub metrics: Vec<Box<dyn Fn(&mut String) + Send + Sync>>,
    /// Resources that are served although no CustomResourceDefinition is stored.
    pub definitions: Vec<OwnDefinition>,
    /// How other networks are reached, instead of what the configuration says.
    pub egress: Option<Egress>,
    /// Runs the writes of requests; None runs them as they are.
    pub writes: Option<Arc<dyn RunWrite>>,
}

impl Default for ProgramParts {
    fn default() -> ProgramParts {
        ProgramParts {
            store: None,
            clock: Arc::new(SystemClock),
            randomness: Arc::new(ThreadRandomness),
            methods: Vec::new(),
            tokens: Vec::new(),
            authorizers: Vec::new(),
            admission: Vec::new(),
            audit: Vec::new(),
            checks: Vec::new(),
            paths: Vec::new(),
            metrics: Vec::new(),
            definitions: Vec::new(),
            egress: None,
            writes: None,
        }
    }
}

impl ProgramParts {
    /// Adds the own checks after the server's.
    pub(crate) fn add_checks(&mut self, health: &Health) {
        for (check, endpoints) in self.checks.drain(..) {
            health.add_to(&endpoints, check);
        }
    }

    /// Makes the own paths.
    pub(crate) fn make_paths(&mut self, built: &Built<'_>) -> Vec<Arc<dyn Paths>> {
        self.paths.drain(..).map(|make| make(built)).collect()
    }

    /// Adds the own metrics after the server's.
    pub(crate) fn add_metrics(&mut self, metrics: &Metrics) {
        for write in self.metrics.drain(..) {
            metrics.contribute(write);
        }
    }
}
