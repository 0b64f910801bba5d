//! Operations that are not about resources: discovery itself, the version, and how to verify tokens.

use object::GroupVersion;

use super::{MEDIA, Method, Route, Type, meta, root};
use crate::openapi::names;

/// The documents that do not depend on the catalog, by the name they have in the index.
pub fn fixed() -> [(&'static str, Route); 5] {
    let issuer = "getServiceAccountIssuerOpenID";
    let text = |path: &str, name: &str, description: &str, media: &'static str| {
        let mut route = read(path, name, description, Type::Text);
        (route.consumes, route.produces) = (Vec::new(), vec![media]);
        route
    };
    let mut version = read(
        "/version/",
        "getCodeVersion",
        "get the version information for this server",
        Type::Definition("io.k8s.apimachinery.pkg.version.Info".into()),
    );
    (version.consumes, version.produces) = (vec![MEDIA[0]], vec![MEDIA[0]]);
    [
        ("api", read("/api/", "getAPIVersions", "get available API versions", meta("APIVersions"))),
        ("apis", read("/apis/", "getAPIVersions", "get available API versions", meta("APIGroupList"))),
        ("version", version),
        (
            "openid/v1/jwks",
            text(
                "/openid/v1/jwks/",
                &format!("{issuer}Keyset"),
                "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
                "application/jwk-set+json",
            ),
        ),
        (
            ".well-known/openid-configuration",
            text(
                "/.well-known/openid-configuration/",
                &format!("{issuer}Configuration"),
                "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
                "application/json",
            ),
        ),
    ]
}

/// `/apis/<group>/`.
pub fn for_group(group: &str) -> Route {
    read(&format!("/apis/{group}/"), "getAPIGroup", "get information of a group", meta("APIGroup"))
}

/// `/apis/<group>/<version>/`.
pub fn for_version(version: &GroupVersion) -> Route {
    let path = format!("{}/", root(version));
    read(&path, "getAPIResources", "get available resources", meta("APIResourceList"))
}

fn read(path: &str, name: &str, description: &str, of: Type) -> Route {
    let (id, tag) = names::operation(name, path);
    Route {
        path: path.into(),
        method: Method::Get,
        id,
        tag,
        description: description.into(),
        action: None,
        kind: None,
        parameters: Vec::new(),
        body: None,
        consumes: MEDIA.to_vec(),
        produces: MEDIA.to_vec(),
        responses: vec![(200, of)],
    }
}
