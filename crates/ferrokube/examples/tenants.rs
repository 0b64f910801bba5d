//! A multi-tenant API with its own users and its own authorizer: a token names a tenant, who may do anything in namespaces that begin
//! with the tenant's name, and nothing elsewhere.

use ferrokube::authentication::{Identity, Refused, Token, TokenMethod};
use ferrokube::authorization::{Access, Authorizer, Decision};
use ferrokube::{Api as Profile, Server, User, async_trait};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

/// Believes tokens of the form `tenant:NAME`. A real one would check a signature.
struct TenantTokens;

#[async_trait]
impl TokenMethod for TenantTokens {
    async fn identify(&self, token: &Token<'_>) -> Result<Option<Identity>, Refused> {
        let Some(name) = token.text.strip_prefix("tenant:") else { return Ok(None) };
        Ok(Some(Identity { user: tenant(name), ..Identity::default() }))
    }
}

fn tenant(name: &str) -> User {
    User { name: name.to_string(), groups: vec!["tenants".into()], ..User::default() }
}

struct OwnNamespaces;

#[async_trait]
impl Authorizer for OwnNamespaces {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        if !access.user.is_member("tenants") {
            return Decision::no_opinion("");
        }
        let is_own = |namespace: &str| {
            namespace.strip_prefix(&*access.user.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        match access.is_resource && !access.namespace.is_empty() && is_own(access.namespace) {
            true => Decision::allow("the namespace is the tenant's own"),
            false => Decision::deny("tenants work in their own namespaces"),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .api(Profile::minimal())
        .tokens(TenantTokens)
        .authorizer("tenants", OwnNamespaces)
        .start()
        .await?;
    let namespaces: Api<Namespace> = Api::all(server.client());
    for name in ["acme-web", "other"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "settings"}}))?;
    let maps = |namespace: &str| Api::<ConfigMap>::namespaced(server.client_as(tenant("acme")), namespace);
    maps("acme-web").create(&PostParams::default(), &map).await?;
    let refused = maps("other").create(&PostParams::default(), &map).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("tenants work in their own namespaces")));
    Ok(())
}
