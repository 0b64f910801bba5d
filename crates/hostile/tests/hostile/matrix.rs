//! The authorization matrix: every verb of every resource and subresource in every version, as discovery lists them.
//!
//! The cells come from discovery, so a kind that is added is tested without a line here; a verb that no request can be made for
//! fails the test.

use std::collections::BTreeSet;

use hostile::{ADMIN, Session, Target};
use serde_json::{Value, json};

/// How many cells there are at least. It grows with the kinds that are served and never shrinks.
const CELLS_MIN: usize = 900;
/// The default role `system:basic-user` lets every authenticated user review their own access.
const FOR_ALL_USERS: [&str; 3] = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];
const NAMESPACE: &str = "ns1";
const NAME: &str = "no-such-object";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/test-alice";

/// One verb of one resource in one scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    group: String,
    version: String,
    resource: String,
    subresource: String,
    verb: String,
    namespaced: bool,
    /// "" for requests to all namespaces and for resources without one.
    namespace: String,
}

impl Cell {
    fn is_named(&self) -> bool {
        !self.subresource.is_empty() || matches!(self.verb.as_str(), "get" | "update" | "patch" | "delete")
    }

    fn name(&self) -> &str {
        if self.is_named() { NAME } else { "" }
    }

    /// The namespace that authorization sees: a namespace is inside itself.
    fn seen_namespace(&self) -> &str {
        if self.resource == "namespaces" && self.is_named() { NAME } else { &self.namespace }
    }

    fn method(&self) -> &'static str {
        match self.verb.as_str() {
            "create" => "POST",
            "get" | "list" | "watch" => "GET",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            other => panic!("no request is known for the verb {other} of {}/{}", self.resource, self.subresource),
        }
    }

    fn path(&self) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if !self.namespace.is_empty() {
            path += &format!("/namespaces/{}", self.namespace);
        }
        path += &format!("/{}", self.resource);
        if self.is_named() {
            path += &format!("/{NAME}");
        }
        if !self.subresource.is_empty() {
            path += &format!("/{}", self.subresource);
        }
        path + match self.verb.as_str() {
            "watch" => "?watch=true&timeoutSeconds=1",
            "create" | "update" | "patch" | "delete" | "deletecollection" => "?dryRun=All",
            _ => "",
        }
    }

    /// What the server says to a user who may not do this.
    fn refusal(&self, user: &str) -> String {
        let resource = match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        };
        let scope = match self.seen_namespace() {
            "" => "at the cluster scope".to_string(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        format!("User \"{user}\" cannot {} resource \"{resource}\" in API group \"{}\" {scope}", self.verb, self.group)
    }

    /// Rules for everything but this verb on this resource.
    fn everything_else(&self, all: &BTreeSet<Cell>) -> Value {
        let full = |cell: &Cell| match cell.subresource.as_str() {
            "" => cell.resource.clone(),
            subresource => format!("{}/{subresource}", cell.resource),
        };
        let own = full(self);
        let groups: BTreeSet<&str> =
            all.iter().map(|cell| cell.group.as_str()).filter(|group| *group != self.group).collect();
        let others: BTreeSet<String> =
            all.iter().filter(|cell| cell.group == self.group).map(full).filter(|resource| *resource != own).collect();
        let verbs: BTreeSet<&str> = ["create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"]
            .into_iter()
            .filter(|verb| *verb != self.verb)
            .collect();
        let mut rules = vec![
            json!({"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}),
            json!({"apiGroups": [self.group], "resources": [own], "verbs": verbs}),
            json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
        ];
        if !others.is_empty() {
            rules.push(json!({"apiGroups": [self.group], "resources": others, "verbs": ["*"]}));
        }
        json!(rules)
    }

    async fn send(&self, session: &Session, user: &str) -> (u16, String) {
        // The body of a DELETE takes the place of its parameters.
        let body = if self.method() == "DELETE" { r#"{"dryRun":["All"]}"# } else { "{}" };
        let answer = session.ask(user, self.method(), &self.path(), body).await;
        (answer.code, answer.message())
    }
}

/// Every cell that discovery knows.
async fn cells(session: &Session) -> BTreeSet<Cell> {
    let get = async |path: &str| session.ask(ADMIN, "GET", path, "").await.json();
    let mut versions = vec![(String::new(), "v1".to_string())];
    for group in get("/apis").await["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            versions.push((group["name"].as_str().unwrap().into(), version["version"].as_str().unwrap().into()));
        }
    }
    let mut cells = BTreeSet::new();
    for (group, version) in versions {
        let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        for resource in get(&path).await["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let (name, subresource) = name.split_once('/').unwrap_or((name, ""));
            let namespaced = resource["namespaced"].as_bool().unwrap();
            for verb in resource["verbs"].as_array().unwrap().iter().map(|verb| verb.as_str().unwrap()) {
                let everywhere = namespaced && matches!(verb, "list" | "watch");
                let namespaces: &[&str] = match namespaced {
                    true if everywhere => &[NAMESPACE, ""],
                    true => &[NAMESPACE],
                    false => &[""],
                };
                cells.extend(namespaces.iter().map(|namespace| Cell {
                    group: group.clone(),
                    version: version.clone(),
                    resource: name.into(),
                    subresource: subresource.into(),
                    verb: verb.into(),
                    namespaced,
                    namespace: namespace.to_string(),
                }));
            }
        }
    }
    cells
}

/// A server that serves every version, with alice, who gets a role, and bob, who may do everything.
async fn open() -> (Target, Session, BTreeSet<Cell>) {
    let target = Target::start_with(|builder| {
        builder.configure(|config| config.runtime_config = vec![("api/all".into(), true)])
    })
    .await;
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    target.allow("alice", everything.clone()).await;
    target.allow("bob", everything).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    assert_eq!(target.ask(ADMIN, "POST", "/api/v1/namespaces", namespace.to_string()).await.code, 201);
    let session = target.session().await;
    let mut cells = cells(&session).await;
    cells.retain(|cell| !FOR_ALL_USERS.contains(&cell.resource.as_str()));
    assert!(cells.len() >= CELLS_MIN, "only {} cells", cells.len());
    (target, session, cells)
}

/// Who lacks one permission is refused exactly that, and SubjectAccessReview says the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_needs_its_own_permission() {
    let (_target, session, cells) = open().await;
    for cell in &cells {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "test-alice"}, "rules": cell.everything_else(&cells)});
        let answer = session.ask(ADMIN, "PUT", ROLE, role.to_string()).await;
        assert_eq!(answer.code, 200, "{}", answer.message());
        for (user, allowed) in [("alice", false), ("bob", true)] {
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": user,
                "resourceAttributes": {"group": cell.group, "version": cell.version, "resource": cell.resource,
                    "subresource": cell.subresource, "verb": cell.verb, "namespace": cell.seen_namespace(), "name": cell.name()}}});
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            let review = session.ask(ADMIN, "POST", path, review.to_string()).await.json();
            assert_eq!(review["status"]["allowed"], allowed, "{user} {cell:?}: {review}");
            let (code, message) = cell.send(&session, user).await;
            let refused = code == 403 && message.contains(&cell.refusal(user));
            assert_eq!(refused, !allowed, "{user} {} {}: {code} {message}", cell.method(), cell.path());
        }
    }
}

/// Who may do everything in one namespace may do nothing outside it, however the request is addressed (CVE-2019-11247).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_in_a_namespace_ends_there() {
    let (_target, session, cells) = open().await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "carol"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "test-bob"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "carol"}]});
    let path = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/rolebindings");
    assert_eq!(session.ask(ADMIN, "POST", &path, binding.to_string()).await.code, 201);
    for cell in &cells {
        let (code, message) = cell.send(&session, "carol").await;
        let refused = code == 403 && message.contains(" cannot ");
        assert_eq!(refused, cell.namespace.is_empty(), "{} {}: {code} {message}", cell.method(), cell.path());
        // In another namespace, or in this one although the resource has none.
        let namespace = if cell.namespaced { "ns2" } else { NAMESPACE };
        let elsewhere = Cell { namespace: namespace.into(), ..cell.clone() };
        let (code, message) = elsewhere.send(&session, "carol").await;
        let wanted: &[u16] = if cell.namespaced { &[403] } else { &[403, 404, 405] };
        assert!(wanted.contains(&code), "{} {}: {code} {message}", elsewhere.method(), elsewhere.path());
        let everywhere = Cell { namespace: String::new(), ..cell.clone() };
        let (code, message) = everywhere.send(&session, "carol").await;
        assert!([403, 404, 405].contains(&code), "{} {}: {code} {message}", everywhere.method(), everywhere.path());
    }
}
