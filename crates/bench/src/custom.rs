//! Custom resources beside config maps: objects of the same fields and size, with and without validation rules.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::Arguments;
use crate::client::Client;
use crate::load::{self, Extent, MakeRequest};
use crate::objects::config_map_object;
use crate::report::{Figure, Line};
use crate::scenarios::{AT_ONCE, JSON, LISTS_AT_ONCE, read, request, write};
use crate::target::{Kind, Target};
use crate::watchers::{self, Watched};

/// A namespace of its own, so that lists have as many objects of one kind as of the other.
const NAMESPACE: &str = "custom";
const GROUP: &str = "bench.example.com";
/// How many objects a list has.
const LISTED: u64 = 500;
/// How many clients watch it.
const WATCHERS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);

/// A resource whose objects look like config maps.
struct Collection {
    /// What it is called in the report.
    title: &'static str,
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
}

static MAPS: Collection = Collection { title: "config maps", group: "", plural: "configmaps", kind: "ConfigMap" };
static PLAIN: Collection = Collection { title: "custom resources", group: GROUP, plural: "settings", kind: "Setting" };
static RULED: Collection =
    Collection { title: "custom resources with 10 rules", group: GROUP, plural: "ruledsettings", kind: "RuledSetting" };

impl Collection {
    fn path(&self) -> String {
        let root = if self.group.is_empty() { "/api/v1".to_string() } else { format!("/apis/{}/v1", self.group) };
        format!("{root}/namespaces/{NAMESPACE}/{}", self.plural)
    }

    fn object(&self, name: &str, content: &str) -> Value {
        let mut object = config_map_object(name, content);
        if !self.group.is_empty() {
            object["apiVersion"] = format!("{}/v1", self.group).into();
        }
        object["kind"] = self.kind.into();
        object["metadata"]["namespace"] = NAMESPACE.into();
        object
    }

    /// Makes the n-th object, from a text that is made once.
    fn objects(&self) -> impl Fn(&str, u64) -> Bytes + Send + Sync + use<> {
        let text = self.object("@name", "@content").to_string();
        move |name, content| text.replace("@name", name).replace("@content", &format!("{content:016x}")).into()
    }
}

/// Each line of custom resources stands below that of config maps with the same fields.
pub async fn run(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let target = Target::start(arguments, kind).await?;
    let client = Client::connect(target.port).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    write(client.clone(), Method::POST, "/api/v1/namespaces".into(), JSON, namespace.to_string().into()).await?;
    for (collection, rules) in [(&PLAIN, json!([])), (&RULED, rules())] {
        define(&client, &definition(collection, rules), &collection.path()).await?;
    }
    let many = Extent { at_once: AT_ONCE, seconds: arguments.seconds, at_most: u64::MAX };
    let mut lines = Vec::new();
    let collections: [&'static Collection; 3] = [&MAPS, &PLAIN, &RULED];
    for collection in collections {
        let fill = Extent { seconds: u64::from(u16::MAX), at_most: LISTED, ..many };
        load::run(&target, "fill", fill, creations(collection, "listed")).await?;
        let path = collection.path();
        let get = request(move |client, n| read(client, format!("{path}/listed-{}", n * 7 % LISTED), JSON).boxed());
        let path = collection.path();
        let list = request(move |client, _| read(client, path.clone(), JSON).boxed());
        let few = Extent { at_once: LISTS_AT_ONCE, ..many };
        for (verb, extent, make) in
            [("get", many, get), ("list", few, list), ("create", many, creations(collection, "new"))]
        {
            let cost = load::run(&target, verb, extent, make).await?;
            lines.push(Line::new(format!("{verb} {}: CPU", collection.title), Figure::Cpu(cost.cpu)));
        }
        let object = Box::new(move |name: &str, content: &str| collection.object(name, content));
        let watched = Watched { path: collection.path(), object };
        let (cpu, _) = watchers::measure(&target, watched, WATCHERS, arguments.seconds).await?;
        lines.push(Line::new(format!("watch {}: CPU", collection.title), Figure::Cpu(cpu)));
    }
    target.stop().await;
    Ok(lines)
}

/// Creates objects with this prefix.
fn creations(collection: &Collection, prefix: &'static str) -> MakeRequest {
    let (path, make) = (collection.path(), collection.objects());
    request(move |client, n| write(client, Method::POST, path.clone(), JSON, make(&format!("{prefix}-{n}"), n)).boxed())
}

fn definition(collection: &Collection, rules: Value) -> Value {
    let data = json!({
        "type": "object", "maxProperties": 64, "additionalProperties": {"type": "string", "maxLength": 4096},
    });
    let mut schema = json!({"type": "object", "properties": {"data": data}});
    schema["x-kubernetes-validations"] = rules;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", collection.plural)},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": collection.plural, "kind": collection.kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Ten rules, as definitions have them.
fn rules() -> Value {
    let rules = [
        "has(self.data)",
        "size(self.data) <= 64 && size(self.data) > 0",
        "self.data.all(key, size(key) <= 63)",
        "self.data.all(key, size(self.data[key]) < 4096)",
        "self.data.all(key, key.startsWith('key-'))",
        "!('forbidden' in self.data)",
        "'key-0' in self.data && size(self.data['key-0']) > 16",
        "self.metadata.name != 'refused'",
        "self.data.exists(key, key == 'key-1')",
        "self.metadata.name.matches('^[a-z0-9-]+$')",
    ];
    rules.iter().map(|rule| json!({"rule": rule})).collect()
}

/// Creates a definition and waits until what it defines is served.
async fn define(client: &Client, definition: &Value, served: &str) -> Result<(), String> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_string();
    write(client.clone(), Method::POST, path, JSON, definition.to_string().into()).await?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if client.get(served).await?.status == StatusCode::OK {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(format!("{served} is not served"))
}
