//! Admission webhooks against a whole server: what they are asked, what their answers do, and what happens when they fail.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::time::{Duration, Instant};

use object::{Value, value};
use support::Node;
use support::hooks::{Answer, CONFIGURATIONS, Hooks, config_map, configure, rule};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn node() -> Node {
    Node::start(&[], "10.0.0.0/24").await
}

#[tokio::test]
async fn webhooks_change_and_refuse_objects() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    let maps = || rule("", &["v1"], &["configmaps"], &["CREATE", "UPDATE", "DELETE"]);
    configure(&mut client, true, "m", vec![hooks.hook("change", maps(), &[])]).await;
    configure(&mut client, false, "v", vec![hooks.hook("check", maps(), &[])]).await;
    hooks.answer("/change", Answer::Patch(r#"[{"op":"add","path":"/metadata/labels","value":{"by":"hook"}}]"#));
    let warned = value!({"allowed": true, "warnings": ["careful"], "auditAnnotations": {"k": "v"}});
    hooks.answer("/check", Answer::With(warned));
    let (status, headers, made) = client.ask_for_headers("", "POST", CONFIG_MAPS, &config_map("one")).await;
    assert_eq!((status, made.str_at(&["metadata", "labels", "by"])), (201, "hook"), "{made:?}");
    assert_eq!(headers["warning"], "299 - \"careful\"");
    let review = &hooks.take_seen("/check")[0];
    assert_eq!(review.str_at(&["object", "metadata", "labels", "by"]), "hook");
    assert_eq!(review.str_at(&["operation"]), "CREATE");
    assert_eq!(review.str_at(&["namespace"]), "default");
    assert_eq!(review.str_at(&["name"]), "one");
    assert_eq!(review.at(&["resource"]), &value!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(review.at(&["kind"]), &value!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(review.str_at(&["object", "kind"]), "ConfigMap");
    assert_eq!(review.at(&["oldObject"]), &Value::Null);
    assert_eq!(review.str_at(&["options", "kind"]), "CreateOptions");
    assert_eq!(review.str_at(&["options", "apiVersion"]), "meta.k8s.io/v1");
    assert!(!review.str_at(&["userInfo", "username"]).is_empty());
    hooks.take_seen("/change");

    hooks.answer("/change", Answer::Allow);
    let denied = value!({"code": 409, "reason": "Mine", "message": "not today"});
    hooks.answer("/check", Answer::Deny(denied));
    let (status, answer) = client.ask("DELETE", &format!("{CONFIG_MAPS}/one"), &Value::Null).await;
    assert_eq!((status, answer.str_at(&["reason"])), (409, "Mine"));
    assert_eq!(answer.str_at(&["message"]), "admission webhook \"check.hooks.example\" denied the request: not today");
    let review = &hooks.take_seen("/check")[0];
    assert_eq!((review.at(&["object"]), review.str_at(&["oldObject", "metadata", "name"])), (&Value::Null, "one"));
    assert_eq!(review.str_at(&["options", "kind"]), "DeleteOptions");
    // The mutating webhook was asked about the deletion, and its patch has nothing to change.
    hooks.answer("/check", Answer::Allow);
    hooks.answer("/change", Answer::Patch(r#"[{"op":"add","path":"/data/x","value":"y"}]"#));
    let (status, answer) = client.ask("DELETE", &format!("{CONFIG_MAPS}/one"), &Value::Null).await;
    assert_eq!(status, 500);
    let why = "attempted to modify the object, which is not supported for this operation";
    assert!(answer.str_at(&["message"]).contains(why), "{answer:?}");
    // A webhook that is gone is not called any more.
    let path = format!("{CONFIGURATIONS}/mutatingwebhookconfigurations/m");
    assert_eq!(client.ask("DELETE", &path, &Value::Null).await.0, 200);
    assert_eq!(client.ask("DELETE", &format!("{CONFIG_MAPS}/one"), &Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_webhook_that_fails_is_told_or_ignored() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    let maps = || rule("*", &["*"], &["configmaps"], &["*"]);
    let review = |uid: &str, kind: &str| {
        let text = r#"{"apiVersion":"admission.k8s.io/v1","kind":"KIND","response":{"uid":"UID","allowed":true}}"#;
        text.replace("KIND", kind).replace("UID", uid).into_bytes()
    };
    let failed = "Internal error occurred: failed calling webhook \"HOOK.hooks.example\": ";
    let call = "failed to call webhook: ";
    let mut big = br#"{"x":""#.to_vec();
    big.resize(9 << 20, b'a');
    let cases = [
        (
            "e500",
            Answer::Body(500, b"oops".to_vec()),
            format!("{failed}{call}an error on the server (\"oops\") has prevented the request from succeeding"),
        ),
        (
            "redirect",
            Answer::Redirect,
            format!("{failed}{call}the server responded with the status code 302 but did not return more information"),
        ),
        (
            "empty",
            Answer::Body(200, Vec::new()),
            format!("{failed}{call}0-length response with status code: 200 and content type: application/json"),
        ),
        (
            "big",
            Answer::Body(200, big),
            format!(
                "{failed}{call}unexpected error when reading response body. Please retry. Original error: the response is larger than 8388608 bytes"
            ),
        ),
        (
            "text",
            Answer::Body(200, b"nonsense".to_vec()),
            format!(
                "{failed}{call}couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u')"
            ),
        ),
        (
            "uid",
            Answer::Body(200, review("other", "AdmissionReview")),
            format!("{failed}received invalid webhook response: expected response.uid="),
        ),
        (
            "kind",
            Answer::Body(200, review("x", "Pod")),
            format!("{failed}{call}no kind \"Pod\" is registered for version \"admission.k8s.io/v1\""),
        ),
        (
            "undecodable",
            Answer::Patch("{"),
            format!("{failed}received undecodable patch in webhook response: unexpected end of JSON input"),
        ),
        (
            "hang",
            Answer::Hang,
            format!("{failed}{call}Post \"https://localhost:PORT/hang?timeout=1s\": context deadline exceeded"),
        ),
    ];
    for (name, answer, expected) in cases {
        hooks.answer(&format!("/{name}"), answer);
        let fields = |policy: &str| [("failurePolicy", value!(policy)), ("timeoutSeconds", value!(1))];
        configure(&mut client, true, name, vec![hooks.hook(name, maps(), &fields("Fail"))]).await;
        let (status, answer) = client.ask("POST", CONFIG_MAPS, &config_map(name)).await;
        let expected = expected.replace("HOOK", name).replace("PORT", &hooks.port.to_string());
        assert_eq!(status, 500, "{name}");
        assert!(answer.str_at(&["message"]).starts_with(&expected), "{name}: {answer:?}\n{expected}");
        let path = format!("{CONFIGURATIONS}/mutatingwebhookconfigurations/{name}");
        assert_eq!(client.ask("DELETE", &path, &Value::Null).await.0, 200);
        configure(&mut client, true, name, vec![hooks.hook(name, maps(), &fields("Ignore"))]).await;
        let (status, answer) = client.ask("POST", CONFIG_MAPS, &config_map(name)).await;
        assert_eq!(status, 201, "{name}: {answer:?}");
        assert_eq!(client.ask("DELETE", &path, &Value::Null).await.0, 200);
    }
    // What the server cannot do with an answer fails the request, whatever the policy.
    let patch = r#"[{"op":"replace","path":"/nothing/here","value":1}]"#;
    hooks.answer("/path", Answer::Patch(patch));
    let ignore = [("failurePolicy", value!("Ignore"))];
    configure(&mut client, true, "path", vec![hooks.hook("path", maps(), &ignore)]).await;
    let (status, answer) = client.ask("POST", CONFIG_MAPS, &config_map("path")).await;
    let expected =
        "Internal error occurred: replace operation does not apply: doc is missing path: /nothing/here: missing value";
    assert_eq!((status, answer.str_at(&["message"])), (500, expected));
}

#[tokio::test]
async fn services_and_closed_ports_are_told_in_upstreams_words() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let maps = || rule("", &["v1"], &["configmaps"], &["CREATE"]);
    let cases = [
        (
            "closed",
            value!({"url": (format!("https://127.0.0.1:{free}/x"))}),
            format!(
                "failed to call webhook: Post \"https://127.0.0.1:{free}/x?timeout=10s\": dial tcp 127.0.0.1:{free}: connect: connection refused"
            ),
        ),
        (
            "service",
            value!({"service": {"namespace": "default", "name": "hook", "path": "/p"}}),
            "failed to call webhook: Post \"https://hook.default.svc:443/p?timeout=10s\": service \"hook\" not found"
                .to_string(),
        ),
        (
            "stranger",
            value!({"url": (format!("https://localhost:{}/x", hooks.port))}),
            format!(
                "failed to call webhook: Post \"https://localhost:{}/x?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
                hooks.port
            ),
        ),
    ];
    for (name, target, expected) in cases {
        let hook = hooks.hook(name, maps(), &[("clientConfig", target)]);
        configure(&mut client, false, name, vec![hook]).await;
        let (status, answer) = client.ask("POST", CONFIG_MAPS, &config_map(name)).await;
        let expected = format!("Internal error occurred: failed calling webhook \"{name}.hooks.example\": {expected}");
        assert_eq!((status, answer.str_at(&["message"])), (500, expected.as_str()));
        let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/{name}");
        assert_eq!(client.ask("DELETE", &path, &Value::Null).await.0, 200);
    }
}

#[tokio::test]
async fn only_what_matches_is_asked_and_in_the_version_it_wants() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    let scalers = |version: &'static str| rule("autoscaling", &[version], &["horizontalpodautoscalers"], &["CREATE"]);
    let labelled = value!({"matchLabels": {"asked": "yes"}});
    let everything = || value!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"], "scope": "Cluster"});
    let all = vec![
        hooks.hook("equivalent", scalers("v2"), &[]),
        hooks.hook("exact", scalers("v2"), &[("matchPolicy", value!("Exact"))]),
        hooks.hook("objects", scalers("v1"), &[("objectSelector", labelled.clone())]),
        hooks.hook("namespaces", scalers("v1"), &[("namespaceSelector", labelled)]),
        hooks.hook("cluster", everything(), &[]),
        hooks.hook("old", scalers("v1"), &[("admissionReviewVersions", value!(["v1beta1"]))]),
    ];
    configure(&mut client, true, "m", all).await;
    let patch = r#"[{"op":"add","path":"/spec/metrics","value":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":42}}}]}]"#;
    hooks.answer("/equivalent", Answer::Patch(patch));
    let scaler = |name: &str, labels: Value| {
        let target = value!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        value!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "labels": labels},
            "spec": {"maxReplicas": 3, "scaleTargetRef": target},
        })
    };
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let (status, made) = client.ask("POST", path, &scaler("a", value!({}))).await;
    assert_eq!((status, made.at(&["spec", "targetCPUUtilizationPercentage"]).as_int()), (201, Some(42)), "{made:?}");
    let review = &hooks.take_seen("/equivalent")[0];
    assert_eq!(review.str_at(&["object", "apiVersion"]), "autoscaling/v2");
    assert_eq!(review.str_at(&["resource", "version"]), "v2");
    assert_eq!(review.str_at(&["requestResource", "version"]), "v1");
    assert_eq!(review.str_at(&["requestKind", "version"]), "v1");
    let old = &hooks.take_seen("/old")[0];
    assert_eq!(old.str_at(&["object", "apiVersion"]), "autoscaling/v1");
    for silent in ["/exact", "/objects", "/namespaces", "/cluster"] {
        assert_eq!(hooks.take_seen(silent).len(), 0, "{silent}");
    }
    let (status, _) = client.ask("POST", path, &scaler("b", value!({"asked": "yes"}))).await;
    assert_eq!((status, hooks.take_seen("/objects").len()), (201, 1));
    // Namespaces are cluster-scoped, and are selected by the labels they get.
    let namespace =
        value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"asked": "yes"}}});
    assert_eq!(client.ask("POST", "/api/v1/namespaces", &namespace).await.0, 201);
    assert_eq!(hooks.take_seen("/cluster").len(), 1);
    let path = "/apis/autoscaling/v1/namespaces/n/horizontalpodautoscalers";
    assert_eq!(client.ask("POST", path, &scaler("c", value!({}))).await.0, 201);
    assert_eq!(hooks.take_seen("/namespaces").len(), 1);
    // Webhooks never see the configuration of webhooks, nor reviews of who may do what.
    hooks.take_seen("/cluster");
    configure(&mut client, false, "unseen", vec![hooks.hook("unseen", scalers("v1"), &[])]).await;
    let review = value!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    assert_eq!(client.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.0, 201);
    assert_eq!(hooks.take_seen("/cluster").len(), 0);
}

#[tokio::test]
async fn webhooks_run_again_after_a_change_and_not_on_a_dry_run_they_cannot_do() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    let maps = || rule("", &["v1"], &["configmaps"], &["CREATE"]);
    let again = [("reinvocationPolicy", value!("IfNeeded"))];
    let all = vec![
        hooks.hook("first", maps(), &again),
        hooks.hook("second", maps(), &[]),
        hooks.hook("third", maps(), &again),
    ];
    configure(&mut client, true, "m", all).await;
    let owner = r#"{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}"#;
    let patch: &'static str = Box::leak(
        format!(r#"[{{"op":"add","path":"/metadata/ownerReferences","value":[{owner},{owner}]}}]"#).into_boxed_str(),
    );
    hooks.answer("/second", Answer::Patch(patch));
    let (status, headers, made) = client.ask_for_headers("", "POST", CONFIG_MAPS, &config_map("a")).await;
    assert_eq!((status, made.list_at(&["metadata", "ownerReferences"]).len()), (201, 1), "{made:?}");
    assert!(headers["warning"].to_str().unwrap().contains("duplicate entries after mutating admission happens"));
    let counts = ["/first", "/second", "/third"].map(|path| hooks.take_seen(path).len());
    assert_eq!(counts, [2, 1, 1]);
    let managed = made.list_at(&["metadata", "managedFields"]);
    assert_eq!(managed.len(), 1, "{managed:?}");

    let side_effects = [("sideEffects", value!("NoneOnDryRun"))];
    configure(&mut client, false, "dry", vec![hooks.hook("dry", maps(), &side_effects)]).await;
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(client.ask("POST", &dry, &config_map("b")).await.0, 201);
    assert_eq!(hooks.take_seen("/dry")[0].at(&["dryRun"]), &value!(true));
}

#[tokio::test]
async fn subresources_are_asked_about_as_what_they_are() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    let scale = || rule("apps", &["v1"], &["deployments/scale", "deployments/status"], &["UPDATE"]);
    configure(&mut client, true, "m", vec![hooks.hook("change", scale(), &[])]).await;
    configure(&mut client, false, "v", vec![hooks.hook("check", scale(), &[])]).await;
    let template = value!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let deployment = value!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let (status, made) = client.ask("POST", path, &deployment).await;
    assert_eq!(status, 201, "{made:?}");
    hooks.answer("/change", Answer::Patch(r#"[{"op":"replace","path":"/spec/replicas","value":7}]"#));
    let wanted = value!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 2}});
    let (status, scaled) = client.ask("PUT", &format!("{path}/d/scale"), &wanted).await;
    assert_eq!((status, scaled.at(&["spec", "replicas"]).as_int()), (200, Some(7)), "{scaled:?}");
    let review = &hooks.take_seen("/check")[0];
    assert_eq!((review.str_at(&["object", "kind"]), review.str_at(&["subResource"])), ("Scale", "scale"));
    assert_eq!(review.at(&["kind"]), &value!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(review.at(&["object", "spec", "replicas"]).as_int(), Some(7));
    assert_eq!(review.at(&["oldObject", "spec", "replicas"]).as_int(), Some(1));
    hooks.answer("/change", Answer::Allow);
    let (_, mut live) = client.ask("GET", &format!("{path}/d"), &Value::Null).await;
    live.set(&["status", "observedGeneration"], 1);
    assert_eq!(client.ask("PUT", &format!("{path}/d/status"), &live).await.0, 200);
    let review = &hooks.take_seen("/check")[0];
    assert_eq!((review.str_at(&["object", "kind"]), review.str_at(&["subResource"])), ("Deployment", "status"));
}

#[tokio::test]
async fn webhooks_that_say_ignore_share_a_budget() {
    let change = |config: &mut apiserver::Config| config.webhook_ignore_budget = Some(Duration::from_millis(600));
    let node = Node::start_with(&[], "10.0.0.0/24", change).await;
    let hooks = Hooks::start().await;
    let mut client = node.client().await;
    let maps = || rule("", &["v1"], &["configmaps"], &["CREATE"]);
    let ignore = [("failurePolicy", value!("Ignore"))];
    let slow: Vec<Value> = ["a", "b", "c", "d"].iter().map(|name| hooks.hook(name, maps(), &ignore)).collect();
    configure(&mut client, true, "slow", slow).await;
    ["/a", "/b", "/c", "/d"].iter().for_each(|path| hooks.answer(path, Answer::Hang));
    let began = Instant::now();
    assert_eq!(client.ask("POST", CONFIG_MAPS, &config_map("one")).await.0, 201);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // The first used the budget up; the others count as failed, and after three failures none is called.
    assert_eq!(hooks.take_seen("/b").len(), 0);
    for name in ["two", "three"] {
        assert_eq!(client.ask("POST", CONFIG_MAPS, &config_map(name)).await.0, 201);
    }
    hooks.take_seen("/a");
    let began = Instant::now();
    assert_eq!(client.ask("POST", CONFIG_MAPS, &config_map("four")).await.0, 201);
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(hooks.take_seen("/a").len(), 0);
}

#[tokio::test]
async fn configurations_from_files_come_first_and_follow_their_files() {
    let hooks = Hooks::start().await;
    let folder = tempfile::tempdir().unwrap();
    let resources = value!(["configmaps", "validatingwebhookconfigurations"]);
    let watched = value!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": ["CREATE"]});
    let manifest = |name: &str| {
        let configuration = value!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": (format!("{name}.static.k8s.io"))},
            "webhooks": [(hooks.hook(name, watched.clone(), &[]))],
        });
        let mut json = Vec::new();
        codec::json::encode(&configuration, None, &mut json);
        json
    };
    let (manifests, config) = (folder.path().join("manifests"), folder.path().join("admission.yaml"));
    std::fs::create_dir(&manifests).unwrap();
    std::fs::write(manifests.join("a.json"), manifest("file")).unwrap();
    let own = format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: {}}}",
        manifests.display()
    );
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- {{name: \
         ValidatingAdmissionWebhook, configuration: {own}}}\n"
    );
    std::fs::write(&config, text).unwrap();
    let change = |settings: &mut apiserver::Config| settings.admission_config_file = Some(config.clone());
    let node = Node::start_with(&[], "10.0.0.0/24", change).await;
    let mut client = node.client().await;
    assert_eq!(client.ask("POST", CONFIG_MAPS, &config_map("one")).await.0, 201);
    assert_eq!(hooks.take_seen("/file").len(), 1);
    // Only configurations from files see those of the API, and only files may use their names.
    let maps = rule("", &["v1"], &["configmaps"], &["CREATE"]);
    configure(&mut client, false, "api", vec![hooks.hook("api", maps.clone(), &[])]).await;
    assert_eq!((hooks.take_seen("/file").len(), hooks.take_seen("/api").len()), (1, 0));
    let reserved = value!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "x.static.k8s.io"},
    });
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations");
    assert_eq!(client.ask("POST", &path, &reserved).await.0, 422);
    // A broken file leaves the old ones in force; another one takes their place.
    hooks.answer("/other", Answer::Deny(value!({"message": "no"})));
    let failures = |text: String| {
        let line = |line: &&str| line.contains("automatic_reloads_total") && line.contains("failure");
        text.lines().find(line).is_some_and(|line| line.ends_with(" 1"))
    };
    std::fs::write(manifests.join("b.json"), "{").unwrap();
    while !failures(client.text("/metrics").await) {}
    assert_eq!(client.ask("POST", CONFIG_MAPS, &config_map("two")).await.0, 201);
    std::fs::write(manifests.join("b.json"), manifest("other")).unwrap();
    let began = Instant::now();
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    loop {
        let (status, answer) = client.ask("POST", &dry, &config_map("three")).await;
        if status != 201 {
            let denied = "admission webhook \"other.hooks.example\" denied the request: no";
            assert_eq!((status, answer.str_at(&["message"])), (400, denied));
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "the new file is not read");
    }
}

/// A definition of `boxes` whose versions differ, with a conversion webhook.
fn boxes(hooks: &Hooks) -> Value {
    let version = |name: &str, field: &str, stored: bool| {
        let mut spec = value!({"type": "object"});
        spec.set(&["properties", field, "type"], "integer");
        value!({
            "name": name, "served": true, "storage": stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        })
    };
    let url = format!("https://localhost:{}/convert", hooks.port);
    value!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [(version("v1", "size", false)), (version("v2", "width", true))],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": (hooks.bundle.as_str())}}},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_see_custom_resources_in_the_version_they_ask_for() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    hooks.answer("/convert", Answer::Convert);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, answer) = client.ask("POST", definitions, &boxes(&hooks)).await;
    assert_eq!(status, 201, "{answer:?}");
    let second = || rule("example.com", &["v2"], &["boxes"], &["CREATE", "UPDATE"]);
    configure(&mut client, true, "m", vec![hooks.hook("change", second(), &[])]).await;
    configure(&mut client, false, "v", vec![hooks.hook("check", second(), &[])]).await;
    hooks.answer("/change", Answer::Patch(r#"[{"op":"replace","path":"/spec/width","value":4}]"#));
    let made = value!({"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "b"}, "spec": {"size": 3}});
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/boxes");
    let (status, made) = client.ask("POST", &path("v1"), &made).await;
    assert_eq!((status, made.field("spec")), (201, &value!({"size": 4})), "{made:?}");
    for (hook, width) in [("/change", 3), ("/check", 4)] {
        let seen = hooks.take_seen(hook);
        let object = seen[0].field("object");
        assert_eq!(object.str_at(&["apiVersion"]), "example.com/v2", "{hook}");
        assert_eq!(object.field("spec"), &value!({"width": width}), "{hook}");
    }
    let (status, stored) = client.ask("GET", &format!("{}/b", path("v2")), &Value::Null).await;
    assert_eq!((status, stored.field("spec")), (200, &value!({"width": 4})));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_converted_in_batches_and_once() {
    let (node, hooks) = (node().await, Hooks::start().await);
    let mut client = node.client().await;
    hooks.answer("/convert", Answer::Convert);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.ask("POST", definitions, &boxes(&hooks)).await.0, 201);
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/boxes");
    // Six of these are more than a megabyte.
    let padding = "x".repeat(200 * 1024);
    let named = |version: &str, name: &str| {
        let metadata = value!({"name": (name), "labels": {"a": "b"}, "annotations": {"padding": (padding.as_str())}});
        value!({"apiVersion": (format!("example.com/{version}")), "kind": "Box", "metadata": metadata, "spec": {"width": 3}})
    };
    for number in 0..12 {
        assert_eq!(client.ask("POST", &path("v2"), &named("v2", &format!("b{number:02}"))).await.0, 201);
    }
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let (all, one) = (path("v1"), format!("{}/b07", path("v1")));
    // What is asked for, and how many objects the webhook is asked about in each of its calls.
    for (path, accept, asked) in [
        (path("v2"), "", &[][..]),
        (one.clone(), "", &[1]),
        (all.clone(), "", &[6, 5]),
        (all.clone(), "", &[]),
        (one.clone(), "", &[]),
        (one.clone(), table, &[]),
        (all.clone(), table, &[]),
        (format!("{all}?pretty=true"), "", &[]),
        (format!("{all}?labelSelector=a%3Db&limit=7"), "", &[]),
        (format!("{all}?fieldSelector=metadata.name%3Db03"), "", &[]),
        (format!("{all}?resourceVersion=0"), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", &[]),
    ] {
        let status = client.ask_for(&path, accept).await.0;
        let seen: Vec<_> =
            hooks.take_seen("/convert").iter().map(|review| review.list_at(&["objects"]).len()).collect();
        assert_eq!((status, seen.as_slice()), (200, asked), "{path} {accept}");
    }
    // A new state of the object is converted when it is first read.
    let (_, mut changed) = client.ask("GET", &one, &Value::Null).await;
    changed.set(&["spec", "size"], 9);
    let (status, answer) = client.ask("PUT", &one, &changed).await;
    assert_eq!((status, answer.at(&["spec", "size"]).as_int()), (200, Some(9)), "{answer:?}");
    hooks.take_seen("/convert");
    for calls in [1, 0] {
        let (_, read) = client.ask("GET", &one, &Value::Null).await;
        assert_eq!((read.at(&["spec", "size"]).as_int(), hooks.take_seen("/convert").len()), (Some(9), calls));
    }
    // Objects that are not converted fail their list, which names them; others can be read alone.
    hooks.answer("/convert", Answer::Body(500, b"no".to_vec()));
    assert_eq!(client.ask("POST", &path("v2"), &named("v2", "a")).await.0, 201);
    let (status, answer) = client.ask("GET", &all, &Value::Null).await;
    let causes: Vec<&str> =
        answer.list_at(&["details", "causes"]).iter().map(|cause| cause.str_at(&["field"])).collect();
    assert_eq!((status, causes), (500, vec!["/registry/example.com/boxes/default/a"]), "{answer:?}");
    assert_eq!(client.ask("GET", &format!("{all}/a"), &Value::Null).await.0, 500);
    assert_eq!(client.ask("GET", &one, &Value::Null).await.0, 200);
    hooks.answer("/convert", Answer::Convert);
    assert_eq!(client.ask("GET", &all, &Value::Null).await.0, 200);
}

#[tokio::test]
async fn images_are_decided_by_their_webhook() {
    let hooks = Hooks::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (kubeconfig, config) = (folder.path().join("kubeconfig"), folder.path().join("admission.yaml"));
    let cluster =
        format!("{{server: 'https://localhost:{}/images', certificate-authority-data: {}}}", hooks.port, hooks.bundle);
    let text = format!(
        "clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: x, context: \
         {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let own = format!("{{imagePolicy: {{kubeConfigFile: {}, denyTTL: -1, retryBackoff: 1}}}}", kubeconfig.display());
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- {{name: ImagePolicyWebhook, \
         configuration: {own}}}\n"
    );
    std::fs::write(&config, text).unwrap();
    let change = |settings: &mut apiserver::Config| {
        settings.admission_config_file = Some(config.clone());
        settings.enable_admission_plugins = vec!["ImagePolicyWebhook".into()];
    };
    let node = Node::start_with(&[], "10.0.0.0/24", change).await;
    let mut client = node.client().await;
    let pod = |name: &str| {
        let spec = value!({"containers": [{"name": "c", "image": "i"}]});
        value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    };
    let status = |status: &str| Answer::Body(200, format!("{{\"status\": {status}}}").into_bytes());
    let cases = [
        (
            "a",
            status(r#"{"allowed": false, "reason": "not signed"}"#),
            Some("image policy webhook backend denied one or more images: not signed"),
        ),
        ("b", status(r#"{"allowed": false}"#), Some("one or more images rejected by webhook backend")),
        (
            "c",
            Answer::Body(500, b"oops".to_vec()),
            Some("an error on the server (\"oops\") has prevented the request from succeeding"),
        ),
        ("d", status(r#"{"allowed": true}"#), None),
        // What was allowed is remembered.
        ("e", status(r#"{"allowed": false}"#), None),
    ];
    for (name, answer, refused) in cases {
        hooks.answer("/images", answer);
        let (code, answer) = client.ask("POST", "/api/v1/namespaces/default/pods", &pod(name)).await;
        match refused {
            None => assert_eq!(code, 201, "{answer:?}"),
            Some(why) => {
                let expected = format!("pods \"{name}\" is forbidden: {why}");
                assert_eq!((code, answer.str_at(&["message"])), (403, expected.as_str()));
            }
        }
    }
}
