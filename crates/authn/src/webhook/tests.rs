//! A webhook that really runs, and hangs, dies, lies and comes back.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::HttpsServer;

async fn open(server: &HttpsServer, version: &str, ttl: Duration) -> TokenWebhook {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("webhook.kubeconfig");
    let authority = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &server.authority);
    let text = format!(
        "clusters: [{{name: a, cluster: {{server: '{}/review', certificate-authority-data: {authority}}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a}}}}]\ncurrent-context: a\n",
        server.url()
    );
    std::fs::write(&file, text).unwrap();
    TokenWebhook::open(&file, version, vec!["api".into()], ttl, &outbound::Egress::default()).unwrap()
}

fn review(status: &str) -> Option<(u16, Vec<(&'static str, String)>, Vec<u8>)> {
    let body = format!("{{\"kind\":\"TokenReview\",\"apiVersion\":\"authentication.k8s.io/v1\",\"status\":{status}}}");
    Some((200, Vec::new(), body.into_bytes()))
}

async fn ask(webhook: &TokenWebhook, text: &str) -> Result<Option<Identity>, String> {
    let audiences = ["api".to_string(), "other".to_string()];
    webhook.identify(&Token { text, audiences: &audiences, now: 100 }).await.map_err(|why| why.to_string())
}

const ANN: &str = "{\"authenticated\":true,\"user\":{\"username\":\"ann\",\"uid\":\"1\",\"groups\":[\"devs\"],\"extra\":{\"a\":[\"b\"]}}}";

#[tokio::test]
async fn answers_are_kept_and_calls_are_shared() {
    let server = HttpsServer::start(|_, body| {
        let sent = String::from_utf8_lossy(body).into_owned();
        assert!(sent.contains("\"audiences\":[\"api\",\"other\"]"), "{sent}");
        if sent.contains("\"token\":\"ann\"") { review(ANN) } else { review("{\"authenticated\":false}") }
    })
    .await;
    let webhook = open(&server, "v1", Duration::from_secs(60)).await;
    let (one, other) = tokio::join!(ask(&webhook, "ann"), ask(&webhook, "ann"));
    let identity = one.unwrap().unwrap();
    assert_eq!((identity.user.name.as_str(), identity.audiences.as_slice()), ("ann", &["api".to_string()][..]));
    assert_eq!(identity.user.extra, [("a".to_string(), vec!["b".to_string()])]);
    assert_eq!(Some(identity), other.unwrap());
    assert_eq!(ask(&webhook, "bob").await, Ok(None));
    assert_eq!(ask(&webhook, "bob").await, Ok(None));
    assert_eq!(server.count("/review"), 2, "both answers are kept");
}

#[tokio::test]
async fn a_webhook_that_fails_is_asked_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let server = HttpsServer::start(move |_, _| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Some((500, Vec::new(), b"oops".to_vec())),
        1 => Some((429, Vec::new(), Vec::new())),
        _ => review(ANN),
    })
    .await;
    let webhook = open(&server, "v1", Duration::from_secs(60)).await;
    assert_eq!(ask(&webhook, "ann").await.unwrap().unwrap().user.name, "ann");
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    for (answer, want) in [
        ("{\"authenticated\":false,\"error\":\"no such token\"}", Err("no such token")),
        ("{\"authenticated\":true,\"audiences\":[\"elsewhere\"]}", Ok(None)),
        ("{}", Ok(None)),
    ] {
        server.answer(move |_, _| review(answer));
        assert_eq!(ask(&webhook, answer).await, want.map_err(str::to_string), "{answer}");
    }
    server.answer(|_, _| Some((200, Vec::new(), b"{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}".to_vec())));
    assert_eq!(ask(&webhook, "x").await, Err("no kind \"Pod\" is registered for version \"v1\"".into()));
    server.answer(|_, _| Some((403, Vec::new(), Vec::new())));
    assert!(ask(&webhook, "z").await.is_err());
    // Of an answer that is far too large no more is read than the limit.
    for code in [200, 500] {
        server.answer(move |_, _| Some((code, Vec::new(), vec![b' '; 100 << 20])));
        let refused = ask(&webhook, "large").await.unwrap_err();
        assert!(refused.contains("unexpected error when reading response body"), "{refused}");
    }
    server.answer(|_, _| review(ANN));
    assert!(ask(&webhook, "x").await.unwrap().is_some(), "errors are not kept");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_is_given_up() {
    let server = HttpsServer::start(|_, _| Some((100, Vec::new(), Vec::new()))).await;
    let webhook = open(&server, "v1", Duration::ZERO).await;
    let refused = ask(&webhook, "ann").await.unwrap_err();
    assert!(refused.contains("context deadline exceeded"), "{refused}");
    let dead = server.url();
    drop(server);
    let refused = ask(&webhook, "bob").await.unwrap_err();
    assert!(refused.starts_with(&format!("Post \"{dead}/review?timeout=30s\": ")), "{refused}");
}

#[test]
fn versions_are_checked() {
    let opened = TokenWebhook::open(Path::new("x"), "v2", Vec::new(), Duration::ZERO, &outbound::Egress::default());
    let want = "unsupported authentication webhook version \"v2\", supported versions are \"v1\", \"v1beta1\"";
    assert_eq!(opened.err().unwrap(), want);
}
