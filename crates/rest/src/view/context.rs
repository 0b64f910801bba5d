//! [`ListContext`]: what decides, besides an object itself, whether a list or watch is about it.

use std::sync::Arc;

use authz::{Changes, DecisionsChanged};
use cache::Object;
use object::Status;

use super::namespaces::NamespaceObjects;
use super::visible::VisibleObjects;

/// Facts that can change while a watch lasts, so that objects begin and cease to be shown that did not change. Empty for most requests.
#[derive(Clone, Default)]
pub struct ListContext {
    /// The objects that the user may see.
    pub visible: Option<VisibleObjects>,
    /// The namespaces that a filter reads.
    pub namespaces: Option<Arc<NamespaceObjects>>,
}

impl ListContext {
    pub fn is_empty(&self) -> bool {
        self.visible.is_none() && self.namespaces.is_none()
    }

    /// When it last changed.
    pub fn changed(&self) -> DecisionsChanged {
        let visible = self.visible.as_ref().map_or_else(DecisionsChanged::default, |visible| visible.visible.changed());
        self.namespaces.as_ref().map_or(visible, |namespaces| visible.join(namespaces.changed()))
    }

    /// Wakes when it may have changed.
    pub fn changes(&self) -> Vec<Changes> {
        let visible = self.visible.iter().flat_map(|visible| visible.visible.changes());
        visible.chain(self.namespaces.iter().map(|namespaces| namespaces.changes())).collect()
    }

    /// Forgets everything that is known.
    pub fn forget(&self) {
        if let Some(visible) = &self.visible {
            visible.visible.forget();
        }
        if let Some(namespaces) = &self.namespaces {
            namespaces.forget();
        }
    }

    /// Finds out what must be known about an object. False if that has changed since `decided`: then nothing new is kept.
    pub async fn find_out(&self, object: &Object, decided: DecisionsChanged) -> Result<bool, Status> {
        if let Some(visible) = &self.visible
            && visible.decide(object).await?
            && self.changed() != decided
        {
            visible.undecide(object);
            return Ok(false);
        }
        if let Some(namespaces) = &self.namespaces
            && namespaces.prepare_one(object).await?
            && self.changed() != decided
        {
            namespaces.forget_of(object);
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether enough is known about an object to look at it. What was not decided about is not seen.
    pub fn knows(&self, object: &Object) -> bool {
        self.namespaces.as_ref().is_none_or(|namespaces| namespaces.knows(object))
    }
}
