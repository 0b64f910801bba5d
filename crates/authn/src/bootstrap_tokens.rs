//! `--enable-bootstrap-token-auth`: tokens in secrets of `kube-system`, with which new nodes introduce themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use object::timestamp::Time;
use object::{Meta, Value};
use registry::OwnClient;
use request::User;

use crate::{Identity, Refused, Token, TokenMethod};

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
const GROUP: &str = "system:bootstrappers";
const EXTRA_GROUP_MAX: usize = 256;

pub struct BootstrapTokens {
    pub objects: Arc<dyn OwnClient>,
}

#[async_trait]
impl TokenMethod for BootstrapTokens {
    async fn identify(&self, token: &Token<'_>) -> Result<Option<Identity>, Refused> {
        let Some((id, secret)) = parse(token.text) else { return Ok(None) };
        let name = format!("bootstrap-token-{id}");
        let Some(stored) = self.objects.get("", "secrets", "kube-system", &name).await else { return Ok(None) };
        match user(&stored, id, secret, token.now) {
            Ok(user) => Ok(Some(Identity { user, ..Identity::default() })),
            Err(why) => {
                tracing::warn!(secret = name, why, "a bootstrap token is no good");
                Ok(None)
            }
        }
    }
}

/// `abcdef.0123456789abcdef`.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (id.len() == ID_LENGTH && secret.len() == SECRET_LENGTH && plain(id) && plain(secret)).then_some((id, secret))
}

/// Who the token in a secret stands for, or what is wrong with it.
fn user(stored: &Value, id: &str, secret: &str, now: i64) -> Result<User, String> {
    let data = |key: &str| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(stored.str_at(&["data", key])).unwrap_or_default();
        // What is no text is not the same as nothing: a token without an expiration never expires.
        String::from_utf8_lossy(&bytes).into_owned()
    };
    if stored.is_deleting() {
        return Err("it is deleted and awaiting removal".into());
    }
    if stored.str_at(&["type"]) != "bootstrap.kubernetes.io/token" {
        return Err("the secret is of another type".into());
    }
    let same = aws_lc_rs::constant_time::verify_slices_are_equal(data("token-secret").as_bytes(), secret.as_bytes());
    if same.is_err() || data("token-id") != id {
        return Err("it is not the one in the secret".into());
    }
    let expiration = data("expiration");
    let expired = !expiration.is_empty() && Time::parse(&expiration).map_or(true, |Time(at)| at.secs <= now);
    if expired {
        return Err(format!("it has expired at {expiration}"));
    }
    if data("usage-bootstrap-authentication") != "true" {
        return Err("it is not for authentication".into());
    }
    let mut groups = BTreeSet::from([GROUP.to_string()]);
    for extra in data("auth-extra-groups").split(',').filter(|group| !group.is_empty()) {
        if !is_group(extra) {
            return Err(format!("bootstrap group {} is invalid", object::quote(extra)));
        }
        groups.insert(extra.to_string());
    }
    Ok(User { name: format!("system:bootstrap:{id}"), groups: groups.into_iter().collect(), ..User::default() })
}

/// `system:bootstrappers:` and something of lower case letters, digits, colons and dashes that ends with none of the latter.
fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let all = rest.bytes().all(|byte| plain(byte) || matches!(byte, b':' | b'-'));
    all && rest.len() <= EXTRA_GROUP_MAX && rest.bytes().last().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn check(changes: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mut secret = value!({"type": "bootstrap.kubernetes.io/token"});
        let standard = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            ("expiration", "2030-01-01T00:00:00Z"),
        ];
        for (key, text) in standard.iter().chain(changes) {
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            secret.set(&["data", key], encoded);
        }
        user(&secret, "abcdef", "0123456789abcdef", NOW).map(|user| user.groups)
    }

    #[test]
    fn secrets_decide() {
        assert_eq!(check(&[]).unwrap(), ["system:bootstrappers"]);
        let extra = [("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token")];
        assert_eq!(check(&extra).unwrap(), ["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"]);
        for (key, text) in [
            ("token-secret", "other"),
            ("token-id", "other"),
            ("expiration", "2020-01-01T00:00:00Z"),
            ("expiration", "soon"),
            ("usage-bootstrap-authentication", "no"),
            ("auth-extra-groups", "system:masters"),
        ] {
            assert!(check(&[(key, text)]).is_err(), "{key}={text}");
        }
    }

    #[test]
    fn tokens_have_a_form() {
        assert_eq!(parse("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for other in ["abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef.x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
