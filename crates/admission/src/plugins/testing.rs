//! What tests of plugins share: a world of other objects, and requests made against it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};

use object::{GroupVersionKind, GroupVersionResource, Meta, Status, Timestamp, Value};
use registry::{Context, Features, Lookup};
use request::User;

use crate::{Attributes, Operation, Plugin};

/// Other objects, by group and resource.
#[derive(Default)]
pub struct World(Vec<(String, String, Arc<Value>)>);

impl World {
    pub fn with(mut self, group: &str, resource: &str, object: Value) -> World {
        self.0.push((group.to_string(), resource.to_string(), Arc::new(object)));
        self
    }
}

impl Lookup for World {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.list(group, resource, namespace).into_iter().find(|object| object.name() == name)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        let here = self.0.iter().filter(|(g, r, _)| g == group && r == resource).map(|(_, _, object)| object);
        here.filter(|object| namespace.is_empty() || object.namespace() == namespace).cloned().collect()
    }
}

/// A request that was let through.
#[derive(Debug, PartialEq)]
pub struct Admitted {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Creates `resource` (such as `deployments.apps` or `pods/binding`) in the namespace `ns`.
pub fn create(plugin: &dyn Plugin, world: &dyn Lookup, resource: &str, object: Value) -> Result<Admitted, String> {
    now(admit(plugin, world, resource, object, None)).map_err(|status| status.message)
}

pub fn update(
    plugin: &dyn Plugin,
    world: &dyn Lookup,
    resource: &str,
    object: Value,
    old: Value,
) -> Result<Admitted, String> {
    now(admit(plugin, world, resource, object, Some(old))).map_err(|status| status.message)
}

/// The request itself, for plugins that wait.
pub async fn admit(
    plugin: &dyn Plugin,
    world: &dyn Lookup,
    resource: &str,
    mut object: Value,
    old: Option<Value>,
) -> Result<Admitted, Status> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let kind = if resource == "namespaces" { "Namespace" } else { "Thing" };
    let kind = GroupVersionKind { group: group.into(), version: "v1".into(), kind: kind.into() };
    let about = GroupVersionResource { group: group.into(), version: "v1".into(), resource: resource.into() };
    let (user, features, name) = (User::default(), Features::default(), object.name().to_string());
    let cx = Context {
        now: Timestamp::new(0, 0),
        user: &user,
        namespace: if resource == "namespaces" { "" } else { "ns" },
        group,
        version: "v1",
        subresource,
        dry_run: false,
        features: &features,
        lookup: world,
    };
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let options = Value::map();
    let attributes = Attributes::new(operation, &kind, &about, &name, cx, &options);
    if plugin.handles(operation) {
        plugin.mutate(&attributes, &mut object, old.as_ref()).await?;
        plugin.validate(&attributes, Some(&object), old.as_ref()).await?;
    }
    Ok(Admitted { object, warnings: attributes.take_warnings() })
}

/// Runs what has nothing to wait for.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Task::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the plugin waits for something that the test does not have"),
    }
}
