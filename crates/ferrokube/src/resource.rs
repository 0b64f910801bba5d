//! [`Resource`]: a resource of the program, stored or made when it is asked for.

use std::sync::Arc;

use ::object::{GroupResource, GroupVersion, Value};
use admission::{Plugin, Sees};
use apiserver::{ConvertFn, MakeObjects, OwnCall, OwnDefinition, OwnObjects, OwnSubresource};
use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use request::User;
use storage::Revision;
use tokio::sync::watch::Receiver;

use crate::subresource::{Passed, performed};
use crate::values::{from_value, to_value};
use crate::{ActionRequest, Denied, Feed, MadeChanges};

/// A resource of the program: served like a built-in one, with no CustomResourceDefinition that somebody could change or delete.
pub struct Resource {
    /// A CustomResourceDefinition.
    definition: serde_json::Value,
    convert: Option<Arc<ConvertFn>>,
    objects: OwnObjects,
    subresources: Vec<OwnSubresource>,
    rules: Vec<(Arc<dyn Plugin>, Sees)>,
}

impl Resource {
    /// What a CustomResourceDefinition of apiextensions.k8s.io/v1 says: names, schemas, CEL rules, printer columns, subresources.
    pub fn from_definition(definition: serde_json::Value) -> Resource {
        let (objects, subresources, rules) = (OwnObjects::Stored, Vec::new(), Vec::new());
        Resource { definition, convert: None, objects, subresources, rules }
    }

    /// That of a type with kube's derive macro `CustomResource`.
    #[cfg(feature = "client")]
    pub fn of<T: kube::core::CustomResourceExt>() -> Resource {
        Resource::from_definition(serde_json::to_value(T::crd()).unwrap_or_default())
    }

    /// Adds a version: that of another type of the same names. It is served, and not the one that is stored.
    #[cfg(feature = "client")]
    pub fn version<T: kube::core::CustomResourceExt>(mut self) -> Resource {
        let other = serde_json::to_value(T::crd()).unwrap_or_default();
        let added = other.pointer("/spec/versions").and_then(|versions| versions.as_array()).cloned();
        if let Some(versions) =
            self.definition.pointer_mut("/spec/versions").and_then(|versions| versions.as_array_mut())
        {
            for mut version in added.unwrap_or_default() {
                version["storage"] = false.into();
                versions.push(version);
            }
        }
        self
    }

    /// Converts objects between versions by a function of the object and the name of the wanted version. What it returns may differ in
    /// everything but names, uid, and metadata other than labels and annotations.
    pub fn convert<F>(mut self, convert: F) -> Resource
    where
        F: Fn(serde_json::Value, &str) -> Result<serde_json::Value, String> + Send + Sync + 'static,
    {
        self.convert = Some(Arc::new(move |object: Value, to: &GroupVersion| {
            let mut converted = convert(from_value(&object)?, &to.version)?;
            converted["apiVersion"] = to.to_string().into();
            to_value(&converted).map_err(|status| status.message)
        }));
        self
    }

    /// Adds a rule on its objects, or on others.
    #[cfg(feature = "client")]
    pub fn rule<R: crate::Rule>(mut self, name: &'static str, rule: R) -> Resource {
        self.rules.push((Arc::new(crate::rule::Typed::new(name, rule)), Sees::EVERYTHING));
        self
    }

    /// Makes the objects when they are asked for, instead of storing them: GET and LIST, with selectors and tables. The function gets
    /// the user and the namespace, "" for all.
    pub fn made_by<F, L>(mut self, objects: F) -> Resource
    where
        F: Fn(User, String) -> L + Send + Sync + 'static,
        L: Future<Output = Vec<serde_json::Value>> + Send + 'static,
    {
        self.objects = OwnObjects::Made(Arc::new(Maker { make: make_fn(objects), changes: None }));
        self
    }

    /// As [`Resource::made_by`], for objects that can be watched too: when the program says that they may be others, the function is asked again
    /// for the user of each watch, which is sent the differences.
    pub fn made_and_watched<F, L>(mut self, objects: F) -> (Resource, MadeChanges)
    where
        F: Fn(User, String) -> L + Send + Sync + 'static,
        L: Future<Output = Vec<serde_json::Value>> + Send + 'static,
    {
        let changes = MadeChanges::begin();
        self.objects = OwnObjects::Made(Arc::new(Maker { make: make_fn(objects), changes: Some(changes.clone()) }));
        (self, changes)
    }

    /// Keeps the objects with the program, which puts them into the [`Feed`]: GET, LIST and WATCH. Each server has its own.
    pub fn fed(mut self) -> (Resource, Feed) {
        let feed = Feed::new(apiserver::FedObjects::of(&to_value(&self.definition).unwrap_or_default()));
        self.objects = OwnObjects::Fed(feed.clone().into_inner());
        (self, feed)
    }

    /// Adds a subresource that is carried out: a POST with an object of a kind, in the group and version of the resource, is answered with
    /// what the function returns. Users need the verb `create` on it, and admission sees it.
    pub fn action<F, L>(mut self, name: &str, kind: &str, perform: F) -> Resource
    where
        F: Fn(ActionRequest) -> L + Send + Sync + 'static,
        L: Future<Output = Result<serde_json::Value, Denied>> + Send + 'static,
    {
        let text = |path: &str| self.definition.pointer(path).and_then(|text| text.as_str()).unwrap_or_default();
        let resource = GroupResource::new(text("/spec/group"), text("/spec/names/plural"));
        let action = performed(resource, kind, Box::new(move |request| perform(request).boxed()));
        let does = OwnCall::Action { kind: kind.to_string(), action };
        self.subresources.push(OwnSubresource { name: name.to_string(), does });
        self
    }

    /// Adds the subresource `proxy`: requests and upgraded connections for the paths below it are passed on to the host and port of the
    /// URL that the function gives for a user, a namespace and a name.
    pub fn proxy<F, L>(mut self, locate: F) -> Resource
    where
        F: Fn(User, String, String) -> L + Send + Sync + 'static,
        L: Future<Output = Result<http::Uri, Denied>> + Send + 'static,
    {
        let locate = Box::new(move |user, namespace, name| locate(user, namespace, name).boxed());
        let does = OwnCall::Connect(Arc::new(Passed { locate }));
        self.subresources.push(OwnSubresource { name: "proxy".into(), does });
        self
    }

    pub(crate) fn into_parts(self) -> (OwnDefinition, Vec<(Arc<dyn Plugin>, Sees)>) {
        let Resource { definition, convert, objects, subresources, rules } = self;
        let definition = to_value(&definition).unwrap_or_default();
        (OwnDefinition { definition, convert, objects, subresources }, rules)
    }
}

type MakeFn = Box<dyn Fn(User, String) -> BoxFuture<'static, Vec<serde_json::Value>> + Send + Sync>;

fn make_fn<F, L>(objects: F) -> MakeFn
where
    F: Fn(User, String) -> L + Send + Sync + 'static,
    L: Future<Output = Vec<serde_json::Value>> + Send + 'static,
{
    Box::new(move |user, namespace| objects(user, namespace).boxed())
}

struct Maker {
    make: MakeFn,
    /// None if nothing tells of changes.
    changes: Option<MadeChanges>,
}

#[async_trait]
impl MakeObjects for Maker {
    async fn objects(&self, user: &User, namespace: &str) -> Vec<Value> {
        let made = (self.make)(user.clone(), namespace.to_string()).await;
        let read = |object: &serde_json::Value| {
            to_value(object)
                .inspect_err(|error| tracing::error!(%error, "an object that was made cannot be shown"))
                .ok()
        };
        made.iter().filter_map(read).collect()
    }
    fn changes(&self) -> Option<Receiver<Revision>> {
        self.changes.as_ref().map(MadeChanges::receive)
    }
}
