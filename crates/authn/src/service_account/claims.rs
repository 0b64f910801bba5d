//! [`Claims`]: what a token says. Fields are in the order in which upstream writes them, which is by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Everything a service account token says, bound or legacy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    pub aud: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub exp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub iat: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub iss: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub jti: String,
    #[serde(rename = "kubernetes.io", skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace", skip_serializing_if = "String::is_empty")]
    pub legacy_namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name", skip_serializing_if = "String::is_empty")]
    pub legacy_secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name", skip_serializing_if = "String::is_empty")]
    pub legacy_account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid", skip_serializing_if = "String::is_empty")]
    pub legacy_uid: String,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub nbf: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sub: String,
}

/// What a bound token says about its account and what it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kubernetes {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attestations: BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutatingwebhookconfiguration: Option<Reference>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validatingwebhookconfiguration: Option<Reference>,
    /// When the token was meant to expire, for those that live on so that old clients keep working.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub warnafter: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// What a token is bound to: it is good only as long as this exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    #[default]
    Nothing,
    /// A pod, and the node it runs on if that is known.
    Pod(Reference, Option<Reference>),
    Secret(Reference),
    Node(Reference),
    ValidatingWebhook(Reference),
    MutatingWebhook(Reference),
}

impl Claims {
    /// What a token of an account says that is good from `now` for so many seconds.
    pub fn new(
        namespace: &str,
        account: Reference,
        bound: Bound,
        audiences: Vec<String>,
        now: i64,
        seconds: i64,
    ) -> Claims {
        let sub = format!("system:serviceaccount:{namespace}:{}", account.name);
        let mut kubernetes =
            Kubernetes { namespace: namespace.to_string(), serviceaccount: account, ..Kubernetes::default() };
        match bound {
            Bound::Nothing => {}
            Bound::Pod(pod, node) => (kubernetes.pod, kubernetes.node) = (Some(pod), node),
            Bound::Secret(secret) => kubernetes.secret = Some(secret),
            Bound::Node(node) => kubernetes.node = Some(node),
            Bound::ValidatingWebhook(hook) => kubernetes.validatingwebhookconfiguration = Some(hook),
            Bound::MutatingWebhook(hook) => kubernetes.mutatingwebhookconfiguration = Some(hook),
        }
        Claims {
            aud: audiences,
            exp: Some(now + seconds),
            iat: Some(now),
            nbf: Some(now),
            sub,
            kubernetes: Some(kubernetes),
            ..Claims::default()
        }
    }
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::Several(several) => several,
    })
}

/// A date is a number of seconds, with or without a fraction.
fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    Ok(number.and_then(|number| number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds as i64))))
}
