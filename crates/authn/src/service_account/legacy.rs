//! Tokens in secrets: they never expire and are good as long as their secret holds them.

use object::timestamp::Time;
use object::{Meta, Timestamp, Value, names};
use registry::{OwnChange, OwnClient};
use request::User;

use super::claims::Claims;
use super::meters::AccountMeters;
use super::user;
use crate::Refused;

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
auto-generated secret-based tokens.";
const DAY_SECONDS: i64 = 24 * 60 * 60;

pub struct Check<'a> {
    pub objects: &'a dyn OwnClient,
    pub now: i64,
    pub lookup: bool,
    pub meters: &'a AccountMeters,
}

impl Check<'_> {
    /// The account, and what to warn about.
    pub async fn user(&self, token: &str, claims: &Claims) -> Result<(User, Vec<String>), Refused> {
        check_claims(claims)?;
        let warnings = if self.lookup { self.look_up(token, claims).await? } else { Vec::new() };
        Ok((user(&claims.legacy_namespace, &claims.legacy_account, &claims.legacy_uid), warnings))
    }

    async fn look_up(&self, token: &str, claims: &Claims) -> Result<Vec<String>, Refused> {
        let (namespace, name) = (claims.legacy_namespace.as_str(), claims.legacy_account.as_str());
        let secret = self.objects.get("", "secrets", namespace, &claims.legacy_secret).await;
        let secret = secret.filter(|secret| !secret.is_deleting());
        let Some(secret) = secret else { return Err(Refused::because("Token has been invalidated")) };
        if !holds(secret.str_at(&["data", "token"]), token) {
            return Err(Refused::because("Token does not match server's copy"));
        }
        let Some(account) = self.objects.get("", "serviceaccounts", namespace, name).await else {
            return Err(Refused::because(format!("serviceaccounts {} not found", object::quote(name))));
        };
        if account.is_deleting() {
            return Err(Refused::because(format!("ServiceAccount {namespace}/{name} has been deleted")));
        }
        if account.uid() != claims.legacy_uid {
            let why = format!("ServiceAccount UID ({}) does not match claim ({})", account.uid(), claims.legacy_uid);
            return Err(Refused::because(why));
        }
        if let Some(today) = self.unmarked_day(secret.label(LAST_USED).unwrap_or("")) {
            self.note_use(&secret, &today).await;
        }
        if secret.label(INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            self.meters.invalidated.increment();
            return Err(Refused::because(format!(
                "the token in secret {namespace}/{} for service account {namespace}/{name} has been marked invalid. Use \
                 tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' \
                 label from the secret to temporarily allow use of this token",
                claims.legacy_secret
            )));
        }
        let generated = account.list_at(&["secrets"]).iter().any(|entry| entry.str_at(&["name"]) == secret.name());
        let uses = if generated { &self.meters.auto } else { &self.meters.manual };
        uses.increment();
        Ok(if generated { vec![GENERATED.to_string()] } else { Vec::new() })
    }

    /// Notes on the secret that its token was used on a day such as `2026-07-01`.
    async fn note_use(&self, secret: &Value, day: &str) {
        let marked = |stored: &Value| {
            let mut marked = stored.clone();
            marked.set(&["metadata", "labels", LAST_USED], day);
            Some(marked)
        };
        let (namespace, name, uid) = (secret.namespace(), secret.name(), Some(secret.uid()));
        let what = OwnChange { group: "", resource: "secrets", subresource: "", namespace, name, uid };
        if let Err(status) = self.objects.change(&what, &marked).await {
            tracing::warn!(secret = name, why = status.message, "cannot note when a token was last used");
        }
    }

    /// Today, if the secret does not say yet that its token was used then. Another server's day may have begun.
    fn unmarked_day(&self, marked: &str) -> Option<String> {
        let day = |secs: i64| Time(Timestamp::new(secs, 0)).to_string().chars().take(10).collect::<String>();
        let (today, tomorrow) = (day(self.now), day(self.now + DAY_SECONDS));
        (marked != today && marked != tomorrow).then_some(today)
    }
}

fn check_claims(claims: &Claims) -> Result<(), Refused> {
    for (claim, value) in [
        ("sub", &claims.sub),
        ("namespace", &claims.legacy_namespace),
        ("secretName", &claims.legacy_secret),
        ("serviceAccountName", &claims.legacy_account),
        ("serviceAccountUID", &claims.legacy_uid),
    ] {
        if value.is_empty() {
            return Err(Refused::because(format!("{claim} claim is missing")));
        }
    }
    let (namespace, name) = (claims.legacy_namespace.as_str(), claims.legacy_account.as_str());
    let well_formed =
        names::name_is_dns_label(namespace, false).is_empty() && names::name_is_dns_subdomain(name, false).is_empty();
    if !well_formed || claims.sub != format!("system:serviceaccount:{namespace}:{name}") {
        return Err(Refused::because("sub claim is invalid"));
    }
    Ok(())
}

/// Whether a secret's data is this token, compared in a time that tells nothing.
fn holds(data: &str, token: &str) -> bool {
    use base64::Engine;
    let stored = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
    aws_lc_rs::constant_time::verify_slices_are_equal(&stored, token.as_bytes()).is_ok()
}
