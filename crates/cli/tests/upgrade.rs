//! Default roles, bindings and flow schemas in a store that another server has written: those that took over from others, what is
//! missing from them, and what administrators have changed.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use object::{Meta, Value, value};
use support::{Client, Node};

const RANGE: &str = "10.0.0.0/24";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

async fn get(client: &mut Client, path: &str) -> Value {
    let (status, object) = client.ask("GET", path, &Value::Null).await;
    assert_eq!(status, 200, "{path}: {object:?}");
    object
}

async fn put(client: &mut Client, path: &str, object: &Value) {
    let (status, answer) = client.ask("PUT", path, object).await;
    assert_eq!(status, 200, "{path}: {answer:?}");
}

async fn delete(client: &mut Client, path: &str) {
    let (status, answer) = client.ask("DELETE", path, &Value::Null).await;
    assert_eq!(status, 200, "{path}: {answer:?}");
}

fn group(name: &str) -> Value {
    value!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

/// The binding for public information was a part of the binding for discovery before Kubernetes 1.14.
#[tokio::test]
async fn bindings_that_were_split() {
    let node = Node::start(&[], RANGE).await;
    let mut client = node.client().await;
    let (discovery, basic) = (format!("{BINDINGS}/system:discovery"), format!("{BINDINGS}/system:basic-user"));
    let public = format!("{BINDINGS}/system:public-info-viewer");
    for path in [&discovery, &basic] {
        let mut binding = get(&mut client, path).await;
        *binding.slot(&["metadata", "annotations", AUTOUPDATE]) = "false".into();
        *binding.slot(&["metadata", "annotations", "note"]) = "mine".into();
        *binding.slot(&["subjects"]) = value!([(group("system:authenticated"))]);
        put(&mut client, path, &binding).await;
    }
    delete(&mut client, &public).await;
    let before = [get(&mut client, &discovery).await, get(&mut client, &basic).await];

    let node = node.start_again(RANGE).await;
    let mut client = node.client().await;
    let after = [get(&mut client, &discovery).await, get(&mut client, &basic).await];
    assert_eq!(before, after);
    let made = get(&mut client, &public).await;
    assert_eq!(made.field("subjects"), &value!([(group("system:authenticated"))]));
    assert_eq!((made.annotation("note"), made.annotation(AUTOUPDATE)), (Some("mine"), Some("false")));
    assert_eq!(made.str_at(&["roleRef", "name"]), "system:public-info-viewer");
    node.stop().await;
}

/// The rules of `admin`, `edit` and `view` are in other roles since Kubernetes 1.9.
#[tokio::test]
async fn roles_that_became_aggregated() {
    let node = Node::start(&[], RANGE).await;
    let mut client = node.client().await;
    let (old, new) = (format!("{ROLES}/view"), format!("{ROLES}/system:aggregate-to-view"));
    let own = value!({"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]});
    let mut role = get(&mut client, &old).await;
    role.remove(&["aggregationRule"]);
    *role.slot(&["rules"]) = value!([(own.clone())]);
    put(&mut client, &old, &role).await;
    delete(&mut client, &new).await;

    let node = node.start_again(RANGE).await;
    let mut client = node.client().await;
    let made = get(&mut client, &new).await;
    assert_eq!(made.list_at(&["rules"]).first(), Some(&own));
    // What the default has besides was added, and the old role is aggregated again.
    assert!(made.list_at(&["rules"]).len() > 1);
    assert!(!get(&mut client, &old).await.list_at(&["aggregationRule", "clusterRoleSelectors"]).is_empty());
    node.stop().await;
}

/// What a default role allows and its stored form does not is added in its smallest parts; the rest stays.
#[tokio::test]
async fn rules_subjects_and_roles_of_defaults() {
    let node = Node::start(&[], RANGE).await;
    let mut client = node.client().await;
    let (user, scheduler) = (format!("{ROLES}/system:basic-user"), format!("{ROLES}/system:kube-dns"));
    let mut role = get(&mut client, &user).await;
    let wide = value!({"apiGroups": ["authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]});
    *role.slot(&["rules"]) = value!([(wide.clone())]);
    put(&mut client, &user, &role).await;
    let mut dns = get(&mut client, &scheduler).await;
    *dns.slot(&["rules"]) = value!([{"apiGroups": [""], "resources": ["endpoints"], "verbs": ["list", "watch"]}]);
    put(&mut client, &scheduler, &dns).await;
    // A binding to another role is replaced, because its role cannot change.
    let binding = format!("{BINDINGS}/system:basic-user");
    let mut other = get(&mut client, &binding).await;
    delete(&mut client, &binding).await;
    *other.slot(&["roleRef", "name"]) = "view".into();
    for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields"] {
        other.metadata_mut().remove(field);
    }
    let (status, answer) = client.ask("POST", BINDINGS, &other).await;
    assert_eq!(status, 201, "{answer:?}");

    let node = node.start_again(RANGE).await;
    let mut client = node.client().await;
    let rule = |group: &str, resource: &str, verb: &str| value!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
    let rules = get(&mut client, &user).await.field("rules").clone();
    assert_eq!(rules, value!([(wide), (rule("authentication.k8s.io", "selfsubjectreviews", "create"))]));
    let rules = get(&mut client, &scheduler).await.field("rules").clone();
    let services = ["list", "watch"].map(|verb| rule("", "services", verb));
    assert_eq!(rules.as_list().unwrap_or_default()[1..], services);
    assert_eq!(get(&mut client, &binding).await.str_at(&["roleRef", "name"]), "system:basic-user");
    node.stop().await;
}

/// Flow schemas are the server's until an administrator takes them over. Those that no server has any more are deleted.
#[tokio::test]
async fn flow_schemas_that_nobody_took_over() {
    const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
    let node = Node::start(&[], RANGE).await;
    let mut client = node.client().await;
    let (ours, theirs) = (format!("{SCHEMAS}/global-default"), format!("{SCHEMAS}/service-accounts"));
    for (path, note) in [(&ours, "true"), (&theirs, "false")] {
        let mut schema = get(&mut client, path).await;
        schema.set(&["spec", "matchingPrecedence"], 5000);
        schema.set_annotation(AUTOUPDATE, note);
        put(&mut client, path, &schema).await;
    }
    for (name, note) in [("former", "true"), ("own", "false")] {
        let mut schema = get(&mut client, &ours).await;
        schema.set(&["metadata"], value!({"name": name}));
        schema.set_annotation(AUTOUPDATE, note);
        let (status, answer) = client.ask("POST", SCHEMAS, &schema).await;
        assert_eq!(status, 201, "{answer:?}");
    }
    delete(&mut client, &format!("{SCHEMAS}/probes")).await;

    let node = node.start_again(RANGE).await;
    let mut client = node.client().await;
    let (status, list) = client.ask("GET", SCHEMAS, &Value::Null).await;
    assert_eq!(status, 200, "{list:?}");
    let schemas = list.list_at(&["items"]);
    let precedence = |name: &str| {
        let schema = schemas.iter().find(|schema| schema.name() == name);
        schema.and_then(|schema| schema.at(&["spec", "matchingPrecedence"]).as_int())
    };
    let names = ["global-default", "service-accounts", "former", "own", "probes"];
    assert_eq!(names.map(precedence), [Some(9900), Some(5000), None, Some(5000), Some(2)]);
    node.stop().await;
}
