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
    let found = descriptions::of(&definition.name, field).unwrap_or("");
    if !found.is_empty() {
        return found;
    }
    let kind = definition.name.rsplit('.').next().unwrap_or("");
    let ours = OURS.iter().find(|(kinds, name, _)| *name == field && (kinds.is_empty() || kinds.contains(&kind)));
    ours.map_or("", |(_, _, text)| text)
}

/// Option kinds are no definitions of the published document, so their fields are described here: for which kinds
/// (none are all), the field, and what it does.
const OURS: &[(&[&str], &str, &str)] = &[
    (
        &[],
        "allowWatchBookmarks",
        "Ask for BOOKMARK events in a watch, which tell a revision without a change. The server decides when it sends them.",
    ),
    (
        &[],
        "continue",
        "The token of the previous page of this list, to get the next one. The other parameters have to be the same. A token that is too old is answered with 410.",
    ),
    (
        &["PatchOptions"],
        "fieldManager",
        "The name of the one who makes the changes, of at most 128 printable characters. Apply patches need one.",
    ),
    (&[], "fieldManager", "The name of the one who makes the changes, of at most 128 printable characters."),
    (&[], "fieldSelector", "Selects objects by their fields. All are selected if it is not set."),
    (
        &[],
        "fieldValidation",
        "What to do about unknown and duplicate fields: Ignore drops them, Warn drops them and sends a warning for each, Strict refuses the request. The default is Warn.",
    ),
    (&[], "dryRun", "Do everything but store the change. The one value is All."),
    (
        &["PatchOptions"],
        "force",
        "Take fields that others manage instead of failing with a conflict. For apply patches only.",
    ),
    (&[], "labelSelector", "Selects objects by their labels. All are selected if it is not set."),
    (
        &[],
        "limit",
        "How many objects to answer at most. If there are more, the metadata of the list has a token to continue with.",
    ),
    (
        &[],
        "resourceVersion",
        "The revision that the answer is to be of, or not older than. What it means depends on the verb and on resourceVersionMatch.",
    ),
    (&[], "resourceVersionMatch", "How resourceVersion is meant: Exact or NotOlderThan."),
    (
        &[],
        "sendInitialEvents",
        "Start a watch with an event for each object there is, followed by a bookmark that says so. Needs resourceVersionMatch to be NotOlderThan.",
    ),
    (
        &[],
        "shardSelector",
        "Selects a part of the objects by a hash of their uid or namespace. Needs the feature gate ShardedListAndWatch.",
    ),
    (&[], "timeoutSeconds", "How long the list or watch may take, in seconds."),
    (&[], "watch", "Stream changes instead of answering with a list."),
    (&["PodExecOptions"], "command", "The command to run and its arguments, one parameter each. No shell is involved."),
    (&["PodLogOptions"], "container", "The container to read the log of. Needed if the pod has several."),
    (&[], "container", "The container to connect to. Needed if the pod has several."),
    (&["PodLogOptions"], "follow", "Go on with the log as it grows."),
    (
        &["PodLogOptions"],
        "insecureSkipTLSVerifyBackend",
        "Do not verify the certificate of the kubelet. Who reads the log cannot be sure then where it comes from.",
    ),
    (&["PodLogOptions"], "limitBytes", "How many bytes to read at most; the last line may be cut off."),
    (&["PodLogOptions"], "previous", "Read the log of the container that ran before this one."),
    (&["PodLogOptions"], "sinceSeconds", "Read what was written in the last so many seconds."),
    (&["PodLogOptions"], "stream", "Which stream to read: All, Stdout or Stderr. The default is All."),
    (&["PodLogOptions"], "tailLines", "How many lines to read from the end of the log."),
    (&["PodLogOptions"], "timestamps", "Start every line with the time at which it was written."),
    (&[], "stdin", "Connect the standard input of the container."),
    (&[], "stdout", "Connect the standard output of the container."),
    (&[], "stderr", "Connect the standard error stream of the container."),
    (&[], "tty", "Give the process a terminal."),
    (&[], "ports", "The ports to forward; needed with WebSockets."),
    (&["ServiceProxyOptions"], "path", "The path at the service to send the request to, with its query."),
    (&[], "path", "The path to send the request to."),
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
