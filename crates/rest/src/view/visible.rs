//! `authorized`: lists and watches of what their user may see, where that is not everything.

use std::sync::Arc;

use async_trait::async_trait;
use authz::Visible;
use cache::Object;
use object::Status;
use registry::{Error, ListCondition, Pace, Readable, ResourceStorage};
use storage::Key;

use crate::Call;
use crate::scope::Scope;

/// The parameter, and the header that a client can send with every request.
pub const PARAMETER: &str = "authorized";
const HEADER: &str = "ferrokube-authorized";
/// A decision that is known takes about as long as reading so many bytes.
const DECIDED_BYTES: usize = 64;

/// Whether a request asks for what its user may see: a list or watch that says so in a parameter or in a header.
pub fn is_asked_for(call: &Call) -> bool {
    let info = &call.info;
    let is_listing = matches!(info.verb, request::Verb::List | request::Verb::Watch);
    let asks = || matches!(call.query(PARAMETER), Some("true" | "1")) || call.header(HEADER) == "true";
    info.is_resource && is_listing && info.subresource.is_empty() && !info.is_watch_path && asks()
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
        let Some((namespace, name)) = self.place(object.key()) else { return Ok(false) };
        self.visible.decide(namespace, name).await.map_err(Status::internal)
    }

    /// Forgets what was decided about the namespace of an object.
    pub fn undecide(&self, object: &Object) {
        if let Some((namespace, _)) = self.place(object.key()) {
            self.visible.undecide(namespace);
        }
    }

    /// The namespace and the name that a key stands for.
    fn place<'k>(&self, key: &'k Key) -> Option<(&'k str, &'k str)> {
        let below = key.as_str()?.strip_prefix(&self.storage.prefix)?;
        if self.storage.namespaced { below.split_once('/') } else { Some(("", below)) }
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
        Ok(self.place(object.key()).is_some_and(|(namespace, name)| self.visible.sees(namespace, name)))
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
