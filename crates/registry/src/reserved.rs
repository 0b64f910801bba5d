//! [`Reserved`]: what a write holds until it is stored or has failed.

use tokio::runtime::Handle;

use crate::write::Attempt;
use crate::{Error, Undo};

/// The resources that were reserved for a write. It is given back unless the write is stored, also when the write panics or is dropped.
pub(crate) struct Reserved {
    undo: Option<Box<dyn Undo>>,
    /// Whether the store may have the write already.
    sent: bool,
}

impl Reserved {
    pub fn new(undo: Option<Box<dyn Undo>>) -> Reserved {
        Reserved { undo, sent: false }
    }

    /// Called before the write is sent to the store.
    pub fn sending(&mut self) {
        self.sent = true;
    }

    /// Gives everything back.
    pub async fn give_back(mut self) {
        if let Some(undo) = self.undo.take() {
            undo.undo().await;
        }
    }

    /// Keeps what the stored write needs, and gives the rest back. Where nobody knows whether it is stored everything stays,
    /// because another object must not get what this one may have: repairs find those without an owner.
    pub async fn settle<T>(mut self, written: &Result<Attempt<T>, Error>) {
        let Some(undo) = self.undo.take() else { return };
        match written {
            Ok(Attempt::Done(_)) => undo.commit().await,
            Err(Error::Store { error: storage::Error::OutcomeUnknown(_), .. }) => {}
            _ => undo.undo().await,
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        if self.sent && !std::thread::panicking() {
            return;
        }
        // A process that ends has no runtime any more; the repairs of the next one find what it leaves behind.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(undo.undo()));
        }
    }
}

#[cfg(test)]
mod tests;
