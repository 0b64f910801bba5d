//! What a command is about, and where the API has it.

use object::{GroupVersion, Value};

use super::requests::Api;

/// An object, or all objects of a resource if there is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    version: GroupVersion,
    resource: String,
    /// "" for what is in no namespace.
    namespace: String,
    pub name: String,
}

impl Object {
    /// Looks in the server's discovery for `resource/name`, where the resource can have its group: `deployments.apps`.
    pub fn find(api: &Api, text: &str, namespace: &str) -> Result<Object, String> {
        let (resource, name) = text.split_once('/').unwrap_or((text, ""));
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let mut versions = vec!["v1".to_string()];
        let groups = api.get("/apis", &[])?;
        for found in groups.list_at(&["groups"]) {
            if group.is_empty() || found.str_at(&["name"]) == group {
                versions.push(found.str_at(&["preferredVersion", "groupVersion"]).to_string());
            }
        }
        for version in versions {
            let version = GroupVersion::parse(&version)?;
            if !group.is_empty() && version.group != group {
                continue;
            }
            let path = request::version_path(&version).map_err(|error| error.to_string())?;
            let list = api.get(&path, &[])?;
            let is_named = |found: &&Value| {
                let short = found.list_at(&["shortNames"]).iter().any(|name| name.as_str() == Some(plural));
                short || [found.str_at(&["name"]), found.str_at(&["singularName"])].contains(&plural)
            };
            let of_objects = |found: &&Value| !found.str_at(&["name"]).contains('/');
            let Some(found) = list.list_at(&["resources"]).iter().filter(of_objects).find(is_named) else { continue };
            let is_namespaced = found.field("namespaced").as_bool() == Some(true);
            let namespace = if is_namespaced { namespace.to_string() } else { String::new() };
            return Ok(Object { version, resource: found.str_at(&["name"]).into(), namespace, name: name.into() });
        }
        Err(format!("the server has no resource {resource}"))
    }

    /// This, if it is one object.
    pub fn named(&self) -> Result<&Object, String> {
        if self.name.is_empty() {
            Err(format!("which object of {}? give RESOURCE/NAME", self.resource))
        } else {
            Ok(self)
        }
    }

    /// Another object of the same resource.
    pub fn at(&self, namespace: &str, name: &str) -> Object {
        Object { namespace: namespace.into(), name: name.into(), ..self.clone() }
    }

    /// As people read it: `deployments.apps shop/web`.
    pub fn described(&self) -> String {
        let group = if self.version.group.is_empty() { String::new() } else { [".", &self.version.group].concat() };
        let place = if self.namespace.is_empty() { String::new() } else { [self.namespace.as_str(), "/"].concat() };
        [self.resource.as_str(), &group, " ", &place, &self.name].concat()
    }

    /// The path of all objects of the resource.
    pub fn collection(&self) -> Result<String, String> {
        let mut path = request::version_path(&self.version).map_err(|error| error.to_string())?;
        let mut segments = vec![self.resource.as_str()];
        if !self.namespace.is_empty() {
            segments.splice(0..0, ["namespaces", &self.namespace]);
        }
        path.push_str(&request::path(segments).map_err(|error| error.to_string())?);
        Ok(path)
    }

    /// The path of the object, or of a part of it.
    pub fn path(&self, part: &[&str]) -> Result<String, String> {
        let mut path = self.collection()?;
        if !self.name.is_empty() {
            let segments = std::iter::once(self.name.as_str()).chain(part.iter().copied());
            path.push_str(&request::path(segments).map_err(|error| error.to_string())?);
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_of_checked_names() {
        let object = |group: &str, namespace: &str, name: &str| Object {
            version: GroupVersion::new(group, "v1"),
            resource: "things".into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        for (object, part, want) in [
            (object("", "ns", "a"), &["history"][..], Some("/api/v1/namespaces/ns/things/a/history")),
            (object("apps", "", "a"), &[], Some("/apis/apps/v1/things/a")),
            (object("apps", "ns", ""), &[], Some("/apis/apps/v1/namespaces/ns/things")),
            (object("", "ns", "a/b"), &[], None),
            (object("", "..", "a"), &[], None),
        ] {
            assert_eq!(object.path(part).ok().as_deref(), want, "{object:?}");
        }
    }
}
