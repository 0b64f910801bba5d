//! What tests of plugins share: a world of other objects, and requests made against it.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context as Task, Poll, Waker};

use async_trait::async_trait;
use object::{GroupVersion, GroupVersionKind, GroupVersionResource, Meta, Status, Timestamp, Value};
use registry::{Catalog, Context, Features, Form, Lookup, OwnClient, Resource, Shape, Warnings};
use request::{Access, User};

use crate::{Annotations, Attributes, Host, Operation, Plugin, plugins, webhook};

/// Other objects, by group and resource.
#[derive(Default)]
pub struct World(Vec<(String, String, Arc<Value>)>);

impl World {
    pub fn with(mut self, group: &str, resource: &str, object: Value) -> World {
        self.0.push((group.to_string(), resource.to_string(), Arc::new(object)));
        self
    }
}

#[async_trait]
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
    /// Keys and values of audit annotations.
    pub annotations: Vec<(String, String)>,
}

/// Creates `resource` (such as `deployments.apps` or `pods/binding`) in the namespace `ns`.
pub fn create(plugin: &dyn Plugin, world: &dyn Lookup, resource: &str, object: Value) -> Result<Admitted, String> {
    As(User::default()).play(plugin, world, resource, object, None)
}

pub fn update(
    plugin: &dyn Plugin,
    world: &dyn Lookup,
    resource: &str,
    object: Value,
    old: Value,
) -> Result<Admitted, String> {
    As(User::default()).play(plugin, world, resource, object, Some(old))
}

/// Requests by one user.
pub struct As(pub User);

impl As {
    pub fn play(
        &self,
        plugin: &dyn Plugin,
        world: &dyn Lookup,
        resource: &str,
        object: Value,
        old: Option<Value>,
    ) -> Result<Admitted, String> {
        now(admit_as(&self.0, plugin, world, resource, object, old)).map_err(|status| status.message)
    }
}

/// A server where everything is allowed.
pub struct Open;

#[async_trait]
impl Host for Open {
    async fn allows(&self, _: &Access<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// A server where one verb on one name is allowed: `sign example.com/*`.
pub struct Closed {
    pub allowed: &'static str,
}

#[async_trait]
impl Host for Closed {
    async fn allows(&self, access: &Access<'_>) -> Result<(), String> {
        if format!("{} {}", access.verb, access.name) == self.allowed { Ok(()) } else { Err(String::new()) }
    }
}

/// A server that stores nothing.
pub struct NoObjects;

impl OwnClient for NoObjects {}

/// A server whose webhook configurations are not served.
pub fn no_webhooks() -> webhook::WebhookSettings {
    struct NoServices;
    #[async_trait]
    impl outbound::Resolve for NoServices {
        async fn resolve(&self, _: &str, name: &str, _: u16) -> Result<outbound::Address, String> {
            Err(format!("service {name} not found"))
        }
    }
    webhook::WebhookSettings {
        mutating: None,
        validating: None,
        services: Arc::new(NoServices),
        egress: outbound::Egress::default(),
        ignore_budget: None,
        exclude_virtual_resources: true,
    }
}

/// The request itself, for plugins that wait.
pub async fn admit(
    plugin: &dyn Plugin,
    world: &dyn Lookup,
    resource: &str,
    object: Value,
    old: Option<Value>,
) -> Result<Admitted, Status> {
    admit_as(&User::default(), plugin, world, resource, object, old).await
}

async fn admit_as(
    user: &User,
    plugin: &dyn Plugin,
    world: &dyn Lookup,
    resource: &str,
    mut object: Value,
    old: Option<Value>,
) -> Result<Admitted, Status> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let kind = match resource {
        "namespaces" => "Namespace",
        "events" => "Event",
        _ => "Thing",
    };
    let kind = GroupVersionKind { group: group.into(), version: "v1".into(), kind: kind.into() };
    let about = GroupVersionResource { group: group.into(), version: "v1".into(), resource: resource.into() };
    let (features, name) = (Features::default(), object.name().to_string());
    let (warnings, annotations) = (Warnings::default(), Annotations::default());
    let cx = Context {
        namespace: if resource == "namespaces" { "" } else { "ns" },
        group,
        subresource,
        catalog: catalog(),
        lookup: world,
        warnings: Some(&warnings),
        ..Context::of_server(Timestamp::new(0, 0), user, &features)
    };
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let options = Value::map();
    let attributes = Attributes::new(operation, &kind, &about, &name, cx, &options).annotating(&annotations);
    if plugins::sees(plugin.name()).sees(&attributes) {
        plugin.mutate(&attributes, &mut object, old.as_ref()).await?;
        plugin.validate(&attributes, Some(&object), old.as_ref()).await?;
    }
    let annotations = annotations.take().into_iter().map(|annotation| (annotation.key, annotation.value));
    Ok(Admitted { object, warnings: warnings.take(), annotations: annotations.collect() })
}

/// Runs what has nothing to wait for.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Task::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the plugin waits for something that the test does not have"),
    }
}

/// A catalog of the kinds that tests refer to as owners.
fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
        let mut catalog = Catalog::new();
        let version = GroupVersion::new("", "v1");
        let form = Form::structured(Shape::new(Arc::default(), Default::default()));
        catalog.insert(Resource::unstored(version.with_resource("nodes"), version.with_kind("Node"), false, form));
        catalog
    });
    &CATALOG
}
