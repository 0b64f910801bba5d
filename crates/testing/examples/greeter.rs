//! A controller under test: every config map labelled `greet=yes` gets an annotation. Run it with
//! `cargo run -p ferrokube-testing --example greeter`.

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let began = std::time::Instant::now();
    let server = testing::Server::start().await?;
    eprintln!("{} is ready after {} ms", server.url(), began.elapsed().as_millis());
    let config_maps = Api::<ConfigMap>::default_namespaced(server.client().await?);
    let controller = tokio::spawn(greet(config_maps.clone()));

    let object = json!({"metadata": {"name": "world", "labels": {"greet": "yes"}}});
    config_maps.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let condition = |found: Option<&ConfigMap>| found.is_some_and(|map| map.annotations().contains_key("greeting"));
    let greeted = kube::runtime::wait::await_condition(config_maps, "world", condition).await?;
    let greeting = greeted.as_ref().and_then(|map| map.annotations().get("greeting"));
    assert_eq!(greeting.map(String::as_str), Some("hello, world"));
    eprintln!("greeted after {} ms", began.elapsed().as_millis());
    controller.abort();
    server.stop().await;
    Ok(())
}

async fn greet(config_maps: Api<ConfigMap>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut changes =
        std::pin::pin!(watcher(config_maps.clone(), watcher::Config::default().labels("greet=yes")).applied_objects());
    while let Some(map) = changes.try_next().await? {
        let patch = json!({"metadata": {"annotations": {"greeting": format!("hello, {}", map.name_any())}}});
        config_maps.patch(&map.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}
