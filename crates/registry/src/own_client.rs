//! [`OwnClient`]: how the server reads and writes objects for itself.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Status, Value};

/// The API's objects as the server reads and writes them for itself: not for the user of a request, and without admission.
#[async_trait]
pub trait OwnClient: Send + Sync + 'static {
    /// The object; of the cache if that knows it, else as the store has it. None if there is none.
    async fn get(&self, _group: &str, _resource: &str, _namespace: &str, _name: &str) -> Option<Arc<Value>> {
        None
    }

    /// All objects of a namespace, or of all if it is "", as current as the store itself. None of a resource that is not served.
    async fn list(&self, _group: &str, _resource: &str, _namespace: &str) -> Result<Vec<Arc<Value>>, Status> {
        Ok(Vec::new())
    }

    /// Creates an object without a namespace; false if there is one of its name.
    async fn create(&self, _group: &str, resource: &str, _object: Value) -> Result<bool, Status> {
        Err(not_served(resource))
    }

    /// Deletes an object without a namespace; one that is not there is fine.
    async fn delete(&self, _group: &str, resource: &str, _name: &str) -> Result<(), Status> {
        Err(not_served(resource))
    }

    /// Stores what `change` makes of an object, or of a newer one if another writer was faster; false if it makes nothing of it, or
    /// the object is gone.
    async fn change(&self, what: &OwnChange<'_>, _change: &MakeChange<'_>) -> Result<bool, Status> {
        Err(not_served(what.resource))
    }

    /// The RangeAllocation of node ports, `ranges/servicenodeports` below the storage prefix, and the revision it was stored at.
    async fn node_ports(&self) -> Result<Option<(Value, u64)>, Status> {
        Ok(None)
    }

    /// Stores the RangeAllocation if the stored one is still of the given revision (None: if there is none), and answers
    /// with the new revision; None if another writer was faster.
    async fn store_node_ports(&self, _ports: &Value, _revision: Option<u64>) -> Result<Option<u64>, Status> {
        Err(not_served("rangeallocations"))
    }
}

/// The object that takes the place of another; None leaves that as it is.
pub type MakeChange<'a> = dyn Fn(&Value) -> Option<Value> + Send + Sync + 'a;

/// Which object is changed.
#[derive(Clone, Copy, Debug)]
pub struct OwnChange<'a> {
    /// The group.
    pub group: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// "" for the object itself.
    pub subresource: &'a str,
    /// "" for objects without a namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The uid that it must have; None for any.
    pub uid: Option<&'a str>,
}

fn not_served(resource: &str) -> Status {
    Status::internal(format!("the server needs {resource}, which are turned off"))
}
