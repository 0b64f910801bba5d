//! The SubjectAccessReview that asks about an access.

use object::{Map, Value, fields, labels, value};
use request::Access;

/// Which version of SubjectAccessReview a webhook speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V1beta1,
}

impl Version {
    pub fn api_version(self) -> &'static str {
        match self {
            Version::V1 => "authorization.k8s.io/v1",
            Version::V1beta1 => "authorization.k8s.io/v1beta1",
        }
    }
}

/// The spec that is sent: what is empty is left out.
pub fn spec(access: &Access<'_>, version: Version) -> Value {
    let mut spec = Map::new();
    if access.is_resource {
        let mut resource = Map::new();
        for (key, text) in resource_texts(access) {
            put(&mut resource, key, text);
        }
        selectors(access, &mut resource);
        spec.insert("resourceAttributes", resource);
    } else {
        let mut other = Map::new();
        put(&mut other, "path", access.path);
        put(&mut other, "verb", access.verb);
        spec.insert("nonResourceAttributes", other);
    }
    let user = access.user;
    put(&mut spec, "user", &user.name);
    put(&mut spec, "uid", &user.uid);
    if !user.groups.is_empty() {
        let name = if version == Version::V1 { "groups" } else { "group" };
        spec.insert(name, user.groups.clone());
    }
    if !user.extra.is_empty() {
        spec.insert("extra", extra(access));
    }
    Value::Map(spec)
}

/// The spec as match conditions see it: texts and lists are there even if they are empty.
pub fn for_conditions(access: &Access<'_>) -> Value {
    let user = access.user;
    let (name, uid, groups) = (user.name.as_str(), user.uid.as_str(), user.groups.clone());
    let mut spec = value!({"user": name, "uid": uid, "groups": groups, "extra": (Value::Map(extra(access)))});
    if access.is_resource {
        let mut resource: Map =
            resource_texts(access).into_iter().map(|(key, text)| (key, Value::from(text))).collect();
        selectors(access, &mut resource);
        spec.set(&["resourceAttributes"], resource);
    } else {
        spec.set(&["nonResourceAttributes"], value!({"path": (access.path), "verb": (access.verb)}));
    }
    spec
}

fn resource_texts<'a>(access: &Access<'a>) -> [(&'static str, &'a str); 7] {
    [
        ("namespace", access.namespace),
        ("verb", access.verb),
        ("group", access.group),
        ("version", access.version),
        ("resource", access.resource),
        ("subresource", access.subresource),
        ("name", access.name),
    ]
}

fn put(map: &mut Map, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key, text);
    }
}

fn extra(access: &Access<'_>) -> Map {
    access.user.extra.iter().map(|(key, values)| (key.as_str(), values.clone())).collect()
}

/// Requirements that reviews have no operator for are left out, which asks about a broader access.
fn selectors(access: &Access<'_>, resource: &mut Map) {
    let field = |one: &fields::Requirement| {
        let operator = if one.operator == fields::Operator::Equals { "In" } else { "NotIn" };
        value!({"key": (one.field.as_str()), "operator": operator, "values": [(one.value.as_str())]})
    };
    let label = |one: &labels::Requirement| {
        let operator = match one.operator() {
            labels::Operator::Equals | labels::Operator::DoubleEquals | labels::Operator::In => "In",
            labels::Operator::NotEquals | labels::Operator::NotIn => "NotIn",
            labels::Operator::Exists => "Exists",
            labels::Operator::DoesNotExist => "DoesNotExist",
            _ => return None,
        };
        let mut requirement = value!({"key": (one.key()), "operator": operator});
        if !one.values().is_empty() {
            requirement.set(&["values"], one.values().to_vec());
        }
        Some(requirement)
    };
    let fields: Vec<Value> = access.field_selector.requirements().iter().map(field).collect();
    let labels: Vec<Value> = access.label_selector.requirements().iter().filter_map(label).collect();
    for (key, requirements) in [("fieldSelector", fields), ("labelSelector", labels)] {
        if !requirements.is_empty() {
            let mut selector = Map::new();
            selector.insert("requirements", Value::List(requirements));
            resource.insert(key, selector);
        }
    }
}

#[cfg(test)]
mod tests {
    use request::{Selection, User};

    use super::*;

    #[test]
    fn specs_are_upstreams() {
        let user = User {
            name: "u".into(),
            groups: vec!["g".into()],
            extra: vec![("k".into(), vec!["v".into()])],
            ..User::default()
        };
        let list = Access {
            version: "v1",
            resource: "pods",
            label_selector: Selection::Text("a in (b,c),d,e>1"),
            ..Access::to_resource(&user, "list")
        };
        let want = value!({
            "user": "u", "groups": ["g"], "extra": {"k": ["v"]},
            "resourceAttributes": {
                "verb": "list", "version": "v1", "resource": "pods",
                "labelSelector": {"requirements": [
                    {"key": "a", "operator": "In", "values": ["b", "c"]},
                    {"key": "d", "operator": "Exists"}
                ]}
            }
        });
        assert_eq!(spec(&list, Version::V1), want);
        let path = Access { is_resource: false, path: "/x", ..Access::to_resource(&user, "get") };
        let want = value!({
            "user": "u", "group": ["g"], "extra": {"k": ["v"]}, "nonResourceAttributes": {"path": "/x", "verb": "get"}
        });
        assert_eq!(spec(&path, Version::V1beta1), want);
    }
}
