//! `authorized`: lists and watches of what their user may see, where that is not everything.

use std::sync::Arc;

use async_trait::async_trait;
use authz::Visible;
use cache::Object;
use object::Status;
use registry::{Error, ListCondition, Pace, Readable, ResourceStorage};

use crate::scope::Scope;
use crate::{Call, find};

/// The parameter, and the header that a client can send with every request.
pub const PARAMETER: &str = "authorized";
const HEADER: &str = "ferrokube-authorized";
/// A decision that is known takes about as long as reading so many bytes.
const DECIDED_BYTES: usize = 64;

/// Whether a request asks for what its user may see: a list or watch that says so in the parameter, or else in the header, or else the
/// one of a user for whom that is the default. Objects of all kinds are always asked for so.
pub fn is_asked_for(call: &Call) -> bool {
    let info = &call.info;
    let is_listing = matches!(info.verb, request::Verb::List | request::Verb::Watch);
    let asks = || match (call.query(PARAMETER), call.header(HEADER)) {
        (Some(text), _) => matches!(text, "true" | "1"),
        (None, "") => call.only_visible,
        (None, text) => text == "true",
    };
    let is_stored = info.is_resource && is_listing && info.subresource.is_empty() && !info.is_watch_path;
    find::is_asked_for(info) || is_stored && asks()
}

/// That the user of a request may see an object.
#[derive(Clone)]
pub struct VisibleObjects {
    pub visible: Arc<Visible>,
    storage: Arc<ResourceStorage>,
}

impl VisibleObjects {
    pub fn new(scope: &Scope) -> Result<VisibleObjects, Status> {
        let (user, info) = (scope.call.user.clone(), scope.call.info.clone());
        let visible = Arc::new(Visible::new(scope.api.authorizer.clone(), user, info));
        Ok(VisibleObjects { visible, storage: scope.storage()?.clone() })
    }

    /// Decides about an object unless that is known. True if an authorizer was asked.
    pub async fn decide(&self, object: &Object) -> Result<bool, Status> {
        let Some((namespace, name)) = self.storage.place(object.key()) else { return Ok(false) };
        self.visible.decide(namespace, name).await.map_err(Status::internal)
    }

    /// Forgets what was decided about the namespace of an object.
    pub fn undecide(&self, object: &Object) {
        if let Some((namespace, _)) = self.storage.place(object.key()) {
            self.visible.undecide(namespace);
        }
    }
}

#[async_trait]
impl ListCondition for VisibleObjects {
    async fn prepare(&self, objects: &[Arc<Object>]) -> Result<(), Error> {
        let mut pace = Pace::begin();
        for object in objects {
            self.decide(object).await?;
            pace.worked(DECIDED_BYTES).await;
        }
        Ok(())
    }

    fn holds(&self, object: Readable<'_>, work: &mut usize) -> Result<bool, Error> {
        *work += DECIDED_BYTES;
        Ok(self.storage.place(object.key()).is_some_and(|(namespace, name)| self.visible.sees(namespace, name)))
    }

    fn again(&self) -> Arc<dyn ListCondition> {
        Arc::new(self.clone())
    }
}

impl std::fmt::Debug for VisibleObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.visible.fmt(f)
    }
}
