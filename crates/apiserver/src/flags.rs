//! The command line: kube-apiserver's flags from the generated table, and a few of our own.
//!
//! Every upstream flag is parsed with upstream's type and default. The ones in [`HONOURED`] have an effect. One that can have none
//! is named in the log when it is given, and `--help` says why.

mod given;
mod no_effect;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};
use object::duration;

use crate::logging::Logging;
use crate::{
    Config, aggregation, audit, authentication, authorization, debugging, logging, own_service, peering, serving,
    shown_metrics, store, versions,
};
pub(crate) use given::{Given, boolean};

const TABLE: &str = include_str!("../data/flags.txt");
const SECTIONS: &str = include_str!("../data/sections.txt");

/// Deprecated flags, which upstream takes without showing them: name, type and default.
const DEPRECATED: &[(&str, &str, &str)] = &[
    ("apiserver-count", "int", "1"),
    ("audit-webhook-batch-initial-backoff", "duration", "10s"),
    ("default-watch-cache-size", "int", "100"),
    ("kubelet-port", "uint", "10250"),
    ("kubelet-read-only-port", "uint", "10255"),
];

/// Upstream flags that a server used alone may be given too. Any other shows that the server is part of a control plane.
const ALSO_ALONE: &[&str] =
    &["bind-address", "event-ttl", "feature-gates", "logging-format", "runtime-config", "secure-port"];

/// Upstream flags with an effect here.
const HONOURED: &[&str] = &[
    "admission-control",
    "admission-control-config-file",
    "advertise-address",
    "allow-privileged",
    "anonymous-auth",
    "api-audiences",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "coordinated-leadership-lease-duration",
    "coordinated-leadership-renew-deadline",
    "coordinated-leadership-retry-period",
    "default-not-ready-toleration-seconds",
    "default-unreachable-toleration-seconds",
    "disable-admission-plugins",
    "egress-selector-config-file",
    "enable-admission-plugins",
    "emulated-version",
    "emulation-forward-compatible",
    "enable-bootstrap-token-auth",
    "enable-garbage-collector",
    "event-ttl",
    "external-hostname",
    "feature-gates",
    "min-compatibility-version",
    "request-timeout",
    "runtime-config",
    "runtime-config-emulation-forward-compatible",
    "secure-port",
    "service-account-extend-token-expiration",
    "service-account-issuer",
    "service-account-jwks-uri",
    "service-account-key-file",
    "service-account-lookup",
    "service-account-max-token-expiration",
    "service-account-signing-endpoint",
    "service-account-signing-key-file",
    "shutdown-delay-duration",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
    "tracing-config-file",
];

/// Started by this name the server has upstream's defaults to the letter.
pub const KUBE_APISERVER: &str = "kube-apiserver";

/// What `serve` was told.
pub struct Serve {
    pub config: Config,
    pub logging: Logging,
    /// Flags that were given and have no effect.
    pub without_effect: Vec<String>,
}

/// The whole command line, for parsing and for completion scripts.
pub fn command() -> Command {
    let mut command = Command::new("ferrokube")
        .about("The Kubernetes API server, in one small binary.")
        .long_about(
            "The Kubernetes API server, in one small binary. Without any flag it keeps its data in .ferrokube, makes its \
             own certificates, and serves on https://127.0.0.1:6443.\n\nEvery flag of kube-apiserver v1.37 is known; \
             those marked (no effect) are named in the log when they are given.",
        )
        .disable_version_flag(true)
        .arg(
            Arg::new("version")
                .long("version")
                .value_name("true|raw|vX.Y.Z")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .help("Print the version and exit; --version=vX.Y.Z... sets the version that the server reports"),
        )
        .arg(data_dir())
        .arg(
            Arg::new("standalone")
                .long("standalone")
                .value_name("true|false")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .help(
                    "Delete namespaces, collect owned objects and make default service accounts, as a controller manager \
                     would [default: true, unless flags show that this is part of a control plane]",
                )
                .help_heading("ferrokube"),
        )
        .arg(
            Arg::new("admission-webhook-ignore-budget")
                .long("admission-webhook-ignore-budget")
                .value_name("DURATION")
                .help(
                    "How long all webhooks with failurePolicy Ignore may take together in one request, such as 5s. One that \
                     is out of time, or failed three times in a row within ten seconds, is skipped as if it had failed \
                     [default: no limit but each webhook's own timeout, as kube-apiserver]",
                )
                .help_heading("ferrokube"),
        )
        .arg(
            Arg::new("v")
                .short('v')
                .long("v")
                .value_name("LEVEL")
                .value_parser(clap::value_parser!(u32))
                .default_value("0")
                .help("How much to log: 4 for debugging, 8 for everything")
                .help_heading("Logs"),
        );
    for flag in upstream() {
        if flag.name != "version" {
            command = command.arg(flag.arg());
        }
    }
    command
}

/// Which data directory a command is about.
pub fn data_dir() -> Arg {
    Arg::new("data-dir")
        .long("data-dir")
        .value_parser(clap::value_parser!(PathBuf))
        .default_value(".ferrokube")
        .help("Where data, keys and certificates are kept")
        .help_heading("ferrokube")
}

/// Reads a command line. `called_as` is the name the program was started by.
pub fn serve(matches: &ArgMatches, called_as: &str) -> Result<Serve, String> {
    let is_drop_in = called_as == KUBE_APISERVER;
    let mut config = if is_drop_in { Config::of_kube_apiserver() } else { Config::default() };
    if let Some(path) = matches.get_one::<PathBuf>("data-dir") {
        config.data_dir = path.clone();
    }
    let mut logging = Logging::default();
    let mut without_effect = Vec::new();
    let mut alone = true;
    for flag in upstream() {
        let given = matches.value_source(flag.name) == Some(clap::parser::ValueSource::CommandLine);
        if !given || flag.name == "version" {
            config.flags.insert(flag.name.into(), flag.shown(None));
            continue;
        }
        let values: Vec<String> = matches.get_many::<String>(flag.name).into_iter().flatten().cloned().collect();
        flag.check(&values)?;
        config.flags.insert(flag.name.into(), flag.shown(Some(&values)));
        alone &= ALSO_ALONE.contains(&flag.name);
        if logging::FLAGS.contains(&flag.name) {
            logging.apply(flag.name, Given(&values)).map_err(|why| format!("--{}: {why}", flag.name))?;
        } else if is_honoured(flag.name) {
            apply(&mut config, flag.name, Given(&values)).map_err(|why| format!("--{}: {why}", flag.name))?;
        } else {
            without_effect.push(format!("--{}", flag.name));
        }
    }
    if let Some(VersionFlag::Report(version)) = version(matches)? {
        config.reported_version = Some(version);
    }
    if let Some(text) = matches.get_one::<String>("admission-webhook-ignore-budget") {
        let budget = Given(std::slice::from_ref(text)).span();
        let budget = budget.map_err(|why| format!("--admission-webhook-ignore-budget: {why}"))?;
        config.webhook_ignore_budget = Some(budget).filter(|budget| !budget.is_zero());
    }
    choose_plugins(&mut config)?;
    config.versions.check()?;
    config.leadership.check()?;
    config.standalone = match matches.get_one::<String>("standalone") {
        Some(given) => boolean(given).map_err(|why| format!("--standalone: {why}"))?,
        None => alone && !is_drop_in,
    };
    if config.authorization.file.is_none() && config.authorization.modes.iter().any(|mode| mode == "AlwaysAllow") {
        // As upstream: a request without credentials must not be allowed everything.
        config.anonymous_auth = false;
    }
    if !is_drop_in && !has_service_accounts(&config) {
        config.disable_admission_plugins.push("ServiceAccount".into());
    }
    logging.verbosity = matches.get_one::<u32>("v").copied().unwrap_or(0);
    config.flags.insert("v".into(), logging.verbosity.to_string());
    logging.check(&config.features()?)?;
    Ok(Serve { config, logging, without_effect })
}

/// `--admission-control` names every plugin that is enabled, so all others are disabled.
fn choose_plugins(config: &mut Config) -> Result<(), String> {
    let Some(names) = config.admission_control.clone() else { return Ok(()) };
    if !config.enable_admission_plugins.is_empty() || !config.disable_admission_plugins.is_empty() {
        return Err(
            "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
                .into(),
        );
    }
    if let Some(name) = names.iter().find(|name| !admission::plugins::names().any(|known| known == name.as_str())) {
        return Err(format!("admission-control plugin {} is unknown", object::quote(name)));
    }
    let others = admission::plugins::names().filter(|known| !names.iter().any(|name| name == known));
    config.disable_admission_plugins = others.map(str::to_string).collect();
    config.enable_admission_plugins = names;
    Ok(())
}

/// What `--version` asks for.
pub enum VersionFlag {
    Print,
    /// As a Go struct, for programs.
    PrintRaw,
    /// A version to report instead of the one that the server was built as.
    Report(String),
}

/// Reads `--version`; None if it was not given, or is false.
pub fn version(matches: &ArgMatches) -> Result<Option<VersionFlag>, String> {
    let Some(given) = matches.get_one::<String>("version") else { return Ok(None) };
    let wrong = |why: String| format!("invalid argument {} for \"--version\" flag: {why}", object::quote(given));
    match given.as_str() {
        "raw" => Ok(Some(VersionFlag::PrintRaw)),
        version if version.starts_with('v') => {
            check_version(version).map_err(wrong)?;
            Ok(Some(VersionFlag::Report(version.to_string())))
        }
        other => Ok(boolean(other).map_err(wrong)?.then_some(VersionFlag::Print)),
    }
}

/// Only what comes after the numbers of a version can be chosen.
fn check_version(version: &str) -> Result<(), String> {
    let built = server::Version::default().git_version;
    let numbers = |text: &str| {
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let parts: Vec<Option<u32>> = text.get(1..end)?.split('.').map(|part| part.parse().ok()).collect();
        <[Option<u32>; 3]>::try_from(parts).ok().filter(|parts| parts.iter().all(Option::is_some))
    };
    match numbers(version) {
        None => Err(format!("could not parse {} as version", object::quote(version))),
        given if given == numbers(&built) => Ok(()),
        _ => {
            let (version, built) = (object::quote(version), object::quote(&built));
            Err(format!("version {version} must match major/minor/patch of default version {built}"))
        }
    }
}

/// Whether pods are given service accounts. Without anything that makes those, pods that wait for one are never created: a server
/// that runs alone makes them, and so does a controller manager; where there is one, the server was told about its keys.
fn has_service_accounts(config: &Config) -> bool {
    let accounts = &config.service_accounts;
    let told = accounts.signing_key_file.is_some() || !accounts.key_files.is_empty() || !accounts.issuers.is_empty();
    let asked_for = config.enable_admission_plugins.iter().any(|plugin| plugin == "ServiceAccount");
    config.standalone || told || asked_for
}

fn apply(config: &mut Config, name: &str, given: Given<'_>) -> Result<(), String> {
    let last = given.last();
    match name {
        "admission-control" => config.admission_control = Some(given.list().collect()),
        "admission-control-config-file" => config.admission_config_file = given.path(),
        "api-audiences" => config.api_audiences = given.list().collect(),
        "service-account-extend-token-expiration" => {
            config.service_accounts.extend_token_expiration = given.boolean()?;
        }
        "service-account-issuer" => config.service_accounts.issuers = given.0.to_vec(),
        "service-account-jwks-uri" => config.service_accounts.jwks_uri = last.to_string(),
        "service-account-key-file" => {
            config.service_accounts.key_files = given.0.iter().map(PathBuf::from).collect();
        }
        "service-account-lookup" => config.service_accounts.lookup = given.boolean()?,
        "service-account-max-token-expiration" => {
            config.service_accounts.max_token_expiration = given.span_or_zero()?
        }
        "service-account-signing-endpoint" => {
            config.service_accounts.signing_endpoint = Some(last.to_string()).filter(|path| !path.is_empty());
        }
        "service-account-signing-key-file" => config.service_accounts.signing_key_file = given.path(),
        "allow-privileged" => config.allow_privileged = given.boolean()?,
        "anonymous-auth" => {
            config.anonymous_auth = given.boolean()?;
            config.authentication.anonymous_flag_given = true;
        }
        "bind-address" => config.bind_address = last.parse::<IpAddr>().map_err(|error| error.to_string())?,
        "advertise-address" => {
            config.advertise_address = Some(last.parse().map_err(|_| format!("{last} is no address"))?)
        }
        "cert-dir" => config.cert_dir = given.path(),
        "client-ca-file" => config.client_ca_file = given.path(),
        "coordinated-leadership-lease-duration" => config.leadership.lease = given.span()?,
        "coordinated-leadership-renew-deadline" => config.leadership.renew_deadline = given.span()?,
        "coordinated-leadership-retry-period" => config.leadership.retry = given.span()?,
        "default-not-ready-toleration-seconds" => config.toleration_seconds.0 = given.number()?,
        "default-unreachable-toleration-seconds" => config.toleration_seconds.1 = given.number()?,
        "disable-admission-plugins" => config.disable_admission_plugins = given.list().collect(),
        "egress-selector-config-file" => config.egress_file = given.path(),
        "enable-admission-plugins" => config.enable_admission_plugins = given.list().collect(),
        "enable-bootstrap-token-auth" => config.bootstrap_tokens = given.boolean()?,
        "enable-garbage-collector" => config.garbage_collection = given.boolean()?,
        "external-hostname" => config.external_hostname = last.to_string(),
        "event-ttl" => config.event_ttl = given.span_or_zero()?,
        "emulated-version" => config.versions.set_emulated(given)?,
        "emulation-forward-compatible" => config.versions.forward_compatible = given.boolean()?,
        "runtime-config-emulation-forward-compatible" => {
            config.versions.runtime_forward_compatible = given.boolean()?;
        }
        "min-compatibility-version" => config.versions.set_compatible(given)?,
        "feature-gates" => config.feature_gates = settings(versions::without_component(given)?.into_iter())?,
        "request-timeout" => config.request_timeout = given.span_or_zero()?,
        "runtime-config" => config.runtime_config = settings(given.list())?,
        "secure-port" => config.port = last.parse().map_err(|_| format!("{last} is not a port"))?,
        "shutdown-delay-duration" => config.shutdown_delay = given.span_or_zero()?,
        "tls-cert-file" => config.tls_cert_file = given.path(),
        "tls-private-key-file" => config.tls_private_key_file = given.path(),
        "tracing-config-file" => config.tracing_file = given.path(),
        "token-auth-file" => config.token_auth_file = given.path(),
        other if store::FLAGS.contains(&other) => config.store.apply(other, given)?,
        other if authorization::FLAGS.contains(&other) => config.authorization.apply(other, given)?,
        other if audit::FLAGS.contains(&other) => config.audit.apply(other, given)?,
        other if aggregation::FLAGS.contains(&other) => config.aggregation.apply(other, given)?,
        other if own_service::FLAGS.contains(&other) => config.own_service.apply(other, given)?,
        other if peering::FLAGS.contains(&other) => config.peering.apply(other, given)?,
        other if shown_metrics::FLAGS.contains(&other) => config.metrics.apply(other, given)?,
        other if authentication::FLAGS.contains(&other) => config.authentication.apply(other, given)?,
        other if debugging::FLAGS.contains(&other) => config.debugging.apply(other, given)?,
        other => config.serving.apply(other, given)?,
    }
    Ok(())
}

fn is_honoured(flag: &str) -> bool {
    HONOURED.contains(&flag)
        || serving::FLAGS.contains(&flag)
        || store::FLAGS.contains(&flag)
        || audit::FLAGS.contains(&flag)
        || aggregation::FLAGS.contains(&flag)
        || own_service::FLAGS.contains(&flag)
        || authorization::FLAGS.contains(&flag)
        || peering::FLAGS.contains(&flag)
        || shown_metrics::FLAGS.contains(&flag)
        || authentication::FLAGS.contains(&flag)
        || debugging::FLAGS.contains(&flag)
        || logging::FLAGS.contains(&flag)
}

/// `name=true` pairs; a name alone is true.
fn settings(items: impl Iterator<Item = String>) -> Result<Vec<(String, bool)>, String> {
    items
        .map(|item| match item.split_once('=') {
            None => Ok((item, true)),
            Some((name, value)) => Ok((name.to_string(), boolean(value)?)),
        })
        .collect()
}

/// One line of the table.
struct Flag {
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    deprecated: bool,
}

fn upstream() -> impl Iterator<Item = Flag> {
    let shown = TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (kind, default) = rest.split_once(' ')?;
        Some(Flag { name, kind, default, deprecated: false })
    });
    let deprecated = DEPRECATED.iter().map(|(name, kind, default)| Flag { name, kind, default, deprecated: true });
    shown.chain(deprecated)
}

impl Flag {
    fn arg(&self) -> Arg {
        let mut notes = vec![self.kind.to_string()];
        if !matches!(self.default, "-" | "[]" | "") {
            notes.push(format!("default {}", self.default));
        }
        if let Some(why) = no_effect::reason(self.name) {
            notes.push(format!("no effect: {why}"));
        }
        let arg = Arg::new(self.name)
            .long(self.name)
            .value_name("VALUE")
            .action(ArgAction::Append)
            .hide_possible_values(true)
            .hide(self.deprecated)
            .help(format!("({})", notes.join("; ")))
            .help_heading(self.section());
        // A boolean flag may stand alone, as in Go.
        if self.kind == "bool" { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
    }

    /// The value as Go's flag library prints it; None for the default.
    fn shown(&self, values: Option<&[String]>) -> String {
        let is_list = matches!(self.kind, "strings" | "stringArray" | "int32Slice" | "namedCertKey");
        match (values, self.kind) {
            (Some(values), _) if is_list => format!("[{}]", values.join(",")),
            (Some(values), _) => values.last().cloned().unwrap_or_default(),
            (None, _) if self.default != "-" => self.default.to_string(),
            (None, _) if is_list => "[]".into(),
            (None, "bool") => "false".into(),
            (None, "int" | "float" | "float32") => "0".into(),
            (None, "duration") => "0s".into(),
            (None, _) => String::new(),
        }
    }

    /// The section of the help that upstream has it in.
    fn section(&self) -> &'static str {
        let lines = SECTIONS.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(_, flags)| flags.split(' ').any(|flag| flag == self.name));
        found.next().map_or("Misc", |(section, _)| section)
    }

    /// Whether the values are of the flag's type.
    fn check(&self, values: &[String]) -> Result<(), String> {
        let wrong = |value: &String, why: String| {
            Err(format!("invalid argument {} for \"--{}\" flag: {why}", object::quote(value), self.name))
        };
        for value in values {
            match self.kind {
                "bool" => boolean(value).or_else(|why| wrong(value, why).map(|()| false)).map(|_| ())?,
                "int" if value.parse::<i64>().is_err() => {
                    let why = format!("strconv.ParseInt: parsing {}: invalid syntax", object::quote(value));
                    return wrong(value, why);
                }
                "duration" => {
                    if let Err(error) = duration::Duration::parse(value) {
                        return wrong(value, error.to_string());
                    }
                }
                "ip" if !value.is_empty() && value.parse::<IpAddr>().is_err() => {
                    return wrong(value, format!("failed to parse IP: {}", object::quote(value)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Serve, String> {
        let arguments = std::iter::once("ferrokube").chain(arguments.iter().copied());
        let matches = command().try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        serve(&matches, "ferrokube")
    }

    #[test]
    fn defaults_follow_the_name() {
        let check = |called_as: &str, arguments: &[&str], want: (&str, bool, bool, bool, &str)| {
            let arguments = std::iter::once(&called_as).chain(arguments);
            let config = serve(&command().try_get_matches_from(arguments).unwrap(), called_as).unwrap().config;
            let has_accounts = !config.disable_admission_plugins.contains(&"ServiceAccount".to_string());
            let modes = config.authorization.modes.join(",");
            let got = (modes.as_str(), config.anonymous_auth, config.standalone, has_accounts);
            assert_eq!(got, (want.0, want.1, want.2, want.3), "{called_as}");
            assert_eq!(config.bind_address.to_string(), want.4, "{called_as}");
        };
        check("ferrokube", &[], ("Node,RBAC", true, true, true, "127.0.0.1"));
        check("ferrokube", &["--authorization-mode=AlwaysAllow"], ("AlwaysAllow", false, false, false, "127.0.0.1"));
        check("kube-apiserver", &[], ("AlwaysAllow", false, false, true, "0.0.0.0"));
        check("kube-apiserver", &["--authorization-mode=RBAC"], ("RBAC", true, false, true, "0.0.0.0"));
        check("kube-apiserver", &["--apiserver-count=3"], ("AlwaysAllow", false, false, true, "0.0.0.0"));
    }

    #[test]
    fn every_upstream_flag_is_taken() {
        for flag in upstream().filter(|flag| flag.name != "version") {
            let value = match flag.kind {
                "bool" => "true",
                "int" => "1",
                "duration" => "1m0s",
                "ip" => "127.0.0.1",
                _ => "x",
            };
            let parsed = command().try_get_matches_from(["ferrokube", &format!("--{}={value}", flag.name)]);
            assert!(parsed.is_ok(), "--{}", flag.name);
        }
    }

    #[test]
    fn flags_reach_the_configuration() {
        let serve = parse(&[
            "--secure-port=0",
            "--authorization-mode=RBAC",
            "--runtime-config=api/all=true,batch/v1=false",
            "--anonymous-auth=false",
            "--request-timeout=90s",
            "--etcd-servers=https://a:2379,https://b:2379",
            "--etcd-prefix=/other",
            "--etcd-compaction-interval=1m",
            "--contention-profiling",
        ])
        .unwrap();
        assert_eq!(serve.config.port, 0);
        assert_eq!(serve.config.authorization.modes, ["RBAC"]);
        assert_eq!(serve.config.runtime_config, [("api/all".to_string(), true), ("batch/v1".to_string(), false)]);
        assert!(!serve.config.anonymous_auth);
        assert_eq!(serve.config.request_timeout, Duration::from_secs(90));
        assert_eq!(serve.config.store.etcd_servers, ["https://a:2379", "https://b:2379"]);
        assert_eq!(serve.config.store.prefix(), "/other");
        assert_eq!(serve.config.store.compaction_interval, Duration::from_secs(60));
        assert_eq!(serve.without_effect, ["--contention-profiling"]);
        for (flag, shown) in [
            ("secure-port", "0"),
            ("etcd-servers", "[https://a:2379,https://b:2379]"),
            ("anonymous-auth", "false"),
            ("event-ttl", "1h0m0s"),
            ("enable-admission-plugins", "[]"),
            ("etcd-cafile", ""),
            ("v", "0"),
        ] {
            assert_eq!(serve.config.flags.get(flag).map(String::as_str), Some(shown), "{flag}");
        }
    }

    #[test]
    fn pods_have_accounts_where_they_are_made() {
        for (arguments, want) in [
            (&[][..], true),
            (&["--authorization-mode=RBAC"], false),
            (&["--authorization-mode=RBAC", "--enable-admission-plugins=ServiceAccount"], true),
            (&["--service-account-issuer=https://issuer"], true),
            (&["--standalone=false"], false),
        ] {
            let disabled = parse(arguments).unwrap().config.disable_admission_plugins;
            assert_eq!(!disabled.contains(&"ServiceAccount".to_string()), want, "{arguments:?}");
        }
    }

    #[test]
    fn a_version_can_be_reported() {
        let version = |argument: &str| parse(&[argument]).map(|serve| serve.config.version().git_version);
        assert_eq!(version("--version=v1.37.0-custom.1").unwrap(), "v1.37.0-custom.1");
        assert_eq!(version("--version=false").unwrap(), server::Version::default().git_version);
        for (argument, want) in [
            ("--version=v1.36.0", "must match major/minor/patch of default version"),
            ("--version=vx", "could not parse \"vx\" as version"),
            ("--version=1", ""),
            ("--version=maybe", "strconv.ParseBool"),
        ] {
            let error = version(argument).err().unwrap_or_default();
            assert!(error.contains(want), "{argument}: {error}");
        }
    }

    #[test]
    fn broken_flags_say_why() {
        for (argument, want) in [
            ("--secure-port=x", "strconv.ParseInt"),
            ("--request-timeout=soon", "time: invalid duration"),
            ("--anonymous-auth=maybe", "strconv.ParseBool"),
            (
                "--coordinated-leadership-lease-duration=5s",
                "must be greater than --coordinated-leadership-renew-deadline",
            ),
            ("--emulated-version=1.20", "emulation version 1.20 is not between"),
            ("--no-such-flag", "unexpected argument"),
        ] {
            let error = parse(&[argument]).err().unwrap();
            assert!(error.contains(want), "{argument}: {error}");
        }
    }
}
