//! A server whose users have roles, and a user who may see some of what there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use authz::rbac::{Rbac, Sources};
use http_body_util::BodyExt;
use object::{Meta, Value, value};
use registry::Setup;
use request::{Access, User};
use rest::{Api, Limits};
use storage::memory::MemoryStore;

use super::{Server, Watch, decoded, send_as, setup};

pub const RBAC: &str = "rbac.authorization.k8s.io";
pub const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];
pub const NAMES: [&str; 4] = ["w", "x", "y", "z"];
pub const MAPS: &str = "/api/v1/configmaps";

/// Key → resourceVersion.
pub type Objects = BTreeMap<String, String>;

pub struct Cluster {
    pub api: Arc<Api>,
    pub server: Server,
    pub alice: User,
}

impl Cluster {
    pub async fn new() -> Cluster {
        Cluster::with(Limits::default()).await
    }

    pub async fn with(limits: Limits) -> Cluster {
        let enabled = Box::new(|resource: &object::GroupVersionResource, _: bool| {
            resource.group.is_empty() || resource.group == RBAC
        });
        let setup = Setup { enabled, ..setup(Arc::new(MemoryStore::new())) };
        let server = Server::built(setup, Vec::new(), &["CBORServingAndStorage"], limits).await;
        let mut api = Arc::into_inner(server.0).unwrap();
        let catalog = api.catalog.load_full();
        let stored = |name: &str| catalog.stored(RBAC, name).unwrap().direct().unwrap();
        api.authorizer = Arc::new(Rbac::new(Sources {
            cluster_roles: stored("clusterroles"),
            roles: stored("roles"),
            cluster_role_bindings: stored("clusterrolebindings"),
            role_bindings: stored("rolebindings"),
        }));
        let api = Arc::new(api);
        let groups = vec![User::AUTHENTICATED.to_string()];
        let alice = User { name: "alice".into(), groups, ..User::default() };
        let cluster = Cluster { server: Server(api.clone()), api, alice };
        let rule = |verbs: &[&str], names: &[&str]| value!([{"verbs": (verbs.to_vec()), "apiGroups": [""], "resources": ["configmaps"], "resourceNames": (names.to_vec())}]);
        for (name, rules) in [
            ("all", rule(&["list", "watch"], &[])),
            ("some", rule(&["list", "watch"], &["x", "z"])),
            ("get", rule(&["get"], &[])),
        ] {
            let role = value!({"metadata": {"name": name}, "rules": (rules)});
            cluster.must("POST", &["clusterroles"], role).await;
        }
        cluster
    }

    pub async fn ask(&self, method: &str, path: &[&str], body: Value) -> (u16, Value) {
        let is_rbac = path.iter().any(|part| part.ends_with("roles") || part.ends_with("rolebindings"));
        let base = if is_rbac { "/apis/rbac.authorization.k8s.io/v1" } else { "/api/v1" };
        self.server.ask(method, &[&[base], path].concat().join("/"), body).await
    }

    pub async fn must(&self, method: &str, path: &[&str], body: Value) {
        let (code, answer) = self.ask(method, path, body).await;
        assert!(code < 300, "{method} {path:?}: {answer:?}");
    }

    pub async fn list(&self, query: &str) -> Result<Value, u16> {
        self.get(&[MAPS, query].concat()).await.map_err(|(code, _)| code)
    }

    /// What alice gets; the code and the message of a refusal.
    pub async fn get(&self, url: &str) -> Result<Value, (u16, String)> {
        let refused = |status: object::Status| (status.code, status.message);
        let response = send_as(&self.api, &self.alice, url, "").await.map_err(refused)?;
        let code = response.status().as_u16();
        let answer = decoded(&response.into_body().collect().await.unwrap().to_bytes());
        if code == 200 { Ok(answer) } else { Err((code, answer.str_at(&["message"]).to_string())) }
    }

    pub async fn watch(&self, query: &str) -> Watch {
        let response = send_as(&self.api, &self.alice, &[MAPS, "?watch=true&", query].concat(), "").await.unwrap();
        Watch::of(response).await.unwrap()
    }

    /// What alice would get if she asked for each object alone.
    pub async fn model(&self, keep: fn(&Value) -> bool) -> Objects {
        let (_, all) = self.server.ask("GET", MAPS, Value::Null).await;
        let mut visible = Objects::new();
        for object in all.list_at(&["items"]).iter().filter(|object| keep(object)) {
            let access = |name| Access {
                namespace: object.namespace(),
                resource: "configmaps",
                version: "v1",
                name,
                ..Access::to_resource(&self.alice, "list")
            };
            let whole = self.api.authorizer.decide(&access("")).await.is_allowed();
            if whole || self.api.authorizer.decide(&access(object.name())).await.is_allowed() {
                visible.insert(key(object), object.resource_version().to_string());
            }
        }
        visible
    }
}

pub fn key(object: &Value) -> String {
    [object.namespace(), object.name()].join("/")
}

pub fn objects(list: &Value) -> Objects {
    list.list_at(&["items"]).iter().map(|object| (key(object), object.resource_version().to_string())).collect()
}

pub fn binding(name: &str, role: &str) -> Value {
    value!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "alice"}]
    })
}

/// Numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    pub fn pick<'s>(&mut self, of: &[&'s str]) -> &'s str {
        of[self.roll(of.len())]
    }
}
