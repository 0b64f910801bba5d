//! Identities that cannot be read, or that may not be taken.

use hostile::{ADMIN, MALLORY, Target, request};
use http::HeaderValue;
use serde_json::{Value, json};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW_BODY: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

/// Who the server takes a request with these headers to be from, or its refusal.
async fn whoami(target: &Target, user: &str, headers: &[(&str, &[u8])]) -> Result<Value, (u16, String)> {
    let mut builder = request(user, "POST", REVIEW);
    for (name, value) in headers {
        builder = builder.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    let answer = target.send(builder, REVIEW_BODY).await;
    if answer.code == 201 {
        Ok(answer.json()["status"]["userInfo"].clone())
    } else {
        Err((answer.code, answer.message()))
    }
}

/// A request whose impersonation header cannot be read must not be carried out as the user that sent it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_identity_headers_are_refused() {
    let target = Target::start().await;
    let bad: &[u8] = b"j\xfcrgen";
    for (headers, name) in [
        (&[("impersonate-user", bad)][..], "Impersonate-User"),
        (&[("impersonate-user", b"ann".as_slice()), ("impersonate-group", bad)], "Impersonate-Group"),
        (&[("impersonate-user", b"ann".as_slice()), ("impersonate-uid", bad)], "Impersonate-Uid"),
        (&[("impersonate-user", b"ann".as_slice()), ("impersonate-extra-a", bad)], "Impersonate-Extra-A"),
        (&[("impersonate-user", b"ann".as_slice()), ("impersonate-extra-%ff", b"x")], "Impersonate-Extra-%ff"),
        (&[("impersonate-user", b"ann".as_slice()), ("impersonate-user", bad)], "Impersonate-User"),
    ] {
        let want = format!("the header {name} is not valid UTF-8");
        assert_eq!(whoami(&target, ADMIN, headers).await, Err((400, want)), "{name}");
    }
    // An unreadable credential is a wrong one, not an absent one.
    let builder = http::Request::builder().uri("/api").header("host", "x");
    let builder = builder.header("authorization", HeaderValue::from_bytes(b"Bearer \xff").unwrap());
    assert_eq!(target.send(builder, "").await.code, 401);
}

/// Names in UTF-8 are names like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_in_utf8_are_impersonated() {
    let target = Target::start().await;
    let headers: &[(&str, &[u8])] = &[
        ("impersonate-user", "jürgen".as_bytes()),
        ("impersonate-group", "größe".as_bytes()),
        ("impersonate-extra-acme.com%2fproject", "ä".as_bytes()),
    ];
    let user = whoami(&target, ADMIN, headers).await.unwrap();
    assert_eq!(user["username"], "jürgen");
    assert_eq!(user["groups"], json!(["größe", "system:authenticated"]));
    assert_eq!(user["extra"], json!({"acme.com/project": ["ä"]}));
    let (code, message) = whoami(&target, MALLORY, headers).await.unwrap_err();
    assert_eq!(code, 403, "{message}");
}

/// Every group is a header of its own, and users may have hundreds of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_may_have_many_groups() {
    let target = Target::start().await;
    let groups: Vec<String> = (0..300).map(|at| format!("group-{at}")).collect();
    let groups = groups.iter().map(|group| ("impersonate-group", group.as_bytes()));
    let headers: Vec<(&str, &[u8])> = [("impersonate-user", &b"bob"[..])].into_iter().chain(groups).collect();
    let user = whoami(&target, ADMIN, &headers).await.unwrap();
    assert_eq!(user["groups"].as_array().unwrap().len(), 301);
}

/// Constrained impersonation, each case with the rules a user has beside those for the review itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constrained_impersonation_has_limits() {
    let target = Target::start().await;
    let all = |mode: &str| {
        json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": [format!("impersonate-on:{mode}:create"), "create"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": [format!("impersonate:{mode}")]},
        ])
    };
    let forbidden = |what: &str, why: &str| Err((403, format!("{what} is forbidden: {why}")));
    let groups = r#"groups.authentication.k8s.io"#;
    let cannot = r#"User "alice" cannot impersonate:user-info resource"#;
    let scope = r#"in API group "authentication.k8s.io" at the cluster scope"#;
    let user: (&str, &[u8]) = ("impersonate-user", b"bob");
    for (mode, headers, want) in [
        ("user-info", vec![user], Ok("bob")),
        ("user-info", vec![user, ("impersonate-group", b"devs")], Ok("bob")),
        (
            "user-info",
            vec![user, ("impersonate-group", b"system:masters")],
            forbidden(
                &format!(r#"{groups} "system:masters""#),
                &format!(r#"{cannot} "groups" {scope}: impersonating the system:masters group is not allowed"#),
            ),
        ),
        (
            "user-info",
            vec![user, ("impersonate-group", b"")],
            forbidden(
                groups,
                &format!(r#"{cannot} "groups" {scope}: impersonating the empty string group is not allowed"#),
            ),
        ),
        (
            "user-info",
            vec![user, ("impersonate-extra-a", b"")],
            forbidden(
                "userextras.authentication.k8s.io",
                &format!(
                    r#"{cannot} "userextras" {scope}: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")"#
                ),
            ),
        ),
        (
            "user-info",
            vec![user, ("impersonate-extra-acme.io%2ffoo", b"")],
            forbidden(
                "userextras.authentication.k8s.io",
                &format!(
                    r#"{cannot} "userextras" {scope}: impersonating the empty string value in extra is not allowed"#
                ),
            ),
        ),
        ("arbitrary-node", vec![("impersonate-user", b"system:node:n1".as_slice())], Ok("system:node:n1")),
        (
            "serviceaccount",
            vec![("impersonate-user", b"system:serviceaccount:ns:sa".as_slice())],
            Ok("system:serviceaccount:ns:sa"),
        ),
    ] {
        target.allow("alice", all(mode)).await;
        let got = whoami(&target, "alice", &headers).await;
        let got = got.as_ref().map(|user| user["username"].as_str().unwrap_or(""));
        assert_eq!(got, want.as_ref().copied(), "{mode} {headers:?}");
    }
    // The mode for users covers neither nodes nor service accounts, and theirs cover no groups.
    for (mode, headers) in [
        ("user-info", vec![("impersonate-user", b"system:node:n1".as_slice())]),
        ("user-info", vec![("impersonate-user", b"system:serviceaccount:ns:sa".as_slice())]),
        ("arbitrary-node", vec![("impersonate-user", b"system:node:n1".as_slice()), ("impersonate-group", b"x")]),
        (
            "serviceaccount",
            vec![("impersonate-user", b"system:serviceaccount:ns:sa".as_slice()), ("impersonate-uid", b"x")],
        ),
        ("associated-node", vec![("impersonate-user", b"system:node:n1".as_slice())]),
    ] {
        target.allow("alice", all(mode)).await;
        let (code, message) = whoami(&target, "alice", &headers).await.unwrap_err();
        assert_eq!(code, 403, "{mode} {headers:?}: {message}");
    }
}

/// What is in headers that are not text is recorded with replacements: such bytes do not keep a request out of the audit log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_not_text_are_audited() {
    let folder = tempfile::tempdir().unwrap();
    let (target, log) = Target::audited(folder.path()).await;
    for (name, value) in [
        ("user-agent", &b"evil\xff\xfe"[..]),
        ("user-agent", "b\u{f6}se".as_bytes()),
        ("x-forwarded-for", b"10.0.0.1, \xff"),
        ("audit-id", b"id\xff"),
    ] {
        let builder = request(MALLORY, "GET", "/api/v1/secrets").header(name, HeaderValue::from_bytes(value).unwrap());
        assert_eq!(target.send(builder, "").await.code, 403, "{name}");
    }
    let text = std::fs::read(&log).unwrap();
    let events: Vec<Value> =
        String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended =
        events.iter().filter(|event| event["stage"] == "ResponseComplete" && event["user"]["username"] == MALLORY);
    let seen: Vec<_> = ended.map(|event| (event["userAgent"].clone(), event["sourceIPs"][0].clone())).collect();
    assert_eq!(seen.len(), 4);
    assert_eq!((&seen[0].0, &seen[1].0), (&json!("evil\u{fffd}\u{fffd}"), &json!("b\u{f6}se")));
    assert_eq!(seen[2].1, "10.0.0.1");
}
