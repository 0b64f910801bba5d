//! [`Builder`]: what a server is to be, before it is started.

use std::path::PathBuf;
use std::sync::Arc;

use ::audit::EventSink;
use ::object::{Clock, Randomness};
use admission::{Plugin, Sees};
use apiserver::{ApiProfile, ProgramParts, TestStore};
use authn::{Method, TokenMethod};
use authz::Authorizer;
use outbound::{Dial, Egress};
use server::{Check, Endpoint};
use storage::Store;
use storage::memory::MemoryStore;

use crate::background::{Background, Loop};
use crate::paths::{PathRequest, PathResponse, Route};
use crate::server::Folder;
use crate::{Error, Options, Resource, Server};

/// How many bytes of old states a server without a folder remembers, for watches that begin in the past.
const HISTORY_BYTES: usize = 64 * 1024 * 1024;

/// What a server is to be. By default it keeps everything in memory, listens on a free port of the loopback device, has an
/// administrator, and does what a controller manager would for namespaces, owned objects and service accounts.
pub struct Builder {
    options: Options,
    extensions: ProgramParts,
    data_dir: Option<PathBuf>,
    loops: Vec<Loop>,
    is_resettable: bool,
}

impl Default for Builder {
    fn default() -> Builder {
        let own_authority = Some(true);
        let options = Options { port: 0, standalone: true, own_authority, console: false, ..Options::default() };
        let extensions = ProgramParts::default();
        Builder { options, extensions, data_dir: None, loops: Vec::new(), is_resettable: false }
    }
}

impl Builder {
    /// Sets options: everything that flags can say, under nearly the same names.
    pub fn options(mut self, set: impl FnOnce(&mut Options)) -> Builder {
        set(&mut self.options);
        self
    }

    /// Chooses the built-in resources: [`crate::Api::kubernetes`], which is the default, [`crate::Api::minimal`] or
    /// [`crate::Api::only`].
    pub fn api(mut self, api: ApiProfile) -> Builder {
        self.options.profile = api;
        self
    }

    /// Listens on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Builder {
        self.options.port = port;
        self
    }

    /// Listens nowhere: only clients of the same process are served, and no certificates are made.
    pub fn without_listener(mut self) -> Builder {
        self.options.listens = false;
        self
    }

    /// Leaves out what a controller manager would do: nothing happens that no client asked for.
    pub fn bare(mut self) -> Builder {
        self.options.standalone = false;
        self.options.disable_admission_plugins.push("ServiceAccount".into());
        self
    }

    /// Keeps objects, keys and certificates in a folder, so that a later server finds them.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Builder {
        self.data_dir = Some(path.into());
        self
    }

    /// Keeps objects in this store, which the server does not close.
    pub fn store(mut self, store: Arc<dyn Store>) -> Builder {
        self.extensions.store = Some(store);
        self
    }

    /// Makes it a server for tests: whatever else is said, objects are in memory, and [`Server::reset`] empties it while it serves. Its
    /// administrator has a token too, [`Server::token`].
    pub fn resettable(mut self) -> Builder {
        self.is_resettable = true;
        self
    }

    /// The time that objects are stamped with and tokens are judged by.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Builder {
        self.extensions.clock = Arc::new(clock);
        self
    }

    /// For uids, generated names, audit ids and the addresses and ports of Services, so that a test can have the same ones again. Nothing
    /// that must not be guessed is made of it: keys, tokens and session codes are the system's, whatever is given here.
    pub fn randomness(mut self, randomness: impl Randomness + 'static) -> Builder {
        self.extensions.randomness = Arc::new(randomness);
        self
    }

    /// Asks who sent a request, before the methods of the options.
    pub fn authenticator(mut self, method: impl Method) -> Builder {
        self.extensions.methods.push(Box::new(method));
        self
    }

    /// Asks whose a bearer token is, before the methods of the options.
    pub fn tokens(mut self, method: impl TokenMethod) -> Builder {
        self.extensions.tokens.push(Box::new(method));
        self
    }

    /// Asks who may do what, before the authorizers of the options. The name is told with the reasons of refusals. Members of
    /// `system:masters` may do anything without being asked about.
    pub fn authorizer(mut self, name: &str, authorizer: impl Authorizer) -> Builder {
        self.extensions.authorizers.push((name.to_string(), Arc::new(authorizer)));
        self
    }

    /// Adds an admission plugin, which runs after those of the options.
    pub fn admission(mut self, plugin: impl Plugin, sees: Sees) -> Builder {
        self.extensions.admission.push((Arc::new(plugin), sees));
        self
    }

    /// Adds a rule on objects of a Rust type.
    #[cfg(feature = "client")]
    pub fn rule<R: crate::Rule>(self, name: &'static str, rule: R) -> Builder {
        self.admission(crate::rule::Typed::new(name, rule), Sees::EVERYTHING)
    }

    /// Takes audit events. Without a policy in the options it gets the metadata of every request.
    pub fn audit(mut self, sink: impl EventSink) -> Builder {
        self.extensions.audit.push(Arc::new(sink));
        self
    }

    /// Opens every connection that the server makes: to webhooks, token issuers, kubelets, Services and etcd. It takes the place of the
    /// option `egress_file`.
    pub fn dialer(mut self, dial: impl Dial) -> Builder {
        let dial: Arc<dyn Dial> = Arc::new(dial);
        let everywhere = || Some(dial.clone());
        self.extensions.egress = Some(Egress {
            control_plane: everywhere(),
            etcd: everywhere(),
            cluster: everywhere(),
            ..Egress::default()
        });
        self
    }

    /// Adds a check that these endpoints ask.
    pub fn check(mut self, check: impl Check, endpoints: &[Endpoint]) -> Builder {
        self.extensions.checks.push((Arc::new(check), endpoints.to_vec()));
        self
    }

    /// Writes further metrics to `/metrics`, in the text format of Prometheus.
    pub fn metrics(mut self, write: impl Fn(&mut String) + Send + Sync + 'static) -> Builder {
        self.extensions.metrics.push(Box::new(write));
        self
    }

    /// Answers a path that is not a resource, and those below it, after authentication and authorization.
    pub fn path<F, A>(mut self, path: &str, answer: F) -> Builder
    where
        F: Fn(PathRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PathResponse> + Send + 'static,
    {
        let route = Arc::new(Route::new(path, answer));
        self.extensions.paths.push(Box::new(|_| route));
        self
    }

    /// Serves a resource of this program.
    pub fn resource(mut self, resource: Resource) -> Builder {
        let (definition, rules) = resource.into_parts();
        self.extensions.definitions.push(definition);
        self.extensions.admission.extend(rules);
        self
    }

    /// Runs a loop beside requests for as long as the server runs; one that ends or panics begins again after a while.
    pub fn background<F, L>(mut self, name: &str, run: F) -> Builder
    where
        F: Fn(Background) -> L + Send + Sync + 'static,
        L: Future<Output = ()> + Send + 'static,
    {
        self.loops.push(Loop::new(name, false, run));
        self
    }

    /// The same, on one of all servers that share a store: the one that holds the Lease of this name in `kube-system`.
    #[cfg(feature = "client")]
    pub fn elected<F, L>(mut self, name: &str, run: F) -> Builder
    where
        F: Fn(Background) -> L + Send + Sync + 'static,
        L: Future<Output = ()> + Send + 'static,
    {
        self.loops.push(Loop::new(name, true, run));
        self
    }

    /// Whether the options go together. The error names the option.
    pub fn validate(&self) -> Result<(), Error> {
        Ok(self.options.validate()?)
    }

    /// Starts the server and returns when it is ready.
    pub async fn start(self) -> Result<Server, Error> {
        self.validate()?;
        let Builder { mut options, mut extensions, data_dir, loops, is_resettable } = self;
        let folder = match data_dir {
            Some(path) => Folder::Kept(path),
            None => {
                let has_store = is_resettable || extensions.store.is_some() || !options.store.etcd_servers.is_empty();
                if !has_store {
                    extensions.store = Some(Arc::new(MemoryStore::with_history(HISTORY_BYTES)));
                }
                options.service_accounts.key_in_memory = options.service_accounts.signing_key_file.is_none();
                Folder::temporary()?
            }
        };
        options.data_dir = folder.path().to_path_buf();
        let test = match is_resettable {
            true => Some(TestStore::set_up(&mut options, &mut extensions, folder.path()).map_err(Error::Folder)?),
            false => None,
        };
        let listens = options.listens;
        let running = apiserver::start_with(options, extensions).await?;
        let mut server = Server::new(running, listens, folder, test);
        for each in loops {
            let background = Background::new(&server, each.name());
            server.loops().spawn(each.run(background));
        }
        Ok(server)
    }
}
