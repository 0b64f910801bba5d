//! Requests made of pieces that are nearly right, into the router, the options, selectors, continue tokens, patches and managed
//! fields: each is answered, none by a panic or with an internal error.
//!
//! `FERROKUBE_FUZZ_SECONDS` says how long to try, a couple by default, `FERROKUBE_FUZZ_SEED` where to start.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use bytes::Bytes;
use object::value;
use rest::Body;
use support::{Server, ask_with};

#[allow(clippy::disallowed_methods)]
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// The text; one of four times with a few characters removed, doubled or added.
    fn bent(&mut self, text: &str) -> String {
        if self.below(4) > 0 {
            return text.to_string();
        }
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + self.below(3) {
            let at = self.below(chars.len());
            match self.below(4) {
                0 if !chars.is_empty() => drop(chars.remove(at)),
                1 if !chars.is_empty() => chars.insert(at, chars[at]),
                2 => chars.insert(
                    at,
                    *['/', '=', '%', ',', '!', '(', '"', '\u{0}', 'é', '-', '9'].get(self.below(11)).unwrap(),
                ),
                _ => {}
            }
        }
        chars.into_iter().collect()
    }
}

const METHODS: &[&str] =
    &["GET", "GET", "GET", "POST", "PUT", "DELETE", "MERGE", "JSON", "STRATEGIC", "APPLY", "HEAD", "OPTIONS"];
const PATHS: &[&str] = &[
    "/api/v1/namespaces/ns/configmaps",
    "/api/v1/namespaces/ns/configmaps/m0",
    "/api/v1/configmaps",
    "/api/v1/watch/namespaces/ns/configmaps/m0",
    "/api/v1/namespaces/ns/pods/p/status",
    "/api/v1/namespaces/ns/replicationcontrollers/r/scale",
    "/api/v1/namespaces/ns",
    "/api/v1/nodes/n/proxy/x",
    "/apis/apps/v1/deployments",
];
const PARAMETERS: &[(&str, &[&str])] = &[
    ("labelSelector", &["a=b", "a in (b,c),!d", "a notin (x)", "a>1", "k8s.io/name==x", "(", "a=b,a!=b"]),
    ("fieldSelector", &["metadata.name=m0", "metadata.namespace!=ns", "spec.x=1", "metadata.name=a\\,b", "="]),
    ("limit", &["1", "0", "-1", "9223372036854775807", "x"]),
    (
        "continue",
        &[
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJuc1wvbTBcdTAwMDAifQ",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4ifQ",
            "e30",
            "x",
        ],
    ),
    ("resourceVersion", &["0", "1", "3", "99999999", "-1", "18446744073709551616"]),
    ("resourceVersionMatch", &["Exact", "NotOlderThan", "x"]),
    ("timeoutSeconds", &["0", "1", "9223372036854775807"]),
    ("fieldManager", &["a", "", "a\u{7f}"]),
    ("force", &["true", "x"]),
    ("dryRun", &["All", "x"]),
    ("fieldValidation", &["Strict", "Warn", "Ignore", "x"]),
    ("includeObject", &["None", "Object", "x"]),
    ("pretty", &["true"]),
];
const ACCEPTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/cbor",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io, */*",
    "a/b;q=x",
];
const BODIES: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m0","labels":{"a":"b"}},"data":{"k":"v"}}"#,
    r#"{"metadata":{"managedFields":[{"manager":"a","operation":"Apply","apiVersion":"v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{},"k:{\\"a\\":1}":{},"v:1":{},"i:0":{}}}}]}}"#,
    r#"{"metadata":{"managedFields":[{}],"ownerReferences":[{"uid":"x"}],"finalizers":["a/b"]},"data":{"k":null}}"#,
    r#"[{"op":"add","path":"/data/x~1y","value":"z"},{"op":"copy","from":"/data","path":"/data/k"},{"op":"test","path":"","value":1}]"#,
    r#"{"data":{"$patch":"replace","k":"w"},"$setElementOrder/x":[],"$retainKeys":["data"],"$deleteFromPrimitiveList/finalizers":["a"]}"#,
    r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x","resourceVersion":"1"},"propagationPolicy":"Orphan","gracePeriodSeconds":-5}"#,
    "",
];

#[tokio::test]
async fn every_request_is_answered() {
    let server = Server::new(Vec::new()).await;
    let mut random = Random(setting("FERROKUBE_FUZZ_SEED", 0x5eed_f00d) | 1);
    let end = Instant::now() + Duration::from_secs(setting("FERROKUBE_FUZZ_SECONDS", 2));
    let mut answered = [0u64; 6];
    for step in 0.. {
        if Instant::now() >= end {
            break;
        }
        // Random requests delete them again and again.
        if step % 20 == 0 {
            for name in ["m0", "m1", "m2"] {
                let map = value!({"metadata": {"name": name, "labels": {"a": "b"}}, "data": {"k": "v"}});
                assert!([201, 409].contains(&server.ask("POST", PATHS[0], map).await.0));
            }
        }
        let (request, code, body) = one(&server, &mut random).await;
        let text = String::from_utf8_lossy(&body);
        // Upstream has a 500 of its own for some mistakes, but none of them is called an internal error.
        assert!(!text.contains("Internal error occurred"), "{request}: {code} {text}");
        answered[usize::from(code / 100).min(5)] += 1;
    }
    println!("2xx {} 4xx {} 5xx {}", answered[2], answered[4], answered[5]);
    assert!(answered[2] * 100 > answered[4], "too few requests succeed for a test of what they do: {answered:?}");
}

/// One request, bent here and there.
async fn one(server: &Server, random: &mut Random) -> (String, u16, Bytes) {
    let method = random.of(METHODS);
    let path = random.of(PATHS);
    let path = random.bent(path);
    let parameters: Vec<String> = (0..random.below(4))
        .map(|_| {
            let (name, values) = PARAMETERS[random.below(PARAMETERS.len())];
            let value = random.of(values);
            format!("{name}={}", random.bent(value))
        })
        .collect();
    let url = format!("{path}?{}", parameters.join("&"));
    let body = random.of(BODIES);
    let body = random.bent(body);
    let accept = random.of(ACCEPTS);
    let request = format!("{method} {url} {accept} {body}");
    // Watches do not end by themselves.
    let answer = async {
        let (code, _, body) = ask_with(&server.0, method, &url, Body::Ready(body.into()), accept).await;
        (code, body)
    };
    let (code, body) = tokio::time::timeout(Duration::from_millis(200), answer).await.unwrap_or((200, Bytes::new()));
    (request, code, body)
}
