//! The smallest server: everything in memory, gone when it is dropped.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ferrokube::Server::builder().start().await?;
    for namespace in Api::<Namespace>::all(server.client()).list(&Default::default()).await? {
        eprintln!("{} has the namespace {}", server.url().unwrap_or_default(), namespace.name_any());
    }
    Ok(())
}
