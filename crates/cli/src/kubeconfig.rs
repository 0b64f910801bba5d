//! `kubeconfig`: a kubeconfig for a user, printed. The certificate is signed by the data directory's own authority, so it
//! works without a running server.

use apiserver::flags::data_dir;
use apiserver::{Pki, kubeconfig};
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{data_dir_of, say};

const ADMIN: &str = "kubernetes-admin";

pub fn command() -> Command {
    Command::new("kubeconfig")
        .about("Print a kubeconfig for a user, with groups, or for a service account")
        .long_about(
            "Print a kubeconfig. Without flags it is the administrator's. A user's certificate and a service account's \
             token are signed by the keys in the data directory.\n\n  \
             ferrokube kubeconfig --user jane --group developers > jane.kubeconfig\n  \
             ferrokube kubeconfig --service-account default/builder > builder.kubeconfig",
        )
        .arg(data_dir())
        .arg(Arg::new("user").long("user").help("Whom the kubeconfig is for").conflicts_with("service-account"))
        .arg(
            Arg::new("group")
                .long("group")
                .action(ArgAction::Append)
                .requires("user")
                .help("A group the user is in; can be given several times"),
        )
        .arg(
            Arg::new("service-account")
                .long("service-account")
                .value_name("NAMESPACE/NAME")
                .help("A service account; the server must be running, since it issues the token"),
        )
        .arg(
            Arg::new("server")
                .long("server")
                .value_name("URL")
                .help("Where the server is [default: as it last started]"),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), String> {
    let data_dir = data_dir_of(matches);
    let pki = Pki::at(&data_dir.join("pki"));
    if !pki.ca.exists() {
        return Err(format!(
            "{} has no certificates yet: start ferrokube there once; with --client-ca-file it makes none",
            data_dir.display()
        ));
    }
    let server = match matches.get_one::<String>("server") {
        Some(url) => url.clone(),
        None => kubeconfig::server_of(&data_dir.join("kubeconfig")).map_err(|error| {
            format!("where the server is cannot be read from {}: {error}; give --server", data_dir.display())
        })?,
    };
    if let Some(account) = matches.get_one::<String>("service-account") {
        let (namespace, name) = account.split_once('/').ok_or("--service-account is NAMESPACE/NAME")?;
        let token = token(&pki, &server, namespace, name)?;
        say(kubeconfig::with_token(&pki, &server, account, &token).map_err(|error| error.to_string())?.trim_end());
        return Ok(());
    }
    let user = matches.get_one::<String>("user").map_or(ADMIN, String::as_str);
    let groups: Vec<&str> = match matches.get_many::<String>("group") {
        Some(groups) => groups.map(String::as_str).collect(),
        None if user == ADMIN => vec!["system:masters"],
        None => Vec::new(),
    };
    let (certificate, key) = pki.client(user, &groups).map_err(|error| error.to_string())?;
    let text = kubeconfig::with_certificate(&pki, &server, user, &certificate, &key);
    say(text.map_err(|error| error.to_string())?.trim_end());
    Ok(())
}

/// Asks the running server for a token, as the administrator.
fn token(pki: &Pki, server: &str, namespace: &str, name: &str) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(crate::client::service_account_token(pki, server, namespace, name))
}
