//! `test-server`: a server for one test program, which ends with it.

mod definitions;
mod folder;
mod until;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use object::{Value, value};
use server::Build;

use super::serve::Signals;
use super::{name, say};
use apiserver::logging::Logging;
use apiserver::{descriptors, flags};
use ferrokube::testing::TestUser;
use ferrokube::{Options, Server};
use folder::Folder;
use until::Until;

/// A test that runs beside a hundred others needs no more.
const WORKERS_MAX: usize = 4;
const STACK_BYTES: usize = 4 * 1024 * 1024;
/// How long requests may take to end when the server is told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// A log of a test is read by people.
const LOG_BYTES_MAX: u64 = 64 << 20;
const AUDIT_MEGABYTES_MAX: u32 = 64;

/// Everything but what comes again and again and says nothing.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: [/healthz*, /livez*, /readyz*, /openapi/*]
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
";

pub fn command() -> Command {
    Command::new("test-server")
        .about("Serve one test program: ready in a moment, in memory, gone with it")
        .long_about(
            "Serve one test program: ready in a moment, in memory, gone with it.\n\nThe server picks a free port, makes its own \
             certificates and keeps everything in memory. It ends when it gets a signal, when its standard input is a pipe \
             that is closed, or when the process that started it is gone, and leaves nothing behind but what --logs asked \
             for. POST /test-server/reset empties it; POST /test-server/users?name=N&group=G gives a kubeconfig for a \
             user.\n\n  ferrokube test-server --print-json --crds config/crd -- --feature-gates=MutatingAdmissionPolicy=true",
        )
        .arg(
            Arg::new("print-json")
                .long("print-json")
                .action(ArgAction::SetTrue)
                .help("When it serves, print one line of JSON: url, port, kubeconfig, ca, token, pid and more"),
        )
        .arg(
            Arg::new("crds")
                .long("crds")
                .value_name("PATH")
                .action(ArgAction::Append)
                .value_parser(clap::value_parser!(PathBuf))
                .help("A file with CustomResourceDefinitions, or a folder of such files; may be given more than once"),
        )
        .arg(
            Arg::new("user")
                .long("user")
                .value_name("NAME[::GROUP,…][=CLUSTERROLE]")
                .action(ArgAction::Append)
                .help("A user with a kubeconfig, in groups, with the rights of a ClusterRole; may be given more than once"),
        )
        .arg(
            Arg::new("logs")
                .long("logs")
                .value_name("DIR")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Write server.log and audit.log to this folder, where they stay; without it, errors go to stderr"),
        )
        .arg(
            Arg::new("bare")
                .long("bare")
                .action(ArgAction::SetTrue)
                .help("Leave deleted namespaces, owned objects and service accounts alone, as kube-apiserver does"),
        )
        .arg(
            Arg::new("flags")
                .last(true)
                .num_args(0..)
                .allow_hyphen_values(true)
                .value_name("FLAG")
                .help("Flags of kube-apiserver"),
        )
}

pub fn run(matches: &ArgMatches, build: &Build) -> Result<(), String> {
    let began = Instant::now();
    let until = Until::begin();
    descriptors::allow_all();
    let folder = Folder::make().map_err(|error| format!("a temporary folder cannot be made: {error}"))?;
    let Settled { mut options, logging } = plan(matches, &folder)?;
    options.build = build.clone();
    let definitions = definitions::read(matches.get_many::<PathBuf>("crds").into_iter().flatten())?;
    let users = matches.get_many::<String>("user").into_iter().flatten();
    let users = users.map(|text| AskedUser::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let log = logging.begin();
    options.debugging.set_verbosity = log.set_verbosity.clone();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    let session = TestSession { folder, definitions, users, prints_json: matches.get_flag("print-json"), began };
    runtime.block_on(session.serve(options, until))
}

/// A test server on its way to serving.
struct TestSession {
    folder: Folder,
    definitions: Vec<Value>,
    users: Vec<AskedUser>,
    prints_json: bool,
    began: Instant,
}

impl TestSession {
    async fn serve(self, options: Options, until: Until) -> Result<(), String> {
        let mut signals = Signals::listen()?;
        let logs = options.audit.log_path.clone();
        let ready = async {
            let builder = Server::builder().options(|given| *given = options).data_dir(self.folder.path()).resettable();
            let server = builder.start().await.map_err(|error| error.to_string())?;
            definitions::create(&server.running().api, &self.definitions).await?;
            self.greet(&server, logs).await?;
            Ok::<Server, String>(server)
        };
        let mut until = std::pin::pin!(until.over());
        let server = tokio::select! {
            ready = ready => ready?,
            () = signals.next() => return Ok(()),
            () = &mut until => return Ok(()),
        };
        tokio::select! {
            () = signals.next() => {}
            () = &mut until => {}
        }
        // Watches of a test that is over are not waited for.
        let _ = tokio::time::timeout(STOP_TIMEOUT, server.stop()).await;
        Ok(())
    }

    /// Writes kubeconfigs and says where everything is.
    async fn greet(&self, server: &Server, audit: Option<PathBuf>) -> Result<(), String> {
        let path = server.kubeconfig_file().map_err(|error| error.to_string())?;
        let address = server.address().ok_or("the server does not listen")?;
        let url = server.url().unwrap_or_default();
        let mut users = Value::map();
        for (number, user) in self.users.iter().enumerate() {
            let text = server.user(&user.asked()).await.map_err(|why| format!("user {}: {why}", user.name))?;
            let path = self.folder.write(&format!("user-{number}.kubeconfig"), &text)?;
            users.set(&[user.name.as_str()], path.display().to_string());
        }
        if !self.prints_json {
            let took = self.began.elapsed().as_millis();
            say(&format!("ferrokube serves tests on {url} ({took} ms)"));
            say(&format!("  kubeconfig  {}", path.display()));
            return Ok(());
        }
        let mut line = value!({
            "ca": (server.authority().map_err(|error| error.to_string())?.unwrap_or_default()),
            "kubeconfig": (path.display().to_string()),
            "milliseconds": (i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)),
            "pid": (i64::from(std::process::id())),
            "port": (i64::from(address.port())),
            "token": (server.token().unwrap_or_default().to_string()),
            "url": url,
            "users": users,
            "version": (server::Version::default().git_version),
        });
        if let Some(audit) = audit {
            line.set(&["audit"], audit.display().to_string());
            line.set(&["log"], audit.with_file_name(LOG).display().to_string());
        }
        let mut bytes = Vec::new();
        codec::json::encode(&line, None, &mut bytes);
        bytes.push(b'\n');
        let mut out = std::io::stdout();
        out.write_all(&bytes)
            .and_then(|()| out.flush())
            .map_err(|error| format!("cannot write to standard output: {error}"))
    }
}

const LOG: &str = "server.log";

/// The command line, read.
struct Settled {
    options: Options,
    logging: Logging,
}

/// From the command line to options.
fn plan(matches: &ArgMatches, folder: &Folder) -> Result<Settled, String> {
    let given = matches.get_many::<String>("flags").into_iter().flatten().cloned();
    let given = flags::command(&name()).try_get_matches_from(std::iter::once(name()).chain(given));
    let given = given.map_err(|error| error.to_string())?;
    let flags::Serve { mut config, mut logging, .. } = flags::serve(&given, "ferrokube")?;
    if given.value_source("secure-port") != Some(clap::parser::ValueSource::CommandLine) {
        config.port = 0;
    }
    config.standalone = !matches.get_flag("bare");
    if !config.standalone {
        config.disable_admission_plugins.push("ServiceAccount".into());
    }
    match matches.get_one::<PathBuf>("logs") {
        Some(logs) => {
            let logs = std::path::absolute(logs).map_err(|error| format!("{}: {error}", logs.display()))?;
            files::create_directory(&logs).map_err(|error| format!("cannot create {}: {error}", logs.display()))?;
            let policy = folder.write("audit-policy.yaml", AUDIT_POLICY)?;
            config.audit.record(&logs.join("audit.log"), policy, AUDIT_MEGABYTES_MAX);
            logging.file = Some((logs.join(LOG), LOG_BYTES_MAX));
        }
        None => logging.only_errors = logging.verbosity == 0,
    }
    Ok(Settled { options: config, logging })
}

/// Who was asked for with `--user`.
#[derive(Debug, PartialEq, Eq)]
struct AskedUser {
    name: String,
    groups: Vec<String>,
    role: Option<String>,
}

impl AskedUser {
    /// Reads `NAME[::GROUP,…][=CLUSTERROLE]`. Two colons, because names have single ones, as `system:node:a` has.
    fn parse(text: &str) -> Result<AskedUser, String> {
        let (who, role) = match text.rsplit_once('=') {
            Some((who, role)) => (who, Some(role.to_string())),
            None => (text, None),
        };
        let (name, groups) = who.split_once("::").unwrap_or((who, ""));
        let groups: Vec<String> = groups.split(',').filter(|group| !group.is_empty()).map(str::to_string).collect();
        if name.is_empty() || role.as_deref() == Some("") {
            return Err(format!("--user {text} is not NAME[::GROUP,…][=CLUSTERROLE]"));
        }
        Ok(AskedUser { name: name.into(), groups, role })
    }

    fn asked(&self) -> TestUser<'_> {
        TestUser {
            name: &self.name,
            groups: self.groups.iter().map(String::as_str).collect(),
            cluster_role: self.role.as_deref(),
            namespace: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_command_line() {
        let user = |name: &str, groups: &[&str], role: Option<&str>| AskedUser {
            name: name.into(),
            groups: groups.iter().map(|group| group.to_string()).collect(),
            role: role.map(str::to_string),
        };
        for (text, want) in [
            ("alice", Some(user("alice", &[], None))),
            ("alice=edit", Some(user("alice", &[], Some("edit")))),
            ("alice::dev,ops=edit", Some(user("alice", &["dev", "ops"], Some("edit")))),
            ("system:node:a::system:nodes", Some(user("system:node:a", &["system:nodes"], None))),
            ("alice=system:node", Some(user("alice", &[], Some("system:node")))),
            ("", None),
            ("=edit", None),
            ("alice=", None),
        ] {
            assert_eq!(AskedUser::parse(text).ok(), want, "{text}");
        }
    }
}
