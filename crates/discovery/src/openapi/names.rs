//! How operations, tags and definitions are called.

/// The verbs that operation names start with; the group and version are put behind them.
const VERBS: [&str; 10] = ["get", "log", "read", "replace", "patch", "delete", "watch", "connect", "list", "create"];

/// The id and the tag of an operation: `listNamespacedPod` at `/api/v1/…` is `listCoreV1NamespacedPod`, tagged `core_v1`.
pub fn operation(name: &str, path: &str) -> (String, String) {
    let verb = VERBS.iter().find(|verb| name.starts_with(**verb)).copied().unwrap_or("");
    let rest = camel(&name[verb.len()..], true);
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let (group, version) = match parts.next() {
        Some("api") => (Some("core"), parts.next()),
        Some("apis") => (parts.next(), parts.next()),
        first => return (format!("{verb}{rest}"), camel(first.unwrap_or(""), false)),
    };
    let Some(group) = group else { return (format!("{verb}{rest}"), "apis".into()) };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    match version {
        None => (format!("{verb}{}{rest}", camel(group, true)), camel(group, false)),
        Some(version) => (
            format!("{verb}{}{}{rest}", camel(group, true), camel(version, true)),
            format!("{}_{}", camel(group, false), camel(version, false)),
        ),
    }
}

/// Letters, digits and underscores; whatever stood between them shows as a capital: `flowcontrolApiserver`.
fn camel(text: &str, mut capital: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if !(c.is_alphabetic() || c == '_' || (at != 0 && c.is_numeric())) {
            capital = true;
        } else if std::mem::take(&mut capital) {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

/// A word with a capital: `Ephemeralcontainers`.
pub fn title(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// `a Pod`, `an Ingress`, and without an article what ends like a plural: `Endpoints`.
pub fn with_article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_string();
    }
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

/// The definition of a custom kind: `com.example.stable.v1.CronTab`.
pub fn custom_definition(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    let name = format!("{}.{version}.{kind}", parts.join("."));
    // A built-in definition keeps its name.
    if schema::builtin().types().find(&name).is_some() { format!("{name}_v2") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_definitions_do_not_replace_built_in_ones() {
        let group = "apiextensions.apis.pkg.apiextensions-apiserver.k8s.io";
        for (group, kind, want) in [
            ("stable.example.com", "CronTab", "com.example.stable.v1.CronTab"),
            (
                group,
                "CustomResourceDefinition",
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition_v2",
            ),
        ] {
            assert_eq!(custom_definition(group, "v1", kind), want);
        }
    }

    #[test]
    fn operations_are_named_as_upstream_names_them() {
        let check = |name, path, id: &str, tag: &str| {
            assert_eq!(operation(name, path), (id.to_string(), tag.to_string()), "{name} at {path}");
        };
        check("listNamespacedPod", "/api/v1/namespaces/{namespace}/pods", "listCoreV1NamespacedPod", "core_v1");
        check("getAPIVersions", "/api/", "getCoreAPIVersions", "core");
        check("getAPIVersions", "/apis/", "getAPIVersions", "apis");
        check("getAPIGroup", "/apis/apps/", "getAppsAPIGroup", "apps");
        check(
            "deletecollectionNamespacedRole",
            "/apis/rbac.authorization.k8s.io/v1/x",
            "deleteRbacAuthorizationV1CollectionNamespacedRole",
            "rbacAuthorization_v1",
        );
        check(
            "listFuzzMapForAllNamespaces",
            "/apis/dt.example.com/v1/x",
            "listDtExampleComV1FuzzMapForAllNamespaces",
            "dtExampleCom_v1",
        );
        check("getCodeVersion", "/version/", "getCodeVersion", "version");
        check(
            "getServiceAccountIssuerOpenIDKeyset",
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
        );
        check("getX", "/.well-known/openid-configuration/", "getX", "WellKnown");
    }

    #[test]
    fn articles_fit() {
        for (kind, want) in
            [("Pod", "a Pod"), ("Ingress", "an Ingress"), ("Endpoints", "Endpoints"), ("APIService", "an APIService")]
        {
            assert_eq!(with_article(kind), want);
        }
    }
}
