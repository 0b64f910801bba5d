//! The operations of the API, as the catalog has them: one [`Route`] for each method at each path.

use object::{GroupVersion, GroupVersionKind, Str};
use registry::{Catalog, Resource, Subresource};

use super::names;
use super::parameters::{self, Parameter};

mod custom;
mod fixed;

pub use fixed::{fixed, for_group, for_version};

/// One method at one path.
#[derive(Debug, Clone)]
pub struct Route {
    pub path: String,
    pub method: Method,
    pub id: String,
    pub tag: String,
    pub description: String,
    /// `list`, `connect` …; none for paths that are no resources.
    pub action: Option<&'static str>,
    pub kind: Option<GroupVersionKind>,
    pub parameters: Vec<Parameter>,
    pub body: Option<Body>,
    pub consumes: Vec<&'static str>,
    pub produces: Vec<&'static str>,
    pub responses: Vec<(u16, Type)>,
}

/// In the order of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Get,
    Put,
    Post,
    Delete,
    Options,
    Head,
    Patch,
}

#[derive(Debug, Clone)]
pub struct Body {
    pub of: Type,
    pub required: bool,
}

/// The body of a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Text,
    /// The name of a definition.
    Definition(Str),
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Put => "put",
            Method::Post => "post",
            Method::Delete => "delete",
            Method::Options => "options",
            Method::Head => "head",
            Method::Patch => "patch",
        }
    }
}

pub const MEDIA: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Resources whose deletion answers with the object; all others answer with a Status.
const ANSWER_WHAT_THEY_DELETE: [(&str, &[&str]); 3] = [
    (
        "",
        &[
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ],
    ),
    ("resource.k8s.io", &["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"]),
    ("storage.k8s.io", &["csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"]),
];

/// All operations on the resources of a group-version.
pub fn of(catalog: &Catalog, version: &GroupVersion) -> Vec<Route> {
    let mut routes = Vec::new();
    for resource in catalog.listed(version) {
        if resource.is_custom() {
            routes.extend(custom::routes(resource));
            continue;
        }
        Builtin::new(resource, None).routes(&mut routes);
        for part in &resource.subresources {
            Builtin::new(resource, Some(part)).routes(&mut routes);
        }
    }
    routes
}

/// `/api/v1` or `/apis/apps/v1`.
pub fn root(version: &GroupVersion) -> String {
    if version.group.is_empty() { format!("/api/{}", version.version) } else { format!("/apis/{version}") }
}

pub fn meta(kind: &str) -> Type {
    Type::Definition(format!("{META}.{kind}").into())
}

/// A built-in resource or one of its parts.
struct Builtin<'a> {
    resource: &'a Resource,
    part: Option<&'a Subresource>,
    /// What is sent and answered.
    kind: &'a GroupVersionKind,
    verbs: &'a [Str],
    root: String,
    of: Type,
}

impl<'a> Builtin<'a> {
    fn new(resource: &'a Resource, part: Option<&'a Subresource>) -> Builtin<'a> {
        let (kind, verbs) = match part {
            Some(part) => (&part.kind, &part.verbs),
            None => (&resource.kind, &resource.verbs),
        };
        let of = Type::Definition(super::definitions::name_of(resource, kind));
        Builtin { resource, part, kind, verbs, root: root(&resource.resource.group_version()), of }
    }

    fn routes(&self, out: &mut Vec<Route>) {
        if self.part.is_some_and(|part| part.kind.kind.ends_with("Options")) {
            return self.connect(out);
        }
        let plural = &self.resource.resource.resource;
        let prefix = if self.resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let item = match self.part {
            Some(part) => format!("{prefix}{plural}/{{name}}/{}", part.name),
            None => format!("{prefix}{plural}/{{name}}"),
        };
        let collection = if self.part.is_some() { item.clone() } else { format!("{prefix}{plural}") };
        let watched = self.serves("watch") && self.serves("list");
        let mut add = |verb: &str, route: Option<Route>| out.extend(route.filter(|_| self.serves(verb)));
        add("list", Some(self.list(&collection, false)));
        add("create", Some(self.create(&collection)));
        add("deletecollection", Some(self.delete_collection(&collection)));
        add("watch", watched.then(|| self.watch_list(&format!("watch/{collection}"), false)));
        add("get", Some(self.get(&item)));
        add("update", Some(self.update(&item)));
        add("patch", Some(self.patch(&item)));
        add("delete", Some(self.delete(&item)));
        add("watch", Some(self.watch(&format!("watch/{item}"))));
        if self.resource.namespaced && self.part.is_none() {
            add("list", Some(self.list(plural, true)));
            add("watch", watched.then(|| self.watch_list(&format!("watch/{plural}"), true)));
        }
    }

    fn serves(&self, verb: &str) -> bool {
        self.verbs.iter().any(|served| served == verb)
    }

    /// A route with what all of them have. `name` is the operation without its scope, `suffix` what goes behind.
    fn route(&self, method: Method, path: &str, action: &'static str, verb: &str, suffix: &str) -> Route {
        let scope = if self.resource.namespaced && !suffix.ends_with("ForAllNamespaces") { "Namespaced" } else { "" };
        let part = self.part.map(|part| names::title(&part.name)).unwrap_or_default();
        let path = format!("{}/{path}", self.root);
        let (id, tag) = names::operation(&format!("{verb}{scope}{}{part}{suffix}", self.resource.kind.kind), &path);
        let mut parameters = Vec::new();
        if path.contains("{namespace}") {
            parameters.push(parameters::namespace());
        }
        if path.contains("{name}") {
            parameters.push(parameters::name(&self.kind.kind));
        }
        Route {
            path,
            method,
            id,
            tag,
            description: String::new(),
            action: Some(action),
            kind: Some(self.kind.clone()),
            parameters,
            body: None,
            consumes: vec!["*/*"],
            produces: MEDIA.to_vec(),
            responses: Vec::new(),
        }
        .takes(vec![parameters::pretty()])
    }

    /// `status of the specified Pod`, or without a part `the specified Pod`: `of` is what stands before the kind.
    fn what(&self, of: &str) -> String {
        let kind = &self.resource.kind.kind;
        let noun = if of == "a " { names::with_article(kind) } else { format!("{of}{kind}") };
        self.part.map_or_else(|| noun.clone(), |part| format!("{} of {noun}", part.name))
    }

    fn list(&self, path: &str, everywhere: bool) -> Route {
        let suffix = if everywhere { "ForAllNamespaces" } else { "" };
        let verb = if self.serves("watch") { "list or watch" } else { "list" };
        let list = super::definitions::list_name_of(self.resource);
        self.route(Method::Get, path, "list", "list", suffix)
            .says(format!("{verb} {}", self.what("objects of kind ")))
            .takes(parameters::options("ListOptions", &[]))
            .streams()
            .answers(&[200], Type::Definition(list))
    }

    fn create(&self, path: &str) -> Route {
        self.route(Method::Post, path, "post", "create", "")
            .says(format!("create {}", self.what("a ")))
            .takes(parameters::options("CreateOptions", &[]))
            .reads(self.of.clone(), true)
            .answers(&[200, 201, 202], self.of.clone())
    }

    fn delete_collection(&self, path: &str) -> Route {
        self.route(Method::Delete, path, "deletecollection", "deletecollection", "")
            .says(format!("delete collection of {}", self.resource.kind.kind))
            .takes(parameters::options("DeleteOptions", &[]))
            .takes(parameters::options("ListOptions", &["watch", "allowWatchBookmarks"]))
            .reads(meta("DeleteOptions"), false)
            .answers(&[200], meta("Status"))
    }

    fn get(&self, path: &str) -> Route {
        let route =
            self.route(Method::Get, path, "get", "read", "").says(format!("read {}", self.what("the specified ")));
        if self.part.is_some_and(|part| part.name == "log") {
            let mut route = route.takes(parameters::options("PodLogOptions", &[])).answers(&[200], Type::Text);
            route.produces.insert(0, "text/plain");
            return route;
        }
        route.answers(&[200], self.of.clone())
    }

    fn update(&self, path: &str) -> Route {
        self.route(Method::Put, path, "put", "replace", "")
            .says(format!("replace {}", self.what("the specified ")))
            .takes(parameters::options("UpdateOptions", &[]))
            .reads(self.of.clone(), true)
            .answers(&[200, 201], self.of.clone())
    }

    fn patch(&self, path: &str) -> Route {
        let mut route = self
            .route(Method::Patch, path, "patch", "patch", "")
            .says(format!("partially update {}", self.what("the specified ")))
            .takes(parameters::options("PatchOptions", &[]))
            .reads(meta("Patch"), true)
            .answers(&[200, 201], self.of.clone());
        route.consumes = PATCHES.to_vec();
        route
    }

    fn delete(&self, path: &str) -> Route {
        let name = &self.resource.resource;
        let answers_object = ANSWER_WHAT_THEY_DELETE
            .iter()
            .any(|(group, resources)| *group == name.group && resources.contains(&name.resource.as_str()));
        self.route(Method::Delete, path, "delete", "delete", "")
            .says(format!("delete {}", self.what("a ")))
            .takes(parameters::options("DeleteOptions", &[]))
            .reads(meta("DeleteOptions"), false)
            .answers(&[200, 202], if answers_object { self.of.clone() } else { meta("Status") })
    }

    fn watch(&self, path: &str) -> Route {
        let what = self.what("an object of kind ");
        self.route(Method::Get, path, "watch", "watch", "")
            .says(format!(
                "watch changes to {what}. deprecated: use the 'watch' parameter with a list operation instead, \
                 filtered to a single item with the 'fieldSelector' parameter."
            ))
            .takes(parameters::options("ListOptions", &[]))
            .streams()
            .answers(&[200], meta("WatchEvent"))
    }

    fn watch_list(&self, path: &str, everywhere: bool) -> Route {
        let suffix = if everywhere { "ListForAllNamespaces" } else { "List" };
        self.route(Method::Get, path, "watchlist", "watch", suffix)
            .says(format!(
                "watch individual changes to a list of {}. deprecated: use the 'watch' parameter with a list \
                 operation instead.",
                self.what("")
            ))
            .takes(parameters::options("ListOptions", &[]))
            .streams()
            .answers(&[200], meta("WatchEvent"))
    }

    /// Proxies exec, attach and port-forward to the kubelet: options become query parameters, bytes are copied unchanged.
    fn connect(&self, out: &mut Vec<Route>) {
        let Some(part) = self.part else { return };
        let prefix = if self.resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let path = format!("{prefix}{}/{{name}}/{}", self.resource.resource.resource, part.name);
        let is_proxy = part.kind.kind.ends_with("ProxyOptions");
        let methods: &[Method] = if is_proxy { &ALL_METHODS } else { &[Method::Get, Method::Post] };
        for &method in methods {
            let upper = method.name().to_uppercase();
            let verb = format!("connect{}", names::title(method.name()));
            let mut add = |path: &str, suffix: &str, more: Option<Parameter>| {
                let mut route = self.route(method, path, "connect", &verb, suffix);
                route.parameters.retain(|parameter| parameter.name != "pretty");
                route.parameters.extend(more);
                route.produces = vec!["*/*"];
                out.push(
                    route
                        .says(format!("connect {upper} requests to {} of {}", part.name, self.resource.kind.kind))
                        .takes(parameters::options(&part.kind.kind, &[]))
                        .answers(&[200], Type::Text),
                );
            };
            add(&path, "", None);
            if is_proxy {
                add(&format!("{path}/{{path}}"), "WithPath", Some(parameters::subpath()));
            }
        }
    }
}

const ALL_METHODS: [Method; 7] =
    [Method::Get, Method::Put, Method::Post, Method::Delete, Method::Options, Method::Head, Method::Patch];

impl Route {
    fn says(mut self, description: String) -> Route {
        self.description = description;
        self
    }

    fn takes(mut self, more: Vec<Parameter>) -> Route {
        self.parameters.extend(more);
        self
    }

    fn reads(mut self, of: Type, required: bool) -> Route {
        self.body = Some(Body { of, required });
        self
    }

    fn streams(mut self) -> Route {
        self.produces.extend(STREAMS);
        self
    }

    fn answers(mut self, codes: &[u16], of: Type) -> Route {
        self.responses.extend(codes.iter().map(|&code| (code, of.clone())));
        self
    }
}
