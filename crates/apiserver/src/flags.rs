//! The command line: kube-apiserver's flags from the generated table, and a few of our own.
//!
//! Every upstream flag is parsed with upstream's type and default. Those that have a [`Row`] have an effect. One that can have none
//! is named in the log when it is given, and `--help` says why.

mod check;
mod defaults;
mod file;
mod given;
mod no_effect;
mod rows;
mod runtime;
mod values;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::logging::Logging;
use crate::{
    Config, aggregation, audit, authentication, authorization, debugging, history, logging, own_service, peering,
    serving, shown_metrics, store, versions,
};
pub use defaults::{ETCD, KUBE_APISERVER, report};
pub(crate) use given::Given;
pub use given::boolean;
pub(crate) use rows::{Row, rows};
pub(crate) use values::wrong;

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

/// Flags that belong to no part of their own.
const OWN: &[Row] = rows! { |config, given|
    "admission-control" => config.admission_control = Some(given.list().collect()),
    "admission-control-config-file" => config.admission_config_file = given.path(),
    "advertise-address" => config.advertise_address = Some(given.read("is no address")?),
    "allow-privileged" => config.allow_privileged = given.boolean()?,
    "anonymous-auth" => {
        config.anonymous_auth = given.boolean()?;
        config.authentication.anonymous_flag_given = true;
    },
    "api-audiences" => config.api_audiences = given.list().collect(),
    "bind-address" => config.bind_address = given.last().parse::<IpAddr>().map_err(|error| error.to_string())?,
    "cert-dir" => config.cert_dir = given.path(),
    "client-ca-file" => config.client_ca_file = given.path(),
    "coordinated-leadership-lease-duration" => config.leadership.lease = given.span()?,
    "coordinated-leadership-renew-deadline" => config.leadership.renew_deadline = given.span()?,
    "coordinated-leadership-retry-period" => config.leadership.retry = given.span()?,
    "default-not-ready-toleration-seconds" => config.toleration_seconds.0 = given.number()?,
    "default-unreachable-toleration-seconds" => config.toleration_seconds.1 = given.number()?,
    "disable-admission-plugins" => config.disable_admission_plugins = given.list().collect(),
    "egress-selector-config-file" => config.egress_file = given.path(),
    "emulated-version" => config.versions.set_emulated(given)?,
    "emulation-forward-compatible" => config.versions.forward_compatible = given.boolean()?,
    "enable-admission-plugins" => config.enable_admission_plugins = given.list().collect(),
    "enable-bootstrap-token-auth" => config.bootstrap_tokens = given.boolean()?,
    "enable-garbage-collector" => config.garbage_collection = given.boolean()?,
    "event-ttl" => config.event_ttl = given.span_or_zero()?,
    "external-hostname" => config.external_hostname = given.last().to_string(),
    "feature-gates" => config.feature_gates = gates(versions::without_component(given)?)?,
    "min-compatibility-version" => config.versions.set_compatible(given)?,
    "request-timeout" => config.request_timeout = given.span_or_zero()?,
    // Read when all flags are known.
    "runtime-config" => {},
    "runtime-config-emulation-forward-compatible" => config.versions.runtime_forward_compatible = given.boolean()?,
    "secure-port" => config.port = given.read("is not a port")?,
    "service-account-extend-token-expiration" => config.service_accounts.extend_token_expiration = given.boolean()?,
    "service-account-issuer" => config.service_accounts.issuers = given.0.to_vec(),
    "service-account-jwks-uri" => config.service_accounts.jwks_uri = given.last().to_string(),
    "service-account-key-file" => config.service_accounts.key_files = given.0.iter().map(PathBuf::from).collect(),
    "service-account-lookup" => config.service_accounts.lookup = given.boolean()?,
    "service-account-max-token-expiration" => config.service_accounts.max_token_expiration = given.span_or_zero()?,
    "service-account-signing-endpoint" => {
        config.service_accounts.signing_endpoint = Some(given.last().to_string()).filter(|path| !path.is_empty());
    },
    "service-account-signing-key-file" => config.service_accounts.signing_key_file = given.path(),
    "shutdown-delay-duration" => config.shutdown_delay = given.span_or_zero()?,
    "tls-cert-file" => config.tls_cert_file = given.path(),
    "tls-private-key-file" => config.tls_private_key_file = given.path(),
    "token-auth-file" => config.token_auth_file = given.path(),
    "tracing-config-file" => config.tracing_file = given.path(),
};

/// The flags of each part. A flag has one row.
const PARTS: &[&[Row]] = &[
    OWN,
    aggregation::FLAGS,
    audit::FLAGS,
    authentication::FLAGS,
    authorization::FLAGS,
    debugging::FLAGS,
    own_service::FLAGS,
    peering::FLAGS,
    serving::FLAGS,
    shown_metrics::FLAGS,
    store::FLAGS,
];

/// The settings of `serve`.
pub struct Serve {
    pub config: Config,
    pub logging: Logging,
    /// Flags that were given and have no effect.
    pub without_effect: Vec<String>,
    /// Why it does, or does not do, what a controller manager would.
    pub standalone_because: String,
}

/// The whole command line, for parsing and for completion scripts. `called_as` is the name the program was started by.
pub fn command(called_as: &str) -> Command {
    let mut command = Command::new("ferrokube")
        .about("The Kubernetes API server, in one small binary.")
        .long_about(
            "The Kubernetes API server, in one small binary. Without any flag it keeps its data in .ferrokube, makes its \
             own certificates, and serves on https://127.0.0.1:6443.\n\nEvery flag of kube-apiserver v1.37 is known; \
             those marked (no effect) are named in the log when they are given.",
        )
        .after_long_help(defaults::PAGE)
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
        .arg(file::arg())
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
            Arg::new("own-authority")
                .long("own-authority")
                .value_name("true|false")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .help(
                    "Accept client certificates of the authority in the data directory, which signs kubeconfigs, also beside \
                     --client-ca-file [default: only where no --client-ca-file is given]",
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
        .arg(console())
        .arg(quota())
        .args(reads_of_groups())
        .args(history::arguments())
        .arg(
            Arg::new("v")
                .short('v')
                .long("v")
                .value_name("LEVEL")
                .allow_hyphen_values(true)
                .help("How much to log: 1 flags, 2 slow requests, 3 every request, 4 debugging, 8 everything, 10 libraries too")
                .help_heading("Logs"),
        );
    for flag in upstream() {
        if flag.name != "version" {
            command = command.arg(flag.arg(called_as));
        }
    }
    command
}

fn console() -> Arg {
    Arg::new("console")
        .long("console")
        .value_name("true|false")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .help(
            "Serve pages for browsers at /console/, which show what the server does and its objects to those who may see them \
             [default: true, and false when started as kube-apiserver]",
        )
        .help_heading("ferrokube")
}

fn quota() -> Arg {
    Arg::new("quota-backend-bytes")
        .long("quota-backend-bytes")
        .value_name("BYTES")
        .allow_hyphen_values(true)
        .help(
            "How many bytes all objects in the embedded store may have, as etcd's flag of this name. Writes that need more \
             are refused as etcd refuses them; deletions are not. A negative number is no limit [default: 2147483648]",
        )
        .help_heading("ferrokube")
}

/// Flags that say how reads of members of groups are answered.
fn reads_of_groups() -> [Arg; 2] {
    [
        groups(
            "redact-secrets-for",
            "Show Secrets with their keys and sizes and without their values to members of this group, in every answer. \
             Can be given several times [default: none]",
        ),
        groups(
            "authorized-lists-for",
            "Send members of this group what they may see of a list or watch, instead of a refusal where they may not see all \
             of it, as the parameter authorized=true does for one request. Can be given several times [default: none]",
        ),
    ]
}

/// A flag that takes groups of users.
fn groups(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("GROUP")
        .value_delimiter(',')
        .action(clap::ArgAction::Append)
        .help(help)
        .help_heading("ferrokube")
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

/// Reads a command line.
pub fn serve(matches: &ArgMatches, called_as: &str) -> Result<Serve, String> {
    match file::expand(matches, called_as)? {
        None => read(matches, called_as, Vec::new()),
        Some(expanded) => read(&expanded.matches, called_as, expanded.without_effect),
    }
}

fn read(matches: &ArgMatches, called_as: &str, mut without_effect: Vec<String>) -> Result<Serve, String> {
    let is_drop_in = called_as == KUBE_APISERVER;
    let mut config = if is_drop_in { Config::of_kube_apiserver() } else { Config::default() };
    if let Some(path) = matches.get_one::<PathBuf>("data-dir") {
        config.data_dir = path.clone();
    }
    let mut logging = Logging::default();
    let (mut named, mut runtime_config) = (Vec::new(), Vec::new());
    for flag in upstream() {
        let given = matches.value_source(flag.name) == Some(clap::parser::ValueSource::CommandLine);
        if !given || flag.name == "version" {
            config.flags.insert(flag.name.into(), flag.shown(None, called_as));
            continue;
        }
        let values: Vec<String> = matches.get_many::<String>(flag.name).into_iter().flatten().cloned().collect();
        let values = values::checked(flag.name, flag.kind, values)?;
        check::flag(flag.name, Given(&values))?;
        config.flags.insert(flag.name.into(), flag.shown(Some(&values), called_as));
        named.push(flag.name);
        if flag.name == "runtime-config" {
            runtime_config.clone_from(&values);
        }
        if let Some(row) = logging::FLAGS.iter().find(|row| row.name == flag.name) {
            let set = (row.set)(&mut logging, Given(&values));
            set.map_err(|why| values::wrong(flag.name, &values.join(","), &why))?;
        } else if !set(&mut config, flag.name, Given(&values)).map_err(|why| about(&flag, why))? {
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
    if let Some(text) = matches.get_one::<String>("quota-backend-bytes") {
        config.store.set_quota(text).map_err(|why| format!("--quota-backend-bytes: {why}"))?;
    }
    let groups = |name: &str| matches.get_many::<String>(name).into_iter().flatten().cloned().collect();
    config.serving.redact_secrets_for = groups("redact-secrets-for");
    config.serving.authorized_lists_for = groups("authorized-lists-for");
    config.store.history = history::read(matches)?;
    config.runtime_config = runtime::read(Given(&runtime_config), config.serving.priority_and_fairness)?;
    let asked = |name: &str| match matches.get_one::<String>(name) {
        Some(given) => boolean(given).map(Some).map_err(|why| format!("--{name}: {why}")),
        None => Ok(None),
    };
    let (standalone, standalone_because) = defaults::standalone(asked("standalone")?, called_as, &named);
    config.standalone = standalone;
    config.own_authority = asked("own-authority")?;
    config.console = asked("console")?.unwrap_or(!is_drop_in);
    config.settle()?;
    if is_drop_in
        && !config.store.etcd_servers.is_empty()
        && !config.has_serving_files()
        && !config.has_earlier_authority()
    {
        config.cert_dir = Some(defaults::CERT_DIR.into());
    }
    if let Some(given) = matches.get_one::<String>("v") {
        let checked = values::checked("v", "verbosity", vec![given.clone()])?;
        logging.verbosity = checked.first().and_then(|number| number.parse().ok()).unwrap_or(0);
    }
    config.flags.insert("v".into(), logging.verbosity.to_string());
    logging.check(&config.features()?)?;
    Ok(Serve { config, logging, without_effect, standalone_because })
}

/// The form of the version that `--version` asks for.
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

/// Sets what a flag is about. It says whether there is such a flag that has an effect.
pub(crate) fn set(config: &mut Config, name: &str, given: Given<'_>) -> Result<bool, String> {
    match PARTS.iter().copied().flatten().find(|row| row.name == name) {
        Some(row) => (row.set)(config, given).map(|()| true),
        None => Ok(false),
    }
}

/// `Gate=true` pairs.
fn gates(items: Vec<String>) -> Result<Vec<(String, bool)>, String> {
    let pair = |item: String| match item.split_once('=') {
        None => Err(format!("missing bool value for {item}")),
        Some((name, value)) => match boolean(value.trim()) {
            Ok(on) => Ok((name.trim().to_string(), on)),
            Err(why) => Err(format!("invalid value of {item}, err: {why}")),
        },
    };
    items.into_iter().map(pair).collect()
}

/// The error about a flag's value. Upstream's messages say themselves which flag they are about; ours are told.
fn about(flag: &Flag, why: String) -> String {
    let is_told = why.contains(flag.name) || UPSTREAMS.iter().any(|begin| why.starts_with(begin));
    if is_told { why } else { format!("--{}: {why}", flag.name) }
}

/// How messages begin that are upstream's to the letter.
const UPSTREAMS: &[&str] = &[
    "component not registered",
    "could not parse",
    "curve preference",
    "invalid audit",
    "invalid group version",
    "invalid size of watch cache",
    "invalid value of",
    "metrics.",
    "missing bool value",
    "watch cache size",
];

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
    fn arg(&self, called_as: &str) -> Arg {
        let mut notes = vec![self.kind.to_string()];
        let default = defaults::of(self.name, called_as).unwrap_or(self.default);
        if !matches!(default, "-" | "[]" | "") {
            notes.push(format!("default {default}"));
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
    fn shown(&self, values: Option<&[String]>, called_as: &str) -> String {
        let is_list = matches!(self.kind, "strings" | "stringArray" | "int32Slice" | "namedCertKey");
        match (values, self.kind) {
            (Some(values), _) if is_list => format!("[{}]", values.join(",")),
            (Some(values), _) => values.last().cloned().unwrap_or_default(),
            (None, _) if called_as != KUBE_APISERVER && defaults::of(self.name, called_as).is_some() => {
                let default = defaults::of(self.name, called_as).unwrap_or_default();
                if is_list { format!("[{default}]") } else { default.to_string() }
            }
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
}

/// A flag's value without the passwords of URLs in it.
pub fn without_password(value: &str) -> String {
    let items = value.split(',').map(|item| match item.split_once("://") {
        Some((scheme, rest)) if rest.contains('@') => {
            format!("{scheme}://<masked>@{}", rest.rsplit('@').next().unwrap_or_default())
        }
        _ => item.to_string(),
    });
    items.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Serve, String> {
        let arguments = std::iter::once("ferrokube").chain(arguments.iter().copied());
        let matches = command("ferrokube").try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        serve(&matches, "ferrokube")
    }

    #[test]
    fn defaults_follow_the_name() {
        let check = |called_as: &str, arguments: &[&str], want: (&str, bool, bool, bool, &str)| {
            let arguments = std::iter::once(&called_as).chain(arguments);
            let config = serve(&command(called_as).try_get_matches_from(arguments).unwrap(), called_as).unwrap().config;
            let has_accounts = !config.disable_admission_plugins.contains(&"ServiceAccount".to_string());
            let modes = config.authorization.modes.join(",");
            let got = (modes.as_str(), config.anonymous_auth, config.standalone, has_accounts);
            assert_eq!(got, (want.0, want.1, want.2, want.3), "{called_as}");
            assert_eq!(config.bind_address.to_string(), want.4, "{called_as}");
        };
        check("ferrokube", &[], ("Node,RBAC", true, true, true, "127.0.0.1"));
        check("ferrokube", &["--authorization-mode=AlwaysAllow"], ("AlwaysAllow", false, false, true, "127.0.0.1"));
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
            let parsed = command("ferrokube").try_get_matches_from(["ferrokube", &format!("--{}={value}", flag.name)]);
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

    /// No flag that is about something else makes the server less strict than its program's defaults.
    #[test]
    fn other_flags_do_not_make_the_server_less_strict() {
        for flag in upstream().filter(|flag| flag.name != "version" && flag.kind == "bool") {
            for called_as in ["ferrokube", KUBE_APISERVER] {
                let arguments =
                    [called_as.to_string(), format!("--{}={}", flag.name, flag.default.replace('-', "false"))];
                let serve = serve(&command(called_as).try_get_matches_from(arguments).unwrap(), called_as);
                let config = serve.unwrap_or_else(|why| panic!("--{}: {why}", flag.name)).config;
                assert!(config.disable_admission_plugins.is_empty(), "--{}", flag.name);
                let modes = if called_as == KUBE_APISERVER { "AlwaysAllow" } else { "Node,RBAC" };
                assert_eq!(config.authorization.modes.join(","), modes, "--{}", flag.name);
                assert_eq!(config.anonymous_auth, called_as != KUBE_APISERVER, "--{}", flag.name);
            }
        }
        assert!(parse(&["--standalone=false"]).unwrap().config.disable_admission_plugins.is_empty());
    }

    /// The default that `--help` shows changes nothing when it is given.
    #[test]
    fn the_defaults_in_the_help_are_those_that_hold() {
        let shown = |config: Config| {
            let mut config = Config { flags: Default::default(), standalone: false, ..config };
            config.authentication.anonymous_flag_given = false;
            format!("{config:?}")
                .replace("legacy: true", "legacy: false")
                .replace("oidc_given: true", "oidc_given: false")
        };
        let without = shown(parse(&[]).unwrap().config);
        for flag in upstream().filter(|flag| !matches!(flag.name, "version" | "cert-dir" | "service-account-issuer")) {
            let default = defaults::of(flag.name, "ferrokube").unwrap_or(flag.default);
            if matches!(default, "-" | "[]" | "") {
                continue;
            }
            let value = default.trim_matches(['"', '[', ']']);
            let config = parse(&[&format!("--{}={value}", flag.name)]).unwrap_or_else(|why| panic!("{why}")).config;
            assert_eq!(shown(config), without, "--{}", flag.name);
        }
        assert_eq!(Config::default().service_accounts.issuers.len(), 0, "which stands for the one in the help");
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

    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (value, want) in [
            ("[http://a:1,https://root:s3c@ret@b:2]", "[http://a:1,https://<masked>@b:2]"),
            ("Node,RBAC", "Node,RBAC"),
            ("", ""),
        ] {
            assert_eq!(without_password(value), want);
        }
    }
}
