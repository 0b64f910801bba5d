//! Authentication: from flags and files to the authenticator, and what happens when the files change.

mod flags;
#[cfg(feature = "oidc")]
mod issuers;
#[cfg(not(feature = "oidc"))]
mod no_issuers;
#[cfg(not(feature = "oidc"))]
use no_issuers as issuers;
mod trust;

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use authn::configuration::{Anonymous, AuthenticationConfiguration, validate};
use authn::service_account::{AccountMeters, ExternalSigner, ServiceAccountTokens};
use authn::{Authenticator, BootstrapTokens, Method, RequestHeader, TokenFile, TokenMethod, TokenWebhook};
use object::Path;
use outbound::Egress;
use registry::OwnClient;
use rest::Api;
use server::Metrics;
use server::tls::Handshake;
use standalone::Identity;
use tokio::task::JoinSet;

pub use self::flags::AuthenticationConfig;
pub(crate) use self::flags::FLAGS;
pub use self::issuers::Issuers;
pub use self::trust::Trust;
use crate::accounts::Accounts;
use crate::own_console::{self, Console};
use crate::reload::{self, Outcome, Reload};
use crate::reload_meters::ReloadMeters;
use crate::start::StartSettings;
use crate::{Config, ProgramParts, StartError};

/// How long the issuers of a changed file have to be found.
const RELOAD_PATIENCE: Duration = Duration::from_secs(60);
/// How often the config map that tells how to authenticate is looked at, besides when a certificate authority changes.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Everything that authenticates requests, ready to use.
pub struct Authentication {
    pub authenticator: Arc<Authenticator>,
    pub trust: Arc<Trust>,
    pub issuers: Arc<Issuers>,
    account_meters: Arc<AccountMeters>,
    file: Option<ConfigurationFile>,
    external_signer: Option<Arc<ExternalSigner>>,
}

/// How the program authenticates requests, which is asked before the methods of the configuration.
pub struct OwnMethods {
    methods: Vec<Box<dyn Method>>,
    tokens: Vec<Box<dyn TokenMethod>>,
    /// The console, if browsers can sign in.
    console: Option<Arc<Console>>,
}

impl OwnMethods {
    pub fn of(parts: &mut ProgramParts, console: Option<Arc<Console>>) -> OwnMethods {
        let (methods, tokens) = (std::mem::take(&mut parts.methods), std::mem::take(&mut parts.tokens));
        OwnMethods { methods, tokens, console }
    }

    /// The methods as parts of an authenticator.
    fn methods_of(&mut self, authenticator: &Weak<Authenticator>, issuers: &Issuers) -> Vec<Box<dyn Method>> {
        let methods = std::mem::take(&mut self.methods);
        let Some(console) = self.console.take() else { return methods };
        // A browser that has signed in is asked for its session first, and for its certificate then.
        let session = own_console::method(&console, authenticator, issuers);
        std::iter::once(session).chain(methods).collect()
    }
}

impl Authentication {
    /// Reads the files that the flags name.
    pub fn open(
        settings: &StartSettings,
        trust: Arc<Trust>,
        accounts: &Accounts,
        client: Arc<dyn OwnClient>,
        own: OwnMethods,
    ) -> Result<Authentication, StartError> {
        Authentication::read(settings, trust, accounts, client, own).map_err(StartError::Setting)
    }

    fn read(
        settings: &StartSettings,
        trust: Arc<Trust>,
        accounts: &Accounts,
        client: Arc<dyn OwnClient>,
        mut own: OwnMethods,
    ) -> Result<Authentication, String> {
        let StartSettings { config, features, egress } = settings;
        let flags = &config.authentication;
        flags.check(config, features)?;
        let (configuration, contents) = flags.configuration()?;
        let anonymous = anonymous(config, &configuration)?;
        let server = Identity::lease_name_on(&config.hostname);
        let egress_selectors = features.enabled("StructuredAuthenticationConfigurationEgressSelector");
        let disallowed_issuers = accounts.issuers.clone();
        let errors = validate(&configuration, &disallowed_issuers, egress_selectors);
        if !errors.is_empty() {
            return Err(format!("invalid authentication configuration: {}", errors.aggregate()));
        }
        // A file may name any algorithm, flags name those that are allowed.
        let algorithms = if contents.is_some() { None } else { Some(flags.oidc_signing_algs.clone()) };
        let allowed = AllowedIssuers { algorithms, disallowed: disallowed_issuers.clone(), egress_selectors };
        let issuers = Arc::new(Issuers::open(&configuration, allowed, egress, &server)?);
        let file = contents.zip(flags.config_file.clone()).map(|(contents, path)| {
            let meters = Arc::new(ReloadMeters::new("authentication", &server));
            meters.started(&contents);
            let anonymous = configuration.anonymous.clone();
            ConfigurationFile {
                path,
                contents,
                issuers: issuers.clone(),
                anonymous,
                disallowed_issuers,
                egress_selectors,
                meters,
            }
        });
        let mut configured: Vec<Box<dyn Method>> = Vec::new();
        if let Some(proxies) = &trust.proxies {
            configured.push(Box::new(RequestHeader {
                proxies: proxies.clone(),
                allowed_names: flags.request_header.allowed_names.clone(),
                headers: flags.request_header.headers(),
            }));
        }
        if let Some(clients) = &trust.clients {
            configured.push(Box::new(clients.clone()));
        }
        let mut tokens = std::mem::take(&mut own.tokens);
        tokens.extend(token_methods(config, accounts.method(client, features), &issuers, accounts, egress)?);
        let authenticator = Arc::new_cyclic(|authenticator| {
            let methods = own.methods_of(authenticator, &issuers).into_iter().chain(configured).collect();
            let mut authenticator = Authenticator::new(methods, tokens, accounts.audiences.clone(), anonymous);
            authenticator.session_cookie = own_console::cookie(config);
            authenticator.proxy_headers = trust.proxies.as_ref().map(|_| flags.request_header.headers());
            authenticator
        });
        Ok(Authentication {
            authenticator,
            trust,
            issuers,
            account_meters: accounts.meters.clone(),
            file,
            external_signer: accounts.external.clone(),
        })
    }

    /// Adds the metrics of authentication.
    pub fn contribute(&self, metrics: &Metrics) {
        let (authenticator, issuers) = (self.authenticator.clone(), self.issuers.clone());
        let accounts = self.account_meters.clone();
        let (reloads, external) = (self.file.as_ref().map(|file| file.meters.clone()), self.external_signer.clone());
        metrics.contribute(move |out| {
            let written = authenticator
                .meters
                .write(out)
                .and_then(|()| issuers.write_metrics(out))
                .and_then(|()| accounts.write(out));
            let written = written.and_then(|()| reloads.as_ref().map_or(Ok(()), |reloads| reloads.write(out)));
            let written = written.and_then(|()| external.as_ref().map_or(Ok(()), |signer| signer.write_metrics(out)));
            written.expect("writing to a string cannot fail");
        });
    }

    /// Follows changes of the files, and tells extension servers, for as long as the tasks run.
    pub fn run(self, api: &Arc<Api>, handshake: Option<Arc<Handshake>>, tasks: &mut JoinSet<()>) {
        self.trust.run(handshake, tasks);
        tasks.spawn(publish(api.clone(), self.trust));
        if let Some(file) = self.file {
            tasks.spawn(reload::run(file.path.clone(), file.contents.clone(), file));
        }
    }
}

/// Keeps telling extension servers how requests are authenticated, also when what was told is changed or deleted.
async fn publish(api: Arc<Api>, trust: Arc<Trust>) {
    loop {
        let changed = trust.changes();
        if let Err(status) = bootstrap::publish_authentication(&api, &trust.published()).await {
            tracing::error!(%status, "how to authenticate cannot be published");
        }
        let _ = tokio::time::timeout(PUBLISH_INTERVAL, changed).await;
    }
}

/// Tokens in upstream's order: local methods first, and issuers after service accounts, whose tokens are JWTs as well.
fn token_methods(
    config: &Config,
    accounts: ServiceAccountTokens,
    issuers: &Issuers,
    own: &Accounts,
    egress: &Egress,
) -> Result<Vec<Box<dyn TokenMethod>>, String> {
    let mut tokens: Vec<Box<dyn TokenMethod>> = Vec::new();
    if let Some(path) = &config.token_auth_file {
        tokens.push(Box::new(TokenFile::read(path).map_err(|error| format!("{}: {error}", path.display()))?));
    }
    let objects = accounts.objects.clone();
    tokens.push(Box::new(accounts));
    if config.bootstrap_tokens {
        tokens.push(Box::new(BootstrapTokens { objects }));
    }
    tokens.extend(issuers.method());
    let flags = &config.authentication;
    if let Some(file) = &flags.webhook_config_file {
        let (version, ttl) = (flags.webhook_version.as_str(), flags.webhook_cache_ttl);
        let webhook = TokenWebhook::open(file, version, own.audiences.clone(), ttl, egress)?;
        tokens.push(Box::new(webhook));
    }
    Ok(tokens)
}

/// Who may be anonymous: the file says, or the flag.
fn anonymous(config: &Config, configuration: &AuthenticationConfiguration) -> Result<Anonymous, String> {
    match &configuration.anonymous {
        Some(_) if config.authentication.anonymous_flag_given => {
            let why = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication \
                       configuration file";
            Err(format!("anonymous: Forbidden: {why}"))
        }
        Some(anonymous) => Ok(anonymous.clone()),
        None => Ok(Anonymous { enabled: config.anonymous_auth, paths: Vec::new() }),
    }
}

/// Which issuers a configuration may name, and how.
#[cfg_attr(not(feature = "oidc"), allow(dead_code))]
pub struct AllowedIssuers {
    /// Those that tokens may be signed with; None for all.
    algorithms: Option<Vec<String>>,
    /// The server's own, whose tokens are service accounts'.
    disallowed: Vec<String>,
    egress_selectors: bool,
}

/// The file of `--authentication-config`. Issuers follow its changes; anonymous access stays as it was at the start.
struct ConfigurationFile {
    path: PathBuf,
    contents: Vec<u8>,
    issuers: Arc<Issuers>,
    anonymous: Option<Anonymous>,
    disallowed_issuers: Vec<String>,
    egress_selectors: bool,
    meters: Arc<ReloadMeters>,
}

impl ConfigurationFile {
    /// The configuration in changed contents, if it can be used at all.
    fn read(&self, contents: &[u8]) -> Result<AuthenticationConfiguration, String> {
        let configuration = AuthenticationConfiguration::read(contents)?;
        let mut errors = validate(&configuration, &self.disallowed_issuers, self.egress_selectors);
        if configuration.anonymous != self.anonymous {
            errors.forbidden(&Path::of("anonymous"), "changed from initial configuration file");
        }
        if errors.is_empty() { Ok(configuration) } else { Err(errors.aggregate()) }
    }
}

#[async_trait]
impl Reload for ConfigurationFile {
    async fn reload(&mut self, contents: Result<&[u8], &std::io::Error>) -> Outcome {
        let failed = |error: String, outcome: Outcome| {
            tracing::error!(error, "failed to load authentication config");
            self.meters.failed();
            outcome
        };
        let contents = match contents {
            Ok(contents) => contents,
            Err(error) => return failed(error.to_string(), Outcome::Again),
        };
        let configuration = match self.read(contents) {
            Ok(configuration) => configuration,
            // What is wrong with these contents will always be.
            Err(error) => return failed(error, Outcome::Settled),
        };
        match self.issuers.replace(&configuration, RELOAD_PATIENCE).await {
            Ok(()) => {
                tracing::info!("reloaded authentication config");
                self.meters.succeeded(contents);
                Outcome::Settled
            }
            Err(error) => failed(error, Outcome::Again),
        }
    }
}
