//! `backup`, `restore`, `check` and `repair`: looking after a data directory.

use std::path::{Path, PathBuf};

use crate::admin::describe;
use crate::flags::data_dir;
use clap::{Arg, ArgAction, ArgMatches, Command};
use storage_embedded::{OpenError, check as check_store, restore as restore_store};

use super::{data_dir_of, say};

/// Revisions that a restored store skips, so that a client never meets one it has seen with other content.
const RESTORE_SKIPS: i64 = 1_000_000_000;

/// What is lost is listed up to so many lines.
const LOSSES_LISTED: usize = 1_000;

pub fn commands() -> [Command; 4] {
    let file =
        |help: &'static str| Arg::new("file").required(true).value_parser(clap::value_parser!(PathBuf)).help(help);
    [
        Command::new("backup")
            .about("Copy everything in the embedded store to a file, also while it is serving")
            .arg(data_dir())
            .arg(file("The file to write; it must not exist yet")),
        Command::new("restore")
            .about("Make a data directory's store from a backup")
            .arg(data_dir())
            .arg(file("A file that `backup` wrote"))
            .arg(
                Arg::new("force")
                    .long("force")
                    .action(ArgAction::SetTrue)
                    .help("Put the store that is there aside, as store.redb.before-restore"),
            ),
        Command::new("check")
            .about("Verify that a data directory is whole; the server must be stopped")
            .arg(data_dir()),
        Command::new("repair")
            .about("List what is lost of a damaged store, and make a new store of the rest; the server must be stopped")
            .arg(data_dir())
            .arg(
                Arg::new("accept-loss")
                    .long("accept-loss")
                    .action(ArgAction::SetTrue)
                    .help("Go on without what is lost; the damaged store is kept as store.redb.before-repair"),
            ),
    ]
}

pub fn backup(matches: &ArgMatches) -> Result<(), String> {
    let target = file_of(matches)?;
    let data_dir = data_dir_of(matches);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let report = runtime.block_on(crate::admin::backup(&data_dir, &target))?;
    say(&format!("{} written: {report}", target.display()));
    Ok(())
}

pub fn restore(matches: &ArgMatches) -> Result<(), String> {
    let source = file_of(matches)?;
    let data_dir = data_dir_of(matches);
    files::create_directory(&data_dir).map_err(|error| format!("cannot create {}: {error}", data_dir.display()))?;
    let target = crate::store_path(&data_dir);
    if target.exists() {
        if !matches.get_flag("force") {
            return Err(format!("{} exists; --force puts it aside", target.display()));
        }
        // The backup must be good before the store is moved, and a server that has the store open would go on writing
        // to the file that was moved.
        check_store(&source).map_err(|error| error.to_string())?;
        let lock = storage_embedded::lock(&target).map_err(|error| error.to_string())?;
        put_aside(&data_dir, &target, "before-restore")?;
        drop(lock);
    }
    let report = restore_store(&source, &target, RESTORE_SKIPS).map_err(|error| error.to_string())?;
    say(&format!("{} restored: {}", target.display(), describe(&report)));
    Ok(())
}

pub fn check(matches: &ArgMatches) -> Result<(), String> {
    let path = crate::store_path(&data_dir_of(matches));
    if !path.exists() {
        return Err(format!("{} does not exist", path.display()));
    }
    let report = check_store(&path).map_err(|error| with_way_out(&error))?;
    say(&format!("{} is whole: {}", path.display(), describe(&report)));
    Ok(())
}

pub fn repair(matches: &ArgMatches) -> Result<(), String> {
    let data_dir = data_dir_of(matches);
    let path = crate::store_path(&data_dir);
    match check_store(&path) {
        Ok(report) => {
            say(&format!("{} is whole: {}; there is nothing to repair", path.display(), describe(&report)));
            return Ok(());
        }
        Err(error) if error.is_damage() => say(&error.to_string()),
        Err(error) => return Err(error.to_string()),
    }
    let salvage = storage_embedded::examine(&path)
        .map_err(|error| format!("{error}; nothing can be read of it, so only `restore` can bring a backup back"))?;
    let losses = salvage.losses();
    for loss in losses.iter().take(LOSSES_LISTED) {
        say(&format!("lost: {loss}"));
    }
    if losses.len() > LOSSES_LISTED {
        say(&format!("lost: {} more", losses.len() - LOSSES_LISTED));
    }
    say(&format!("{} keys can be kept, up to revision {}", salvage.keys(), salvage.revision()));
    if !losses.is_empty() && !matches.get_flag("accept-loss") {
        return Err("nothing was changed; --accept-loss goes on without what is lost".into());
    }
    put_aside(&data_dir, &path, "before-repair")?;
    let report = salvage.write(&path, RESTORE_SKIPS).map_err(|error| error.to_string())?;
    say(&format!("{} repaired: {}", path.display(), describe(&report)));
    Ok(())
}

/// Why a store cannot be used and, if it is damaged, what can be done about it.
pub fn with_way_out(error: &OpenError) -> String {
    match error.is_damage() {
        true => format!(
            "{error}; `ferrokube repair` lists what is lost and keeps the rest, `ferrokube restore --force` goes back to a backup"
        ),
        false => error.to_string(),
    }
}

fn file_of(matches: &ArgMatches) -> Result<PathBuf, String> {
    matches.get_one::<PathBuf>("file").cloned().ok_or_else(|| "which file?".into())
}

/// Renames the store and the files of its write-ahead log.
fn put_aside(data_dir: &Path, store: &Path, suffix: &str) -> Result<(), String> {
    let stem = store.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = std::fs::read_dir(data_dir).map_err(|error| error.to_string())?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_aside = name.contains(".before-restore") || name.contains(".before-repair");
        if name.starts_with(&stem) && !is_aside {
            let aside = data_dir.join(name.replacen(&stem, &format!("{stem}.{suffix}"), 1));
            std::fs::rename(&path, &aside).map_err(|error| format!("cannot move {}: {error}", path.display()))?;
        }
    }
    Ok(())
}
