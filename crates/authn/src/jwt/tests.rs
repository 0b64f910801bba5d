//! Tokens of an issuer that really runs, with keys that rotate, and of one that lies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;
use crate::configuration::{Anonymous, validate};
use crate::keys::{SigningKey, key_set};
use crate::testing::{Answer, HttpsServer};

const NOW: i64 = 1_800_000_000;

fn new_key() -> Arc<SigningKey> {
    Arc::new(SigningKey::parse(SigningKey::generate().unwrap().as_bytes()).unwrap())
}

/// An issuer, the keys that it publishes and the bearer tokens of its endpoint for distributed claims.
struct Issuer {
    server: HttpsServer,
    keys: Arc<Mutex<Vec<Arc<SigningKey>>>>,
}

impl Issuer {
    async fn start(key: Arc<SigningKey>) -> Issuer {
        let keys = Arc::new(Mutex::new(vec![key]));
        let server = HttpsServer::start(|_, _| None).await;
        let issuer = Issuer { server, keys };
        issuer.serve("");
        issuer
    }

    /// Publishes the keys, to be kept as `caching` says.
    fn serve(&self, caching: &'static str) {
        let (url, keys) = (self.server.url(), self.keys.clone());
        self.server.answer(move |path, _| {
            let json = |body: String| -> Answer {
                let media = ("content-type", "application/json".to_string());
                Some((200, vec![media, ("cache-control", caching.to_string())], body.into_bytes()))
            };
            match path {
                "/.well-known/openid-configuration" => {
                    json(format!("{{\"issuer\":\"{url}\",\"jwks_uri\":\"{url}/keys\"}}"))
                }
                "/keys" => {
                    let keys = keys.lock().unwrap();
                    json(key_set(&keys.iter().map(|key| key.public().clone()).collect::<Vec<_>>()))
                }
                _ => Some((404, Vec::new(), b"not here".to_vec())),
            }
        });
    }

    fn configuration(&self, more: &str) -> AuthenticationConfiguration {
        let authority = self.server.authority.replace('\n', "\n        ");
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {}\n    \
             audiences: [api]\n    certificateAuthority: |\n        {authority}\n{more}",
            self.server.url()
        );
        AuthenticationConfiguration::read(text.as_bytes()).unwrap()
    }

    async fn believed(&self, more: &str) -> JwtIssuers {
        let issuers = JwtIssuers::new(&self.configuration(more), options()).unwrap();
        let provider = issuers.current.load()[0].provider.clone();
        provider.healthy(Duration::from_secs(20)).await.unwrap();
        issuers
    }

    /// A token with these claims besides the usual ones.
    fn token(&self, key: &SigningKey, more: &str) -> String {
        let claims = format!("{{\"iss\":\"{}\",\"aud\":\"api\",\"exp\":{},{more}}}", self.server.url(), NOW + 60);
        let header = format!("{{\"alg\":\"{}\",\"kid\":\"{}\"}}", key.public().algorithm().name(), key.public().id());
        signed(key, &header, &claims)
    }
}

fn signed(key: &SigningKey, header: &str, claims: &str) -> String {
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(key.sign(text.as_bytes()).unwrap()))
}

fn options() -> JwtOptions {
    JwtOptions {
        algorithms: ALGORITHMS.map(str::to_string).to_vec(),
        disallowed_issuers: vec!["https://kubernetes.default.svc".into()],
        egress_selectors: true,
        egress: None,
        meters: Arc::new(JwtMeters::new("apiserver-1")),
    }
}

async fn identify(issuers: &JwtIssuers, token: &str) -> Result<Option<Identity>, String> {
    issuers.identify(&Token { text: token, audiences: &[], now: NOW }).await.map_err(|why| why.to_string())
}

const BY_SUB: &str =
    "  claimMappings:\n    username: {claim: sub, prefix: \"oidc:\"}\n    groups: {claim: groups, prefix: \"\"}\n";

#[tokio::test]
async fn tokens_are_believed_while_their_keys_rotate() {
    let (first, second) = (new_key(), new_key());
    let issuer = Issuer::start(first.clone()).await;
    let issuers = issuer.believed(BY_SUB).await;
    let ann = issuer.token(&first, "\"sub\":\"ann\",\"groups\":[\"devs\"],\"jti\":\"7\"");
    let identity = identify(&issuers, &ann).await.unwrap().unwrap();
    assert_eq!((identity.user.name.as_str(), identity.user.groups.join(",")), ("oidc:ann", "devs".to_string()));
    assert_eq!(identity.user.extra, [(crate::CREDENTIAL_ID.to_string(), vec!["JTI=7".to_string()])]);
    assert_eq!(issuer.server.count("/keys"), 1);
    // The keys are kept: the issuer is not asked again.
    identify(&issuers, &issuer.token(&first, "\"sub\":\"bob\"")).await.unwrap().unwrap();
    assert_eq!(issuer.server.count("/keys"), 1);
    // A key that is not known is looked for, by all who need it at once.
    *issuer.keys.lock().unwrap() = vec![second.clone()];
    issuer.serve("max-age=3600");
    let new = issuer.token(&second, "\"sub\":\"eve\"");
    let (one, other) = tokio::join!(identify(&issuers, &new), identify(&issuers, &new));
    assert!(one.unwrap().is_some() && other.unwrap().is_some());
    assert!(issuer.server.count("/keys") <= 3, "{:?}", issuer.server.asked.lock().unwrap());
    // The old key is gone, and what the issuer said about caching keeps us from asking again.
    let asked = issuer.server.count("/keys");
    let refused = identify(&issuers, &ann).await.unwrap_err();
    assert_eq!(refused, "oidc: verify token: failed to verify signature: failed to verify id token signature");
    assert_eq!(issuer.server.count("/keys"), asked);
    let mut metrics = String::new();
    issuers.options.meters.write(&mut metrics).unwrap();
    assert!(metrics.contains("jwks_fetch_last_key_set_info{apiserver_id_hash=\"sha256:"), "{metrics}");
}

#[tokio::test]
async fn issuers_that_fail_and_lie() {
    let key = new_key();
    let issuer = Issuer::start(key.clone()).await;
    let issuers = issuer.believed(BY_SUB).await;
    let token = issuer.token(&key, "\"sub\":\"ann\"");
    for (status, body, want) in [
        (500, "down", "oidc: get keys failed: 500 Internal Server Error down"),
        (200, "<html>", "oidc: failed to decode keys: expected Content-Type = application/json, got \"\": "),
        (200, "{\"keys\":[{\"kty\":\"odd\"}]}", "go-jose/go-jose: unknown json web key type 'odd'"),
    ] {
        issuer.server.answer(move |_, _| Some((status, Vec::new(), body.as_bytes().to_vec())));
        let refused = identify(&issuers, &token).await.unwrap_err();
        assert!(refused.contains(want), "{refused}");
    }
    let big = vec![b' '; keyset::DOCUMENT_BYTES_MAX + 1];
    issuer.server.answer(move |_, _| Some((200, Vec::new(), big.clone())));
    let refused = identify(&issuers, &token).await.unwrap_err();
    assert!(
        refused.starts_with("oidc: verify token: failed to verify signature: fetching keys oidc: get keys failed"),
        "{refused}"
    );
    issuer.server.answer(|_, _| None);
    assert!(identify(&issuers, &token).await.is_err());
    issuer.serve("");
    assert!(identify(&issuers, &token).await.unwrap().is_some(), "an issuer that comes back is believed again");
    // Keys that were good stay in use.
    issuer.server.answer(|_, _| None);
    assert!(identify(&issuers, &token).await.unwrap().is_some());

    let other = HttpsServer::start(|_, _| None).await;
    let url = other.url();
    other.answer(move |_, _| {
        Some((200, Vec::new(), format!("{{\"issuer\":\"{url}/x\",\"jwks_uri\":\"a\"}}").into_bytes()))
    });
    let liar = Issuer { server: other, keys: Arc::default() };
    let issuers = JwtIssuers::new(&liar.configuration(BY_SUB), options()).unwrap();
    let provider = issuers.current.load()[0].provider.clone();
    let why = provider.healthy(Duration::from_secs(1)).await.unwrap_err();
    assert!(why.contains("oidc: issuer did not match the issuer returned by provider, expected "), "{why}");
    let refused = identify(&issuers, &liar.token(&key, "\"sub\":\"ann\"")).await.unwrap_err();
    assert_eq!(refused, "oidc: authenticator not initialized");
}

#[tokio::test]
async fn tokens_that_are_not_believed() {
    let (key, stranger) = (new_key(), new_key());
    let issuer = Issuer::start(key.clone()).await;
    let issuers = issuer.believed(BY_SUB).await;
    let url = issuer.server.url();
    let id = key.public().id();
    let claims = |more: &str| format!("{{\"iss\":\"{url}\",\"sub\":\"ann\",{more}}}");
    let header = format!("{{\"alg\":\"RS256\",\"kid\":\"{id}\"}}");
    let good = claims(&format!("\"aud\":\"api\",\"exp\":{}", NOW + 1));
    let make = |header: &str, claims: &str| signed(&key, header, claims);
    let hmac = |claims: &str| {
        // Signed with the public key as if it were a shared secret.
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode("{\"alg\":\"HS256\"}"), URL_SAFE_NO_PAD.encode(claims));
        let secret =
            aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key_set(&[key.public().clone()]).as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(aws_lc_rs::hmac::sign(&secret, text.as_bytes())))
    };
    let supported = "[\"ES256\" \"ES384\" \"ES512\" \"PS256\" \"PS384\" \"PS512\" \"RS256\" \"RS384\" \"RS512\"]";
    for (token, want) in [
        (hmac(&good), format!("unsupported algorithm, expected {supported} got \"HS256\"")),
        (
            format!("{}.{}.", URL_SAFE_NO_PAD.encode("{\"alg\":\"none\"}"), URL_SAFE_NO_PAD.encode(&good)),
            format!("unsupported algorithm, expected {supported} got \"none\""),
        ),
        (signed(&stranger, &header, &good), "failed to verify id token signature".into()),
        (make(&header.replace("RS256", "ES256"), &good), "failed to verify id token signature".into()),
        (
            make(&format!("{},\"crit\":[\"x\"]}}", header.trim_end_matches('}')), &good),
            "failed to verify id token signature".into(),
        ),
        (
            make(&header.replacen('{', "{\"alg\":\"none\",", 1), &good),
            "oidc: malformed jwt: json: duplicate key 'alg' in object".into(),
        ),
        (
            make(&header.replacen('{', "{\"crit\":[\"b64\"],\"b64\":false,", 1), &good),
            "failed to verify id token signature".into(),
        ),
        (
            make(&header, &claims("\"aud\":\"api\",\"exp\":1")),
            "oidc: token is expired (Token Expiry: 1970-01-01 00:00:01 +0000 UTC)".into(),
        ),
        (
            make(&header, &claims("\"aud\":\"api\"")),
            "oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)".into(),
        ),
        (
            make(&header, &good.replace("\"api\"", "[\"x\",\"y\"]")),
            "oidc: expected audience \"api\" got [\"x\" \"y\"]".into(),
        ),
        (
            make(&header, &claims(&format!("\"aud\":\"api\",\"exp\":{0},\"nbf\":{0}", NOW + 3600))),
            "before the nbf (not before) time".into(),
        ),
        (
            make(&header, &claims(&format!("\"aud\":\"api\",\"exp\":{},\"nonce\":1", NOW + 1))),
            "cannot unmarshal number".into(),
        ),
        (
            make(&header, &good.replace("\"sub\":\"ann\"", "\"x\":1")),
            "oidc: parse username claims \"sub\": claim not present".into(),
        ),
    ] {
        let refused = identify(&issuers, &token).await.unwrap_err();
        assert!(refused.contains(&want), "{refused}\nwant {want}");
    }
    for unknown in
        ["", "a.b.c", "x", &make(&header, &good.replace(&url, "https://other")), &format!("{}.x", make(&header, &good))]
    {
        assert_eq!(identify(&issuers, unknown).await, Ok(None), "{unknown}");
    }
}

#[tokio::test]
async fn expressions_make_users() {
    let key = new_key();
    let issuer = Issuer::start(key.clone()).await;
    let rules = "  claimMappings:
    username: {expression: \"'u-' + claims.name\"}
    groups: {expression: \"(claims.roles.split(',') + claims.other_roles.split(',')).map(role, 'g-' + role)\"}
    uid: {expression: \"claims.ids.user__dash__id\"}
    extra:
    - {key: example.org/n, valueExpression: \"claims.n == 1.0 ? 'one' : 'more'\"}
    - {key: example.org/none, valueExpression: \"''\"}
  claimValidationRules:
  - {claim: hd, requiredValue: example.com}
  - {expression: \"claims.n < 5.0\", message: n is too large}
  userValidationRules:
  - {expression: \"!user.username.startsWith('u-system:')\", message: reserved}
  - {expression: \"user.groups.all(group, group != 'g-root') && size(user.extra) > 0\"}
";
    let issuers = issuer.believed(rules).await;
    let claims = |n: i64, name: &str| {
        format!(
            "\"name\":\"{name}\",\"roles\":\"a,b\",\"other_roles\":\"c\",\"ids\":{{\"user-id\":\"7\"}},\"n\":{n},\"hd\":\"example.com\""
        )
    };
    let user = identify(&issuers, &issuer.token(&key, &claims(1, "ann"))).await.unwrap().unwrap().user;
    assert_eq!((user.name.as_str(), user.uid.as_str(), user.groups.join(" ")), ("u-ann", "7", "g-a g-b g-c".into()));
    assert_eq!(user.extra, [("example.org/n".to_string(), vec!["one".to_string()])]);
    for (claims, want) in [
        (
            claims(9, "ann"),
            "oidc: error evaluating claim validation expression: validation expression 'claims.n < 5.0' failed: n is too large",
        ),
        (
            claims(1, "system:x"),
            "oidc: error evaluating user info validation rule: validation expression '!user.username.startsWith('u-system:')' failed: reserved",
        ),
        (
            claims(1, "ann").replace("example.com", "x.com"),
            "oidc: required claim hd value does not match. Got = x.com, want = example.com",
        ),
        (claims(1, "ann").replace("\"hd\"", "\"he\""), "oidc: required claim hd not present in ID token"),
        (
            claims(1, "ann").replace("\"name\"", "\"nome\""),
            "oidc: error evaluating username claim expression: expression ''u-' + claims.name' resulted in error: no such key: name",
        ),
    ] {
        let refused = identify(&issuers, &issuer.token(&key, &claims)).await.unwrap_err();
        assert_eq!(refused, want);
    }
}

#[tokio::test]
async fn a_new_configuration_needs_its_issuers() {
    let key = new_key();
    let issuer = Issuer::start(key.clone()).await;
    let issuers = issuer.believed(BY_SUB).await;
    let token = issuer.token(&key, "\"sub\":\"ann\",\"name\":\"x\"");
    let other = BY_SUB.replace("claim: sub", "claim: name");
    issuers.replace(&issuer.configuration(&other), Duration::from_secs(20)).await.unwrap();
    assert_eq!(identify(&issuers, &token).await.unwrap().unwrap().user.name, "oidc:x");
    let gone = Issuer::start(key).await;
    gone.server.answer(|_, _| Some((503, Vec::new(), b"later".to_vec())));
    let why = issuers.replace(&gone.configuration(BY_SUB), Duration::from_millis(500)).await.unwrap_err();
    assert!(why.contains("is not healthy: 503 Service Unavailable: later"), "{why}");
    assert_eq!(identify(&issuers, &token).await.unwrap().unwrap().user.name, "oidc:x");
    issuers.replace(&AuthenticationConfiguration::default(), Duration::from_secs(1)).await.unwrap();
    assert_eq!(identify(&issuers, &token).await, Ok(None));
}

#[tokio::test]
async fn groups_may_be_kept_elsewhere() {
    let key = new_key();
    let issuer = Issuer::start(key.clone()).await;
    let groups = issuer.token(&key, "\"groups\":[\"far\"]");
    let (url, keys) = (issuer.server.url(), key_set(&[key.public().clone()]));
    let bearer = groups.clone();
    issuer.server.answer(move |path, _| {
        let body = match path {
            "/.well-known/openid-configuration" => format!("{{\"issuer\":\"{url}\",\"jwks_uri\":\"{url}/keys\"}}"),
            "/keys" => keys.clone(),
            _ => bearer.clone(),
        };
        Some((200, Vec::new(), body.into_bytes()))
    });
    let issuers = issuer.believed(BY_SUB).await;
    let source = |url: &str| {
        format!(
            "\"sub\":\"ann\",\"_claim_names\":{{\"groups\":\"s\"}},\"_claim_sources\":{{\"s\":{{\"endpoint\":\"{url}\"}}}}"
        )
    };
    let token = issuer.token(&key, &source(&format!("{}/claims", issuer.server.url())));
    // The first token that needs an issuer of claims makes the server look for it.
    let refused = identify(&issuers, &token).await.unwrap_err();
    assert!(refused.contains("verifier not initialized for issuer"), "{refused}");
    let provider = issuers.current.load()[0].resolver.as_ref().unwrap().provider(&issuer.server.url()).unwrap();
    provider.healthy(Duration::from_secs(20)).await.unwrap();
    assert_eq!(identify(&issuers, &token).await.unwrap().unwrap().user.groups, ["far"]);
}

#[test]
fn configurations_are_validated() {
    let valid = "issuer: {url: https://a, audiences: [x]}\n  claimMappings: {username: {claim: sub, prefix: ''}}";
    let check = |jwt: &str, want: &str| {
        let text =
            format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt:\n- {jwt}\n");
        let configuration = AuthenticationConfiguration::read(text.as_bytes()).unwrap();
        let errors = validate(&configuration, &["https://kubernetes.default.svc".to_string()], true);
        assert_eq!(if errors.is_empty() { String::new() } else { errors.aggregate() }, want, "{jwt}");
    };
    check(valid, "");
    let with = |from: &str, to: &str| valid.replace(from, to);
    for (jwt, want) in [
        (with("https://a", "http://a"), "jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https"),
        (
            with("https://a", "https://u:p@a"),
            "jwt[0].issuer.url: Invalid value: \"https://u:p@a\": URL must not contain a username or password",
        ),
        (
            with("https://a", "https://kubernetes.default.svc"),
            "jwt[0].issuer.url: Invalid value: \"https://kubernetes.default.svc\": URL must not overlap with disallowed issuers: [https://kubernetes.default.svc]",
        ),
        (
            with("audiences: [x]", "audiences: []"),
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (
            with("audiences: [x]", "audiences: [x, z]"),
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            with("[x]", "[x], discoveryURL: https://a/"),
            "jwt[0].issuer.discoveryURL: Invalid value: \"https://a/\": discoveryURL must be different from URL",
        ),
        (
            with("[x]", "[x], egressSelectorType: etcd"),
            "jwt[0].issuer.egressSelectorType: Invalid value: \"etcd\": egress selector must be either controlplane or cluster",
        ),
        (
            with(", prefix: ''", ""),
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
        ),
        (
            with("{claim: sub, prefix: ''}", "{expression: claims.email}"),
            "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression",
        ),
        (
            with("{username", "{extra: [{key: k8s.io/x, valueExpression: '1'}], username"),
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"k8s.io/x\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ),
        (
            format!("{valid}\n  claimValidationRules: [{{expression: claims.a}}]"),
            "jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.a\": must evaluate to bool",
        ),
        (format!("{valid}\n  userValidationRules: [{{}}]"), "jwt[0].userValidationRules[0].expression: Required value"),
    ] {
        check(&jwt, want);
    }
    check(&format!("{valid}\n- {valid}"), "jwt[1].issuer.url: Duplicate value: \"https://a\"");
    let anonymous = Anonymous { enabled: false, paths: vec!["/livez".into()] };
    let configuration = AuthenticationConfiguration { anonymous: Some(anonymous), ..Default::default() };
    let want = "anonymous.conditions: Invalid value: [{\"Path\":\"/livez\"}]: enabled should be set to true when conditions are defined";
    assert_eq!(validate(&configuration, &[], true).aggregate(), want);
}

/// The form that a token endpoint got, and an issuer that answers it with this.
async fn exchange(answer: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) -> Result<String, String> {
    let server = HttpsServer::start(|_, _| None).await;
    let url = server.url();
    let document = format!(
        "{{\"issuer\":\"{url}\",\"jwks_uri\":\"{url}/keys\",\"authorization_endpoint\":\"{url}/auth\",\
         \"token_endpoint\":\"{url}/token\"}}"
    );
    server.answer(move |path, body| match path {
        "/token" => answer(body),
        _ => Some((200, vec![("content-type", "application/json".into())], document.clone().into_bytes())),
    });
    let issuer = Issuer { server, keys: Arc::default() };
    let issuers = issuer.believed(BY_SUB).await;
    let url = issuer.server.url();
    let offered = issuers.sign_ins();
    assert_eq!((offered.len(), offered[0].client_id.as_str()), (1, "api"));
    let elsewhere = IssuedCode { issuer: "https://other", code: "", verifier: "", nonce: "", redirect_uri: "" };
    assert!(issuers.exchange(&elsewhere).await.unwrap_err().contains("cannot sign in"));
    let redirect_uri = "https://server/console/";
    issuers.exchange(&IssuedCode { issuer: &url, code: "c&d", verifier: "v", nonce: "n", redirect_uri }).await
}

#[tokio::test]
async fn codes_are_exchanged_for_tokens_of_the_page_that_asked() {
    let key = new_key();
    let token = |nonce: &str| signed(&key, "{\"alg\":\"ES256\"}", &format!("{{\"nonce\":\"{nonce}\"}}"));
    let json = |body: String| -> Answer { Some((200, Vec::new(), body.into_bytes())) };
    let (good, other) = (token("n"), token("m"));
    let want = good.clone();
    let got = exchange(move |body| {
        let form = "grant_type=authorization_code&client_id=api&code=c%26d&code_verifier=v\
                    &redirect_uri=https%3A%2F%2Fserver%2Fconsole%2F";
        assert_eq!(String::from_utf8_lossy(body), form);
        Some((200, Vec::new(), format!("{{\"id_token\":\"{good}\",\"access_token\":\"x\"}}").into_bytes()))
    });
    assert_eq!(got.await, Ok(want));
    let refused: [(Answer, &str); 6] = [
        (json(format!("{{\"id_token\":\"{other}\"}}")), "the ID token was not issued for this page"),
        (json("{\"access_token\":\"x\"}".into()), "the issuer's answer has no ID token"),
        (json("<html>".into()), "the issuer's answer is not JSON"),
        (
            Some((400, Vec::new(), b"{\"error\":\"invalid_grant\",\"error_description\":\"no\\n\"}".to_vec())),
            "the issuer refuses the code with 400: \"invalid_grant no\"",
        ),
        (
            Some((302, vec![("location", "https://elsewhere/".into())], Vec::new())),
            "the issuer refuses the code with 302: \"\"",
        ),
        (json(" ".repeat(300 * 1024)), "large"),
    ];
    for (answer, want) in refused {
        let why = exchange(move |_| answer.clone()).await.unwrap_err();
        assert!(why.contains(want), "{why}");
    }
}
