//! [`ListCondition`]: what the objects of a list or watch must fulfil besides its selectors.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use cache::Object;

use crate::{Error, Readable};

/// A condition that one request puts on objects: its filter, or that its user may see them.
#[async_trait]
pub trait ListCondition: Debug + Send + Sync + 'static {
    /// Finds out what `holds` must know about these objects, where that takes waiting.
    async fn prepare(&self, _objects: &[Arc<Object>]) -> Result<(), Error> {
        Ok(())
    }

    /// Whether it holds. `work` grows by what was done to find out, as bytes that are read. It holds for an object that cannot be
    /// read, unless the key alone says that it does not: lists and watches then fail and name the object.
    fn holds(&self, object: Readable<'_>, work: &mut usize) -> Result<bool, Error>;

    /// Whether a watch tells of a change of an object for which it holds before and after.
    fn holds_for_change(&self, _object: Readable<'_>, _before: Readable<'_>, _work: &mut usize) -> Result<bool, Error> {
        Ok(true)
    }

    /// Everything that was charged to the whole request so far was for the objects that were there when it began; from here on each object is
    /// charged alone.
    fn end_of_initial(&self) {}

    /// The same condition for objects that were found to fulfil it before and are read again: nothing is charged for them.
    fn again(&self) -> Arc<dyn ListCondition>;
}
