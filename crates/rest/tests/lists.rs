//! Parameters beyond upstream's: each with every form of an answer, scope and resourceVersion, against a model that looks at single
//! objects.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use http_body_util::BodyExt;
use object::{GroupVersionKind, Meta, Value, value};
use request::User;
use rest::Limits;
use storage::memory::MemoryStore;
use support::{FORMS, Server, Watch, ask_for, map, send_as, widgets};

const NAMES: [&str; 12] = ["a/x", "a/y", "a/z", "b/x", "b/y", "b/z1", "b/z2", "c/a", "c/b", "c/c", "c/d", "c/e"];

/// Config maps in three namespaces, of one of which there is an old state, also served as a custom resource.
async fn filled() -> Server {
    let store = Arc::new(MemoryStore::new());
    let server = Server::on(store, Vec::new(), &["CBORServingAndStorage"], Limits::default()).await;
    let maps = server.0.snapshot().catalog.get("", "v1", "configmaps").unwrap().clone();
    server.0.catalog.change(&[Arc::new(widgets(&maps))], &[]);
    for (at, name) in NAMES.iter().enumerate() {
        let (namespace, name) = name.split_once('/').unwrap();
        let mut object =
            map(value!({"n": (format!("{}", at * 7 % 12)), "even": (if at % 2 == 0 { "yes" } else { "no" })}));
        object.set_meta_str("name", name);
        object.set(&["metadata", "labels"], value!({"app": (if at % 3 == 0 { "web" } else { "db" })}));
        let (code, made) = server.ask("POST", &format!("/api/v1/namespaces/{namespace}/configmaps"), object).await;
        assert_eq!(code, 201, "{made:?}");
    }
    server
}

/// All objects of a namespace, or of all, one GET for each.
async fn single_gets(server: &Server, path: &str, namespace: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for name in NAMES {
        let (of, name) = name.split_once('/').unwrap();
        if namespace.is_empty() || of == namespace {
            let (base, resource) = path.rsplit_once('/').unwrap();
            let (code, object) =
                server.ask("GET", &[base, "namespaces", of, resource, name].join("/"), Value::Null).await;
            assert_eq!(code, 200);
            all.push(object);
        }
    }
    all
}

fn key(object: &Value) -> String {
    [object.namespace(), object.name()].join("/")
}

fn keys(objects: &[Value]) -> Vec<String> {
    objects.iter().map(key).collect()
}

/// The items of a list in any form, and its continue token.
fn items(form: &str, kind: &str, bytes: &bytes::Bytes) -> (Vec<Value>, String) {
    let kind = if form.contains("Partial") {
        GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadataList")
    } else {
        GroupVersionKind::new("", "v1", kind)
    };
    let mut notes = codec::Notes::ignore();
    let list = match form.split(';').next().unwrap() {
        "application/yaml" => codec::yaml::decode(bytes, None, &mut notes).unwrap(),
        "application/cbor" => codec::cbor::decode(bytes, None, &mut notes).unwrap(),
        "application/vnd.kubernetes.protobuf" => {
            codec::proto::decode(bytes, schema::builtin().schema(&kind).unwrap()).unwrap()
        }
        _ => codec::json::decode(bytes, None, &mut notes).unwrap(),
    };
    let items = match form.contains("Table") {
        true => list.list_at(&["rows"]).iter().map(|row| row.field("object").clone()).collect(),
        false => list.list_at(&["items"]).to_vec(),
    };
    (items, list.str_at(&["metadata", "continue"]).to_string())
}

/// All pages of a list.
async fn pages(server: &Server, path: &str, kind: &str, form: &str, query: &str) -> Vec<Value> {
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let next = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let (code, _, bytes) = ask_for(&server.0, "GET", &format!("{path}?{query}{next}"), Value::Null, form).await;
        assert_eq!(code, 200, "{query} as {form}: {}", String::from_utf8_lossy(&bytes));
        let (page, next) = items(form, kind, &bytes);
        all.extend(page);
        token = next;
        if token.is_empty() {
            return all;
        }
    }
}

type Keep = fn(&Value) -> bool;
type Compare = fn(&Value, &Value) -> Ordering;

fn data<'v>(object: &'v Value, name: &str) -> &'v str {
    object.str_at(&["data", name])
}

#[tokio::test]
async fn every_form_shows_what_single_gets_would() {
    let server = filled().await;
    let label = |object: &Value| object.str_at(&["metadata", "labels", "app"]) == "web";
    let filters: [(&str, Keep); 7] = [
        ("", |_| true),
        ("filter=object.metadata.labels.app=='web'", |o| o.str_at(&["metadata", "labels", "app"]) == "web"),
        ("filter=object.data.even=='yes'", |o| data(o, "even") == "yes"),
        ("filter=int(object.data.n)>5", |o| data(o, "n").parse::<i64>().unwrap() > 5),
        ("filter=object.kind!=''", |_| true),
        ("filter=object.metadata.name.startsWith('z')&labelSelector=app=db", |o| {
            o.name().starts_with('z') && o.str_at(&["metadata", "labels", "app"]) == "db"
        }),
        ("filter=now<timestamp('2000-01-01T00:00:00Z')", |_| false),
    ];
    assert!(label(&value!({"metadata": {"labels": {"app": "web"}}})));
    let orders: [(&str, Compare); 4] = [
        ("", |_, _| Ordering::Equal),
        ("sortBy=-data.n", |a, b| data(b, "n").cmp(data(a, "n"))),
        ("sortBy=data.even,-metadata.name", |a, b| {
            data(a, "even").cmp(data(b, "even")).then_with(|| b.name().cmp(a.name()))
        }),
        ("sortBy=data.nothing", |_, _| Ordering::Equal),
    ];
    for (path, kind) in [("/api/v1/configmaps", "ConfigMapList"), ("/apis/example.com/v1/widgets", "WidgetList")] {
        for namespace in ["", "b", "none"] {
            let all = single_gets(&server, path, namespace).await;
            let (base, resource) = path.rsplit_once('/').unwrap();
            let scoped = [base, "namespaces", namespace, resource].join("/");
            let url = if namespace.is_empty() { path } else { &scoped };
            for (filter, keep) in filters {
                for (order, compare) in orders {
                    let mut want: Vec<Value> = all.iter().filter(|object| keep(object)).cloned().collect();
                    want.sort_by(|a, b| compare(a, b).then_with(|| key(a).cmp(&key(b))));
                    for form in FORMS {
                        if kind == "WidgetList" && form == "application/vnd.kubernetes.protobuf" {
                            continue;
                        }
                        for page in [
                            "",
                            "limit=2",
                            "limit=5",
                            "resourceVersion=0",
                            "resourceVersion=13&resourceVersionMatch=Exact",
                        ] {
                            if page.starts_with("resourceVersion=13") && namespace == "none" {
                                continue;
                            }
                            let query: Vec<&str> =
                                [filter, order, page].into_iter().filter(|part| !part.is_empty()).collect();
                            let query = query.join("&");
                            let got = pages(&server, url, kind, form, &query).await;
                            assert_eq!(keys(&got), keys(&want), "{url}?{query} as {form}");
                        }
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn fields_are_left_out_of_every_form() {
    let server = filled().await;
    let gone = |object: &Value, path: &[&str]| object.at(path).is_null();
    for (path, kind) in [("/api/v1/configmaps", "ConfigMapList"), ("/apis/example.com/v1/widgets", "WidgetList")] {
        for form in FORMS {
            if kind == "WidgetList" && form == "application/vnd.kubernetes.protobuf" {
                continue;
            }
            let whole = !form.contains("as=");
            for query in [
                "fields=data.n",
                "fields=data.n&limit=5",
                "fields=data&drop=data.even",
                "drop=metadata.labels,data.even",
            ] {
                let got = pages(&server, path, kind, form, query).await;
                assert_eq!(keys(&got), NAMES, "{query} as {form}");
                for object in &got {
                    assert!(!object.resource_version().is_empty() && !object.uid().is_empty(), "{query} as {form}");
                    assert!(
                        gone(object, &["metadata", "labels"]) && gone(object, &["data", "even"]),
                        "{query} as {form}"
                    );
                    assert_eq!(!gone(object, &["data", "n"]), whole, "{query} as {form}");
                }
            }
            let dropping = format!("{form};drop=metadata.labels");
            let got = pages(&server, path, kind, &dropping, "limit=7").await;
            assert!(got.iter().all(|object| gone(object, &["metadata", "labels"])), "{dropping}");
            assert!(got.iter().all(|object| gone(object, &["data", "even"]) != whole), "{dropping}");
        }
    }
    // A single object has the same fields.
    let (_, one) = server.ask("GET", "/api/v1/namespaces/a/configmaps/x?fields=data.n", Value::Null).await;
    assert_eq!(one.field("data"), &value!({"n": "0"}));
    assert_eq!((one.api_version(), one.kind(), one.name()), ("v1", "ConfigMap", "x"));
}

#[tokio::test]
async fn objects_are_counted() {
    let server = filled().await;
    let all = single_gets(&server, "/api/v1/configmaps", "").await;
    type Group = fn(&Value) -> Vec<String>;
    let cases: [(&str, Keep, Option<Group>); 8] = [
        ("", |_| true, None),
        ("&resourceVersion=13&resourceVersionMatch=Exact", |_| true, None),
        ("&resourceVersion=0", |_| true, None),
        ("&labelSelector=app=web", |o| o.str_at(&["metadata", "labels", "app"]) == "web", None),
        ("&filter=object.data.even=='no'", |o| data(o, "even") == "no", None),
        ("&groupBy=metadata.namespace", |_| true, Some(|o| vec![o.namespace().into()])),
        ("&groupBy=metadata.namespace,data.even&filter=object.metadata.name!='x'", |o| o.name() != "x", {
            Some(|o| vec![o.namespace().into(), data(o, "even").into()])
        }),
        ("&groupBy=metadata.labels.app,data.nothing", |_| true, {
            Some(|o| vec![o.str_at(&["metadata", "labels", "app"]).into(), String::new()])
        }),
    ];
    for (query, keep, group) in cases {
        for form in ["application/json", "application/yaml", "application/cbor"] {
            let url = format!("/api/v1/configmaps?count=true{query}");
            let (code, _, bytes) = ask_for(&server.0, "GET", &url, Value::Null, form).await;
            let mut notes = codec::Notes::ignore();
            let got = match form {
                "application/cbor" => codec::cbor::decode(&bytes, None, &mut notes),
                "application/yaml" => codec::yaml::decode(&bytes, None, &mut notes),
                _ => codec::json::decode(&bytes, None, &mut notes),
            };
            let got = got.unwrap();
            let kept: Vec<&Value> = all.iter().filter(|object| keep(object)).collect();
            assert_eq!(
                (code, got.kind(), got.field("count").as_int()),
                (200, "Count", Some(kept.len() as i64)),
                "{query}"
            );
            let Some(group) = group else { continue };
            let mut want: BTreeMap<Vec<String>, i64> = BTreeMap::new();
            kept.iter().for_each(|object| *want.entry(group(object)).or_default() += 1);
            let groups = got.list_at(&["groups"]).iter().map(|group| {
                let values = group.list_at(&["values"]).iter().map(|value| value.as_str().unwrap().to_string());
                (values.collect(), group.field("count").as_int().unwrap())
            });
            assert_eq!(groups.collect::<BTreeMap<Vec<String>, i64>>(), want, "{query}");
        }
    }
    let (_, empty) = server.ask("GET", "/api/v1/namespaces/none/configmaps?count=true", Value::Null).await;
    assert_eq!((empty.field("count").as_int(), empty.field("bytes").as_int()), (Some(0), Some(0)));
}

#[tokio::test]
async fn sorted_pages_are_of_one_revision() {
    let server = filled().await;
    let (path, query) = ("/api/v1/configmaps", "sortBy=-data.n&limit=4");
    let (_, first) = server.ask("GET", &format!("{path}?{query}"), Value::Null).await;
    assert_eq!(first.at(&["metadata", "remainingItemCount"]).as_int(), Some(8));
    let token = first.str_at(&["metadata", "continue"]).to_string();
    // What happens between the pages is not seen.
    let mut new = map(value!({"n": "1"}));
    new.set_meta_str("name", "new");
    assert_eq!(server.ask("POST", "/api/v1/namespaces/a/configmaps", new).await.0, 201);
    for name in ["a/x", "c/e"] {
        let (namespace, name) = name.split_once('/').unwrap();
        let url = ["/api/v1/namespaces", namespace, "configmaps", name].join("/");
        assert_eq!(server.ask("DELETE", &url, Value::Null).await.0, 200);
    }
    let next = |query: &str| format!("{path}?{query}&continue={token}");
    let (code, second) = server.ask("GET", &next(query), Value::Null).await;
    let numbers = |list: &Value| list.list_at(&["items"]).iter().map(|o| data(o, "n").to_string()).collect::<Vec<_>>();
    assert_eq!((code, numbers(&first)), (200, ["9", "8", "7", "6"].map(String::from).to_vec()));
    assert_eq!(numbers(&second), ["5", "4", "3", "2"].map(String::from));
    assert_eq!(second.resource_version(), first.resource_version());
    for (query, why) in [
        ("sortBy=data.n&limit=4", "invalid continue token: it is of a list with another sortBy"),
        (
            "limit=4",
            "invalid continue token: continue key is not valid: server does not recognize this encoded version lists.ferrokube.io/v1alpha1",
        ),
        ("sortBy=-data.n&limit=4&filter=object.data.n=='5'", "invalid continue token: the list has no such object"),
        ("sortBy=-data.n&resourceVersion=3", "specifying resource version is not allowed when using continue"),
    ] {
        let (code, status) = server.ask("GET", &next(query), Value::Null).await;
        assert_eq!((code, status.str_at(&["message"])), (400, why), "{query}");
    }
}

#[tokio::test]
async fn what_cannot_be_had_is_refused() {
    let server = filled().await;
    let list = "/api/v1/configmaps";
    let one = "/api/v1/namespaces/a/configmaps/x";
    for (method, url, query, code, why) in [
        ("GET", list, "filter=", 400, r#"the parameter "filter" must not be empty"#),
        ("GET", list, "filter=true&filter=false", 400, r#"the parameter "filter" is given more than once"#),
        ("GET", list, "filter=1", 400, "invalid filter: must evaluate to bool but got int"),
        (
            "GET",
            list,
            "filter=params==null",
            400,
            "invalid filter: compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
        ),
        (
            "GET",
            list,
            "filter=object.data.missing==''",
            400,
            r#"invalid filter: expression "object.data.missing==''" resulted in error: no such key: missing (of a/x)"#,
        ),
        ("GET", list, "filter=object.metadata.name.matches('(')", 400, "invalid filter: "),
        (
            "GET",
            list,
            "filter=[1,2,3,4,5,6,7,8,9].all(a,[1,2,3,4,5,6,7,8,9].all(b,[1,2,3,4,5,6,7,8,9].all(c,[1,2,3,4,5,6,7,8,9].all(d,[1,2,3,4,5,6,7,8,9].all(e,[1,2,3,4,5,6,7,8,9].all(f,a+b+c+d+e+f>0))))))",
            400,
            "operation cancelled: actual cost limit exceeded",
        ),
        ("GET", list, "count=maybe", 400, r#"the parameter "count" must be true or false, not "maybe""#),
        ("GET", list, "groupBy=data", 400, r#"the parameter "groupBy" needs count=true"#),
        ("GET", list, "count=true&limit=3", 400, r#"the parameter "limit" cannot be used with count"#),
        ("GET", list, "count=true&sortBy=data", 400, r#"the parameter "sortBy" cannot be used with count"#),
        ("GET", list, "count=true&groupBy=a..b", 400, r#"the parameter "groupBy" "a..b" has an empty field name"#),
        ("GET", list, "sortBy=-", 400, r#"the parameter "sortBy" "" has an empty field name"#),
        (
            "GET",
            list,
            "drop=metadata",
            400,
            r#"the parameter "drop" apiVersion, kind and metadata.name, namespace, uid and resourceVersion cannot be dropped"#,
        ),
        (
            "GET",
            list,
            "watch=true&count=true",
            400,
            r#"the parameter "count" cannot be used with the verb "watch" of "configmaps""#,
        ),
        (
            "GET",
            list,
            "watch=true&sortBy=data",
            400,
            r#"the parameter "sortBy" cannot be used with the verb "watch" of "configmaps""#,
        ),
        (
            "GET",
            "/api/v1/watch/configmaps",
            "authorized=true",
            400,
            r#"the parameter "authorized" cannot be used with the verb "watch" of "configmaps""#,
        ),
        ("GET", list, "authorized=yes", 400, r#"the parameter "authorized" must be true or false, not "yes""#),
        (
            "GET",
            one,
            "filter=true",
            400,
            r#"the parameter "filter" cannot be used with the verb "get" of "configmaps/x""#,
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/configmaps",
            "filter=true",
            400,
            r#"the parameter "filter" cannot be used with the verb "deletecollection" of "configmaps""#,
        ),
        (
            "DELETE",
            one,
            "fields=data",
            400,
            r#"the parameter "fields" cannot be used with the verb "delete" of "configmaps/x""#,
        ),
        ("GET", "/api/v1/nothing", "filter=true", 404, "the server could not find the requested resource"),
    ] {
        let (got, status) = server.ask(method, &format!("{url}?{query}"), Value::Null).await;
        let message = status.str_at(&["message"]);
        assert!(got == code && message.contains(why), "{method} {url}?{query}: {got} {message}");
    }
    for form in ["application/vnd.kubernetes.protobuf", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
        let (code, _, _) = ask_for(&server.0, "GET", &format!("{list}?count=true"), Value::Null, form).await;
        assert_eq!(code, 406, "{form}");
    }
    // Nothing was deleted by what was refused.
    let (_, all) = server.ask("GET", &format!("{list}?count=true"), Value::Null).await;
    assert_eq!(all.field("count").as_int(), Some(12));
}

/// Old revisions that the cache no longer has are read from the store in pieces, and the pieces are filtered like everything else.
#[tokio::test]
async fn old_revisions_are_filtered_too() {
    const OBJECTS: usize = 24;
    const BYTES: usize = 64 * 1024;
    let server = Server::new(Vec::new()).await;
    let url = "/api/v1/namespaces/a/configmaps";
    for at in 0..OBJECTS {
        let even = if at % 2 == 0 { "yes" } else { "no" };
        let mut object = map(value!({"even": even, "n": (format!("{at:02}")), "large": ("x".repeat(BYTES))}));
        object.set_meta_str("name", &format!("m{at:02}"));
        if at + 1 == OBJECTS {
            object.set(&["data", "last"], "yes");
        }
        assert_eq!(server.ask("POST", url, object).await.0, 201);
    }
    let (_, all) = server.ask("GET", url, Value::Null).await;
    let revision = all.resource_version().to_string();
    // More changes than the cache keeps.
    for at in 0..2100 {
        let (code, _) = server.ask("MERGE", &[url, "m00"].join("/"), value!({"data": {"n": (at.to_string())}})).await;
        assert_eq!(code, 200);
    }
    let at = ["resourceVersion=", &revision, "&resourceVersionMatch=Exact"].concat();
    for (filter, keep) in [
        ("filter=object.data.even=='yes'", (|o| data(o, "even") == "yes") as Keep),
        ("filter=object.data.n>'15'", |o| data(o, "n") > "15"),
        ("filter=object.data.n=='no'", |_| false),
    ] {
        let mut want: Vec<Value> = all.list_at(&["items"]).iter().filter(|object| keep(object)).cloned().collect();
        for (more, form) in [
            ("", "application/json"),
            ("", "application/vnd.kubernetes.protobuf"),
            ("", "application/yaml"),
            ("&limit=7", "application/json"),
            ("&limit=7", "application/vnd.kubernetes.protobuf"),
            ("&sortBy=-data.n", "application/json"),
            ("&sortBy=-data.n&limit=7", "application/vnd.kubernetes.protobuf"),
        ] {
            want.sort_by(|a, b| data(a, "n").cmp(data(b, "n")));
            if more.contains("sortBy") {
                want.reverse();
            }
            // A continue token has the revision.
            let mut got = Vec::new();
            let first = [filter, more, "&", &at].concat();
            let mut query = first.clone();
            loop {
                let (code, _, bytes) = ask_for(&server.0, "GET", &[url, "?", &query].concat(), Value::Null, form).await;
                assert_eq!(code, 200, "{query} as {form}");
                let (page, token) = items(form, "ConfigMapList", &bytes);
                got.extend(page);
                if token.is_empty() {
                    break;
                }
                query = [filter, more, "&continue=", &token].concat();
            }
            assert_eq!(keys(&got), keys(&want), "{first} as {form}");
        }
    }
    // What fails for an object that would be sent late is the answer, and not a list that is cut.
    let fails = [url, "?filter=has(object.data.last)?object.data.nothing=='':true&", &at].concat();
    let (code, status) = server.ask("GET", &fails, Value::Null).await;
    assert_eq!(
        (code, status.str_at(&["message"]).contains("no such key: nothing (of a/m23)")),
        (400, true),
        "{status:?}"
    );
}

/// Members of the group see no value in any answer, and no parameter tells of one.
#[tokio::test]
async fn secrets_are_redacted() {
    let limits = Limits { redact_secrets_for: vec!["dashboards".into()], ..Limits::default() };
    let server = Server::with(Vec::new(), &["CBORServingAndStorage"], limits).await;
    let secret = value!({
        "metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0"}},
        "data": {"key": "c2VjcmV0"}
    });
    let url = "/api/v1/namespaces/a/secrets";
    assert_eq!(server.ask("POST", url, secret).await.0, 201);
    let groups = vec!["dashboards".to_string()];
    let dashboard = User { name: "d".into(), groups, ..User::default() };
    let ask = async |user: &User, query: &str, form: &str| {
        let response = send_as(&server.0, user, &[url, query].concat(), form).await.unwrap();
        let code = response.status().as_u16();
        (code, response.into_body().collect().await.unwrap().to_bytes())
    };
    let tells = |bytes: &[u8]| {
        ["c2VjcmV0", "secret\u{0}", "secret"].iter().any(|text| {
            // The resource itself is called secrets, and in protobuf and CBOR values are bytes.
            let text = text.trim_end_matches('\u{0}');
            let found = memchr::memmem::find_iter(bytes, text.as_bytes());
            found.into_iter().any(|at| bytes.get(at + text.len()) != Some(&b's'))
        })
    };
    for form in FORMS.into_iter().chain(["application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"]) {
        for query in [
            "",
            "?includeObject=Object",
            "?limit=1",
            "/s",
            "/s?includeObject=Object",
            "?fields=data,metadata",
            "?sortBy=data.key",
        ] {
            let (code, bytes) = ask(&dashboard, query, form).await;
            assert!(!tells(&bytes), "{query} as {form}: {}", String::from_utf8_lossy(&bytes));
            assert!(matches!(code, 200 | 406), "{query} as {form}: {code}");
        }
    }
    let (_, plain) = ask(&User::default(), "/s", "").await;
    assert!(tells(&plain), "others see it");
    for (query, count) in [
        ("?count=true&filter=object.data.key=='c2VjcmV0'", 0),
        ("?count=true&filter=object.data.key==''", 1),
        ("?count=true&filter=object.metadata.annotations.exists(a,a.startsWith('kubectl'))", 0),
    ] {
        let (_, bytes) = ask(&dashboard, query, "").await;
        let got = codec::json::decode(&bytes, None, &mut codec::Notes::ignore()).unwrap();
        assert_eq!(got.field("count").as_int(), Some(count), "{query}");
    }
    let (_, groups) = ask(&dashboard, "?count=true&groupBy=data.key,metadata.annotations", "").await;
    assert!(!tells(&groups));
    let response = send_as(&server.0, &dashboard, &[url, "?watch=true"].concat(), "").await.unwrap();
    let (event, told) = Watch::of(response).await.unwrap().next().await.unwrap();
    let sizes = told.at(&["metadata", "annotations", "lists.ferrokube.io/redacted"]).as_str();
    assert_eq!((event.as_str(), told.str_at(&["data", "key"]), sizes), ("ADDED", "", Some(r#"{"key":6}"#)));
}

/// What a client of a watch has: the objects it was told of. An event that does not fit what it has is an error.
#[derive(Default)]
struct Informer(BTreeMap<String, Value>);

impl Informer {
    fn apply(&mut self, event: &str, object: Value) {
        let key = key(&object);
        let known = match event {
            "DELETED" => self.0.remove(&key),
            _ => self.0.insert(key.clone(), object),
        };
        assert_eq!(known.is_some(), event != "ADDED", "{event} {key}");
    }
}

#[tokio::test]
async fn watches_turn_what_begins_to_match_into_added() {
    let server = filled().await;
    let maps = "/api/v1/configmaps";
    for (query, keep) in [
        ("filter=object.data.even=='yes'", (|o| data(o, "even") == "yes") as Keep),
        ("filter=object.metadata.labels.app=='web'&labelSelector=app", |o| {
            o.str_at(&["metadata", "labels", "app"]) == "web"
        }),
        ("filter=object.data.even=='yes'&fields=data.even", |o| data(o, "even") == "yes"),
    ] {
        let mut watch = Watch::open(&server, &format!("{maps}?watch=true&{query}"), "").await.unwrap();
        let mut informer = Informer::default();
        for object in single_gets(&server, maps, "").await.iter().filter(|object| keep(object)) {
            let (event, got) = watch.next().await.unwrap();
            assert_eq!((event.as_str(), key(&got)), ("ADDED", key(object)));
            informer.apply(&event, got);
        }
        let mut state = 7u64;
        for round in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let name = NAMES[(state >> 33) as usize % NAMES.len()];
            let (namespace, name) = name.split_once('/').unwrap();
            let url = ["/api/v1/namespaces", namespace, "configmaps", name].join("/");
            let word = |bit: u32, one: &str, other: &str| {
                if state >> bit & 1 == 0 { one.to_string() } else { other.to_string() }
            };
            let body = value!({
                "metadata": {"labels": {"app": (word(40, "web", "db")), "round": (round.to_string())}},
                "data": {"even": (word(41, "yes", "no"))}
            });
            let (_, before) = server.ask("GET", &url, Value::Null).await;
            let (code, after) = server.ask("MERGE", &url, body).await;
            assert_eq!(code, 200);
            let want = match (keep(&before), keep(&after)) {
                (false, false) => continue,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            };
            let (event, got) = watch.next().await.unwrap();
            assert_eq!((event.as_str(), got.resource_version()), (want, after.resource_version()), "{query}");
            assert!(!query.contains("fields") || got.at(&["metadata", "labels"]).is_null());
            informer.apply(&event, got);
        }
        let all = single_gets(&server, maps, "").await;
        let want: Vec<String> = keys(&all.into_iter().filter(keep).collect::<Vec<_>>());
        assert_eq!(informer.0.into_keys().collect::<Vec<_>>(), want, "{query}");
    }
}

#[tokio::test]
async fn a_watch_ends_where_its_filter_has_no_answer() {
    let server = filled().await;
    let url = "/api/v1/namespaces/a/configmaps?watch=true&filter=object.data.even=='yes'";
    let mut watch = Watch::open(&server, url, "").await.unwrap();
    assert_eq!(watch.names(2).await, ["ADDED x", "ADDED z"]);
    let (code, _) = server.ask("MERGE", "/api/v1/namespaces/a/configmaps/z", value!({"data": {"even": null}})).await;
    assert_eq!(code, 200);
    let (event, status) = watch.next().await.unwrap();
    let why = r#"invalid filter: expression "object.data.even=='yes'" resulted in error: no such key: even (of a/z)"#;
    assert_eq!((event.as_str(), status.str_at(&["message"]), status.field("code").as_int()), ("ERROR", why, Some(400)));
    assert!(watch.next().await.is_none());
}

/// An expression that reads `oldObject` decides which changes are told, and objects begin and cease to match as they do without it.
#[tokio::test]
async fn a_watch_tells_of_changes_that_matter() {
    let server = filled().await;
    let url = "/api/v1/namespaces/a/configmaps";
    let query = "filter=object.data.even!='never'?(oldObject==null||object.data.n!=oldObject.data.n):false";
    let (_, list) = server.ask("GET", &[url, "?", query].concat(), Value::Null).await;
    assert_eq!(keys(list.list_at(&["items"])), ["a/x", "a/y", "a/z"]);
    let mut watch = Watch::open(&server, &[url, "?watch=true&", query].concat(), "").await.unwrap();
    assert_eq!(watch.names(3).await, ["ADDED x", "ADDED y", "ADDED z"]);
    let change = async |name: &str, data: Value| {
        let (code, _) = server.ask("MERGE", &[url, name].join("/"), value!({"data": (data)})).await;
        assert_eq!(code, 200);
    };
    change("x", value!({"other": "1"})).await;
    change("x", value!({"n": "100"})).await;
    change("y", value!({"even": "never"})).await;
    change("y", value!({"n": "101"})).await;
    change("y", value!({"even": "yes"})).await;
    change("z", value!({"other": "2"})).await;
    assert_eq!(server.ask("DELETE", &[url, "z"].join("/"), Value::Null).await.0, 200);
    assert_eq!(watch.names(4).await, ["MODIFIED x", "DELETED y", "ADDED y", "DELETED z"]);
}

/// `namespaceObject` is the namespace as it is; a watch follows it.
#[tokio::test]
async fn filters_look_at_namespaces() {
    let server = filled().await;
    for (name, stage) in [("a", "test"), ("b", "live")] {
        let namespace = value!({"metadata": {"name": name, "labels": {"stage": stage}}});
        assert_eq!(server.ask("POST", "/api/v1/namespaces", namespace).await.0, 201);
    }
    let query = "filter=has(namespaceObject.metadata)?namespaceObject.metadata.labels.stage=='live':false";
    for url in ["/api/v1/configmaps", "/apis/example.com/v1/widgets"] {
        let (_, list) = server.ask("GET", &[url, "?", query].concat(), Value::Null).await;
        assert_eq!(keys(list.list_at(&["items"])), ["b/x", "b/y", "b/z1", "b/z2"], "{list:?}");
    }
    let mut watch = Watch::open(&server, &["/api/v1/configmaps?watch=true&", query].concat(), "").await.unwrap();
    assert_eq!(watch.names(4).await, ["ADDED x", "ADDED y", "ADDED z1", "ADDED z2"]);
    let stage = async |name: &str, stage: &str| {
        let patch = value!({"metadata": {"labels": {"stage": stage}}});
        assert_eq!(server.ask("MERGE", &["/api/v1/namespaces", name].join("/"), patch).await.0, 200);
    };
    stage("a", "live").await;
    assert_eq!(watch.names(3).await, ["ADDED x", "ADDED y", "ADDED z"]);
    let (_, made) = server.ask("MERGE", "/api/v1/namespaces/b/configmaps/x", value!({"data": {"n": "100"}})).await;
    let (event, object) = watch.next().await.unwrap();
    assert_eq!((event.as_str(), object.resource_version()), ("MODIFIED", made.resource_version()));
    stage("b", "test").await;
    assert_eq!(watch.names(4).await, ["DELETED x", "DELETED y", "DELETED z1", "DELETED z2"]);
    // A namespace has none itself.
    let (_, list) = server.ask("GET", "/api/v1/namespaces?filter=namespaceObject==null", Value::Null).await;
    assert_eq!(list.list_at(&["items"]).len(), 2);
}
