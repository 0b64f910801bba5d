//! What clients see, held to what a real server answered.

use std::fmt::Write;

use object::GroupVersion;

use crate::testing::{Server, catalog, crontabs, recorded};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn plain_documents_are_those_of_a_real_server() {
    let recorded = recorded("discovery/unaggregated.json");
    let server = Server::new(catalog(false));
    let paths = recorded.as_object().unwrap();
    assert!(paths.len() > 40, "{} paths", paths.len());
    for (path, want) in paths {
        let answer = server.get(path, &[]).await;
        assert_eq!((answer.code, answer.json()), (200, want.clone()), "{path}");
    }
}

#[tokio::test]
async fn aggregated_documents_are_those_of_a_real_server() {
    for (file, all) in [("discovery/aggregated.json", false), ("all-apis/discovery-aggregated.json", true)] {
        let recorded = recorded(file);
        let server = Server::new(catalog(all));
        for path in ["/api", "/apis"] {
            let answer = server.get(path, &[("accept", AGGREGATED)]).await;
            assert_eq!(answer.json(), recorded[path], "{file} {path}");
        }
    }
}

#[tokio::test]
async fn bytes_and_hashes_are_upstreams() {
    let server = Server::new(catalog(false));
    let check = |answer: crate::testing::Answer, want: &str| assert_eq!(answer.text(), want);
    check(
        server.get("/api", &[]).await,
        "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":\
         [{\"clientCIDR\":\"0.0.0.0/0\",\"serverAddress\":\"192.0.2.2:6443\"}]}\n",
    );
    check(
        server.get("/apis/autoscaling", &[]).await,
        "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"autoscaling\",\"versions\":\
         [{\"groupVersion\":\"autoscaling/v2\",\"version\":\"v2\"},{\"groupVersion\":\"autoscaling/v1\",\"version\":\
         \"v1\"}],\"preferredVersion\":{\"groupVersion\":\"autoscaling/v2\",\"version\":\"v2\"}}\n",
    );
    check(
        server.get("/apis/node.k8s.io/v1", &[]).await,
        "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"node.k8s.io/v1\",\"resources\":[{\
         \"name\":\"runtimeclasses\",\"singularName\":\"runtimeclass\",\"namespaced\":false,\"kind\":\"RuntimeClass\",\
         \"verbs\":[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"],\
         \"storageVersionHash\":\"WQTu1GL3T2Q=\"}]}\n",
    );
    // The tag that v1.37.1 sends for /api.
    let answer = server.get("/api", &[("accept", AGGREGATED)]).await;
    let want = "\"4D7E1BED90B364BC86049DD9E636494980AEF65B7F8CFAA267616FA062B514A8A3CC2C2851CC9337B8D28B4C80960E235\
                3DE5E0B152E87CC223E02EA3C5C37AC\"";
    assert_eq!(answer.header("etag"), want);
    assert_eq!(answer.header("vary"), "Accept");
    assert_eq!(answer.header("cache-control"), "public");
    assert_eq!(answer.header("content-type"), AGGREGATED);
    let answer = server.get("/api", &[("accept", AGGREGATED), ("if-none-match", want)]).await;
    assert_eq!((answer.code, answer.body.len(), answer.header("content-type")), (304, 0, ""));
}

#[tokio::test]
async fn protobuf_has_the_type_in_front() {
    let server = Server::new(catalog(false));
    let proto = [("accept", "application/vnd.kubernetes.protobuf")];
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut out, byte| {
            write!(out, "{byte:02x}").unwrap();
            out
        })
    };
    let api = server.get("/api", &proto).await;
    let want = "6b3873000a0f0a00120b41504956657273696f6e7312210a02763112\
                1b0a09302e302e302e302f30120e3139322e302e322e323a363434331a002200";
    assert_eq!(hex(&api.body), want);
    let apps = server.get("/apis/apps", &proto).await;
    let want = "6b3873000a0e0a0276311208415049\
                47726f757012240a0461707073120d0a07617070732f7631120276311a0d0a07617070732f7631120276311a002200";
    assert_eq!(hex(&apps.body), want);
}

/// What to ask, what the media type and the beginning of the answer are; `raw` stands for an indented Status.
#[tokio::test]
async fn requests_are_negotiated_as_upstream_does() {
    let server = Server::new({
        let mut catalog = catalog(false);
        catalog.insert(crontabs("v1"));
        catalog
    });
    let ours = "only the following media types are accepted: application/json, application/yaml, \
                application/vnd.kubernetes.protobuf";
    let routers = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";
    let custom = "/apis/stable.example.com/v1";
    let cases: &[(&str, &str, &str, u16, &str)] = &[
        ("GET", "/api/", "", 200, "{\"kind\":\"APIVersions\""),
        ("GET", "/api/v1/", "", 200, "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\""),
        ("GET", "/apis/", "", 200, "{\"kind\":\"APIGroupList\""),
        ("GET", "/apis/apps/", "", 200, "{\"kind\":\"APIGroup\""),
        ("GET", "/apis/apps/v1//", "", 200, "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\""),
        ("GET", "/apis/apps?pretty=true", "", 200, "{\n  \"kind\": \"APIGroup\""),
        ("GET", "/apis/apps", "application/json;pretty=1", 200, "{\n  \"kind\": \"APIGroup\""),
        ("GET", "/api", "application/yaml", 200, "kind: APIVersions\n"),
        ("GET", "/apis/apps/v1", "application/json;q=0.5,application/yaml", 200, "apiVersion: v1\n"),
        (
            "GET",
            "/apis",
            "application/json, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            200,
            "{\"kind\":\"APIGroupDiscoveryList\"",
        ),
        (
            "GET",
            "/apis",
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
            200,
            "{\"kind\":\"APIGroupList\"",
        ),
        ("GET", "/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", 406, ours),
        ("GET", "/apis/apps", AGGREGATED, 406, ours),
        ("GET", "/api/v1", AGGREGATED, 406, ours),
        ("GET", "/apis", "text/html", 406, ours),
        ("GET", "/apis", ",", 406, ours),
        ("GET", "/apis/apps/v1", "application/json;stream=foo", 406, ours),
        ("GET", "/apis/apps/v1", "application/json;stream=watch", 200, "{\"kind\""),
        ("GET", "/api", "text/html", 406, routers),
        ("GET", "/api/v1", "application/cbor", 406, routers),
        ("GET", "/apis/apps/v1", "application/*", 406, "{\"kind\":\"Status\""),
        ("GET", custom, "text/html", 406, ours),
        ("GET", custom, "application/*", 200, "{\"kind\":\"APIResourceList\""),
        ("POST", custom, "", 200, "{\"kind\":\"APIResourceList\""),
        ("POST", "/apis", "", 200, "{\"kind\":\"APIGroupList\""),
        ("POST", "/apis/apps", "", 200, "{\"kind\":\"APIGroup\""),
        ("POST", "/api", "", 405, "{\"kind\":\"Status\""),
        ("POST", "/api/v1", AGGREGATED, 405, "the server does not allow this method on the requested resource"),
        ("HEAD", "/apis", "", 200, ""),
        ("GET", "/api/v2", "", 404, "{\"kind\":\"Status\""),
        ("GET", "/api//v1", "", 404, "{\"kind\":\"Status\""),
        ("GET", "/apis/apps/v9", "application/yaml", 404, "apiVersion: v1\ncode: 404\n"),
        ("GET", "/apis/stable.example.com/v2", "", 404, "404 page not found\n"),
        ("GET", "/apis/nope/v1", "", 404, "404 page not found\n"),
        // Left to the end of the chain.
        ("GET", "/apis/nope", "", 0, ""),
        ("GET", "//api", "", 0, ""),
        ("GET", "/openapi", "", 0, ""),
        ("GET", "/openapi/v2/", "", 0, ""),
    ];
    for (method, path, accept, code, want) in cases {
        let headers: &[(&str, &str)] = if accept.is_empty() { &[] } else { &[("accept", accept)] };
        let answer = server.ask(method, path, headers).await;
        let context = format!("{method} {path} {accept}: {}", answer.text());
        assert_eq!(answer.code, *code, "{context}");
        if answer.text().starts_with("{\n  \"kind\": \"Status\"") {
            assert_eq!(answer.json()["message"], *want, "{context}");
            assert!(!answer.text().ends_with('\n'), "{context}");
        } else {
            assert!(answer.text().starts_with(want), "{context}");
        }
    }
    let answer = server.get("/api", &[("content-type", "text/html")]).await;
    assert_eq!((answer.code, &answer.json()["message"]), (415, &"415: Unsupported Media Type".into()));
}

#[tokio::test]
async fn custom_resources_come_and_go() {
    let server = Server::new(catalog(false));
    let mentions = async |path: &str, accept: &str| {
        let headers: &[(&str, &str)] = if accept.is_empty() { &[] } else { &[("accept", accept)] };
        server.get(path, headers).await.text().contains("stable.example.com")
    };
    let places = [
        ("/apis", ""),
        ("/apis", AGGREGATED),
        ("/apis/stable.example.com", ""),
        ("/apis/stable.example.com/v1", ""),
        ("/openapi/v2", ""),
        ("/openapi/v3", ""),
        ("/openapi/v3/apis/stable.example.com/v1", ""),
    ];
    let before = server.get("/openapi/v3/apis/apps/v1", &[]).await;
    let index_before = server.get("/openapi/v3", &[]).await.json();
    for round in ["first", "second"] {
        for (path, accept) in places {
            assert!(!mentions(path, accept).await, "{round} {path} {accept}");
        }
        server.change(vec![crontabs("v1"), crontabs("v1beta1")], &[]);
        for (path, accept) in places {
            assert!(mentions(path, accept).await, "{round} {path} {accept}");
        }
        let group = server.get("/apis/stable.example.com", &[]).await.json();
        assert_eq!(group["preferredVersion"]["version"], "v1");
        assert_eq!(group["versions"][1]["version"], "v1beta1");
        assert!(server.discovery.listed().contains(&"/apis/stable.example.com/v1beta1".to_string()));
        let removed =
            ["v1", "v1beta1"].map(|version| GroupVersion::new("stable.example.com", version).with_resource("crontabs"));
        server.change(Vec::new(), &removed);
    }
    assert_eq!(server.get("/openapi/v3", &[]).await.json(), index_before);
    assert_eq!(server.get("/openapi/v3/apis/apps/v1", &[]).await.header("etag"), before.header("etag"));
}

#[tokio::test]
async fn custom_resources_are_described_as_upstream_does() {
    let server = Server::new(catalog(false));
    server.change(vec![crontabs("v1")], &[]);
    let list = server.get("/apis/stable.example.com/v1", &[]).await;
    let want = "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"stable.example.com/v1\",\
                \"resources\":[{\"name\":\"crontabs\",\"singularName\":\"crontab\",\"namespaced\":true,\"kind\":\
                \"CronTab\",\"verbs\":[\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"create\",\
                \"update\",\"watch\"],\"shortNames\":[\"ct\"],\"storageVersionHash\":\"ipMBPJcPrcY=\"},{\"name\":\
                \"crontabs/status\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"CronTab\",\"verbs\":\
                [\"get\",\"patch\",\"update\"]},{\"name\":\"crontabs/scale\",\"singularName\":\"\",\"namespaced\":\
                true,\"group\":\"autoscaling\",\"version\":\"v1\",\"kind\":\"Scale\",\"verbs\":[\"get\",\"patch\",\
                \"update\"]}]}\n";
    assert_eq!(list.text(), want);
    let all = server.get("/apis", &[("accept", AGGREGATED)]).await.json();
    let group = all["items"].as_array().unwrap().last().unwrap();
    assert_eq!(group["metadata"]["name"], "stable.example.com");
    let resource = &group["versions"][0]["resources"][0];
    let kind = serde_json::json!({"group": "stable.example.com", "version": "v1", "kind": "CronTab"});
    assert_eq!(resource["responseKind"], kind);
    assert_eq!(resource["subresources"][0]["responseKind"], kind);
}

#[test]
fn the_root_lists_what_a_real_server_lists() {
    let recorded = recorded("discovery/paths.json");
    let of_discovery = |path: &str| path.starts_with("/api") || path.starts_with("/openapi");
    let paths = recorded["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap());
    let want: Vec<&str> = paths.filter(|path| of_discovery(path)).collect();
    assert_eq!(Server::new(catalog(false)).discovery.listed(), want);
}
