//! `migrate`: copies everything between the embedded store and etcd, either way.
//!
//! Bytes are copied as they are stored, which is the same in both; encrypted values stay encrypted. What was copied already
//! is found and left alone, so a copy that was cut off can be resumed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::flags::data_dir;
use apiserver::{UNFINISHED_MIGRATION, store_path};
use clap::{Arg, ArgAction, ArgMatches, Command};
use object::value;
use storage::meter::{Meter, Step};
use storage::{Entry, Error, KeyRange, RangeQuery, Store};
use storage_embedded::EmbeddedStore;
use storage_etcd::EtcdStore;

use super::data_dir_of;
use super::outcome::Output;
use super::progress::Progress;

/// Entries read at a time, and written at a time.
const PAGE: usize = 500;
const AT_ONCE: usize = 32;
/// Entries that expire in one store expire in the other: events, an hour after the copy at the latest.
const TTL: Duration = Duration::from_secs(3600);

pub fn command() -> Command {
    let text = |name: &'static str, help: &'static str| Arg::new(name).long(name).value_name("FILE").help(help);
    Command::new("migrate")
        .about("Copy everything between the embedded store and etcd, either way")
        .long_about(
            "Copy everything between the embedded store and etcd, either way. Both servers must be stopped. A copy that was \
             cut off goes on with --resume. Revisions start anew in the target: clients that watched the old store list \
             again.\n\n  \
             ferrokube migrate --to etcd --etcd-servers http://127.0.0.1:2379\n  \
             ferrokube migrate --to embedded --etcd-servers http://127.0.0.1:2379",
        )
        .arg(data_dir())
        .arg(Output::arg())
        .arg(Arg::new("to").long("to").required(true).value_parser(["etcd", "embedded"]).help("Where to copy to"))
        .arg(
            Arg::new("etcd-servers")
                .long("etcd-servers")
                .required(true)
                .action(ArgAction::Append)
                .value_delimiter(',')
                .help("Where etcd is"),
        )
        .arg(Arg::new("etcd-prefix").long("etcd-prefix").default_value("/registry").help("What all keys begin with"))
        .arg(text("etcd-cafile", "Whose certificates etcd's is signed by"))
        .arg(text("etcd-certfile", "The certificate to show to etcd"))
        .arg(text("etcd-keyfile", "The key of that certificate"))
        .arg(
            Arg::new("while-running")
                .long("while-running")
                .action(ArgAction::SetTrue)
                .help("Copy although servers are running on etcd; what they write meanwhile may be missing"),
        )
        .arg(
            Arg::new("resume")
                .long("resume")
                .action(ArgAction::SetTrue)
                .help("Go on with a copy that was cut off: the target may have content"),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(migrate(matches))
}

async fn migrate(matches: &ArgMatches) -> Result<(), String> {
    let (data_dir, output) = (data_dir_of(matches), Output::of(matches));
    let to_etcd = matches.get_one::<String>("to").is_some_and(|to| to == "etcd");
    if to_etcd && !store_path(&data_dir).exists() {
        return Err(format!("{} does not exist", store_path(&data_dir).display()));
    }
    let embedded = open_embedded(&data_dir)?;
    let etcd = open_etcd(matches).await?;
    let (from, to) = if to_etcd { (embedded.clone(), etcd) } else { (etcd, embedded.clone()) };
    let prefix = matches.get_one::<String>("etcd-prefix").map_or("/registry", String::as_str);
    let prefix = format!("/{}/", prefix.trim_matches('/'));
    let checked = match matches.get_flag("while-running") {
        true => Ok(()),
        false => check_stopped(if to_etcd { &to } else { &from }, &prefix).await,
    };
    let outcome = match checked {
        Ok(()) => {
            let meter: Arc<Meter> = Arc::default();
            let _shown = Progress::show(output, &meter);
            copy(&from, &to, &prefix, matches.get_flag("resume"), &meter).await
        }
        Err(why) => Err(why),
    };
    embedded.close().await;
    let (copied, there) = outcome?;
    output
        .say(&format!("{copied} keys copied, {there} were there already"), &value!({"copied": copied, "there": there}));
    Ok(())
}

fn open_embedded(data_dir: &Path) -> Result<Arc<dyn Store>, String> {
    files::create_directory(data_dir).map_err(|error| format!("cannot create {}: {error}", data_dir.display()))?;
    let store = EmbeddedStore::open(storage_embedded::EmbeddedOptions::at(store_path(data_dir)));
    Ok(Arc::new(store.map_err(|error| error.to_string())?))
}

async fn open_etcd(matches: &ArgMatches) -> Result<Arc<dyn Store>, String> {
    let servers = matches.get_many::<String>("etcd-servers").into_iter().flatten().cloned();
    let file = |name: &str| matches.get_one::<String>(name).map(Into::into);
    let options = storage_etcd::EtcdOptions {
        ca_file: file("etcd-cafile"),
        cert_file: file("etcd-certfile"),
        key_file: file("etcd-keyfile"),
        compaction_interval: Duration::ZERO,
        ..storage_etcd::EtcdOptions::at(servers)
    };
    Ok(Arc::new(EtcdStore::connect(options).await.map_err(|error| error.to_string())?))
}

/// Keys of servers that are running, below the prefix: they renew them every few seconds and etcd removes them otherwise.
const OF_SERVERS: [&str; 2] = ["masterleases/", "peerserverleases/"];

/// Fails if a server is running on an etcd.
async fn check_stopped(etcd: &Arc<dyn Store>, prefix: &str) -> Result<(), String> {
    for keys in OF_SERVERS {
        let range = KeyRange::prefix(format!("{prefix}{keys}"));
        let found = etcd.range(RangeQuery::new(range).limit(1)).await.map_err(|error| error.to_string())?;
        if let Some(entry) = found.entries.first() {
            return Err(format!(
                "a server is running on this etcd, or was a few seconds ago ({}); stop it, or give --while-running",
                entry.key
            ));
        }
    }
    Ok(())
}

/// Copies one state of everything below a prefix. Answers how many keys it wrote and how many it found as they should be.
async fn copy(
    from: &Arc<dyn Store>,
    to: &Arc<dyn Store>,
    prefix: &str,
    resume: bool,
    meter: &Meter,
) -> Result<(usize, usize), String> {
    let range = KeyRange::prefix(prefix);
    let of_servers = OF_SERVERS.map(|keys| KeyRange::prefix(format!("{prefix}{keys}")));
    let failed = |error: Error| error.to_string();
    let target = to.range(RangeQuery::new(range.clone()).limit(1)).await.map_err(failed)?;
    if !target.entries.is_empty() && !resume {
        return Err("the target has content; --resume adds what is missing and overwrites what differs".into());
    }
    if from.get(UNFINISHED_MIGRATION.as_bytes(), None).await.map_err(failed)?.entry.is_some() {
        return Err("the source is itself the target of a copy that was cut off".into());
    }
    let mut query = RangeQuery::new(range.clone()).limit(PAGE);
    let (mut copied, mut there) = (0, 0);
    loop {
        let page = from.range(query.clone()).await.map_err(failed)?;
        if meter.reached().step == Step::Waiting {
            meter.begin(Step::Copying, page.count as u64);
        }
        if page.count == 0 {
            return Err(format!("the source has no keys below {prefix}; --etcd-prefix says what its keys begin with"));
        }
        if copied + there == 0 {
            mark_unfinished(to).await.map_err(failed)?;
        }
        let is_of_server = |entry: &Entry| of_servers.iter().any(|range| range.contains(&entry.key));
        let entries: Vec<_> = page.entries.iter().filter(|entry| !is_of_server(entry)).collect();
        for entries in entries.chunks(AT_ONCE) {
            for wrote in futures::future::join_all(entries.iter().map(|entry| put(to, entry))).await {
                if wrote? { copied += 1 } else { there += 1 }
            }
            entries.iter().for_each(|entry| meter.add(entry.key.as_bytes().len() + entry.value.len()));
        }
        match page.entries.last() {
            Some(last) if page.more => {
                query.range = range.after(&last.key);
                query.at = Some(page.revision);
            }
            _ => break,
        }
    }
    to.delete(UNFINISHED_MIGRATION.into(), None).await.map_err(failed)?;
    Ok((copied, there))
}

/// Keeps servers from starting on a target that does not have everything yet.
async fn mark_unfinished(target: &Arc<dyn Store>) -> Result<(), Error> {
    match target.create(UNFINISHED_MIGRATION.into(), bytes::Bytes::from_static(b"{}"), None).await {
        Ok(_) | Err(Error::KeyExists(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes one key, unless it is there with this value.
async fn put(to: &Arc<dyn Store>, entry: &Entry) -> Result<bool, String> {
    let failed = |error: Error| format!("{}: {error}", String::from_utf8_lossy(entry.key.as_bytes()));
    let ttl = (entry.lease != 0).then_some(TTL);
    match to.create(entry.key.clone(), entry.value.clone(), ttl).await {
        Ok(_) => Ok(true),
        Err(Error::KeyExists(existing)) if existing.value == entry.value => Ok(false),
        Err(Error::KeyExists(existing)) => {
            let updated = to.update(entry.key.clone(), entry.value.clone(), existing.mod_revision, ttl).await;
            updated.map(|_| true).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}
