//! Definitions that are part of the program: they are not stored, and nothing in the API can change or delete them.

use std::sync::Arc;

use async_trait::async_trait;
use object::{GroupVersionKind, Meta, Value, names, value};
use registry::{Action, Connect, Form, Report, Resource, Shape, Strategy, Subresource};
use request::User;
use rest::client::{Client, Collection};
use storage::{Condition, Entry, Key, Revision};
use tokio::sync::watch;

use crate::conversion::ConvertFn;
use crate::definition::Definition;
use crate::definitions::{Definitions, GROUP, RESOURCE};
use crate::feed::{self, FedObjects};
use crate::resource;

/// A resource that the program defines, in the words of a CustomResourceDefinition.
pub struct OwnDefinition {
    /// A CustomResourceDefinition of apiextensions.k8s.io/v1.
    pub definition: Value,
    /// Converts objects between its versions; None if only the version's name changes.
    pub convert: Option<Arc<ConvertFn>>,
    /// Where its objects are.
    pub objects: OwnObjects,
    /// Subresources besides those that the definition names. Objects that are not stored have none.
    pub subresources: Vec<OwnSubresource>,
}

/// Where the objects of a resource of the program are.
#[derive(Clone, Default)]
pub enum OwnObjects {
    /// In the server's store.
    #[default]
    Stored,
    /// Nowhere: they are made when they are asked for.
    Made(Arc<dyn MakeObjects>),
    /// With the program, which says what changes.
    Fed(FedObjects),
}

/// A subresource that the program carries out.
pub struct OwnSubresource {
    /// Its name, as the path has it.
    pub name: String,
    /// It is carried out, or passed on.
    pub does: OwnCall,
}

/// How requests for a subresource of the program are answered.
pub enum OwnCall {
    /// A POST with an object of this kind is carried out.
    Action { kind: String, action: Arc<dyn Action> },
    /// The request is passed on. Its name must be `proxy`.
    Connect(Arc<dyn Connect>),
}

/// Makes the objects of a resource when they are asked for.
#[async_trait]
pub trait MakeObjects: Send + Sync + 'static {
    /// All that the user sees in a namespace, or in all of them if it is "", in any order.
    async fn objects(&self, user: &User, namespace: &str) -> Vec<Value>;

    /// See [`Report::changes`].
    fn changes(&self) -> Option<watch::Receiver<Revision>> {
        None
    }
}

/// Why the resources of the program cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OwnDefinitionError {
    #[error("own resources need customresourcedefinitions.apiextensions.k8s.io, which are not served")]
    NotServed,
    #[error("the definition {name} cannot be served: {why}")]
    Definition { name: String, why: String },
}

/// A definition of the program whose resources are served.
pub(crate) struct OwnServed {
    pub definition: Definition,
    pub resources: Vec<Arc<Resource>>,
}

/// Checks the definitions as if they were created, and puts what they serve into the catalog.
pub(crate) async fn open(
    definitions: &Arc<Definitions>,
    own: Vec<OwnDefinition>,
) -> Result<Vec<OwnServed>, OwnDefinitionError> {
    let mut opened = Vec::with_capacity(own.len());
    for own in own {
        let name = own.definition.name().to_string();
        let failed = |why: String| OwnDefinitionError::Definition { name: name.clone(), why };
        let own = open_one(definitions, own).await.map_err(failed)?;
        definitions.api.catalog.change(&own.resources, &[]);
        (definitions.versions)(&name, Some(own.definition.served_versions()));
        opened.push(own);
    }
    Ok(opened)
}

async fn open_one(definitions: &Arc<Definitions>, own: OwnDefinition) -> Result<OwnServed, String> {
    let client = Client::new(definitions.api.clone(), "kube-apiserver");
    let checked = client.check(&Collection::new(GROUP, "v1", RESOURCE), &own.definition).await;
    let checked = checked.map_err(|failure| failure.message)?;
    let mut definition = Definition::read(&checked);
    definition.accepted = definition.requested.clone();
    definition.established = true;
    let mut value = Vec::new();
    codec::json::encode(&checked, None, &mut value);
    let entry = Entry {
        key: Key::from(definition.name.as_bytes()),
        value: value.into(),
        create_revision: 0,
        mod_revision: 0,
        version: 1,
        lease: 0,
        condition: Condition::Good,
    };
    let stores = match &own.objects {
        OwnObjects::Fed(feed) => feed.stores(&definitions.stores),
        _ => definitions.stores.clone(),
    };
    let opened = resource::open(&definition, &Arc::new(entry), &stores, own.convert).await;
    let mut resources = opened.map_err(|error| error.to_string())?.resources;
    match &own.objects {
        OwnObjects::Stored => {
            let added = check_subresources(&resources, &own.subresources)?;
            each(&mut resources, |resource| add_subresources(resource, added));
        }
        _ if !own.subresources.is_empty() => return Err("objects that are not stored have no subresources".into()),
        OwnObjects::Made(made) => {
            resources = resources.iter().map(|resource| Arc::new(reported(resource, made))).collect();
        }
        OwnObjects::Fed(_) => each(&mut resources, feed::only_read),
    }
    Ok(OwnServed { definition, resources })
}

/// Changes resources that nothing else refers to yet.
fn each(resources: &mut [Arc<Resource>], change: impl Fn(&mut Resource)) {
    resources.iter_mut().filter_map(Arc::get_mut).for_each(change);
}

/// Refuses names that are taken or cannot be in a path.
fn check_subresources<'a>(
    resources: &[Arc<Resource>],
    added: &'a [OwnSubresource],
) -> Result<&'a [OwnSubresource], String> {
    for (index, OwnSubresource { name, does }) in added.iter().enumerate() {
        let is_taken = ["status", "scale"].contains(&name.as_str())
            || added[..index].iter().any(|other| other.name == *name)
            || resources.iter().any(|resource| resource.subresource(name).is_some());
        if is_taken {
            return Err(format!("the subresource {name} is there already"));
        }
        if let Some(why) = names::dns1123_label(name).first() {
            return Err(format!("the subresource {} cannot be served: {why}", object::quote(name)));
        }
        if matches!(does, OwnCall::Connect(_)) != (name == "proxy") {
            return Err("a subresource that passes requests on is called proxy, and no other is".into());
        }
    }
    Ok(added)
}

fn add_subresources(resource: &mut Resource, added: &[OwnSubresource]) {
    let version = resource.kind.group_version();
    let parts = added.iter().map(|OwnSubresource { name, does }| {
        let part = Subresource {
            name: name.as_str().into(),
            kind: resource.kind.clone(),
            verbs: Vec::new(),
            action: None,
            connect: None,
            form: None,
        };
        match does {
            OwnCall::Action { kind, action } => Subresource {
                kind: version.with_kind(kind),
                verbs: vec!["create".into()],
                action: Some(action.clone()),
                form: Some(free_form()),
                ..part
            },
            OwnCall::Connect(connect) => Subresource {
                verbs: ["create", "delete", "get", "patch", "update"].map(Into::into).to_vec(),
                connect: Some(connect.clone()),
                ..part
            },
        }
    });
    resource.subresources.extend(parts.collect::<Vec<_>>());
}

/// Objects with any fields.
fn free_form() -> Form {
    let schema = value!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let (types, node) = schema::from_openapi(&schema, true);
    Form::unstructured(Shape::new(Arc::new(types), node))
}

/// The resource with objects that are made when they are asked for.
fn reported(resource: &Resource, made: &Arc<dyn MakeObjects>) -> Resource {
    let strategy: Arc<dyn Strategy> = match &resource.storage {
        Some(storage) => storage.strategy.clone(),
        None => Arc::new(registry::Generic),
    };
    let report = Arc::new(Reported { made: made.clone(), kind: resource.kind.clone(), strategy });
    let watch = made.changes().map(|_| "watch");
    Resource {
        id: Resource::next_id(),
        verbs: ["get", "list"].into_iter().chain(watch).map(Into::into).collect(),
        storage_version_hash: Default::default(),
        subresources: Vec::new(),
        storage: None,
        report: Some(report),
        withdrawn: Default::default(),
        resource: resource.resource.clone(),
        kind: resource.kind.clone(),
        list_kind: resource.list_kind.clone(),
        singular: resource.singular.clone(),
        namespaced: resource.namespaced,
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        form: resource.form.clone(),
        columns: resource.columns.clone(),
        action: None,
        deprecation: resource.deprecation.clone(),
        conversion: None,
        definition: resource.definition.clone(),
    }
}

/// The report that reads of such a resource show.
struct Reported {
    made: Arc<dyn MakeObjects>,
    kind: GroupVersionKind,
    strategy: Arc<dyn Strategy>,
}

#[async_trait]
impl Report for Reported {
    async fn objects(&self, user: &User, namespace: &str) -> Vec<Value> {
        let mut objects = self.made.objects(user, namespace).await;
        objects.retain(|object| namespace.is_empty() || object.namespace() == namespace);
        objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        objects.iter_mut().for_each(|object| object.set_type(&self.kind));
        objects
    }

    async fn object(&self, user: &User, namespace: &str, name: &str) -> Option<Value> {
        let objects = self.objects(user, namespace).await;
        objects.into_iter().find(|object| object.namespace() == namespace && object.name() == name)
    }

    fn changes(&self) -> Option<watch::Receiver<Revision>> {
        self.made.changes()
    }

    fn strategy(&self) -> &dyn Strategy {
        &*self.strategy
    }
}
