//! An operator that ships its API server: its kinds exist nowhere else, `kubectl` and other clients reach them over the network with a
//! kubeconfig, a page tells how it does, and old objects are converted by a function.

use ferrokube::{Api as Profile, PathResponse, Resource, Server};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod v1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "backup.example.com", version = "v1", kind = "Backup", namespaced)]
    pub struct BackupSpec {
        pub hours: u32,
    }
}

mod v1beta1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "backup.example.com", version = "v1beta1", kind = "Backup", namespaced)]
    pub struct BackupSpec {
        pub every: String,
    }
}

/// `every: "6h"` in v1beta1 is `hours: 6` in v1.
fn convert(mut backup: serde_json::Value, version: &str) -> Result<serde_json::Value, String> {
    let spec = &backup["spec"];
    let converted = match version {
        "v1" => {
            let every = spec["every"].as_str().unwrap_or_default();
            let hours: u32 =
                every.trim_end_matches('h').parse().map_err(|_| format!("{every} is no number of hours"))?;
            serde_json::json!({"hours": hours})
        }
        _ => serde_json::json!({"every": format!("{}h", spec["hours"])}),
    };
    backup["spec"] = converted;
    Ok(backup)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let backups = Resource::of::<v1::Backup>().version::<v1beta1::Backup>().convert(convert);
    let report =
        |request: ferrokube::PathRequest| async move { PathResponse::text(format!("hello, {}\n", request.user.name)) };
    let server =
        Server::builder().api(Profile::minimal()).resource(backups).path("/operator/status", report).start().await?;

    // As another program would: over the network, with the kubeconfig.
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&server.kubeconfig()?)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    let remote = kube::Client::try_from(config)?;
    let old: Api<v1beta1::Backup> = Api::default_namespaced(remote.clone());
    let metadata = ObjectMeta { name: Some("nightly".into()), ..ObjectMeta::default() };
    let backup = v1beta1::Backup { metadata, spec: v1beta1::BackupSpec { every: "24h".into() } };
    old.create(&PostParams::default(), &backup).await?;
    let new: Api<v1::Backup> = Api::default_namespaced(remote.clone());
    assert_eq!(new.get("nightly").await?.spec.hours, 24);

    let status = remote.request_text(http::Request::get("/operator/status").body(Vec::new())?).await?;
    assert_eq!(status, "hello, kubernetes-admin\n");
    server.stop().await;
    Ok(())
}
