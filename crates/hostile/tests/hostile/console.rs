//! The console's sessions: cookies that are stolen, planted or sent by other sites, links that are used twice, and pages in frames.

use base64::Engine;
use hostile::{ADMIN, Answer, MALLORY, Target, request};
use http::header;
use http::request::Builder;
use serde_json::{Value, json};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW_BODY: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
const SESSION: &str = "/console/session";
const PROOF: &str = "x-ferrokube-console";

/// A request without a credential.
fn bare(method: &str, path: &str) -> Builder {
    http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
}

/// What a browser has after it signed in.
struct Browser {
    cookie: String,
    key: String,
}

impl Browser {
    fn of(answer: &Answer) -> Browser {
        assert_eq!(answer.code, 201, "{}", answer.message());
        let set = answer.headers[header::SET_COOKIE].to_str().unwrap();
        for attribute in ["__Host-", "; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/"] {
            assert!(set.contains(attribute), "{set}");
        }
        let cookie = set.split(';').next().unwrap().to_string();
        Browser { cookie, key: answer.json()["key"].as_str().unwrap().to_string() }
    }

    fn ask(&self, method: &str, path: &str) -> Builder {
        bare(method, path).header("cookie", &self.cookie).header(PROOF, &self.key)
    }
}

async fn sign_in(target: &Target, user: &str) -> Browser {
    let body = json!({"token": user}).to_string();
    Browser::of(&target.send(request(user, "POST", SESSION).header(PROOF, "none"), body).await)
}

/// Whom the server takes a request for; the code if it is refused.
async fn whoami(target: &Target, builder: Builder) -> Result<String, u16> {
    let answer = target.send(builder, REVIEW_BODY).await;
    match answer.code {
        201 => Ok(answer.json()["status"]["userInfo"]["username"].as_str().unwrap().to_string()),
        code => Err(code),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_honoured_only_with_what_the_page_alone_knows() {
    let target = Target::start().await;
    let (admin, mallory) = (sign_in(&target, ADMIN).await, sign_in(&target, MALLORY).await);
    let post = || bare("POST", REVIEW);
    let with = |cookie: &str, key: &str| post().header("cookie", cookie).header(PROOF, key);
    let site = |site: &str| admin.ask("POST", REVIEW).header("sec-fetch-site", site);
    let twice = format!("{}; {}", mallory.cookie, admin.cookie);
    for (builder, want, why) in [
        (admin.ask("POST", REVIEW), Ok("admin"), "the page"),
        (site("same-origin"), Ok("admin"), "the page in a browser"),
        (mallory.ask("POST", REVIEW), Ok("mallory"), "another user's page"),
        // Anonymous users may not ask who they are.
        (post().header("cookie", &admin.cookie), Err(403), "a cookie that another site's request brings"),
        (site("cross-site"), Err(403), "another site"),
        (site("same-site"), Err(403), "another port of this host"),
        (site("none"), Err(403), "the address bar"),
        (site("same-origin").header("sec-fetch-site", "cross-site"), Err(403), "both"),
        (with(&admin.cookie, &mallory.key), Err(401), "another session's key"),
        (with(&mallory.cookie, &admin.key), Err(401), "another session's cookie"),
        (with(&admin.cookie, ""), Err(401), "no key"),
        (with("__Host-ferrokube-console=", &admin.key), Err(401), "an empty cookie"),
        (with("__host-ferrokube-console=x", &admin.key), Err(403), "a cookie with nearly this name"),
        (with(&twice, &admin.key), Err(403), "a planted cookie before the real one"),
    ] {
        let got = whoami(&target, builder).await;
        assert_eq!(got.as_deref().map_err(|code| *code), want, "{why}");
    }
    // A credential of the request's own counts where the session is over.
    let gone = request(MALLORY, "POST", REVIEW).header("cookie", "__Host-ferrokube-console=x").header(PROOF, "x");
    assert_eq!(whoami(&target, gone).await, Ok(MALLORY.into()));
    let ended = target.send(admin.ask("DELETE", SESSION), "").await;
    assert!(ended.headers[header::SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(whoami(&target, admin.ask("POST", REVIEW)).await, Err(401));
    assert_eq!(whoami(&target, mallory.ask("POST", REVIEW)).await, Ok(MALLORY.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_is_signed_in_only_by_a_credential_of_the_request() {
    let target = Target::start().await;
    let token = |token: &str| json!({"token": token}).to_string();
    for (builder, body, want, why) in [
        (bare("POST", SESSION).header(PROOF, "none"), token(ADMIN), 403, "no credential"),
        (request(MALLORY, "POST", SESSION).header(PROOF, "none"), token(ADMIN), 401, "another user's token"),
        (request(MALLORY, "POST", SESSION).header(PROOF, "none"), token("nobody"), 401, "a token that is none"),
        (request(MALLORY, "POST", SESSION).header(PROOF, "none"), token(""), 400, "no token"),
        (request(MALLORY, "POST", SESSION).header(PROOF, "none"), "[".repeat(10_000), 400, "no JSON"),
        (request(MALLORY, "POST", SESSION).header(PROOF, "none"), " ".repeat(100_000), 413, "a large body"),
        (request(MALLORY, "POST", SESSION), token(MALLORY), 400, "another site's form"),
        (
            request(MALLORY, "POST", SESSION).header(PROOF, "none").header("sec-fetch-site", "cross-site"),
            token(MALLORY),
            400,
            "another site's script",
        ),
        (request(MALLORY, "PUT", SESSION).header(PROOF, "none"), token(MALLORY), 403, "another method"),
    ] {
        let answer = target.send(builder, body).await;
        assert_eq!(answer.code, want, "{why}: {}", answer.message());
        assert!(!answer.headers.contains_key(header::SET_COOKIE), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_is_good_once_and_only_for_signing_in() {
    let target = Target::start().await;
    let console = target.server.running().console.clone().unwrap();
    let by = |method: &str, path: &str, code: &str| {
        bare(method, path).header(PROOF, "none").header("x-ferrokube-console-code", code)
    };
    let code = console.make_code();
    assert_eq!(whoami(&target, by("POST", REVIEW, &code)).await, Err(403));
    let wrong = target.send(by("POST", SESSION, "AAAA"), "{}").await;
    assert_eq!(wrong.code, 401);
    let browser = Browser::of(&target.send(by("POST", SESSION, &code), "{}").await);
    assert_eq!(whoami(&target, browser.ask("POST", REVIEW)).await, Ok("kubernetes-admin".into()));
    assert_eq!(target.send(by("POST", SESSION, &code), "{}").await.code, 401);
    // What the code only asks about, it is used up by.
    let code = console.make_code();
    assert_eq!(target.send(by("GET", SESSION, &code), "").await.code, 200);
    assert_eq!(target.send(by("POST", SESSION, &code), "{}").await.code, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_run_nothing_of_others_and_tell_nothing_to_those_without_rights() {
    let target = Target::start().await;
    for path in ["/console/", "/console/app.js", "/console/app.css", "/console/icon.svg"] {
        let page = target.send(bare("GET", path), "").await;
        assert_eq!(page.code, 200, "{path}");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
        assert_eq!(page.headers["x-frame-options"], "DENY");
        assert_eq!(page.headers["x-content-type-options"], "nosniff");
    }
    // A text of a client comes back in JSON, which no browser takes for a page.
    let markup = "<script>alert(1)</script>";
    let refused = target.ask(MALLORY, "GET", "/console/api/now", "").await;
    assert_eq!(refused.code, 403);
    target.allow(MALLORY, json!([{"nonResourceURLs": ["/console/api/*"], "verbs": ["get"]}])).await;
    let now = async || target.ask(MALLORY, "GET", "/console/api/now", "").await;
    assert_eq!(now().await.code, 200);
    let agent = request(ADMIN, "GET", "/api/v1/namespaces/x%3Cb%3E").header("user-agent", markup);
    assert_eq!(target.send(agent, "").await.code, 404);
    let seen = now().await;
    assert_eq!(seen.headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(seen.headers["x-content-type-options"], "nosniff");
    assert_eq!(seen.headers[header::CACHE_CONTROL], "no-store");
    let rows = seen.json()["clients"]["rows"].as_array().unwrap().clone();
    let row = rows.iter().find(|row| row["agent"] == markup).unwrap();
    assert_eq!((&row["user"], &row["errors"]), (&json!(ADMIN), &json!(1)));
    assert!(seen.json()["errors"].as_array().unwrap().iter().any(|error| error["code"] == 404));
    // Only reading is served, and nothing else is there.
    for (method, path, want) in [
        ("POST", "/console/api/now", 403),
        ("GET", "/console/api/nothing", 404),
        ("GET", "/console/nothing", 403),
        ("GET", "/console/api/flags", 200),
        ("GET", "/console/api/watches", 200),
        ("POST", "/console/api/request", 403),
        ("POST", "/console/api/rules", 403),
    ] {
        assert_eq!(target.ask(MALLORY, method, path, "").await.code, want, "{method} {path}");
    }
    assert_eq!(target.ask(ADMIN, "POST", "/console/api/now", "").await.code, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_the_api_see_no_console() {
    let listed = async |target: &Target, accept: &str| {
        target.send(request(ADMIN, "GET", "/").header("accept", accept), "").await
    };
    let (on, off) =
        (Target::start().await, Target::start_with(|builder| builder.configure(|c| c.console = false)).await);
    for accept in ["*/*", "application/json", "application/xhtml+xml, */*"] {
        let (with, without) = (listed(&on, accept).await, listed(&off, accept).await);
        assert_eq!((with.code, &with.body), (200, &without.body), "{accept}");
        assert!(!String::from_utf8_lossy(&with.body).contains("console"));
    }
    let led = listed(&on, "text/html,*/*;q=0.8").await;
    assert_eq!((led.code, &led.headers[header::LOCATION]), (302, &http::HeaderValue::from_static("console/")));
    assert_eq!(listed(&off, "text/html,*/*;q=0.8").await.code, 200);
    for path in ["/console/", "/console/session", "/console/api/now"] {
        assert_eq!(off.ask(ADMIN, "GET", path, "").await.code, 404, "{path}");
    }
    let value: Value = listed(&on, "application/json").await.json();
    assert!(value["paths"].as_array().is_some_and(|paths| paths.len() > 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_the_pages_change_nothing_and_have_bounds() {
    let target = Target::start().await;
    target.allow(MALLORY, json!([{"nonResourceURLs": ["/console/api/*"], "verbs": ["post"]}])).await;
    let ask = async |path: &str, body: String| target.ask(MALLORY, "POST", path, body).await;
    let tried = |path: &str, more: Value| {
        let mut body = json!({"method": "DELETE", "path": path, "user": "x", "groups": ["system:masters"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let policy = |text: String| json!({"auditPolicy": text});
    let (request, rules) = ("/console/api/request", "/console/api/rules");
    let rule = "'a'.matches('".to_string() + &"(a*)*".repeat(1000) + "')";
    let broken = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    for (path, body, want, why) in [
        (request, tried("/api/v1/namespaces/default", json!({})), 200, "a request of somebody else"),
        (request, tried("/%zz", json!({})), 400, "a path that cannot be decoded"),
        (request, tried("/a b", json!({})), 400, "a path with a blank"),
        (request, tried("/", policy("kind: Policy".into())), 400, "a policy that is none"),
        (request, tried("/", policy("&a [*a, *a]".into())), 400, "a policy that contains itself"),
        (request, tried("/", policy(" ".repeat(600 * 1024))), 413, "a large policy"),
        (request, tried("/", json!({"more": 1})), 400, "a field that is not known"),
        (request, "[".repeat(10_000), 400, "no JSON"),
        (rules, broken.to_string(), 200, "a rule that cannot be compiled"),
        (rules, "[".repeat(10_000), 400, "no schema"),
        (rules, r#"{"a":"#.repeat(5000), 400, "deep nesting"),
        (rules, " ".repeat(1100 * 1024), 413, "a large schema"),
    ] {
        let answer = ask(path, body).await;
        assert_eq!(answer.code, want, "{why}: {}", answer.message());
    }
    let allowed = ask(request, tried("/api/v1/namespaces/default", json!({}))).await.json();
    assert_eq!(allowed["authorizers"][0]["verdict"], "allow");
    assert_eq!(target.ask(ADMIN, "GET", "/api/v1/namespaces/default", "").await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_explained_to_those_who_may_see_them() {
    let target = Target::start().await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let validations: Vec<Value> = (0..100)
        .map(|at| json!({"expression": format!("object.metadata.name != 'm{at}'"), "message": "\u{202e}<b>é"}))
        .collect();
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules}, "validations": validations}});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (resource, object) in [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = target.ask(ADMIN, "POST", &[group, "/", resource].concat(), object.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.message());
    }
    target.allow(MALLORY, json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}])).await;
    let configmap = r#"{"metadata":{"name":"m7"}}"#;
    let told = async |user: &str, path: &str, header: &str| {
        let sent = request(user, "POST", path).header("x-ferrokube-explain", header);
        let answer = target.send(sent, configmap).await;
        (answer.code, answer.headers.get("x-ferrokube-policies").map(|told| told.as_bytes().to_vec()))
    };
    let (dry, wet) = ("/api/v1/namespaces/default/configmaps?dryRun=All", "/api/v1/namespaces/default/configmaps");
    // The policy is in force a moment after it was stored.
    let findings = loop {
        match told(ADMIN, dry, "policies").await {
            (422, Some(findings)) => break findings,
            (201, _) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            other => panic!("{other:?}"),
        }
    };
    let findings: Value =
        serde_json::from_slice(&base64::engine::general_purpose::STANDARD.decode(findings).unwrap()).unwrap();
    let items = findings["items"].as_array().unwrap();
    assert_eq!(items.len(), 60, "only so many are told");
    assert_eq!(
        items[7],
        json!({"policy": "p", "binding": "b", "validation": 7, "outcome": "fails", "message": "\u{202e}<b>é"})
    );
    assert_eq!(items[8]["outcome"], "holds");
    for (user, path, header, why) in [
        (ADMIN, wet, "policies", "it is no dry run"),
        (ADMIN, dry, "webhooks", "something else was asked for"),
        (MALLORY, dry, "policies", "policies are not for this user"),
    ] {
        assert_eq!(told(user, path, header).await, (422, None), "{why}");
    }
}
