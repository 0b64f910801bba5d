//! A resource on the in-memory store, and requests for it.

use std::sync::Arc;

use object::{Status, Timestamp};
use registry::{Context, Error, Features, ResourceStorage, Setup, StoredEncoding, Strategy};
use request::User;
use storage::memory::MemoryStore;

/// The storage of a resource of the core group whose kind has this strategy.
pub async fn storage(resource: &'static str, strategy: Arc<dyn Strategy>) -> Arc<ResourceStorage> {
    let setup = Setup {
        store: Arc::new(MemoryStore::new()),
        prefix: "/registry".into(),
        budget: cache::Budget::new(1 << 20),
        strategies: [(("", resource), strategy)].into_iter().collect(),
        conversions: Default::default(),
        encoding: StoredEncoding::default(),
        names_unreadable: true,
        enabled: Box::new(|version, _| version.group.is_empty()),
        lifecycle: Default::default(),
    };
    setup.catalog().await.unwrap().stored("", resource).unwrap().clone()
}

/// What requests are made with.
#[derive(Default)]
pub struct Requests {
    features: Features,
    user: User,
}

impl Requests {
    /// A request in the namespace `ns`, at a fixed time.
    pub fn cx(&self) -> Context<'_> {
        let cx = Context::of_server(Timestamp::new(1_700_000_000, 0), &self.user, &self.features);
        Context { namespace: "ns", ..cx }
    }
}

/// A failure as clients are told.
pub fn told<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| Status::from(error).message)
}
