//! [`Effects`]: what a kind reserves or looks up beside its object.

use async_trait::async_trait;
use object::{Cursor, Errors, Value};

use crate::{Context, Error};

/// The effects of the few kinds that need more than the object of a write: allocate addresses, reserve ports, ask for other rights.
#[async_trait]
pub trait Effects: Send + Sync {
    /// What the author may not ask for in a new object, after it was prepared. These errors come first.
    fn authorize_create(&self, _cx: &Context, _object: &Cursor, _errors: &mut Errors) {}

    /// What other rights of the author decide about a new status, after it was prepared. These errors come first.
    async fn authorize_status_update(&self, _cx: &Context<'_>, _new: &Value, _old: &Value, _errors: &mut Errors) {}

    /// Runs once the object has its name and uid, before it is prepared and validated, which see what it filled in. What it
    /// returns is undone if anything after it fails and committed once the write is stored. Must have no lasting effect when
    /// `cx.dry_run` is set.
    async fn begin_create(&self, _cx: &Context<'_>, _object: &mut Value) -> Result<Option<Box<dyn Undo>>, Error> {
        Ok(None)
    }

    /// As [`Effects::begin_create`], for updates; for subresources too.
    async fn begin_update(
        &self,
        _cx: &Context<'_>,
        _new: &mut Value,
        _old: &Value,
    ) -> Result<Option<Box<dyn Undo>>, Error> {
        Ok(None)
    }

    /// Runs after the object is gone from the store, through whatever subresource: release what begin_create took.
    async fn after_delete(&self, _cx: &Context<'_>, _object: &Value) {}
}

/// What remains to be done about a side effect once its write has failed or is stored.
#[async_trait]
pub trait Undo: Send + Sync {
    /// The write failed: take the side effect back.
    async fn undo(self: Box<Self>);

    /// The write is stored: let go of what the old state held.
    async fn commit(self: Box<Self>) {}
}
