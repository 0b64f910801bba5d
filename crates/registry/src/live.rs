//! [`LiveCatalog`]: the catalog that is served now.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use object::GroupVersionResource;
use tokio::sync::watch;

use crate::{Catalog, Resource};

/// The catalog that is served now, empty at first. It is replaced whole; requests that began with an older one keep it.
#[derive(Default)]
pub struct LiveCatalog {
    current: ArcSwap<Catalog>,
    /// Held while a change is made, so that none is lost.
    changing: Mutex<()>,
}

impl LiveCatalog {
    /// A catalog that begins as this one.
    pub fn of(catalog: Catalog) -> Arc<LiveCatalog> {
        let live = Arc::<LiveCatalog>::default();
        live.serve(catalog);
        live
    }

    /// Serves the built-in resources, in a catalog that was empty until now: it begins so, because strategies of built-in resources
    /// look at others, and so do the parts of the server that are made before all resources are there.
    pub fn serve(&self, builtin: Catalog) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.current.store(Arc::new(builtin));
    }

    /// For a look that is over soon.
    pub fn load(&self) -> Guard<Arc<Catalog>> {
        self.current.load()
    }

    /// For work that must see the same catalog from beginning to end.
    pub fn load_full(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    /// Removes some resources and adds or replaces others. Watches of resources that are not served any more, or only with
    /// another definition, end.
    pub fn change(&self, put: &[Arc<Resource>], removed: &[GroupVersionResource]) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.current.load_full();
        let catalog = Arc::new(old.changed(put, removed));
        self.current.store(catalog.clone());
        for id in removed.iter().chain(put.iter().map(|resource| &resource.resource)) {
            let of = |catalog: &'_ Catalog| catalog.get(&id.group, &id.version, &id.resource).cloned();
            let (before, now) = (of(&old), of(&catalog));
            if let Some(before) = before
                && !now.is_some_and(|now| Arc::ptr_eq(&now, &before))
            {
                before.withdrawn.set();
            }
        }
    }
}

/// Tells watches of a resource that it is no longer served as they know it.
#[derive(Default)]
pub struct Withdrawn(watch::Sender<bool>);

impl Withdrawn {
    fn set(&self) {
        self.0.send_replace(true);
    }

    /// Returns once the resource is no longer served.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut withdrawn = self.0.subscribe();
        async move {
            // An error means that the resource was dropped.
            let _ = withdrawn.wait_for(|withdrawn| *withdrawn).await;
        }
    }
}
