//! The flags of authentication that are not about service accounts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use authn::UserHeaders;
use authn::configuration::{
    AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, IssuerConfiguration, JwtConfiguration,
    PrefixedClaimOrExpression,
};
use registry::Features;

use super::trust::certificates;
use crate::Config;
use crate::flags::{Given, Row, rows};

/// The flags that [`AuthenticationConfig`] takes.
pub(crate) const FLAGS: &[Row] = rows! { authentication = &mut config.authentication, |config, given|
    "authentication-config" => authentication.config_file = given.path(),
    "authentication-token-webhook-cache-ttl" => authentication.webhook_cache_ttl = given.span_or_zero()?,
    "authentication-token-webhook-config-file" => authentication.webhook_config_file = given.path(),
    "authentication-token-webhook-version" => authentication.webhook_version = given.last().to_string(),
    "oidc-ca-file" => authentication.oidc().ca_file = given.path(),
    "oidc-client-id" => authentication.oidc().client_id = given.last().to_string(),
    "oidc-groups-claim" => authentication.oidc().groups_claim = given.last().to_string(),
    "oidc-groups-prefix" => authentication.oidc().groups_prefix = given.last().to_string(),
    "oidc-issuer-url" => authentication.oidc().issuer_url = given.last().to_string(),
    "oidc-required-claim" => authentication.oidc().required_claims = required_claims(given)?,
    "oidc-signing-algs" => {
        authentication.oidc_given = true;
        authentication.oidc_signing_algs = given.list().collect();
    },
    "oidc-username-claim" => authentication.oidc().username_claim = given.last().to_string(),
    "oidc-username-prefix" => authentication.oidc().username_prefix = given.last().to_string(),
    "requestheader-allowed-names" => authentication.request_header.allowed_names = given.list().collect(),
    "requestheader-client-ca-file" => authentication.request_header.client_ca_file = given.path(),
    "requestheader-extra-headers-prefix" => {
        authentication.request_header.given.extra_prefixes = given.list().collect();
    },
    "requestheader-group-headers" => authentication.request_header.given.groups = given.list().collect(),
    "requestheader-uid-headers" => authentication.request_header.given.uids = given.list().collect(),
    "requestheader-username-headers" => authentication.request_header.given.names = given.list().collect(),
};

/// The settings of the flags of authentication, with kube-apiserver's defaults.
#[derive(Clone, Debug)]
pub struct AuthenticationConfig {
    pub config_file: Option<PathBuf>,
    /// Whether `--anonymous-auth` was given, which a file that says the same excludes.
    pub anonymous_flag_given: bool,
    pub webhook_config_file: Option<PathBuf>,
    pub webhook_version: String,
    pub webhook_cache_ttl: Duration,
    pub request_header: RequestHeaderFlags,
    pub oidc_signing_algs: Vec<String>,
    oidc: Oidc,
    /// Whether any of the `--oidc-*` flags was given.
    oidc_given: bool,
}

/// `--requestheader-*`.
#[derive(Clone, Debug, Default)]
pub struct RequestHeaderFlags {
    pub client_ca_file: Option<PathBuf>,
    pub allowed_names: Vec<String>,
    /// The headers as they were given, which extension servers are told.
    pub given: UserHeaders,
}

impl RequestHeaderFlags {
    /// The headers in lower case.
    pub fn headers(&self) -> UserHeaders {
        let lower = |list: &[String]| list.iter().map(|name| name.trim().to_lowercase()).collect();
        let UserHeaders { names, uids, groups, extra_prefixes } = &self.given;
        UserHeaders {
            names: lower(names),
            uids: lower(uids),
            groups: lower(groups),
            extra_prefixes: lower(extra_prefixes),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Oidc {
    issuer_url: String,
    client_id: String,
    ca_file: Option<PathBuf>,
    username_claim: String,
    username_prefix: String,
    groups_claim: String,
    groups_prefix: String,
    required_claims: Vec<(String, String)>,
}

impl Default for AuthenticationConfig {
    fn default() -> AuthenticationConfig {
        AuthenticationConfig {
            config_file: None,
            anonymous_flag_given: false,
            webhook_config_file: None,
            webhook_version: "v1beta1".into(),
            webhook_cache_ttl: Duration::from_secs(120),
            request_header: RequestHeaderFlags::default(),
            oidc_signing_algs: vec!["RS256".into()],
            oidc: Oidc { username_claim: "sub".into(), ..Oidc::default() },
            oidc_given: false,
        }
    }
}

impl AuthenticationConfig {
    /// The settings of OpenID Connect for one of its flags.
    fn oidc(&mut self) -> &mut Oidc {
        self.oidc_given = true;
        &mut self.oidc
    }

    /// Whether the flags go together.
    pub fn check(&self, config: &Config, features: &Features) -> Result<(), String> {
        let oidc = &self.oidc;
        if self.config_file.is_some() && self.oidc_given {
            return Err("authentication-config file and oidc-* flags are mutually exclusive".into());
        }
        if self.oidc_given && (oidc.issuer_url.is_empty() || oidc.client_id.is_empty()) {
            let why = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
            return Err(why.into());
        }
        let uids = &self.request_header.given.uids;
        if !uids.is_empty() && !features.enabled("RemoteRequestHeaderUID") {
            return Err(
                "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled".into()
            );
        }
        if !uids.is_empty() && !uids.iter().any(|name| name == "x-remote-uid") {
            let why = "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API \
                       aggregation will not work";
            return Err(why.into());
        }
        if let (Some(clients), Some(proxies)) = (&config.client_ca_file, &self.request_header.client_ca_file)
            && self.request_header.allowed_names.is_empty()
            && let (Ok(clients), Ok(proxies)) = (certificates(clients), certificates(proxies))
            && clients.iter().any(|client| proxies.iter().any(|proxy| proxy.raw == client.raw))
        {
            let why = "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
                       --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
                       authenticating proxy headers for arbitrary users";
            return Err(why.into());
        }
        Ok(())
    }

    /// The issuers, and who may be anonymous: from the file, with its contents, or from the `--oidc-*` flags.
    pub fn configuration(&self) -> Result<(AuthenticationConfiguration, Option<Vec<u8>>), String> {
        let Some(path) = &self.config_file else {
            let jwt = if self.oidc_given { vec![self.oidc.issuer()?] } else { Vec::new() };
            return Ok((AuthenticationConfiguration { jwt, anonymous: None }, None));
        };
        let failed = |why: String| {
            let path = object::quote(&path.display().to_string());
            format!("failed to load authentication configuration from file {path}: {why}")
        };
        let contents = read(path).map_err(failed)?;
        let configuration = AuthenticationConfiguration::read(&contents).map_err(failed)?;
        Ok((configuration, Some(contents)))
    }
}

impl Oidc {
    fn issuer(&self) -> Result<JwtConfiguration, String> {
        let certificate_authority = match &self.ca_file {
            Some(path) => String::from_utf8_lossy(&read(path)?).into_owned(),
            None => String::new(),
        };
        // Other claims than email are prefixed by default, so that issuers cannot name users of other methods.
        let prefix = match self.username_prefix.as_str() {
            "-" => String::new(),
            "" if self.username_claim != "email" => format!("{}#", self.issuer_url),
            prefix => prefix.to_string(),
        };
        let claim = |claim: &str, prefix: String| PrefixedClaimOrExpression {
            claim: claim.to_string(),
            prefix: Some(prefix),
            expression: String::new(),
        };
        let groups = match self.groups_claim.as_str() {
            "" => PrefixedClaimOrExpression::default(),
            groups => claim(groups, self.groups_prefix.clone()),
        };
        let rules = self.required_claims.iter().map(|(claim, value)| ClaimValidationRule {
            claim: claim.clone(),
            required_value: value.clone(),
            ..ClaimValidationRule::default()
        });
        Ok(JwtConfiguration {
            issuer: IssuerConfiguration {
                url: self.issuer_url.clone(),
                certificate_authority,
                audiences: vec![self.client_id.clone()],
                ..IssuerConfiguration::default()
            },
            claim_validation_rules: rules.collect(),
            claim_mappings: ClaimMappings {
                username: claim(&self.username_claim, prefix),
                groups,
                ..ClaimMappings::default()
            },
            user_validation_rules: Vec::new(),
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("open {}: {}", path.display(), outbound::in_gos_words(&error)))
}

/// `key=value`; a later value for the same claim replaces an earlier one.
fn required_claims(given: Given<'_>) -> Result<Vec<(String, String)>, String> {
    let mut claims: Vec<(String, String)> = Vec::new();
    for pair in given.0 {
        let (claim, value) = pair.split_once('=').ok_or_else(|| {
            let why = "malformed pair, expect string=string";
            crate::flags::wrong("oidc-required-claim", pair, why)
        })?;
        let (claim, value) = (claim.trim().to_string(), value.trim().to_string());
        claims.retain(|(known, _)| *known != claim);
        claims.push((claim, value));
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::set;

    fn applied(flags: &[(&str, &str)]) -> Result<AuthenticationConfig, String> {
        let mut config = Config::default();
        for (name, value) in flags {
            set(&mut config, name, Given(&[value.to_string()]))?;
        }
        Ok(config.authentication)
    }

    #[test]
    fn oidc_flags_are_an_issuer() {
        let issuer = [("oidc-issuer-url", "https://a"), ("oidc-client-id", "c")];
        for (more, claim, prefix) in [
            (&[][..], "sub", "https://a#"),
            (&[("oidc-username-claim", "email")], "email", ""),
            (&[("oidc-username-prefix", "-")], "sub", ""),
            (&[("oidc-username-prefix", "p:"), ("oidc-username-claim", "email")], "email", "p:"),
        ] {
            let flags: Vec<_> = issuer.iter().chain(more).copied().collect();
            let (configuration, _) = applied(&flags).unwrap().configuration().unwrap();
            let username = &configuration.jwt[0].claim_mappings.username;
            assert_eq!((username.claim.as_str(), username.prefix.as_deref()), (claim, Some(prefix)), "{more:?}");
            assert_eq!(configuration.jwt[0].issuer.audiences, ["c"]);
        }
        let config = applied(&[("oidc-required-claim", "hd=x")]).unwrap();
        let why = config.check(&Config::default(), &Features::default()).unwrap_err();
        assert!(why.starts_with("oidc-issuer-url and oidc-client-id must be specified together"), "{why}");
        assert!(applied(&[("oidc-required-claim", "hd")]).unwrap_err().contains("expect string=string"));
    }

    #[test]
    fn flags_that_do_not_go_together() {
        for (flags, want) in [
            (
                &[("authentication-config", "f"), ("oidc-client-id", "c")][..],
                "authentication-config file and oidc-* flags are mutually exclusive",
            ),
            (&[("requestheader-uid-headers", "X-Uid")], "--requestheader-uid-headers is set without specifying"),
        ] {
            let why = applied(flags).unwrap().check(&Config::default(), &Features::default()).unwrap_err();
            assert!(why.starts_with(want), "{why}");
        }
        let missing = applied(&[("authentication-config", "/nonexistent/f")]).unwrap().configuration().unwrap_err();
        let want = "failed to load authentication configuration from file \"/nonexistent/f\": open /nonexistent/f: no such \
                    file or directory";
        assert_eq!(missing, want);
    }
}
