//! Subresources that the program carries out, or whose requests it passes on.

use std::sync::Arc;

use ::object::{GroupResource, GroupVersionKind, Meta, Status, Value};
use async_trait::async_trait;
use futures::future::BoxFuture;
use http::Uri;
use registry::{Action, ActionCall, Connect, ConnectCall, Exchange, Target};
use request::User;

use crate::Denied;
use crate::values::{from_value, to_value};

/// A POST to a subresource of the program, [`crate::Resource::action`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ActionRequest {
    /// Who asks.
    pub user: User,
    /// The namespace of the object; "" if it has none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object, in the version that is stored.
    pub object: serde_json::Value,
    /// What was sent.
    pub body: serde_json::Value,
    /// Whether nothing is to be done but to check.
    pub is_dry_run: bool,
}

pub(crate) type Perform =
    Box<dyn Fn(ActionRequest) -> BoxFuture<'static, Result<serde_json::Value, Denied>> + Send + Sync>;

/// A subresource that is carried out.
pub(crate) struct Performed {
    /// The resource that it belongs to.
    pub resource: GroupResource,
    /// The kind that is sent and answered.
    pub kind: String,
    pub perform: Perform,
}

#[async_trait]
impl Action for Performed {
    async fn create(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        let namespace = call.cx.namespace;
        let stored = call.cx.lookup.get(&self.resource.group, &self.resource.resource, namespace, call.name);
        let stored = stored.ok_or_else(|| Status::not_found(&self.resource, call.name))?;
        let api_version = call.body.api_version().to_string();
        let mut body = call.body;
        // The managed fields of what is not stored say nothing.
        body.remove(&["metadata", "managedFields"]);
        let request = ActionRequest {
            user: call.cx.user.clone(),
            namespace: namespace.to_string(),
            name: call.name.to_string(),
            object: from_value(&stored).map_err(Status::internal)?,
            body: from_value(&body).map_err(Status::internal)?,
            is_dry_run: call.cx.dry_run,
        };
        let answer = (self.perform)(request).await;
        let refused = |denied: Denied| denied.into_status(&self.resource, &self.resource.group, &self.kind, call.name);
        let mut answer = to_value(&answer.map_err(refused)?)?;
        answer.set_default(&["apiVersion"], api_version);
        answer.set_default(&["kind"], self.kind.clone());
        Ok(answer)
    }
}

pub(crate) type Locate = Box<dyn Fn(User, String, String) -> BoxFuture<'static, Result<Uri, Denied>> + Send + Sync>;

/// A subresource whose requests are passed on.
pub(crate) struct Passed {
    pub locate: Locate,
}

#[async_trait]
impl Connect for Passed {
    fn options(&self) -> GroupVersionKind {
        // The only option of a proxy, its path, is the same for all kinds.
        GroupVersionKind::new("", "v1", "ServiceProxyOptions")
    }

    fn exchange(&self) -> Exchange {
        Exchange::Proxy
    }

    async fn target(&self, call: &ConnectCall<'_>) -> Result<Option<Target>, registry::Error> {
        let (user, namespace) = (call.cx.user.clone(), call.cx.namespace.to_string());
        call.storage.get(call.cx.namespace, call.name).await?;
        let located = (self.locate)(user, namespace, call.name.to_string()).await;
        let (resource, kind) = (&call.storage.resource, &call.storage.kind);
        let uri = located.map_err(|denied| denied.into_status(resource, &kind.group, &kind.kind, call.name))?;
        let tls = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or_else(|| Status::internal("the program names no host for a proxy"))?;
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let host = host.trim_matches(['[', ']']).to_string();
        Ok(Some(Target { tls, host, port, ..Target::default() }))
    }
}

/// Makes an action of a function.
pub(crate) fn performed(resource: GroupResource, kind: &str, perform: Perform) -> Arc<dyn Action> {
    Arc::new(Performed { resource, kind: kind.to_string(), perform })
}
