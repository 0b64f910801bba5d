//! OwnerReferencesPermissionEnforcement: changing owner references needs the permission to delete the object, and setting
//! blockOwnerDeletion the permission to update the owner's finalizers.

use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupVersion, Meta, Status, Value};
use request::Access;

use super::forbidden;
use crate::{Attributes, Host, Operation, Plugin};

pub struct OwnerReferencesPermissionEnforcement {
    pub server: Arc<dyn Host>,
}

#[async_trait]
impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let resource = attributes.resource;
        let is_pod_status =
            resource.group.is_empty() && resource.resource == "pods" && attributes.subresource == "status";
        let Some(object) = object.filter(|_| !is_pod_status) else { return Ok(()) };
        let (owners, before) = (object.owner_references(), old.map(|old| old.owner_references()).unwrap_or(&[]));
        if owners == before {
            return Ok(());
        }
        if attributes.operation != Operation::Create {
            self.check_delete(attributes).await?;
        }
        let blocking: Vec<&Value> = owners.iter().filter(|owner| blocks(owner) && !blocked(owner, before)).collect();
        self.check_blocking(attributes, &blocking).await
    }
}

impl OwnerReferencesPermissionEnforcement {
    async fn check_delete(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let resource = attributes.resource;
        let access = Access {
            group: &resource.group,
            version: &resource.version,
            resource: &resource.resource,
            subresource: attributes.subresource,
            namespace: attributes.cx.namespace,
            name: attributes.name,
            ..Access::to_resource(attributes.cx.user, "delete")
        };
        self.server.allows(&access).await.map_err(|reason| {
            forbidden(attributes, format!("cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"))
        })
    }

    async fn check_blocking(&self, attributes: &Attributes<'_>, owners: &[&Value]) -> Result<(), Status> {
        let finalizers = Access { subresource: "finalizers", ..Access::to_resource(attributes.cx.user, "update") };
        let anything = Access { group: "*", version: "*", resource: "*", name: "*", ..finalizers };
        if owners.is_empty() || self.server.allows(&anything).await.is_ok() {
            return Ok(());
        }
        for owner in owners {
            let (version, kind) = (owner.str_at(&["apiVersion"]), owner.str_at(&["kind"]));
            let full = GroupVersion::parse(version).unwrap_or_default().with_kind(kind);
            let Some(found) = attributes.cx.catalog.by_kind(&full) else {
                return Err(forbidden(
                    attributes,
                    format!(
                        "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}: no matches for kind {} in version {}",
                        object::quote(kind),
                        object::quote(version)
                    ),
                ));
            };
            let access = Access {
                group: &found.resource.group,
                version: &found.resource.version,
                resource: &found.resource.resource,
                namespace: if found.namespaced { attributes.cx.namespace } else { "" },
                name: owner.str_at(&["name"]),
                ..finalizers
            };
            self.server.allows(&access).await.map_err(|reason| {
                forbidden(
                    attributes,
                    format!(
                        "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {reason}, <nil>"
                    ),
                )
            })?;
        }
        Ok(())
    }
}

fn blocks(owner: &Value) -> bool {
    owner.field("blockOwnerDeletion").as_bool() == Some(true)
}

/// Whether the same owner blocked before.
fn blocked(owner: &Value, before: &[Value]) -> bool {
    before.iter().any(|old| old.str_at(&["uid"]) == owner.str_at(&["uid"]) && blocks(old))
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{Closed, World, create, update};

    #[test]
    fn owners_are_set_by_those_who_may() {
        let owned = |blocks: bool| {
            value!({"metadata": {"name": "p", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "blockOwnerDeletion": blocks}
            ]}})
        };
        let free = value!({"metadata": {"name": "p"}});
        let world = World::default();
        let with = |allowed| OwnerReferencesPermissionEnforcement { server: Arc::new(Closed { allowed }) };
        assert!(create(&with(""), &world, "pods", owned(false)).is_ok());
        assert!(create(&with("update n"), &world, "pods", owned(true)).is_ok());
        let refused = create(&with(""), &world, "pods", owned(true)).unwrap_err();
        assert!(refused.contains("a resource you can't set finalizers on"), "{refused}");
        let refused = update(&with(""), &world, "pods", owned(false), free.clone()).unwrap_err();
        assert!(refused.contains("a resource you can't delete"), "{refused}");
        assert!(update(&with("delete p"), &world, "pods", owned(false), free).is_ok());
    }
}
