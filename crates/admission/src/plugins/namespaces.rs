//! NamespaceAutoProvision makes the namespace of whatever is created; NamespaceExists refuses what is in none.

use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupResource, Status, Value, value};
use registry::OwnClient;

use super::forbidden;
use crate::{Attributes, Plugin};

pub struct NamespaceAutoProvision {
    pub client: Arc<dyn OwnClient>,
}

pub struct NamespaceExists;

#[async_trait]
impl Plugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        "NamespaceAutoProvision"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, _: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if attributes.cx.dry_run || is_there(attributes) {
            return Ok(());
        }
        let name = attributes.cx.namespace;
        let namespace = value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        // Another request may have made it meanwhile.
        let made = self.client.create("", "namespaces", namespace).await;
        made.map(drop).map_err(|status| forbidden(attributes, status.message))
    }
}

#[async_trait]
impl Plugin for NamespaceExists {
    fn name(&self) -> &'static str {
        "NamespaceExists"
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: Option<&Value>, _: Option<&Value>) -> Result<(), Status> {
        if is_there(attributes) {
            return Ok(());
        }
        Err(Status::not_found(&GroupResource::new("", "namespaces"), attributes.cx.namespace))
    }
}

/// Whether the request is about no namespace, a namespace itself, or one that exists.
fn is_there(attributes: &Attributes<'_>) -> bool {
    let namespace = attributes.cx.namespace;
    let itself = attributes.kind.group.is_empty() && attributes.kind.kind == "Namespace";
    namespace.is_empty() || itself || attributes.cx.lookup.get("", "namespaces", "", namespace).is_some()
}
