//! [`Feed`]: objects that the program keeps.

use serde::Serialize;

use crate::values::to_value;

/// Keeps the objects of a resource, [`crate::Resource::fed`]: what the program puts here, clients can get, list and watch. Clones keep the
/// same objects. They end with the program.
#[derive(Clone)]
pub struct Feed(apiserver::FedObjects);

impl Feed {
    pub(crate) fn new(feed: apiserver::FedObjects) -> Feed {
        Feed(feed)
    }

    pub(crate) fn into_inner(self) -> apiserver::FedObjects {
        self.0
    }

    /// Adds an object, or puts it in the place of the one of its name; watches see it if it is different. It has the fields of the stored
    /// version, a name, and a namespace if the resource has namespaces. Err says what of it cannot be used.
    pub async fn put(&self, object: &impl Serialize) -> Result<(), String> {
        let document = serde_json::to_value(object).map_err(|error| error.to_string())?;
        self.0.put(to_value(&document).map_err(|status| status.message)?).await
    }

    /// Removes an object, whose namespace is "" if the resource has none; whether there was one.
    pub async fn remove(&self, namespace: &str, name: &str) -> Result<bool, String> {
        self.0.remove(namespace, name).await
    }
}
