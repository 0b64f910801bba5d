//! A server of every built-in resource for tests: the table as a catalog, without a store.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use object::{GroupVersionKind, GroupVersionResource, ManualClock, Timestamp};
use registry::{Catalog, Features, Form, LiveCatalog, Resource, Shape, Subresource};
use request::{RequestInfo, User};
use rest::{Api, Call, Limits, Reply, ReplyBody};
use schema::{Builtin, builtin};

use crate::Discovery;

/// All group-versions that are on by default, or all there are.
pub fn catalog(all: bool) -> Catalog {
    let mut catalog = Catalog::new();
    for resource in builtin().resources().filter(|resource| all || resource.enabled) {
        catalog.insert(of_table(builtin(), resource));
    }
    catalog
}

fn of_table(table: &'static Builtin, resource: &schema::Resource) -> Resource {
    let kind = table.kind(&resource.kind.group, &resource.kind.version, &resource.kind.kind).unwrap();
    let part = |part: &schema::Subresource| Subresource {
        name: part.name.clone(),
        kind: part.kind.clone(),
        verbs: part.verbs.clone(),
        form: None,
        action: None,
        connect: None,
    };
    Resource {
        id: Resource::next_id(),
        resource: resource.name.clone(),
        kind: resource.kind.clone(),
        list_kind: kind.list.clone().unwrap_or_default(),
        singular: resource.singular.clone(),
        namespaced: resource.namespaced,
        verbs: resource.verbs.clone(),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        storage_version_hash: resource.storage_version_hash.clone(),
        form: Form::structured(Shape::new(table.types().clone(), kind.node.clone())),
        subresources: resource.subresources.iter().map(part).collect(),
        columns: Vec::new(),
        storage: None,
        conversion: None,
        report: None,
        action: None,
        deprecation: None,
        definition: None,
        withdrawn: Default::default(),
    }
}

pub const ADDRESS: &str = "192.0.2.2:6443";

pub struct Server {
    pub api: Arc<Api>,
    pub discovery: Discovery,
}

impl Server {
    pub fn new(catalog: Catalog) -> Server {
        let api = Arc::new(Api {
            catalog: LiveCatalog::of(catalog),
            admission: admission::Chain::default(),
            authorizer: Arc::new(authz::AlwaysAllow),
            clock: Arc::new(ManualClock::new(Timestamp::new(1_794_734_740, 0))),
            randomness: Arc::new(object::ThreadRandomness),
            features: Arc::new(Features::default()),
            limits: Limits::default(),
            describe_column: |_, _| "",
            meters: rest::WatchMeters::default(),
            dial: None,
            streams: Default::default(),
            recent: Arc::default(),
            answers: Arc::default(),
            definitions: None,
            history: None,
            writes: None,
        });
        Server { discovery: Discovery::new(api.clone(), None, None, ADDRESS), api }
    }

    /// Adds resources to the catalog and removes others, as the server does when definitions come or go.
    pub fn change(&self, put: Vec<Resource>, removed: &[GroupVersionResource]) {
        let put: Vec<Arc<Resource>> = put.into_iter().map(Arc::new).collect();
        self.api.catalog.change(&put, removed);
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers).await
    }

    pub async fn ask(&self, method: &str, url: &str, headers: &[(&str, &str)]) -> Answer {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query: Vec<(String, String)> = pairs.map(|(key, value)| (key.into(), value.into())).collect();
        let header = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let call = Call {
            info: RequestInfo::parse(method, path, &query),
            user: User::default(),
            method: Method::from_bytes(method.as_bytes()).unwrap(),
            uri: Default::default(),
            client: None,
            headers: headers.iter().map(header).collect::<HeaderMap>(),
            query,
            timeout: std::time::Duration::from_secs(60),
            record: None,
            origin: None,
            only_visible: false,
            finish: None,
            parts: None,
            new_uid: None,
        };
        Answer::of(self.discovery.answer(&call).await)
    }
}

/// What came back; code 0 where discovery leaves the answer to others.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    fn of(reply: Option<Reply>) -> Answer {
        let Some(reply) = reply else { return Answer { code: 0, headers: HeaderMap::new(), body: Vec::new() } };
        let ReplyBody::Ready(body) = reply.body else { panic!("discovery does not stream") };
        Answer { code: reply.status.as_u16(), headers: reply.headers, body: body.to_vec() }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A custom resource made by hand: `crontabs.stable.example.com`, in a version.
pub fn crontabs(version: &str) -> Resource {
    let openapi = || {
        object::value!({"type": "object", "properties": {"spec": {
            "type": "object",
            "required": ["cronSpec"],
            "properties": {
                "cronSpec": {"type": "string"},
                "port": {"x-kubernetes-int-or-string": true},
                "replicas": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
            },
        }}})
    };
    let (types, node) = schema::from_openapi(&openapi(), false);
    let definition = registry::Definition {
        openapi: Box::new(openapi),
        preserve_unknown: false,
        terminating: Default::default(),
        scale: None,
    };
    let kind = GroupVersionKind::new("stable.example.com", version, "CronTab");
    let own = |name: &str, kind: GroupVersionKind| Subresource {
        name: name.into(),
        kind,
        verbs: ["get", "patch", "update"].map(Into::into).to_vec(),
        form: None,
        action: None,
        connect: None,
    };
    Resource {
        id: Resource::next_id(),
        resource: kind.group_version().with_resource("crontabs"),
        list_kind: "CronTabList".into(),
        singular: "crontab".into(),
        namespaced: true,
        verbs: ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            .map(Into::into)
            .to_vec(),
        short_names: vec!["ct".into()],
        categories: Vec::new(),
        storage_version_hash: "ipMBPJcPrcY=".into(),
        form: Form::unstructured(Shape::new(Arc::new(types), node)),
        subresources: vec![
            own("status", kind.clone()),
            own("scale", GroupVersionKind::new("autoscaling", "v1", "Scale")),
        ],
        columns: Vec::new(),
        storage: None,
        conversion: None,
        report: None,
        action: None,
        deprecation: None,
        definition: Some(Arc::new(definition)),
        withdrawn: Default::default(),
        kind,
    }
}

/// A recorded fact.
pub fn recorded(name: &str) -> serde_json::Value {
    facts::current().and_then(|facts| facts.json(name)).expect("the facts are in the repository")
}
