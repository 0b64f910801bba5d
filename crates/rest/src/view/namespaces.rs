//! [`NamespaceObjects`]: the variable `namespaceObject` of filters.

use std::sync::Arc;

use authz::{Changes, DecisionsChanged, changes_of};
use cache::Object;
use hashbrown::HashMap;
use object::{Status, Str, Value};
use parking_lot::Mutex;
use registry::{DirectStorage, Error, Pace, Readable, ResourceStorage};
use request::{Access, User};

use super::filter::invalid;
use crate::scope::Scope;

/// Looking whether a namespace is known takes about as long as reading so many bytes.
const KNOWN_BYTES: usize = 64;

/// The namespaces of the objects of one request, which its user must be allowed to get. They stay as they were when they were first asked
/// for until they are forgotten.
pub struct NamespaceObjects {
    /// Of the objects.
    storage: Arc<ResourceStorage>,
    /// Of the namespaces.
    namespaces: DirectStorage,
    api: crate::Snapshot,
    user: User,
    known: Mutex<HashMap<Str, KnownNamespace>>,
    /// The one that was read last: objects of one namespace follow one another.
    last: Mutex<Option<(Str, Arc<Value>)>>,
}

#[derive(Clone)]
enum KnownNamespace {
    /// The user may not get it, with the refusal.
    Hidden(Box<Status>),
    /// The user may; None if there is none.
    Shown(Option<Arc<Object>>),
}

impl NamespaceObjects {
    pub fn new(scope: &Scope) -> Result<NamespaceObjects, Status> {
        let namespaces = scope.api.catalog.direct("", "namespaces");
        let namespaces = namespaces.ok_or_else(|| invalid("there is no namespaceObject: namespaces are not served"))?;
        Ok(NamespaceObjects {
            storage: scope.storage()?.clone(),
            namespaces,
            api: scope.api.clone(),
            user: scope.call.user.clone(),
            known: Mutex::default(),
            last: Mutex::default(),
        })
    }

    /// When a namespace last changed.
    pub fn changed(&self) -> DecisionsChanged {
        let revision = self.namespaces.cache.last_change();
        DecisionsChanged { generation: revision, revision }
    }

    /// Wakes when a namespace has changed.
    pub fn changes(&self) -> Changes {
        changes_of(self.namespaces.cache.clone(), self.namespaces.range("").into())
    }

    /// Forgets all namespaces.
    pub fn forget(&self) {
        self.known.lock().clear();
        *self.last.lock() = None;
    }

    /// Forgets the namespace of an object.
    pub fn forget_of(&self, object: &Object) {
        if let Some((namespace, _)) = self.storage.place(object.key()) {
            self.known.lock().remove(namespace);
            *self.last.lock() = None;
        }
    }

    /// Whether the namespace of an object is known.
    pub fn knows(&self, object: &Object) -> bool {
        let place = self.storage.place(object.key());
        place.is_none_or(|(namespace, _)| namespace.is_empty() || self.known.lock().contains_key(namespace))
    }

    /// Asks for the namespaces of objects. Whether one may be read is only told when an object in it is looked at.
    pub async fn prepare(&self, objects: &[Arc<Object>]) -> Result<(), Error> {
        let mut pace = Pace::begin();
        for object in objects {
            self.prepare_one(object).await?;
            pace.worked(KNOWN_BYTES).await;
        }
        Ok(())
    }

    /// The same for one object. True if its namespace was not known.
    pub async fn prepare_one(&self, object: &Object) -> Result<bool, Error> {
        let Some((namespace, _)) = self.storage.place(object.key()) else { return Ok(false) };
        if namespace.is_empty() || self.known.lock().contains_key(namespace) {
            return Ok(false);
        }
        // A namespace is in itself for authorizers.
        let access = Access {
            namespace,
            name: namespace,
            resource: "namespaces",
            version: "v1",
            ..Access::to_resource(&self.user, "get")
        };
        let decision = self.api.authorizer.decide(&access).await;
        let known = match (decision.is_allowed(), decision.error) {
            (true, _) => {
                let key = self.namespaces.key("", namespace);
                let read = self.namespaces.cache.current(&key).await;
                KnownNamespace::Shown(read.map_err(|error| self.namespaces.read_failed(error, "get"))?)
            }
            (false, Some(error)) => return Err(Status::internal(error).into()),
            (false, None) => KnownNamespace::Hidden(Box::new(access.refusal(&decision.reason))),
        };
        self.known.lock().insert(namespace.into(), known);
        Ok(true)
    }

    /// The namespace of an object; null for cluster-scoped ones, and where there is none.
    pub fn of(&self, object: Readable<'_>, work: &mut usize) -> Result<Arc<Value>, Error> {
        let Some((namespace, _)) = self.storage.place(object.key()).filter(|(namespace, _)| !namespace.is_empty())
        else {
            return Ok(Arc::default());
        };
        if let Some((name, value)) = &*self.last.lock()
            && name == namespace
        {
            return Ok(value.clone());
        }
        let known = self.known.lock().get(namespace).cloned();
        let value = match known {
            Some(KnownNamespace::Hidden(refusal)) => return Err(Error::Refused(*refusal)),
            Some(KnownNamespace::Shown(Some(found))) => {
                *work += found.value().len();
                Arc::new(self.namespaces.decode_entry(found.entry())?)
            }
            Some(KnownNamespace::Shown(None)) => Arc::default(),
            None => return Err(Status::internal("the namespace of an object was not asked for").into()),
        };
        *self.last.lock() = Some((namespace.into(), value.clone()));
        Ok(value)
    }
}
