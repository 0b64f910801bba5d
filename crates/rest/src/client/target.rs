//! [`Collection`] and [`Item`]: what an in-process call is about, name by name.
//!
//! Names come from objects that clients write. They are fields here and stay fields until the verb uses them, so no name can be read as
//! a part of a path or of a query.

use object::fields::Selector;
use object::{GroupVersionResource, Str};
use request::{RequestInfo, Verb, check_segment};

use super::Failure;

/// The objects of a resource, of one namespace or of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collection {
    group: Str,
    version: Str,
    resource: Str,
    namespace: Option<String>,
    /// As text, which is made of a selector only.
    fields: String,
}

/// One object of a collection, or a subresource of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    collection: Collection,
    name: String,
    subresource: &'static str,
}

impl Collection {
    pub const fn new(group: &'static str, version: &'static str, resource: &'static str) -> Collection {
        Collection {
            group: Str::const_new(group),
            version: Str::const_new(version),
            resource: Str::const_new(resource),
            namespace: None,
            fields: String::new(),
        }
    }

    pub fn of(resource: &GroupVersionResource) -> Collection {
        let GroupVersionResource { group, version, resource } = resource.clone();
        Collection { group, version, resource, namespace: None, fields: String::new() }
    }

    pub fn within(&self, namespace: &str) -> Collection {
        Collection { namespace: Some(namespace.to_string()), ..self.clone() }
    }

    /// Those objects whose fields are as the selector says.
    pub fn selected(self, selector: &Selector) -> Collection {
        Collection { fields: selector.to_string(), ..self }
    }

    pub fn item(&self, name: &str) -> Item {
        Item { collection: self.clone(), name: name.to_string(), subresource: "" }
    }

    /// What a path of these names would say. Fails if one of them is no name.
    pub(crate) fn info(&self, verb: Verb) -> Result<RequestInfo, Failure> {
        if let Some(namespace) = &self.namespace {
            check_segment(namespace).map_err(refused)?;
        }
        Ok(RequestInfo {
            is_resource: true,
            verb,
            prefix: if self.group.is_empty() { "api" } else { "apis" }.into(),
            group: self.group.to_string(),
            version: self.version.to_string(),
            namespace: self.namespace.clone().unwrap_or_default(),
            in_namespace: self.namespace.is_some(),
            resource: self.resource.to_string(),
            parts: vec![self.resource.to_string()],
            field_selector: self.fields.clone(),
            ..RequestInfo::default()
        })
    }
}

impl Item {
    /// A subresource of the object.
    pub fn part(&self, subresource: &'static str) -> Item {
        Item { subresource, ..self.clone() }
    }

    pub(crate) fn info(&self, verb: Verb) -> Result<RequestInfo, Failure> {
        check_segment(&self.name).map_err(refused)?;
        let mut info = self.collection.info(verb)?;
        info.name = self.name.clone();
        info.parts.push(self.name.clone());
        if !self.subresource.is_empty() {
            info.subresource = self.subresource.to_string();
            info.parts.push(self.subresource.to_string());
        }
        // A namespace is in itself, as far as authorization and admission are concerned.
        if info.namespace.is_empty() && info.group.is_empty() && info.resource == "namespaces" {
            info.namespace = self.name.clone();
        }
        Ok(info)
    }
}

fn refused(why: request::NoSegment) -> Failure {
    Failure { code: 400, message: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls are what requests for the same names over the network are.
    #[test]
    fn names_say_what_paths_say() {
        let (pods, leases) =
            (Collection::new("", "v1", "pods"), Collection::new("coordination.k8s.io", "v1", "leases"));
        let namespaces = Collection::new("", "v1", "namespaces");
        let one = |collection: &Collection| vec![collection.info(Verb::List), collection.info(Verb::Create)];
        for (infos, path, methods) in [
            (one(&pods), "/api/v1/pods", &["GET", "POST"][..]),
            (one(&pods.within("ns")), "/api/v1/namespaces/ns/pods", &["GET", "POST"]),
            (one(&leases.within("ns")), "/apis/coordination.k8s.io/v1/namespaces/ns/leases", &["GET", "POST"]),
            (vec![pods.within("ns").item("a").info(Verb::Get)], "/api/v1/namespaces/ns/pods/a", &["GET"]),
            (
                vec![leases.within("ns").item("a:b").info(Verb::Delete)],
                "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a:b",
                &["DELETE"],
            ),
            (
                vec![pods.within("ns").item("a").part("status").info(Verb::Update)],
                "/api/v1/namespaces/ns/pods/a/status",
                &["PUT"],
            ),
            (vec![namespaces.item("a").info(Verb::Get)], "/api/v1/namespaces/a", &["GET"]),
            (vec![namespaces.item("a").part("finalize").info(Verb::Update)], "/api/v1/namespaces/a/finalize", &["PUT"]),
            (one(&namespaces), "/api/v1/namespaces", &["GET", "POST"]),
        ] {
            for (info, method) in infos.into_iter().zip(methods) {
                let parsed = RequestInfo { path: String::new(), ..RequestInfo::parse(method, path, &[]) };
                assert_eq!(info.unwrap(), parsed, "{method} {path}");
            }
        }
    }

    #[test]
    fn names_that_are_no_names_are_refused() {
        let pods = Collection::new("", "v1", "pods");
        for name in ["", ".", "..", "p/log", "../secrets", "p%2Flog", "/"] {
            assert!(pods.within("ns").item(name).info(Verb::Get).is_err(), "{name}");
            assert!(pods.within(name).info(Verb::List).is_err(), "{name}");
        }
        // These are names like any other, and nothing else.
        for name in ["p?watch=1", "p#a", "a b", "p\0"] {
            let info = pods.within("ns").item(name).info(Verb::Get).unwrap();
            assert_eq!((info.name.as_str(), info.subresource.as_str(), info.verb), (name, "", Verb::Get));
        }
    }
}
