//! Tokens that are believed and tokens that are not.

use std::sync::{Arc, Mutex};

use object::{Meta, Status, Value, value};
use registry::{MakeChange, OwnChange};

use super::*;
use crate::Authenticator;
use crate::configuration::Anonymous;

const NOW: i64 = 1_800_000_000;
const ISSUER: &str = "https://issuer";

const P256: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIJl358Pz+8LNH1LinKC/KF5fBQQEzKy46F7n4MkixcwnoAoGCCqGSM49
AwEHoUQDQgAEBiJvTrPIGeEOgkgDBsFmKqSWbBHKqhc/V/4Jh7jX45+Tjz2nV2ny
OyoXHdw73sE0auUFsELb9llHprEQbdHLUA==
-----END EC PRIVATE KEY-----
";

/// Other objects, and which secrets were marked as used.
#[derive(Default)]
struct World {
    objects: Vec<(&'static str, Value)>,
    used: Mutex<Vec<String>>,
}

#[async_trait]
impl OwnClient for World {
    async fn get(&self, _: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let here = self.objects.iter().filter(|(r, _)| *r == resource).map(|(_, object)| object);
        let mut here = here.filter(|object| object.namespace() == namespace && object.name() == name);
        here.next().cloned().map(Arc::new)
    }

    async fn change(&self, what: &OwnChange<'_>, change: &MakeChange<'_>) -> Result<bool, Status> {
        let stored = self.get(what.group, what.resource, what.namespace, what.name).await.unwrap();
        assert_eq!(what.uid, Some(stored.uid()));
        let changed = change(&stored).unwrap();
        let day = changed.label("kubernetes.io/legacy-token-last-used").unwrap();
        self.used.lock().unwrap().push(format!("{} {day}", what.name));
        Ok(true)
    }
}

fn account() -> Value {
    value!({"metadata": {"name": "sa", "namespace": "ns", "uid": "u"}})
}

fn reference(name: &str, uid: &str) -> Reference {
    Reference { name: name.into(), uid: uid.into() }
}

fn method(pem: &str, objects: Arc<World>) -> (Issuer, ServiceAccountTokens) {
    let key = SigningKey::parse(pem.as_bytes()).unwrap();
    let method = ServiceAccountTokens {
        issuers: vec![ISSUER.into(), "https://before".into()],
        keys: Keys::Fixed(Arc::new([key.public().clone()])),
        audiences: vec!["api".into()],
        lookup: true,
        webhook_tokens: false,
        objects,
        meters: Arc::default(),
    };
    (Issuer::new(ISSUER, Signer::Key(key.into())), method)
}

fn claims(bound: Bound) -> Claims {
    Claims { jti: "j".into(), ..Claims::new("ns", reference("sa", "u"), bound, vec!["api".into()], NOW, 600) }
}

async fn review(method: ServiceAccountTokens, token: &str, now: i64) -> Result<Identity, String> {
    let authenticator =
        Authenticator::new(Vec::new(), vec![Box::new(method)], vec!["api".into()], Anonymous::default());
    authenticator.review(token, &[], now).await.map_err(|refused| refused.to_string())
}

#[tokio::test]
async fn tokens_are_believed_with_every_kind_of_key() {
    for pem in [SigningKey::generate().unwrap().as_str(), P256] {
        let objects = vec![("serviceaccounts", account()), ("pods", account_named("p", "pu"))];
        let (issuer, method) = method(pem, Arc::new(World { objects, ..World::default() }));
        let token = issuer.issue(claims(Bound::Pod(reference("p", "pu"), Some(reference("n", ""))))).await.unwrap();
        let identity = review(method, &token, NOW + 1).await.unwrap();
        assert_eq!(identity.audiences, ["api"]);
        assert_eq!(identity.user.name, "system:serviceaccount:ns:sa");
        assert_eq!(
            identity.user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
        );
        let extra: Vec<String> = identity.user.extra.iter().map(|(key, value)| format!("{key}={}", value[0])).collect();
        let of = |name: &str| format!("authentication.kubernetes.io/{name}");
        assert_eq!(extra, [of("credential-id=JTI=j"), of("node-name=n"), of("pod-name=p"), of("pod-uid=pu")]);
    }
}

/// Headers that are signed by the right key and say what go-jose does not go along with.
#[tokio::test]
async fn headers_are_believed_as_far_as_go_jose_does() {
    let key = SigningKey::parse(P256.as_bytes()).unwrap();
    let payload = serde_json::to_vec(&Claims { iss: ISSUER.into(), ..claims(Bound::Nothing) }).unwrap();
    let encoded = URL_SAFE_NO_PAD.encode(&payload);
    let unknown = "invalid bearer token";
    let failed = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]";
    for (header, is_raw, want) in [
        (r#"{"alg":"ES256"}"#, false, Ok(())),
        (r#"{"alg":"ES256"}"#, true, Err(failed)),
        (r#"{"alg":"ES256","alg":"ES256"}"#, false, Err(unknown)),
        (r#"{"alg":"none","alg":"ES256"}"#, false, Err(unknown)),
        (r#"{"alg":"ES256","kid":"","kid":""}"#, false, Err(unknown)),
        (r#"{"alg":"ES256","crit":["exp"],"exp":1}"#, false, Err(failed)),
        (r#"{"alg":"ES256","crit":["b64"],"b64":true}"#, false, Ok(())),
        (r#"{"alg":"ES256","crit":["b64"],"b64":false}"#, false, Err(failed)),
        (r#"{"alg":"ES256","b64":false}"#, false, Err(failed)),
        (r#"{"alg":"ES256","crit":["b64"],"b64":false}"#, true, Ok(())),
    ] {
        let header_text = URL_SAFE_NO_PAD.encode(header);
        let signed = [header_text.as_bytes(), b".", if is_raw { &payload } else { encoded.as_bytes() }].concat();
        let signature = URL_SAFE_NO_PAD.encode(key.sign(&signed).unwrap());
        let objects = vec![("serviceaccounts", account())];
        let (_, method) = method(P256, Arc::new(World { objects, ..World::default() }));
        let got = review(method, &format!("{header_text}.{encoded}.{signature}"), NOW + 1).await.map(drop);
        assert_eq!(got, want.map_err(str::to_string), "{header}");
    }
}

fn account_named(name: &str, uid: &str) -> Value {
    value!({"metadata": {"name": name, "namespace": "ns", "uid": uid}})
}

#[tokio::test]
async fn tokens_are_refused_for_a_reason() {
    let invalidated = "service account token has been invalidated";
    let cases: Vec<(&str, Claims, Vec<(&'static str, Value)>, i64, &str)> = vec![
        ("expired", claims(Bound::Nothing), vec![], NOW + 661, "service account token has expired"),
        ("early", claims(Bound::Nothing), vec![], NOW - 61, "service account token is not valid yet"),
        ("gone", claims(Bound::Nothing), vec![], NOW, r#"serviceaccounts "sa" not found"#),
        (
            "another account",
            claims(Bound::Nothing),
            vec![("serviceaccounts", account_named("sa", "x"))],
            NOW,
            "service account UID (x) does not match claim (u)",
        ),
        (
            "no pod",
            claims(Bound::Pod(reference("p", "pu"), None)),
            vec![("serviceaccounts", account())],
            NOW,
            invalidated,
        ),
        (
            "another pod",
            claims(Bound::Pod(reference("p", "pu"), None)),
            vec![("serviceaccounts", account()), ("pods", account_named("p", "x"))],
            NOW,
            "pod UID (x) does not match service account pod ref claim (pu)",
        ),
        ("no node", claims(Bound::Node(reference("n", "nu"))), vec![("serviceaccounts", account())], NOW, invalidated),
        (
            "audience",
            Claims { aud: vec!["a".into(), "b".into()], ..claims(Bound::Nothing) },
            vec![("serviceaccounts", account())],
            NOW,
            r#"token audiences ["a" "b"] is invalid for the target audiences ["api"]"#,
        ),
        (
            "webhook",
            claims(Bound::MutatingWebhook(reference("w", "wu"))),
            vec![("serviceaccounts", account())],
            NOW,
            r#"feature gate "APIServerWebhookAuthenticationToken" is disabled, but token is webhook bound"#,
        ),
    ];
    for (case, claims, objects, now, want) in cases {
        let (issuer, method) = method(P256, Arc::new(World { objects, ..World::default() }));
        let token = issuer.issue(claims).await.unwrap();
        assert_eq!(review(method, &token, now).await, Err(format!("[invalid bearer token, {want}]")), "{case}");
    }
}

#[tokio::test]
async fn signatures_count() {
    let world = || Arc::new(World { objects: vec![("serviceaccounts", account())], ..World::default() });
    let (issuer, _) = method(P256, world());
    let token = issuer.issue(claims(Bound::Nothing)).await.unwrap();
    let (start, signature) = token.rsplit_once('.').unwrap();
    let (header, payload) = start.split_once('.').unwrap();
    let header_of = |header: &str| URL_SAFE_NO_PAD.encode(header);
    let broken = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]";
    let other_key = SigningKey::generate().unwrap();
    for (token, want) in [
        (format!("{start}.{}", URL_SAFE_NO_PAD.encode([0; 64])), broken),
        (format!("{}.{payload}.{signature}", header_of(r#"{"alg":"none"}"#)), broken),
        (
            format!("{}.{payload}.{signature}", header_of(r#"{"alg":"ES256","kid":"x"}"#)),
            "[invalid bearer token, invalid signature, no keys found]",
        ),
        (format!("{header}.{}.{signature}", header_of(r#"{"iss":"other"}"#)), "invalid bearer token"),
        (format!("{header}.{payload}"), "invalid bearer token"),
        ("a.b.c.d".into(), "invalid bearer token"),
        (
            method(&other_key, world()).0.issue(claims(Bound::Nothing)).await.unwrap(),
            "[invalid bearer token, invalid signature, no keys found]",
        ),
    ] {
        assert_eq!(review(method(P256, world()).1, &token, NOW).await, Err(want.to_string()), "{token}");
    }
    // An issuer of the past is still believed.
    let before = Issuer::new("https://before", Signer::Key(SigningKey::parse(P256.as_bytes()).unwrap().into()));
    assert!(review(method(P256, world()).1, &before.issue(claims(Bound::Nothing)).await.unwrap(), NOW).await.is_ok());
}

#[tokio::test]
async fn legacy_tokens_live_as_long_as_their_secret() {
    use base64::engine::general_purpose::STANDARD;
    let issuer = Issuer::new(LEGACY_ISSUER, Signer::Key(SigningKey::parse(P256.as_bytes()).unwrap().into()));
    let said = Claims {
        sub: "system:serviceaccount:ns:sa".into(),
        legacy_namespace: "ns".into(),
        legacy_secret: "s".into(),
        legacy_account: "sa".into(),
        legacy_uid: "u".into(),
        ..Claims::default()
    };
    let token = issuer.issue(said.clone()).await.unwrap();
    let secret = |data: &str, labels: Value| {
        let mut secret = account_named("s", "su");
        secret.set(&["data", "token"], STANDARD.encode(data));
        secret.set(&["metadata", "labels"], labels);
        secret
    };
    let mut generated = account();
    generated.set(&["secrets"], value!([{"name": "s"}]));
    let world = |secret: Option<Value>| {
        let objects = [Some(generated.clone()).map(|a| ("serviceaccounts", a)), secret.map(|s| ("secrets", s))];
        Arc::new(World { objects: objects.into_iter().flatten().collect(), ..World::default() })
    };
    let good = world(Some(secret(&token, value!({}))));
    let identity = review(method(P256, good.clone()).1, &token, NOW).await.unwrap();
    assert_eq!((identity.user.name.as_str(), identity.warnings.len()), ("system:serviceaccount:ns:sa", 1));
    assert_eq!(*good.used.lock().unwrap(), ["s 2027-01-15"]);
    let marked = value!({"kubernetes.io/legacy-token-last-used": "2027-01-15"});
    let marked = world(Some(secret(&token, marked)));
    assert!(review(method(P256, marked.clone()).1, &token, NOW).await.is_ok());
    assert!(marked.used.lock().unwrap().is_empty());
    for (secret, token, want) in [
        (None, token.clone(), "Token has been invalidated".to_string()),
        (Some(secret("other", value!({}))), token.clone(), "Token does not match server's copy".to_string()),
        (
            Some(secret(&token, value!({}))),
            issuer.issue(Claims { sub: "system:serviceaccount:ns:x".into(), ..said }).await.unwrap(),
            "sub claim is invalid".to_string(),
        ),
    ] {
        let answer = review(method(P256, world(secret)).1, &token, NOW).await;
        assert_eq!(answer, Err(format!("[invalid bearer token, {want}]")));
    }
}

#[test]
fn keys_are_told_apart() {
    let pem = SigningKey::generate().unwrap();
    let keys = read_public_keys(format!("{pem}{P256}").as_bytes()).unwrap();
    assert_eq!(keys.iter().map(|key| key.algorithm().name()).collect::<Vec<_>>(), ["RS256", "ES256"]);
    let set: serde_json::Value = serde_json::from_str(&key_set(&keys)).unwrap();
    assert_eq!(set["keys"][0]["e"], "AQAB");
    assert_eq!(set["keys"][1]["crv"], "P-256");
    assert!(matches!(read_public_keys(b"nothing"), Err(KeyError::NoPublicKey)));
    assert!(matches!(SigningKey::parse(b"nothing"), Err(KeyError::NoPrivateKey)));
}
