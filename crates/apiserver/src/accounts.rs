//! Service accounts' tokens: from flags to keys, issuer and authenticator, and what tokens are checked against.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use actions::TokenSettings;
use authn::service_account::{
    self, AccountMeters, ExternalSigner, Issuer, Keys, PendingKey, ServiceAccountTokens, Signer, SigningKey,
};
use registry::{Features, OwnClient};
use tokio::task::JoinHandle;

use crate::config::ServiceAccounts as Flags;
use crate::fresh::Fresh;
use crate::{Config, pki};

const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc";

/// Everything that has to do with tokens, ready to use.
#[derive(Clone)]
pub struct Accounts {
    pub issuer: Arc<Issuer>,
    /// The first issues tokens, all are believed.
    pub issuers: Vec<String>,
    /// Tokens may be signed with any of these.
    pub keys: Keys,
    /// The process that signs tokens instead of this server, if there is one.
    pub external: Option<Arc<ExternalSigner>>,
    pub audiences: Vec<String>,
    /// 0 is without a limit.
    pub max_seconds: i64,
    pub extend_expiration: bool,
    /// How long pods' tokens live on.
    pub extended_seconds: i64,
    pub lookup: bool,
    pub meters: Arc<AccountMeters>,
}

/// Pods' tokens that live on do so for a year.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

impl Accounts {
    /// Reads the keys that the flags name, or those of the data directory, or asks the process that has them.
    pub async fn open(config: &Config, signing_key: SigningKeySource) -> Result<Accounts, String> {
        let flags = &config.service_accounts;
        check(flags)?;
        let issuers = if flags.issuers.is_empty() { vec![DEFAULT_ISSUER.to_string()] } else { flags.issuers.clone() };
        let mut max_seconds = i64::try_from(flags.max_token_expiration.as_secs()).unwrap_or(i64::MAX);
        let mut extended_seconds = EXTENDED_SECONDS;
        let (signer, keys, external) = match &flags.signing_endpoint {
            Some(endpoint) => {
                let external = ExternalSigner::connect(endpoint).await?;
                max_seconds = limited(max_seconds, external.max_seconds)?;
                extended_seconds = extended_seconds.min(external.max_seconds);
                (Signer::External(external.clone()), Keys::External(external.clone()), Some(external))
            }
            None => {
                let key = signing_key.key()?;
                let keys = public_keys(flags, &key)?;
                (Signer::Key(key), keys, None)
            }
        };
        let audiences = if config.api_audiences.is_empty() { issuers.clone() } else { config.api_audiences.clone() };
        Ok(Accounts {
            issuer: Arc::new(Issuer::new(&issuers[0], signer)),
            issuers,
            keys,
            external,
            audiences,
            max_seconds,
            extend_expiration: flags.extend_token_expiration,
            extended_seconds,
            lookup: flags.lookup,
            meters: Arc::default(),
        })
    }

    /// How tokens are issued.
    pub fn tokens(&self) -> TokenSettings {
        TokenSettings {
            issuer: self.issuer.clone(),
            audiences: self.audiences.clone(),
            max_seconds: self.max_seconds,
            extend_expiration: self.extend_expiration,
            extended_seconds: self.extended_seconds,
        }
    }

    /// Validates the tokens.
    pub fn method(&self, objects: Arc<dyn OwnClient>, features: &Features) -> ServiceAccountTokens {
        ServiceAccountTokens {
            issuers: self.issuers.clone(),
            keys: self.keys.clone(),
            audiences: self.audiences.clone(),
            lookup: self.lookup,
            webhook_tokens: features.enabled("APIServerWebhookAuthenticationToken"),
            objects,
            meters: self.meters.clone(),
        }
    }
}

/// How long tokens may live at most, where the process that signs them has a limit too.
fn limited(wanted: i64, limit: i64) -> Result<i64, String> {
    let shown = |seconds: i64| object::duration::Duration(seconds.saturating_mul(1_000_000_000)).to_string();
    match wanted {
        0 => Ok(limit),
        wanted if wanted > limit => Err(format!(
            "service-account-max-token-expiration cannot be set longer than the token expiration supported by \
             service-account-signing-endpoint: {} > {}",
            shown(wanted),
            shown(limit)
        )),
        wanted => Ok(wanted),
    }
}

/// The key that signs tokens.
pub enum SigningKeySource {
    /// Another process signs.
    External,
    /// The file of `--service-account-signing-key-file`.
    Given(PathBuf),
    /// One that no other start has.
    InMemory(Result<SigningKey, String>),
    /// The one that an earlier start made.
    Own(PathBuf),
    /// It is made for a first start. An RSA key takes longer than anything else there, so the server does not wait for it.
    Making(JoinHandle<Result<SigningKey, String>>),
}

impl SigningKeySource {
    /// Begins to make the key if there is none, in a directory that may be fresh.
    pub fn open(config: &Config, fresh: Option<Arc<Fresh>>) -> SigningKeySource {
        let flags = &config.service_accounts;
        let folder = config.data_dir.join("pki");
        let own = pki::service_account_key_file(&folder);
        match &flags.signing_key_file {
            _ if flags.signing_endpoint.is_some() => SigningKeySource::External,
            Some(given) => SigningKeySource::Given(given.clone()),
            None if flags.key_in_memory => SigningKeySource::InMemory(made_in_memory()),
            None if own.exists() => SigningKeySource::Own(own),
            None => SigningKeySource::Making(tokio::task::spawn_blocking(move || {
                // A directory that has to go goes when the key is in it.
                let _fresh = fresh;
                let pem = pki::make_service_account_key(&folder).map_err(|error| error.to_string());
                let made = pem.and_then(|pem| SigningKey::parse(pem.as_bytes()).map_err(|error| error.to_string()));
                made.inspect_err(|error| tracing::error!(error, "service accounts' tokens cannot be signed"))
            })),
        }
    }

    fn key(self) -> Result<PendingKey, String> {
        match self {
            SigningKeySource::External => Err("another process has the key that signs".into()),
            SigningKeySource::Given(path) => {
                let key = SigningKey::parse(&read(&path)?);
                let failed =
                    |error| format!("failed to parse --service-account-signing-key-file {}: {error}", path.display());
                Ok(key.map_err(failed)?.into())
            }
            SigningKeySource::InMemory(made) => Ok(made?.into()),
            SigningKeySource::Own(path) => {
                let key = SigningKey::parse(&read(&path)?).map_err(|error| {
                    let why = "bring it back from a backup, or remove it for a new one, which ends all service accounts' tokens";
                    format!("the key of service accounts in {} cannot be used: {error}; {why}", path.display())
                });
                Ok(key?.into())
            }
            SigningKeySource::Making(task) => Ok(PendingKey::new(async {
                task.await.map_err(|error| format!("the key of service accounts was not made: {error}"))?
            })),
        }
    }
}

/// A key that is kept nowhere.
fn made_in_memory() -> Result<SigningKey, String> {
    let pem = pki::make_small_key().map_err(|error| error.to_string())?;
    SigningKey::parse(pem.as_bytes()).map_err(|error| error.to_string())
}

/// The keys of `--service-account-key-file`, or the one that signs.
fn public_keys(flags: &Flags, signing: &PendingKey) -> Result<Keys, String> {
    let mut keys = Vec::new();
    for path in &flags.key_files {
        let found = service_account::read_public_keys(&read(path)?)
            .map_err(|error| format!("error reading public key file {}: {error}", path.display()))?;
        keys.extend(found);
    }
    Ok(if keys.is_empty() { Keys::Own(signing.clone()) } else { Keys::Fixed(keys.into()) })
}

fn check(flags: &Flags) -> Result<(), String> {
    if flags.signing_endpoint.is_some() && flags.signing_key_file.is_some() {
        let why = "service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive and cannot \
                   be set at the same time";
        return Err(why.into());
    }
    if flags.signing_endpoint.is_some() && !flags.key_files.is_empty() {
        let why = "cannot set mutually exclusive flags `--service-account-key-file` and \
                   `--service-account-signing-endpoint` at the same time";
        return Err(why.into());
    }
    const HOUR: u64 = 60 * 60;
    let longest = flags.max_token_expiration.as_secs();
    if !flags.max_token_expiration.is_zero() && !(HOUR..=1 << 32).contains(&longest) {
        return Err("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds".into());
    }
    for (place, issuer) in flags.issuers.iter().enumerate() {
        if issuer.is_empty() {
            return Err("service-account-issuer should not be an empty string".into());
        }
        if flags.issuers[..place].contains(issuer) {
            return Err(format!("service-account-issuer {} is already specified", object::quote(issuer)));
        }
    }
    if !flags.jwks_uri.is_empty() && !flags.jwks_uri.starts_with("https://") {
        return Err(format!("service-account-jwks-uri requires https scheme, parsed as: {}", flags.jwks_uri));
    }
    if !flags.key_files.is_empty() && flags.signing_key_file.is_none() {
        return Err("--service-account-signing-key-file and --service-account-issuer are required flags".into());
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
