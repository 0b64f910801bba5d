//! NamespaceLifecycle: nothing is created in a namespace that does not exist or is going away, and the system's own
//! namespaces stay.

use async_trait::async_trait;
use object::{Cause, GroupResource, Status, Value};

use super::forbidden;
use crate::{Attributes, Operation, Plugin};

pub struct NamespaceLifecycle;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

#[async_trait]
impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, _: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        let namespace = attributes.cx.namespace;
        let is_namespace = attributes.resource.group.is_empty() && attributes.resource.resource == "namespaces";
        let is_review = attributes.resource.group == "authorization.k8s.io";
        if attributes.operation != Operation::Create || namespace.is_empty() || is_namespace || is_review {
            return Ok(());
        }
        match attributes.cx.lookup.get("", "namespaces", "", namespace) {
            None => Err(Status::not_found(&GroupResource::new("", "namespaces"), namespace)),
            Some(found) if found.str_at(&["status", "phase"]) == "Terminating" => {
                Err(terminating(attributes, namespace))
            }
            Some(_) => Ok(()),
        }
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: Option<&Value>, _: Option<&Value>) -> Result<(), Status> {
        if attributes.operation == Operation::Delete
            && attributes.is("", "namespaces")
            && IMMORTAL.contains(&attributes.name)
        {
            return Err(forbidden(attributes, "this namespace may not be deleted"));
        }
        Ok(())
    }
}

fn terminating(attributes: &Attributes<'_>, namespace: &str) -> Status {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = forbidden(attributes, why);
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
