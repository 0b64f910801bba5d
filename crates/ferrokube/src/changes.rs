//! [`MadeChanges`]: tells watches that objects which are made when they are asked for may be others.

use std::sync::Arc;

use ::object::{Clock, SystemClock};
use storage::Revision;
use tokio::sync::watch::{Receiver, Sender};

/// Tells that the objects of a resource may have changed, [`crate::Resource::made_and_watched`]. Clones are for the same resource.
#[derive(Clone)]
pub struct MadeChanges(Arc<Sender<Revision>>);

impl MadeChanges {
    /// Begins with the time, so that resourceVersions also grow from one run of the program to the next.
    pub(crate) fn begin() -> MadeChanges {
        let now = SystemClock.now();
        MadeChanges(Arc::new(Sender::new(now.secs * 1000 + Revision::from(now.nanos / 1_000_000))))
    }

    /// Has the objects made again for every watch. To be called after every change of what the function gives, for any user: a watch that
    /// begins with a list takes for granted that nothing changed since if this was not called.
    pub fn notify(&self) {
        self.0.send_modify(|revision| *revision += 1);
    }

    pub(crate) fn receive(&self) -> Receiver<Revision> {
        self.0.subscribe()
    }
}
