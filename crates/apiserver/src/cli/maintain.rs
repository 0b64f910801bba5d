//! `backup`, `restore` and `check`: looking after a data directory.

use std::path::{Path, PathBuf};

use crate::admin::describe;
use crate::flags::data_dir;
use clap::{Arg, ArgAction, ArgMatches, Command};
use storage_embedded::{check as check_store, restore as restore_store};

use super::{data_dir_of, say};

/// Revisions that a restored store skips, so that a client never meets one it has seen with other content.
const RESTORE_SKIPS: i64 = 1_000_000_000;

pub fn commands() -> [Command; 3] {
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
        // Whoever has it open would go on writing to the file that was put aside.
        check_store(&target).map_err(|error| error.to_string())?;
        put_aside(&data_dir, &target)?;
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
    let report = check_store(&path).map_err(|error| error.to_string())?;
    say(&format!("{} is whole: {}", path.display(), describe(&report)));
    Ok(())
}

fn file_of(matches: &ArgMatches) -> Result<PathBuf, String> {
    matches.get_one::<PathBuf>("file").cloned().ok_or_else(|| "which file?".into())
}

/// Moves the store and the files of its write-ahead log out of the way.
fn put_aside(data_dir: &Path, store: &Path) -> Result<(), String> {
    let stem = store.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = std::fs::read_dir(data_dir).map_err(|error| error.to_string())?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&stem) && !name.contains("before-restore") {
            let aside = data_dir.join(name.replacen(&stem, &format!("{stem}.before-restore"), 1));
            std::fs::rename(&path, &aside).map_err(|error| format!("cannot move {}: {error}", path.display()))?;
        }
    }
    Ok(())
}
