//! A platform in one binary: two kinds of its own, served without a CustomResourceDefinition, and the controller that makes them work.
//! There are no pods: the API is a control plane for databases.

use std::time::Duration;

use ferrokube::{Api as Profile, Background, Denied, Request, Resource, Rule, Server, async_trait};
use futures::TryStreamExt;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "platform.example.com", version = "v1", kind = "Database", namespaced, status = "DatabaseStatus")]
#[kube(printcolumn = r#"{"name":"Plan","type":"string","jsonPath":".spec.plan"}"#)]
struct DatabaseSpec {
    plan: String,
    /// In GiB.
    size: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct DatabaseStatus {
    host: String,
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "platform.example.com", version = "v1", kind = "Plan")]
struct PlanSpec {
    largest: u32,
}

/// A database has a size, and none that is larger than its plan allows.
struct Sizes;

#[async_trait]
impl Rule for Sizes {
    type Object = Database;

    async fn mutate(&self, _: &Request<'_>, database: &mut Database, _: Option<&Database>) -> Result<(), Denied> {
        database.spec.size.get_or_insert(10);
        Ok(())
    }

    async fn validate(&self, _: &Request<'_>, new: Option<&Database>, old: Option<&Database>) -> Result<(), Denied> {
        match (new.and_then(|new| new.spec.size), old.and_then(|old| old.spec.size)) {
            (Some(new), Some(old)) if new < old => Err(Denied::field("spec.size", "a database cannot shrink")),
            _ => Ok(()),
        }
    }
}

/// Gives every database a host.
async fn provision(background: Background) {
    let databases: Api<Database> = Api::all(background.client());
    let mut changes = std::pin::pin!(watcher(databases, watcher::Config::default()).applied_objects());
    while let Ok(Some(database)) = changes.try_next().await {
        if database.status.is_some() {
            continue;
        }
        let (name, namespace) = (database.name_any(), database.namespace().unwrap_or_default());
        let status = json!({"status": DatabaseStatus { host: [name.as_str(), &namespace].join(".") }});
        let databases: Api<Database> = Api::namespaced(background.client(), &namespace);
        let patched = databases.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        if let Err(error) = patched {
            eprintln!("{name}: {error}");
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .api(Profile::minimal())
        .resource(Resource::of::<Database>().rule("DatabaseSizes", Sizes))
        .resource(Resource::of::<Plan>())
        .elected("provisioner", provision)
        .start()
        .await?;

    let databases: Api<Database> = Api::default_namespaced(server.client());
    let plans: Api<Plan> = Api::all(server.client());
    let named = |name: &str| ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let plan = Plan { metadata: named("small"), spec: PlanSpec { largest: 100 } };
    plans.create(&PostParams::default(), &plan).await?;
    let spec = DatabaseSpec { plan: "small".into(), size: None };
    let database = Database { metadata: named("orders"), spec, status: None };
    let created = databases.create(&PostParams::default(), &database).await?;
    assert_eq!(created.spec.size, Some(10));

    let is_ready = |found: Option<&Database>| found.is_some_and(|database| database.status.is_some());
    let waiting = kube::runtime::wait::await_condition(databases.clone(), "orders", is_ready);
    let ready = tokio::time::timeout(Duration::from_secs(30), waiting).await??;
    assert_eq!(ready.and_then(|database| database.status).map(|status| status.host).as_deref(), Some("orders.default"));

    let smaller = databases.patch("orders", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 5}}))).await;
    assert!(smaller.is_err_and(|error| error.to_string().contains("a database cannot shrink")));
    server.stop().await;
    Ok(())
}
