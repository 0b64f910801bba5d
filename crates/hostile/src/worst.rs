//! The most expensive requests that fit into the size limit: lists and maps as long as a body can hold.

use bytes::Bytes;

/// One request, sent again and again.
pub struct Worst {
    pub what: &'static str,
    pub method: &'static str,
    pub path: &'static str,
    pub content_type: &'static str,
    pub body: Bytes,
}

const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";
const MAPS: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";
const APPLIED: &str = "/api/v1/namespaces/default/configmaps/worst?fieldManager=worst&dryRun=All";
/// A request that every authenticated user may send.
const REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The requests of the load test.
pub fn requests() -> Vec<Worst> {
    let json = "application/json";
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join(",");
    let map = |metadata: String| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"worst",{metadata}}}}}"#)
    };
    let pod = |spec: String| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"worst"}},"spec":{{"containers":[{{"name":"c","image":"x"}}],{spec}}}}}"#
        )
    };
    let owner = |at| format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"o{at}","uid":"u{at}"}}"#);
    let spread = |at| {
        format!(r#"{{"maxSkew":1,"topologyKey":"k{at}","whenUnsatisfiable":"DoNotSchedule","labelSelector":{{}}}}"#)
    };
    let alias =
        |at: usize| format!(r#"{{"ip":"10.{}.{}.{}","hostnames":["h"]}}"#, at >> 16 & 255, at >> 8 & 255, at & 255);
    let duplicates: String = (0..30_000).map(|at| format!("k{}: 1\nk{}: 2\n", at, at)).collect();
    let post =
        |what, path, content_type, body: String| Worst { what, method: "POST", path, content_type, body: body.into() };
    vec![
        post("owner references", MAPS, json, map(format!(r#""ownerReferences":[{}]"#, many(20_000, &owner)))),
        post("labels", MAPS, json, map(format!(r#""labels":{{{}}}"#, many(100_000, &|at| format!(r#""k{at}":"v""#))))),
        post(
            "topology spread constraints",
            PODS,
            json,
            pod(format!(r#""topologySpreadConstraints":[{}]"#, many(20_000, &spread))),
        ),
        post("host aliases", PODS, json, pod(format!(r#""hostAliases":[{}]"#, many(60_000, &alias)))),
        post("duplicate keys in YAML", REVIEW, "application/yaml", duplicates),
        Worst {
            what: "finalizers by apply",
            method: "PATCH",
            path: APPLIED,
            content_type: "application/apply-patch+yaml",
            body: map(format!(r#""finalizers":[{}]"#, many(100_000, &|at| format!(r#""a.b/f{at}""#)))).into(),
        },
        Worst {
            what: "a long JSON patch",
            method: "PATCH",
            path: "/api/v1/namespaces/default?dryRun=All",
            content_type: "application/json-patch+json",
            body: format!(
                "[{}]",
                many(10_000, &|at| format!(r#"{{"op":"add","path":"/metadata/labels/k{at}","value":"x"}}"#))
            )
            .into(),
        },
        Worst {
            what: "a selector with many terms",
            method: "GET",
            path: "/api/v1/pods?labelSelector=a+in+(b,c,d),e!=f,g,!h,i+notin+(j,k)",
            content_type: json,
            body: Bytes::new(),
        },
    ]
}
