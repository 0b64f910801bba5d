//! Binding a pod to a node; [`evict`](super::evict) is eviction.

use std::sync::Arc;

use async_trait::async_trait;
use kinds::core::pod::{bind, validate_binding};
use object::{Meta, Status, Value, value};
use registry::{Action, ActionCall, ResourceStorage, UpdateOptions, UpdateScope};

pub struct Bind;

#[async_trait]
impl Action for Bind {
    fn writes(&self) -> bool {
        true
    }

    async fn check(&self, call: &mut ActionCall<'_>) -> Result<(), Status> {
        if call.body.name() != call.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        validate_binding(&call.body)?;
        if call.name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let problems = object::names::path_segment_name(call.name);
        if !problems.is_empty() {
            let name = object::quote(call.name);
            return Err(Status::bad_request(format!("Name parameter invalid: {name}: {}", problems.join(";"))));
        }
        Ok(())
    }

    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let options = UpdateOptions {
            uid: Some(call.body.uid().to_string()).filter(|uid| !uid.is_empty()),
            resource_version: Some(call.body.resource_version().to_string()).filter(|version| !version.is_empty()),
            scope: UpdateScope::Other,
            ..UpdateOptions::default()
        };
        let mut write = pods(&call)?.begin(&call.cx, call.name, &options).await?;
        loop {
            let pod = write.existing().await?;
            let bound = bind(&call.cx, &pod, &call.body)?;
            if write.store(bound, Some(&pod)).await?.is_some() {
                return Ok(success());
            }
        }
    }
}

pub fn pods<'a>(call: &'a ActionCall<'_>) -> Result<&'a Arc<ResourceStorage>, Status> {
    call.cx.catalog.stored("", "pods").ok_or_else(|| Status::internal("pods are not served"))
}

/// The message to clients when all went well.
pub fn success() -> Value {
    value!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}
