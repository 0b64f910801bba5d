//! An admission rule in Rust: every pod gets a label with the name of its author, and images come from one registry only.

use ferrokube::{Denied, Request, Rule, Server, async_trait};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;

struct TrustedImages;

#[async_trait]
impl Rule for TrustedImages {
    type Object = Pod;

    async fn mutate(&self, request: &Request<'_>, pod: &mut Pod, old: Option<&Pod>) -> Result<(), Denied> {
        if old.is_none() {
            pod.labels_mut().insert("author".into(), request.user().name.clone());
        }
        Ok(())
    }

    async fn validate(&self, _: &Request<'_>, pod: Option<&Pod>, _: Option<&Pod>) -> Result<(), Denied> {
        let containers = pod.and_then(|pod| pod.spec.as_ref()).map(|spec| &spec.containers);
        for (at, container) in containers.into_iter().flatten().enumerate() {
            let image = container.image.as_deref().unwrap_or_default();
            if !image.starts_with("registry.example.com/") {
                return Err(Denied::field(format!("spec.containers[{at}].image"), "is not from registry.example.com"));
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().rule("TrustedImages", TrustedImages).start().await?;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let pod = |image: &str| -> Result<Pod, serde_json::Error> {
        serde_json::from_value(
            json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": image}]}}),
        )
    };
    let refused = pods.create(&PostParams::default(), &pod("example.org/web")?).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("is not from registry.example.com")));
    let created = pods.create(&PostParams::default(), &pod("registry.example.com/web")?).await?;
    assert_eq!(created.labels().get("author").map(String::as_str), Some("kubernetes-admin"));
    Ok(())
}
