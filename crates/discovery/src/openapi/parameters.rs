//! What operations take besides a body: path segments, and the fields of option kinds as query parameters.

use std::borrow::Cow;

use schema::{Shape, Struct, builtin};

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    pub name: Cow<'static, str>,
    pub place: Place,
    /// `string`, `integer`, `boolean` or `number`.
    pub kind: &'static str,
    pub description: Cow<'static, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Part of the path, and so always there.
    Path,
    Query,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
        }
    }
}

impl Parameter {
    /// Whether two parameters are one as far as a path is concerned.
    pub fn is(&self, other: &Parameter) -> bool {
        (self.place, &self.name) == (other.place, &other.name)
    }
}

pub fn name(kind: &str) -> Parameter {
    path("name", format!("name of the {kind}").into())
}

pub fn namespace() -> Parameter {
    path("namespace", "object name and auth scope, such as for teams and projects".into())
}

/// The rest of a proxied path.
pub fn subpath() -> Parameter {
    path("path", "path to the resource".into())
}

fn path(name: &'static str, description: Cow<'static, str>) -> Parameter {
    Parameter { name: name.into(), place: Place::Path, kind: "string", description }
}

pub fn pretty() -> Parameter {
    let description = "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent \
                       indicates a browser or command-line HTTP tool (curl and wget).";
    Parameter { name: "pretty".into(), place: Place::Query, kind: "string", description: description.into() }
}

/// The fields of an option kind of core, but for those left out. Structs have no place in a query.
pub fn options(kind: &str, except: &[&str]) -> Vec<Parameter> {
    let Some(definition) = builtin().kind("", "v1", kind).map(|kind| builtin().types().get(kind.id)) else {
        return Vec::new();
    };
    let of_type = |field: &schema::Field| {
        if matches!(field.name.as_str(), "apiVersion" | "kind") || except.contains(&field.name.as_str()) {
            return None;
        }
        let name = Cow::Owned(field.name.to_string());
        let description = describe(definition, &field.name).into();
        Some(Parameter { name, place: Place::Query, kind: query_type(&field.node.shape)?, description })
    };
    definition.fields.iter().filter_map(of_type).collect()
}

/// The type of a field in a query. Lists are written as one of their items.
fn query_type(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::Bool => Some("boolean"),
        Shape::Int32 | Shape::Int64 => Some("integer"),
        Shape::Float => Some("number"),
        Shape::String => Some("string"),
        Shape::List(items) => query_type(&items.shape),
        _ => None,
    }
}

fn describe(definition: &Struct, field: &str) -> &'static str {
    let kind = definition.name.rsplit('.').next().unwrap_or("");
    let found = [definition.name.as_str(), kind].iter().find_map(|name| descriptions::of(name, field));
    found.unwrap_or_else(|| NEWER.iter().find(|(name, _)| *name == field).map_or("", |(_, text)| text))
}

/// Parameters that the source of the descriptions does not have yet.
const NEWER: [(&str, &str); 3] = [
    (
        "shardSelector",
        "Selects a part of the objects by a hash of their uid or namespace. Needs the feature gate ShardedListAndWatch.",
    ),
    ("stream", "Which stream of the container to read: All, Stdout or Stderr. The default is All."),
    (
        "watch",
        "Watch for changes to the described resources and return them as a stream of add, update, and remove notifications. \
         Specify resourceVersion.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_described() {
        let kinds = [
            "ListOptions",
            "GetOptions",
            "CreateOptions",
            "UpdateOptions",
            "PatchOptions",
            "DeleteOptions",
            "PodLogOptions",
            "PodExecOptions",
            "PodAttachOptions",
            "PodPortForwardOptions",
            "PodProxyOptions",
            "NodeProxyOptions",
            "ServiceProxyOptions",
        ];
        for kind in kinds {
            let parameters = options(kind, &[]);
            assert!(!parameters.is_empty(), "{kind}");
            for parameter in parameters {
                assert_ne!(parameter.description, "", "{kind}.{}", parameter.name);
            }
        }
    }

    #[test]
    fn structs_and_excepted_fields_are_left_out() {
        let names = |kind, except: &[&str]| options(kind, except).into_iter().map(|p| p.name).collect::<Vec<_>>();
        assert!(!names("DeleteOptions", &[]).contains(&"preconditions".into()));
        assert!(!names("PodLogOptions", &[]).contains(&"sinceTime".into()));
        assert!(!names("ListOptions", &["watch"]).contains(&"watch".into()));
    }
}
