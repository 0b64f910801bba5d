//! What ferrokube has beyond upstream's API: the group `lists.ferrokube.io`, and parameters of lists, watches and gets.
//!
//! Clients compare and keep the documents of upstream's API, so these say nothing of it unless a request has `extensions=true`. The group's
//! own documents are there for all who know its name.

use aggregator::Group;
use bytes::Bytes;
use codec::Notes;
use object::{GroupVersion, Value, value};
use rest::{Call, LISTS_GROUP, LISTS_VERSION};

use crate::aggregated;
use crate::openapi::json::Json;

/// The document of the group in the index of OpenAPI.
pub const DOCUMENT: &str = "apis/lists.ferrokube.io/v1alpha1";

/// A parameter, its type, the actions that it is for, and what it does.
type Described = (&'static str, &'static str, &'static [&'static str], &'static str);

const LISTS: &[&str] = &["list"];
const LISTS_AND_WATCHES: &[&str] = &["list", "watch", "watchlist"];
const READS: &[&str] = &["list", "watch", "watchlist", "get"];

/// The parameters, sorted.
const PARAMETERS: [Described; 7] = [
    (
        "authorized",
        "boolean",
        LISTS,
        "Only the objects that the user may see, instead of 403 where that is not all of them. A watch follows the roles.",
    ),
    (
        "count",
        "boolean",
        LISTS,
        "How many objects there are and how many bytes they have as they are stored, without the objects. Not for watches.",
    ),
    ("drop", "string", READS, "Paths of fields, with commas between them, that are not sent."),
    (
        "fields",
        "string",
        READS,
        "Paths of the fields, with commas between them, that are sent besides those by which an object is known.",
    ),
    (
        "filter",
        "string",
        LISTS_AND_WATCHES,
        "A CEL expression over object, oldObject, namespaceObject and now. Only objects for which it is true are sent.",
    ),
    (
        "groupBy",
        "string",
        LISTS,
        "Paths, with commas between them, by whose values objects are counted. Needs count=true.",
    ),
    (
        "sortBy",
        "string",
        LISTS,
        "Paths, with commas between them, in whose order the objects are sent; a minus in front sorts down. Not for watches.",
    ),
];

/// Whether a request asks for the extensions, too.
pub fn are_asked_for(call: &Call) -> bool {
    matches!(call.query("extensions"), Some("true" | "1"))
}

fn version() -> GroupVersion {
    GroupVersion::new(LISTS_GROUP, LISTS_VERSION)
}

pub fn group() -> Group {
    Group { name: LISTS_GROUP.into(), versions: vec![version()] }
}

/// The resources of the group.
pub fn resource_list() -> Value {
    value!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": (version().to_string()),
        "resources": [{
            "name": "find", "singularName": "", "namespaced": false, "kind": "FoundObjectList", "verbs": ["list"]
        }],
    })
}

/// The document of all groups, with the group.
pub fn with_group(document: &aggregated::Document) -> aggregated::Document {
    let mut groups = document.value.list_at(&["items"]).to_vec();
    let kind = value!({"group": "", "version": "", "kind": "FoundObjectList"});
    groups.push(value!({
        "metadata": {"name": LISTS_GROUP},
        "versions": [{
            "version": LISTS_VERSION,
            "resources": [{
                "resource": "find", "responseKind": kind, "scope": "Cluster", "singularResource": "", "verbs": ["list"]
            }],
            "freshness": "Current",
        }],
    }));
    aggregated::document(groups)
}

/// An OpenAPI document of either version with the parameters of its operations.
pub fn with_parameters(json: &Bytes) -> Vec<u8> {
    let Ok(mut document) = codec::json::decode(json, None, &mut Notes::ignore()) else { return json.to_vec() };
    let is_v2 = !document.field("swagger").is_null();
    let paths = document.get_mut("paths").and_then(Value::as_map_mut);
    for (path, item) in paths.into_iter().flat_map(|paths| paths.iter_mut()) {
        let Some(operation) = item.get_mut("get").filter(|_| !is_part(path)) else { continue };
        let action = operation.str_at(&["x-kubernetes-action"]).to_string();
        let known = PARAMETERS.iter().filter(|(_, _, actions, _)| actions.contains(&action.as_str()));
        let added: Vec<Value> = known.map(|described| parameter(described, is_v2)).collect();
        if !added.is_empty() {
            let parameters = [operation.list_at(&["parameters"]), &added[..]].concat();
            operation.set(&["parameters"], parameters);
        }
    }
    write(&document, !is_v2)
}

/// Whether a path is that of a subresource: something follows the name of an object.
fn is_part(path: &str) -> bool {
    path.split_once("/{name}/").is_some_and(|(_, rest)| !rest.is_empty())
}

fn parameter((name, kind, _, description): &Described, is_v2: bool) -> Value {
    let mut parameter =
        value!({"name": (*name), "in": "query", "description": (*description), "x-ferrokube-extension": true});
    match is_v2 {
        true => {
            parameter.set(&["type"], *kind);
            parameter.set(&["uniqueItems"], true);
        }
        false => parameter.set(&["schema"], value!({"type": (*kind), "uniqueItems": true})),
    }
    parameter
}

/// The OpenAPI document of the group.
pub fn document() -> Vec<u8> {
    let text = |name: &str, description: &str, is_required: bool| {
        value!({
            "name": name, "in": "query", "description": description, "required": is_required,
            "schema": {"type": "string", "uniqueItems": true},
        })
    };
    let limit = value!({
        "name": "limit", "in": "query", "description": "How many objects a page has at most: 100 if it is not given, never more than 500.",
        "schema": {"type": "integer", "uniqueItems": true},
    });
    let object = |properties: Value| value!({"type": "object", "properties": properties});
    let string = || value!({"type": "string"});
    let count = || value!({"type": "integer", "format": "int64"});
    let strings = value!({"type": "array", "items": (string())});
    let found = object(value!({"apiVersion": (string()), "kind": (string()), "metadata": {"type": "object"}}));
    let list = object(value!({
        "apiVersion": (string()), "kind": (string()),
        "metadata": (object(value!({"continue": (string())}))),
        "items": {"type": "array", "items": found},
    }));
    let one_group = object(value!({"values": (strings.clone()), "count": (count()), "bytes": (count())}));
    let counted = object(value!({
        "apiVersion": (string()), "kind": (string()),
        "metadata": (object(value!({"resourceVersion": (string())}))),
        "count": (count()), "bytes": (count()), "groupBy": strings,
        "groups": {"type": "array", "items": one_group},
    }));
    let content = value!({"application/json": {"schema": {"$ref": "#/components/schemas/io.ferrokube.lists.v1alpha1.FoundObjectList"}}});
    let find = value!({
        "description": "find objects of all kinds that the user may list",
        "operationId": "findObjects",
        "parameters": [
            (text("q", "Terms with spaces between them, all of which an object must have: parts of its name, or name:, namespace:, resource:, label:, uid:, image:, owner:, text: or field: and a text.", true)),
            limit,
            (text("continue", "Where the page before ended.", false)),
        ],
        "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": {"group": LISTS_GROUP, "version": LISTS_VERSION, "kind": "FoundObjectList"},
    });
    let path = ["/apis", LISTS_GROUP, LISTS_VERSION, "find"].join("/");
    let parameters: Vec<(&str, Value)> =
        PARAMETERS.iter().map(|described| (described.0, parameter(described, false))).collect();
    let mut document = value!({
        "openapi": "3.0.0",
        "info": {"title": "Extensions of ferrokube", "version": LISTS_VERSION},
        "paths": {},
        "components": {
            "schemas": {
                "io.ferrokube.lists.v1alpha1.Count": counted,
                "io.ferrokube.lists.v1alpha1.FoundObjectList": list,
            },
            "parameters": {},
        },
    });
    document.set(&["paths", &path, "get"], find);
    for (name, parameter) in parameters {
        document.set(&["components", "parameters", name], parameter);
    }
    write(&document, true)
}

fn write(document: &Value, escape_html: bool) -> Vec<u8> {
    let mut json = Json::new(escape_html);
    json.value(document);
    json.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Server, catalog, crontabs};

    /// Those that the server reads are those that are described.
    #[test]
    fn all_parameters_are_described() {
        assert_eq!(PARAMETERS.map(|(name, ..)| name), rest::LIST_PARAMETERS);
    }

    #[tokio::test]
    async fn documents_say_nothing_unless_they_are_asked_to() {
        let server = Server::new({
            let mut catalog = catalog(false);
            catalog.insert(crontabs("v1"));
            catalog
        });
        let names = |operation: &serde_json::Value| -> Vec<String> {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let extensions = parameters.iter().filter(|parameter| parameter["x-ferrokube-extension"] == true);
            extensions.map(|parameter| parameter["name"].as_str().unwrap().to_string()).collect()
        };
        let all = rest::LIST_PARAMETERS.map(str::to_string).to_vec();
        let pods = "/api/v1/namespaces/{namespace}/pods";
        let pod = format!("{pods}/{{name}}");
        for (url, path, want) in [
            ("/openapi/v3/api/v1", pods, &[][..]),
            ("/openapi/v3/api/v1?extensions=false", pods, &[]),
            ("/openapi/v3/api/v1?extensions=true", pods, &all),
            ("/openapi/v3/api/v1?extensions=true", "/api/v1/pods", &all),
            ("/openapi/v3/api/v1?extensions=true", &pod, &all[2..4]),
            ("/openapi/v3/api/v1?extensions=true", &format!("{pod}/status"), &[]),
            ("/openapi/v3/api/v1?extensions=true", &format!("{pod}/log"), &[]),
            ("/openapi/v3/api/v1?extensions=true", "/api/v1/watch/pods", &all[2..5]),
            ("/openapi/v3/apis/stable.example.com/v1?extensions=true", "/apis/stable.example.com/v1/crontabs", &all),
            ("/openapi/v2", pods, &[]),
            ("/openapi/v2?extensions=true", pods, &all),
        ] {
            let document = server.get(url, &[]).await.json();
            assert_eq!(names(&document["paths"][path]["get"]), want, "{url} {path}");
        }
        let groups = async |url: &str, accept: &str| {
            let text = server.get(url, &[("accept", accept)]).await.text().to_string();
            text.contains(LISTS_GROUP)
        };
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for (url, accept, want) in [
            ("/apis", "application/json", false),
            ("/apis?extensions=true", "application/json", true),
            ("/apis", aggregated, false),
            ("/apis?extensions=true", aggregated, true),
            ("/openapi/v3", "application/json", false),
            ("/openapi/v3?extensions=true", "application/json", true),
        ] {
            assert_eq!(groups(url, accept).await, want, "{url} as {accept}");
        }
        let list = server.get("/apis/lists.ferrokube.io/v1alpha1", &[]).await;
        assert_eq!((list.code, list.json()["resources"][0]["name"].as_str()), (200, Some("find")));
        assert_eq!(server.get("/apis/lists.ferrokube.io", &[]).await.code, 200);
        assert_eq!(server.get("/apis/lists.ferrokube.io/v1", &[]).await.code, 404);
        let own = server.get("/openapi/v3/apis/lists.ferrokube.io/v1alpha1", &[]).await.json();
        assert_eq!(own["paths"]["/apis/lists.ferrokube.io/v1alpha1/find"]["get"]["x-kubernetes-action"], "list");
        assert_eq!(own["components"]["parameters"].as_object().unwrap().len(), PARAMETERS.len());
        // Protobuf has no place for the extensions.
        let proto = [("accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")];
        assert_eq!(server.get("/openapi/v3/api/v1?extensions=true", &proto).await.code, 406);
    }
}
