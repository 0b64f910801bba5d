//! [`Resource`]: a resource of the program, stored or made when it is asked for.

use std::sync::Arc;

use ::object::{GroupVersion, Value};
use admission::{Plugin, Sees};
use apiserver::{ConvertFn, MakeObjects, OwnDefinition};
use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use request::User;

use crate::values::{from_value, to_value};

/// A resource of the program: served like a built-in one, with no CustomResourceDefinition that somebody could change or delete.
pub struct Resource {
    /// A CustomResourceDefinition.
    definition: serde_json::Value,
    convert: Option<Arc<ConvertFn>>,
    made: Option<Arc<dyn MakeObjects>>,
    rules: Vec<(Arc<dyn Plugin>, Sees)>,
}

impl Resource {
    /// What a CustomResourceDefinition of apiextensions.k8s.io/v1 says: names, schemas, CEL rules, printer columns, subresources.
    pub fn from_definition(definition: serde_json::Value) -> Resource {
        Resource { definition, convert: None, made: None, rules: Vec::new() }
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
        let objects: MakeFn = Box::new(move |user, namespace| objects(user, namespace).boxed());
        self.made = Some(Arc::new(Maker(objects)));
        self
    }

    pub(crate) fn into_parts(self) -> (OwnDefinition, Vec<(Arc<dyn Plugin>, Sees)>) {
        let Resource { definition, convert, made, rules } = self;
        let definition = to_value(&definition).unwrap_or_default();
        (OwnDefinition { definition, convert, made }, rules)
    }
}

type MakeFn = Box<dyn Fn(User, String) -> BoxFuture<'static, Vec<serde_json::Value>> + Send + Sync>;

struct Maker(MakeFn);

#[async_trait]
impl MakeObjects for Maker {
    async fn objects(&self, user: &User, namespace: &str) -> Vec<Value> {
        let made = (self.0)(user.clone(), namespace.to_string()).await;
        let read = |object: &serde_json::Value| {
            to_value(object)
                .inspect_err(|error| tracing::error!(%error, "an object that was made cannot be shown"))
                .ok()
        };
        made.iter().filter_map(read).collect()
    }
}
