//! Whether a bound token is still good, and whose it is.

use object::timestamp::Time;
use object::{Meta, Value};
use registry::OwnClient;
use request::User;

use super::claims::{Claims, Kubernetes, Reference};
use super::user;
use crate::Refused;

/// Clocks may differ by this much, and deletions take this long to end a token.
const LEEWAY_SECONDS: i64 = 60;
const ATTESTED_GROUPS: &str = "admissionReviewAPIGroups";

pub struct Check<'a> {
    pub objects: &'a dyn OwnClient,
    pub now: i64,
    pub webhook_tokens: bool,
}

type Extra = Vec<(String, Vec<String>)>;

impl Check<'_> {
    pub async fn user(&self, claims: &Claims) -> Result<User, Refused> {
        self.check_dates(claims)?;
        let said = claims.kubernetes.clone().unwrap_or_default();
        self.check_account(&said).await?;
        let mut extra = Extra::new();
        if let Some(secret) = &said.secret {
            self.check_object("secret", "", "secrets", &said.namespace, secret).await?;
        }
        if let Some(pod) = &said.pod {
            self.check_object("pod", "", "pods", &said.namespace, pod).await?;
            if !pod.name.is_empty() && !pod.uid.is_empty() {
                tell(&mut extra, "pod-name", &pod.name);
                tell(&mut extra, "pod-uid", &pod.uid);
            }
        }
        if let Some(node) = &said.node {
            // A pod's token only tells the node; the pod may well outlive it.
            if said.pod.is_none() {
                self.check_object("node", "", "nodes", "", node).await?;
            }
            if !node.name.is_empty() {
                tell(&mut extra, "node-name", &node.name);
                if !node.uid.is_empty() {
                    tell(&mut extra, "node-uid", &node.uid);
                }
            }
        }
        self.check_webhooks(&said, &mut extra).await?;
        if !claims.jti.is_empty() {
            tell(&mut extra, "credential-id", &format!("JTI={}", claims.jti));
        }
        extra.sort();
        let account = &said.serviceaccount;
        Ok(User { extra, ..user(&said.namespace, &account.name, &account.uid) })
    }

    fn check_dates(&self, claims: &Claims) -> Result<(), Refused> {
        let (earliest, latest) = (self.now - LEEWAY_SECONDS, self.now + LEEWAY_SECONDS);
        let why = if claims.nbf.is_some_and(|from| latest < from) {
            "service account token is not valid yet"
        } else if claims.exp.is_some_and(|until| until < earliest) {
            "service account token has expired"
        } else if claims.iat.is_some_and(|issued| latest < issued) {
            "service account token is issued in the future"
        } else {
            return Ok(());
        };
        Err(Refused::because(why))
    }

    async fn check_account(&self, said: &Kubernetes) -> Result<(), Refused> {
        let (namespace, account) = (said.namespace.as_str(), &said.serviceaccount);
        if account.name.is_empty() {
            return Err(Refused::because("resource name may not be empty"));
        }
        let Some(found) = self.objects.get("", "serviceaccounts", namespace, &account.name).await else {
            let name = object::quote(&account.name);
            return Err(Refused::because(format!("serviceaccounts {name} not found")));
        };
        if found.uid() != account.uid {
            let why = format!("service account UID ({}) does not match claim ({})", found.uid(), account.uid);
            return Err(Refused::because(why));
        }
        if self.is_deleted(&found) {
            let why = format!("service account {namespace}/{} has been deleted", account.name);
            return Err(Refused::because(why));
        }
        Ok(())
    }

    /// The object must still be the one that the token was bound to.
    async fn check_object(
        &self,
        what: &str,
        group: &str,
        resource: &str,
        namespace: &str,
        bound: &Reference,
    ) -> Result<(), Refused> {
        let found = self.objects.get(group, resource, namespace, &bound.name).await;
        let Some(found) = found else { return Err(Refused::because(INVALIDATED)) };
        if found.uid() != bound.uid {
            let (subject, claim) = match what {
                "pod" => ("pod".to_string(), "pod"),
                "secret" | "node" => (what.to_string(), what),
                kind => (kind.to_string(), "validating"),
            };
            let why = format!(
                "{subject} UID ({}) does not match service account {claim} ref claim ({})",
                found.uid(),
                bound.uid
            );
            return Err(Refused::because(why));
        }
        if self.is_deleted(&found) {
            return Err(Refused::because(INVALIDATED));
        }
        Ok(())
    }

    async fn check_webhooks(&self, said: &Kubernetes, extra: &mut Extra) -> Result<(), Refused> {
        let hooks = [
            ("ValidatingWebhookConfiguration", &said.validatingwebhookconfiguration),
            ("MutatingWebhookConfiguration", &said.mutatingwebhookconfiguration),
        ];
        if hooks.iter().all(|(_, bound)| bound.is_none()) {
            return Ok(());
        }
        if !self.webhook_tokens {
            let gate = "APIServerWebhookAuthenticationToken";
            return Err(Refused::because(format!("feature gate \"{gate}\" is disabled, but token is webhook bound")));
        }
        let groups = said.attestations.get(ATTESTED_GROUPS).filter(|groups| !groups.is_empty());
        let Some(groups) = groups else {
            let why = format!("bound object was a webhook config, but \"{ATTESTED_GROUPS}\" attestation is missing");
            return Err(Refused::because(why));
        };
        for (kind, bound) in hooks {
            let Some(bound) = bound else { continue };
            let lower = kind.to_lowercase();
            self.check_object(kind, "admissionregistration.k8s.io", &format!("{lower}s"), "", bound).await?;
            tell(extra, &format!("{lower}-name"), &bound.name);
            tell(extra, &format!("{lower}-uid"), &bound.uid);
        }
        extra.push((format!("attestation.authentication.kubernetes.io/{ATTESTED_GROUPS}"), groups.clone()));
        Ok(())
    }

    fn is_deleted(&self, object: &Value) -> bool {
        let deleted = Time::parse(object.meta_str("deletionTimestamp"));
        deleted.is_ok_and(|Time(at)| at.secs < self.now - LEEWAY_SECONDS)
    }
}

const INVALIDATED: &str = "service account token has been invalidated";

fn tell(extra: &mut Extra, key: &str, value: &str) {
    extra.push((format!("authentication.kubernetes.io/{key}"), vec![value.to_string()]));
}
