//! Admission policies against a whole server: what many clients see while policies change, policies from files, the types of
//! expressions in a policy's status.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use object::{Meta, Value, value};
use support::hooks::{CONFIGURATIONS, Hooks, rule};
use support::{Client, Node};
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RANGE: &str = "10.8.0.0/24";
const CLIENTS: usize = 64;
/// How often policies, params and webhooks change while clients create.
const CHANGES: usize = 20;
/// How long something may take that happens some time after a request.
const SOON: Duration = Duration::from_secs(30);

fn policy(name: &str, spec: Value) -> Value {
    let rule = rule("", &["v1"], &["configmaps"], &["CREATE"]);
    let mut policy = value!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec,
    });
    policy.set(&["spec", "matchConstraints"], value!({"resourceRules": [rule]}));
    policy
}

fn binding(name: &str, spec: Value) -> Value {
    let mut binding = value!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": spec,
    });
    binding.set(&["spec", "validationActions"], value!(["Deny"]));
    binding
}

async fn create(client: &mut Client, path: &str, object: &Value) -> Value {
    let (code, answer) = client.ask("POST", path, object).await;
    assert_eq!(code, 201, "{answer:?}");
    answer
}

/// Replaces an object by what `change` makes of it, whatever others do to it.
async fn replace(client: &mut Client, path: &str, change: impl Fn(&mut Value)) {
    let (code, mut object) = client.ask("GET", path, &Value::Null).await;
    assert_eq!(code, 200, "{object:?}");
    change(&mut object);
    let (code, answer) = client.ask("PUT", path, &object).await;
    assert_eq!(code, 200, "{answer:?}");
}

/// A policy whose variables are equal whole, and a param whose entries are: what is refused in the words of one version is
/// refused by that version alone.
fn halves(version: usize) -> Value {
    let version = format!("'{version}'");
    value!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [
            {"name": "left", "expression": (version.as_str())},
            {"name": "right", "expression": (version.as_str())},
        ],
        "validations": [{
            "expression": "variables.left != variables.right",
            "messageExpression": (format!("variables.left + ' ' + {version} + ' ' + params.data.a + ' ' + params.data.b")),
        }],
    })
}

fn param(version: usize) -> Value {
    let version = version.to_string();
    value!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "param"},
        "data": {"a": (version.as_str()), "b": (version.as_str())},
    })
}

fn webhooks(hooks: &Hooks, version: usize) -> Value {
    let secrets = || rule("", &["v1"], &["secrets"], &["CREATE"]);
    let hook = |side: &str| hooks.hook(&format!("{side}-{version}"), secrets(), &[]);
    value!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "halves"}, "webhooks": [(hook("left")), (hook("right"))],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_sees_half_of_a_policy_a_param_or_a_webhook_configuration() {
    let (node, hooks) = (Node::start(&[], RANGE).await, Hooks::start().await);
    let mut client = node.client().await;
    create(&mut client, MAPS, &param(0)).await;
    create(&mut client, &format!("{CONFIGURATIONS}/validatingwebhookconfigurations"), &webhooks(&hooks, 0)).await;
    create(&mut client, &format!("{CONFIGURATIONS}/validatingadmissionpolicies"), &policy("halves", halves(0))).await;
    let bound = value!({"policyName": "halves", "paramRef": {"name": "param", "parameterNotFoundAction": "Deny"}});
    create(&mut client, &format!("{CONFIGURATIONS}/validatingadmissionpolicybindings"), &binding("b", bound)).await;

    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for number in 0..CLIENTS {
        let (mut client, over) = (node.client().await, over.clone());
        tasks.spawn(async move {
            let mut round = 0;
            while round == 0 || !over.load(Ordering::SeqCst) {
                let name = format!("c{number}-{round}");
                refused_by_one_version(&mut client, &name).await;
                let secret = value!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": (name.as_str())}});
                create(&mut client, "/api/v1/namespaces/default/secrets", &secret).await;
                round += 1;
            }
        });
    }
    for version in 1..=CHANGES {
        let spec = policy("halves", halves(version)).field("spec").clone();
        let path = format!("{CONFIGURATIONS}/validatingadmissionpolicies/halves");
        replace(&mut client, &path, |policy| policy.set(&["spec"], spec.clone())).await;
        let data = param(version).field("data").clone();
        replace(&mut client, &format!("{MAPS}/param"), |param| param.set(&["data"], data.clone())).await;
        let changed = webhooks(&hooks, version).field("webhooks").clone();
        let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/halves");
        replace(&mut client, &path, |object| object.set(&["webhooks"], changed.clone())).await;
    }
    over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let mut versions: HashMap<String, Vec<String>> = HashMap::new();
    for (path, review) in hooks.all_seen() {
        let version = path.split_once('-').unwrap().1.to_string();
        versions.entry(review.str_at(&["name"]).to_string()).or_default().push(version);
    }
    for (name, versions) in versions {
        assert!(matches!(&*versions, [left, right] if left == right), "{name}: {versions:?}");
    }
}

async fn refused_by_one_version(client: &mut Client, name: &str) {
    let map = value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (code, answer) = client.ask("POST", MAPS, &map).await;
    let message = answer.str_at(&["message"]);
    assert_eq!(code, 422, "{answer:?}");
    let told: Vec<&str> = message.rsplit(": ").next().unwrap().split(' ').collect();
    assert!(told.len() == 4 && told[0] == told[1] && told[2] == told[3], "{message}");
}

#[tokio::test]
async fn policies_from_files_come_first_and_follow_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    std::fs::create_dir(&manifests).unwrap();
    let write = |file: &str, objects: &[Value]| {
        let list = value!({"apiVersion": "v1", "kind": "List", "items": (objects.to_vec())});
        let mut json = Vec::new();
        codec::json::encode(&list, None, &mut json);
        std::fs::write(manifests.join(file), json).unwrap();
    };
    let validation = |message: &str| value!({"validations": [{"expression": "!object.metadata.name.startsWith('no')", "message": message}]});
    let static_policy = policy("names.static.k8s.io", validation("from a file"));
    let static_binding = binding("names.static.k8s.io", value!({"policyName": "names.static.k8s.io"}));
    write("a.json", &[static_policy.clone(), static_binding.clone()]);
    let config = folder.path().join("admission.yaml");
    let text = format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{{name: \
         ValidatingAdmissionPolicy, configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: \
         ValidatingAdmissionPolicyConfiguration, staticManifestsDir: {}}}}}]}}",
        manifests.display()
    );
    std::fs::write(&config, text).unwrap();
    let change = |settings: &mut apiserver::Config| settings.admission_config_file = Some(config.clone());
    let node = Node::start_with(&[], RANGE, change).await;
    let mut client = node.client().await;
    let refused = |message: &str| {
        format!(
            "configmaps \"no\" is forbidden: ValidatingAdmissionPolicy 'names.static.k8s.io' with binding \
             'names.static.k8s.io' denied request: {message}"
        )
    };
    let map = value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "no"}});
    let dry = format!("{MAPS}?dryRun=All");
    let (code, answer) = client.ask("POST", &dry, &map).await;
    assert_eq!((code, answer.str_at(&["message"])), (422, refused("from a file").as_str()));
    write("a.json", &[policy("names.static.k8s.io", validation("changed")), static_binding]);
    until(&mut client, &dry, &map, |_, answer| answer.str_at(&["message"]) == refused("changed")).await;
    // What cannot be used leaves what is in force in force.
    let params =
        value!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}]});
    write("a.json", &[policy("names.static.k8s.io", params)]);
    let failed = |text: &str| text.lines().any(|line| line.contains("reloads_total") && line.contains("failure"));
    while !failed(&client.text("/metrics").await) {}
    assert_eq!(client.ask("POST", &dry, &map).await.0, 422);
    std::fs::remove_file(manifests.join("a.json")).unwrap();
    until(&mut client, &dry, &map, |code, _| code == 201).await;
}

/// Asks again until the answer is the wanted one.
async fn until(client: &mut Client, path: &str, body: &Value, wanted: impl Fn(u16, &Value) -> bool) -> Value {
    let began = Instant::now();
    let method = if body.is_null() { "GET" } else { "POST" };
    loop {
        let (code, answer) = client.ask(method, path, body).await;
        if wanted(code, &answer) {
            return answer;
        }
        assert!(began.elapsed() < SOON, "{answer:?}");
    }
}

#[tokio::test]
async fn the_types_of_expressions_are_checked_in_the_status() {
    let node = Node::start_with(&[], RANGE, |config| config.standalone = true).await;
    let mut client = node.client().await;
    let spec = value!({
        "variables": [{"name": "count", "expression": "object.data.size()"}],
        "validations": [
            {"expression": "variables.count > 1"},
            {"expression": "object.foo > 1", "messageExpression": "string(object.data)"},
        ],
    });
    let policies = format!("{CONFIGURATIONS}/validatingadmissionpolicies");
    let made = create(&mut client, &policies, &policy("typed", spec)).await;
    assert_eq!(made.generation(), 1);
    let path = format!("{policies}/typed");
    let observed = |generation: i64| {
        move |_: u16, policy: &Value| policy.at(&["status", "observedGeneration"]).as_int() == Some(generation)
    };
    let policy = until(&mut client, &path, &Value::Null, observed(1)).await;
    let warnings = policy.list_at(&["status", "typeChecking", "expressionWarnings"]);
    let warnings: Vec<(&str, &str)> =
        warnings.iter().map(|it| (it.str_at(&["fieldRef"]), it.str_at(&["warning"]))).collect();
    let expected = [
        (
            "spec.validations[1].expression",
            "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo > 1\n | ......^\n",
        ),
        (
            "spec.validations[1].messageExpression",
            "/v1, Kind=ConfigMap: ERROR: <input>:1:7: found no matching overload for 'string' applied to '(map(string, \
             string))'\n | string(object.data)\n | ......^\n",
        ),
    ];
    assert_eq!(warnings, expected);
    replace(&mut client, &path, |policy| policy.set(&["spec", "validations"], value!([{"expression": "true"}]))).await;
    let policy = until(&mut client, &path, &Value::Null, observed(2)).await;
    assert_eq!(policy.list_at(&["status", "typeChecking", "expressionWarnings"]), []);
}
