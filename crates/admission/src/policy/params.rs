//! The objects that a binding's `paramRef` names.

use std::sync::Arc;

use object::labels::Selector;
use object::{GroupVersion, GroupVersionKind, Meta, Status, Value};
use registry::{Filter, Resource, ResourceStorage};

use crate::Attributes;

/// `spec.paramRef` of a binding.
#[derive(Debug)]
pub struct ParamRef {
    pub name: String,
    pub namespace: String,
    /// Err is why it cannot be used.
    pub selector: Option<Result<Selector, String>>,
    /// `parameterNotFoundAction: Deny`.
    pub required: bool,
}

impl ParamRef {
    /// None where the binding has none.
    pub fn read(binding: &Value) -> Option<ParamRef> {
        let param = binding.at(&["spec", "paramRef"]);
        param.as_map()?;
        let selector = param.get("selector").filter(|selector| !selector.is_null());
        Some(ParamRef {
            name: param.str_at(&["name"]).to_string(),
            namespace: param.str_at(&["namespace"]).to_string(),
            selector: selector.map(|selector| Selector::from_value(selector).map_err(|error| error.to_string())),
            required: param.str_at(&["parameterNotFoundAction"]) == "Deny",
        })
    }

    /// What selects params; None where one is named.
    fn selector(&self) -> Result<Option<&Selector>, String> {
        match (&self.selector, self.name.as_str()) {
            (Some(_), name) if !name.is_empty() => {
                Err("paramRef.name and paramRef.selector are mutually exclusive".into())
            }
            (Some(selector), _) => selector.as_ref().map(Some).map_err(Clone::clone),
            (None, "") => Err("one of name or selector must be provided".into()),
            (None, _) => Ok(None),
        }
    }
}

/// `spec.paramKind` of a policy; None where it has none.
pub fn kind(policy: &Value) -> Option<GroupVersionKind> {
    let kind = policy.at(&["spec", "paramKind"]);
    kind.as_map()?;
    let version = GroupVersion::parse(kind.str_at(&["apiVersion"])).unwrap_or_default();
    Some(version.with_kind(kind.str_at(&["kind"])))
}

/// The resource of a paramKind; Err where it is not served.
pub fn resource<'a>(kind: &GroupVersionKind, attributes: &Attributes<'a>) -> Result<&'a Resource, String> {
    let found = attributes.cx.catalog.by_kind(kind);
    found
        .map(|resource| &**resource)
        .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{kind}'"))
}

/// The params with which a policy is evaluated for a binding: one null without params, nothing if none were found and that
/// is allowed.
pub async fn collect(
    kind: Option<&GroupVersionKind>,
    reference: Option<&ParamRef>,
    attributes: &Attributes<'_>,
) -> Result<Vec<Value>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![Value::Null]) };
    let resource = resource(kind, attributes)?;
    let mut namespace = "";
    if resource.namespaced {
        namespace = if reference.namespace.is_empty() { attributes.cx.namespace } else { &reference.namespace };
        if namespace.is_empty() {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
        }
    } else if !reference.namespace.is_empty() {
        return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into());
    }
    let params = match &resource.storage {
        Some(storage) if storage.codec.converts_by_webhook() => converted(storage, reference, namespace).await?,
        _ => stored(resource, reference, namespace, attributes).await?,
    };
    if params.is_empty() && reference.required {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(params)
}

/// The params as they are stored, converted to the version of the policy.
async fn stored(
    resource: &Resource,
    reference: &ParamRef,
    namespace: &str,
    attributes: &Attributes<'_>,
) -> Result<Vec<Value>, String> {
    let (group, name) = (&resource.resource.group, &resource.resource.resource);
    let lookup = attributes.cx.lookup;
    let found = match reference.selector()? {
        Some(selector) => {
            let mut all = lookup.list(group, name, namespace);
            all.retain(|object| selector.matches(object.labels()));
            all
        }
        None => lookup.get(group, name, namespace, &reference.name).into_iter().collect(),
    };
    let storage = attributes.cx.catalog.stored(group, name).filter(|storage| storage.kind != resource.kind);
    let mut params = Vec::with_capacity(found.len());
    for stored in &found {
        params.push(shown(resource, storage.filter(|_| resource.is_custom()), stored).await?);
    }
    Ok(params)
}

/// The params of a kind that a webhook converts, which is asked for all of them at once.
async fn converted(storage: &ResourceStorage, reference: &ParamRef, namespace: &str) -> Result<Vec<Value>, String> {
    let selector = reference.selector()?;
    let mut objects = match selector {
        Some(_) => storage.cache.snapshot(&storage.range(namespace).into()).objects,
        None => storage.cache.get(&storage.key(namespace, &reference.name)).into_iter().collect(),
    };
    let labels = selector.cloned().unwrap_or_else(Selector::everything);
    let filter = Filter { labels, ..Filter::everything() };
    storage.select(&mut objects, &filter, usize::MAX).await.map_err(|error| Status::from(error).message)?;
    let mut params = Vec::with_capacity(objects.len());
    let mut batches = storage.batches(&objects);
    while let Some(batch) = batches.next().await {
        for object in batch.iter() {
            params.push(storage.decode(object).map_err(|error| Status::from(error).message)?);
        }
    }
    Ok(params)
}

/// A stored object as its clients would read it. Custom resources come in the version of `storage`, if that is another one.
async fn shown(resource: &Resource, storage: Option<&Arc<ResourceStorage>>, stored: &Value) -> Result<Value, String> {
    let mut object = match storage {
        Some(storage) => storage.codec.convert(stored, &resource.kind.group_version()).await?,
        None => resource.from_storage(stored.clone())?,
    };
    object.set_type(&resource.kind);
    Ok(resource.form.printed(&object))
}
