//! DefaultStorageClass and DefaultIngressClass: objects that name no class get the one that is marked as default.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Meta, Status, Value};

use crate::{Attributes, Plugin};

pub struct DefaultStorageClass;

pub struct DefaultIngressClass;

#[async_trait]
impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        let named = object.annotation("volume.beta.kubernetes.io/storage-class").is_some()
            || !object.at(&["spec", "storageClassName"]).is_null();
        if !attributes.is("", "persistentvolumeclaims") || named {
            return Ok(());
        }
        let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
        if let Some(class) = newest(marked(attributes, "storage.k8s.io", "storageclasses", &marks)) {
            object.set(&["spec", "storageClassName"], class.name());
        }
        Ok(())
    }
}

#[async_trait]
impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        let named = object.annotation("kubernetes.io/ingress.class").is_some()
            || !object.at(&["spec", "ingressClassName"]).is_null();
        if !attributes.is("networking.k8s.io", "ingresses") || named {
            return Ok(());
        }
        let marks = ["ingressclass.kubernetes.io/is-default-class"];
        if let Some(class) = newest(marked(attributes, "networking.k8s.io", "ingressclasses", &marks)) {
            object.set(&["spec", "ingressClassName"], class.name());
        }
        Ok(())
    }
}

/// Of several, the newest; of several as new, the first by name.
fn newest(classes: Vec<Arc<Value>>) -> Option<Arc<Value>> {
    classes.into_iter().min_by(|a, b| {
        let created = |class: &Value| class.meta_str("creationTimestamp").to_string();
        created(b).cmp(&created(a)).then_with(|| a.name().cmp(b.name()))
    })
}

/// The classes with one of these annotations set to true.
fn marked(attributes: &Attributes<'_>, group: &str, resource: &str, marks: &[&str]) -> Vec<Arc<Value>> {
    let mut classes = attributes.cx.lookup.list(group, resource, "");
    classes.retain(|class| marks.iter().any(|mark| class.annotation(mark) == Some("true")));
    classes
}
