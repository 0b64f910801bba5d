//! Definitions, policies and roles that come and go, and the check that every server follows them.
//!
//! Servers follow changes that were made through another one after a moment, so each is waited for; what is checked is that all
//! servers get there, and that a custom resource written through one is read as it was through the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Outcome};

/// How long a server may take to follow; it may be restarted meanwhile.
const PATIENCE: Duration = Duration::from_secs(90);
const TIMEOUT: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(50);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// What came and went.
#[derive(Debug, Default)]
pub struct Followed {
    pub rounds: usize,
    /// The longest that a server took to follow a change.
    pub slowest: Duration,
}

/// Changes extensions through the balancer and looks at every server until told to stop.
pub async fn change(balancer: u16, servers: Vec<u16>, stop: Arc<AtomicBool>) -> Result<Followed, String> {
    let mut round = Round { balancer, servers, number: 0, slowest: Duration::ZERO };
    while !stop.load(Ordering::SeqCst) {
        round.number += 1;
        round.definition().await?;
        round.policy().await?;
        round.role().await?;
    }
    Ok(Followed { rounds: round.number, slowest: round.slowest })
}

struct Round {
    balancer: u16,
    servers: Vec<u16>,
    number: usize,
    slowest: Duration,
}

impl Round {
    async fn definition(&mut self) -> Result<(), String> {
        let (group, plural) = (format!("round{}.example.com", self.number), "things");
        let name = format!("{plural}.{group}");
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let names = json!({"plural": plural, "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
        });
        let path = format!("/apis/{group}/v1/{plural}");
        self.put(Method::POST, DEFINITIONS, &definition).await?;
        self.everywhere(Method::GET, &path, None, |status, _| status == 200, "serve a definition").await?;
        for (n, port) in self.servers.clone().into_iter().enumerate() {
            let thing = json!({
                "apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": format!("thing-{n}")}, "round": n
            });
            self.until(port, Method::POST, &path, Some(&thing), |status, _| matches!(status, 201 | 409), "create")
                .await?;
            let one = format!("{path}/thing-{n}");
            let is_same = |status: u16, body: &Value| status == 200 && body["round"] == n;
            self.everywhere(Method::GET, &one, None, is_same, "read a custom resource").await?;
        }
        self.put(Method::DELETE, &format!("{DEFINITIONS}/{name}"), &Value::Null).await?;
        self.everywhere(Method::GET, &path, None, |status, _| status == 404, "forget a definition").await
    }

    async fn policy(&mut self) -> Result<(), String> {
        let name = format!("round{}.example.com", self.number);
        let rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]});
        let expression = format!("object.metadata.name != 'denied-{}'", self.number);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}
        });
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("denied-{}", self.number)}});
        let path = format!("{SECRETS}?dryRun=All");
        self.put(Method::POST, POLICIES, &policy).await?;
        self.put(Method::POST, BINDINGS, &binding).await?;
        self.everywhere(Method::POST, &path, Some(&secret), |status, _| status == 422, "follow a policy").await?;
        self.put(Method::DELETE, &format!("{BINDINGS}/{name}"), &Value::Null).await?;
        self.put(Method::DELETE, &format!("{POLICIES}/{name}"), &Value::Null).await?;
        self.everywhere(Method::POST, &path, Some(&secret), |status, _| status == 201, "forget a policy").await
    }

    async fn role(&mut self) -> Result<(), String> {
        let name = format!("round-{}", self.number);
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]
        });
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}]
        });
        let asked = json!({"namespace": "default", "verb": "get", "resource": "pods"});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": name, "resourceAttributes": asked}
        });
        let is_allowed = |status: u16, body: &Value| status == 201 && body["status"]["allowed"] == true;
        let is_denied = |status: u16, body: &Value| status == 201 && body["status"]["allowed"] != true;
        self.put(Method::POST, ROLES, &role).await?;
        self.put(Method::POST, ROLE_BINDINGS, &binding).await?;
        self.everywhere(Method::POST, REVIEWS, Some(&review), is_allowed, "follow a role").await?;
        self.put(Method::DELETE, &format!("{ROLE_BINDINGS}/{name}"), &Value::Null).await?;
        self.put(Method::DELETE, &format!("{ROLES}/{name}"), &Value::Null).await?;
        self.everywhere(Method::POST, REVIEWS, Some(&review), is_denied, "forget a role").await
    }

    /// Creates or deletes through the balancer; an attempt without an answer may have done it.
    async fn put(&mut self, method: Method, path: &str, object: &Value) -> Result<(), String> {
        let body = (!object.is_null()).then_some(object);
        let is_done = |status: u16, _: &Value| matches!(status, 200..=202 | 404 | 409);
        self.until(self.balancer, method, path, body, is_done, "take a change").await
    }

    /// Waits until every server answers as expected.
    async fn everywhere(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        expected: impl Fn(u16, &Value) -> bool,
        what: &str,
    ) -> Result<(), String> {
        let began = Instant::now();
        for port in self.servers.clone() {
            self.until(port, method.clone(), path, body, &expected, what).await?;
        }
        self.slowest = self.slowest.max(began.elapsed());
        Ok(())
    }

    async fn until(
        &self,
        port: u16,
        method: Method,
        path: &str,
        body: Option<&Value>,
        expected: impl Fn(u16, &Value) -> bool,
        what: &str,
    ) -> Result<(), String> {
        let began = Instant::now();
        let mut client = Client::new(port, TIMEOUT);
        loop {
            let outcome = client.send(method.clone(), path, body).await;
            if matches!(&outcome, Outcome::Answered { status, body } if expected(*status, body)) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("a server does not {what}: {method} {path} answers {outcome:?}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
