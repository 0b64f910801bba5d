//! Users cannot grant more than they have: roles and bindings are checked against what their author may do.

use std::sync::Arc;

use ::admission::{Attributes, Operation, Plugin, Sees};
use async_trait::async_trait;
use authz::Authorizer;
use authz::rbac::Rbac;
use kinds::rbac::escalation;
use object::{GroupResource, Status, Value};
use request::{Access, Rule};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Upstream checks this in the storage of roles and bindings; here it is the last of the plugins and always on.
pub struct EscalationCheck {
    pub rbac: Arc<Rbac>,
    pub authorizer: Arc<dyn Authorizer>,
}

impl EscalationCheck {
    /// The requests that it sees.
    pub const SEES: Sees = Sees {
        operations: &[Operation::Create, Operation::Update],
        resources: &["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
    };
}

#[async_trait]
impl Plugin for EscalationCheck {
    fn name(&self) -> &'static str {
        "RBACEscalationCheck"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if attributes.resource.group != GROUP || !attributes.subresource.is_empty() {
            return Ok(());
        }
        let resource = attributes.resource.resource.as_str();
        let is_role = matches!(resource, "roles" | "clusterroles");
        let only_owners = old.is_some_and(|old| changes_only_owners(object, old));
        let verb = if is_role { "escalate" } else { "bind" };
        if only_owners || self.may(attributes, object, is_role, verb).await {
            return Ok(());
        }
        let granted = match is_role {
            true => Arc::new(authz::rbac::rules(object)),
            false => self.bound_rules(attributes, object)?,
        };
        let user = attributes.cx.user;
        let held = self.rbac.rules_for(user, attributes.cx.namespace).rules;
        let refused = |granted: &[Rule]| escalation::refusal(&user.name, &user.groups, &held, granted);
        let refuse = |why: String| Err(Status::forbidden(&GroupResource::new(GROUP, resource), attributes.name, why));
        if let Some(why) = refused(&granted) {
            return refuse(why);
        }
        // What is gathered by labels may come to be anything.
        let gathers = aggregates(object) || old.is_some_and(aggregates);
        if is_role && gathers && refused(&escalation::full_authority()).is_some() {
            return refuse(escalation::AGGREGATION_REFUSAL.into());
        }
        Ok(())
    }
}

impl EscalationCheck {
    /// Whether the author was given the right to go beyond their own.
    async fn may(&self, attributes: &Attributes<'_>, object: &Value, is_role: bool, verb: &str) -> bool {
        let reference = object.field("roleRef");
        let (resource, name) = match (is_role, reference.str_at(&["kind"])) {
            (true, _) => (attributes.resource.resource.as_str(), attributes.name),
            (false, "Role") => ("roles", reference.str_at(&["name"])),
            (false, _) => ("clusterroles", reference.str_at(&["name"])),
        };
        let access = Access {
            group: GROUP,
            version: "v1",
            resource,
            namespace: attributes.cx.namespace,
            name,
            ..Access::to_resource(attributes.cx.user, verb)
        };
        self.authorizer.decide(&access).await.is_allowed()
    }

    fn bound_rules(&self, attributes: &Attributes<'_>, binding: &Value) -> Result<Arc<Vec<Rule>>, Status> {
        let (kind, name) = (binding.str_at(&["roleRef", "kind"]), binding.str_at(&["roleRef", "name"]));
        self.rbac.rules_of(attributes.cx.namespace, kind, name).ok_or_else(|| {
            // Upstream looks the role up under the name of the binding's resource.
            Status::not_found(&GroupResource::new(GROUP, attributes.resource.resource.clone()), name)
        })
    }
}

fn aggregates(role: &Value) -> bool {
    !role.list_at(&["aggregationRule", "clusterRoleSelectors"]).is_empty()
}

/// Garbage collectors may change owners and finalizers of what they have no other right to.
fn changes_only_owners(new: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            object.remove(&["metadata", field]);
        }
        object
    };
    without(new) == without(old)
}
