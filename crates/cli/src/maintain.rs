//! `backup`, `restore`, `check` and `repair`: looking after a data directory.

mod past_files;

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::sealed;
use apiserver::admin::{BackupError, Summary};
use apiserver::flags::data_dir;
use clap::{Arg, ArgAction, ArgMatches, Command};
use object::{Value, value};
use storage::meter::Meter;
use storage_embedded::{OpenError, Report, Salvage, check_with, examine_with, restore_with};

use super::data_dir_of;
use super::outcome::{Failure, Output, json};
use super::progress::Progress;

/// Revisions that a restored store skips, so that a client never meets one it has seen with other content.
const RESTORE_SKIPS: i64 = 1_000_000_000;
/// In the names of files and folders that were put aside.
const BEFORE_RESTORE: &str = "before-restore";
const BEFORE_REPAIR: &str = "before-repair";

/// The folder of a data directory that has keys and certificates, and their name in a backup.
const PKI: &str = "pki";

/// So many lines list losses at most.
const LOSSES_LISTED: usize = 1_000;

pub fn commands() -> [Command; 4] {
    let file =
        |help: &'static str| Arg::new("file").required(true).value_parser(clap::value_parser!(PathBuf)).help(help);
    let passphrase = || {
        Arg::new("passphrase-file")
            .long("passphrase-file")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The passphrase of the keys and certificates in the backup is the first line of this file")
    };
    [
        Command::new("backup")
            .about("Copy everything in the embedded store to a file, also while it is serving")
            .arg(data_dir())
            .arg(passphrase())
            .arg(
                Arg::new("with-history")
                    .long("with-history")
                    .action(ArgAction::SetTrue)
                    .help("Copy the history, too, to a folder beside the file: FILE.history"),
            )
            .arg(Output::arg())
            .arg(file("The file to write, which must not exist yet, or - for standard output")),
        Command::new("restore")
            .about("Make a data directory's store from a backup")
            .arg(data_dir())
            .arg(passphrase())
            .arg(Output::arg())
            .arg(file("A file that `backup` wrote"))
            .arg(
                Arg::new("force")
                    .long("force")
                    .action(ArgAction::SetTrue)
                    .help("Put the store that is there aside, as store.redb.before-restore"),
            ),
        Command::new("check")
            .about("Verify that a data directory is whole; the server must be stopped")
            .arg(data_dir())
            .arg(Output::arg()),
        Command::new("repair")
            .about("List what is lost of a damaged store, and make a new store of the rest; the server must be stopped")
            .arg(data_dir())
            .arg(Output::arg())
            .arg(
                Arg::new("accept-loss")
                    .long("accept-loss")
                    .action(ArgAction::SetTrue)
                    .help("Go on without what is lost; the damaged store is kept as store.redb.before-repair"),
            ),
    ]
}

pub fn backup(matches: &ArgMatches) -> Result<(), Failure> {
    let output = Output::of(matches);
    let (target, data_dir) = (file_of(matches)?, data_dir_of(matches));
    let (keys, word) = keys_to_keep(matches, &data_dir)?;
    let is_output = target == Path::new("-");
    if !is_output && target.exists() {
        return Err(format!("{} exists", target.display()).into());
    }
    let has_history = matches.get_flag("with-history");
    if has_history {
        past_files::check_target(&target)?;
    }
    // A backup is read again before it counts, and gets its name when it has everything.
    let unfinished = match is_output {
        true => files::with_suffix(&apiserver::store_path(&data_dir), &format!(".backup-{}", std::process::id())),
        false => files::with_suffix(&target, ".unfinished"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let summary = {
        let meter: Arc<Meter> = Arc::default();
        let _shown = Progress::show(output, &meter);
        runtime.block_on(apiserver::admin::backup(&data_dir, &unfinished, &meter))?
    };
    let finished = finish(&unfinished, &target, keys.as_deref());
    let removed = std::fs::remove_file(&unfinished);
    finished?;
    removed.map_err(|error| format!("cannot remove {}: {error}", unfinished.display()))?;
    let named = if is_output { "backup".into() } else { target.display().to_string() };
    let mut text = format!("{named} written: {summary}; {}", word.text);
    if has_history {
        text = [text, past_files::keep(&data_dir, &target, summary.revision)?].join("; ");
    }
    let mut result = told(&summary);
    result.set(&["file"], target.display().to_string());
    result.set(&["certificates"], word.tag);
    match output {
        Output::Text if is_output => drop(writeln!(std::io::stderr(), "{text}")),
        // Standard output is the backup.
        Output::Json if is_output => drop(writeln!(std::io::stderr(), "{}", json(&result))),
        output => output.say(&text, &result),
    }
    Ok(())
}

/// The fate of keys and certificates, as a text and as a word for programs.
struct Word {
    text: String,
    tag: &'static str,
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Failure {
        match error {
            BackupError::Open(error) => error.into(),
            BackupError::Damaged(why) => Failure::damaged(why),
            BackupError::Other(why) => why.into(),
        }
    }
}

/// The size of a store or a backup, for programs.
fn told(summary: &Summary) -> Value {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    value!({
        "bytes": (number(summary.bytes)),
        "keys": (number(summary.keys)),
        "revision": (summary.revision),
    })
}

/// The same of a store, which is named.
fn told_of(store: &Path, report: &Report) -> Value {
    let mut result = told(&Summary::from(report));
    result.set(&["store"], store.display().to_string());
    result
}

/// The keys and certificates for a backup, encrypted, and what to say about them.
fn keys_to_keep(matches: &ArgMatches, data_dir: &Path) -> Result<(Option<Vec<u8>>, Word), String> {
    let folder = data_dir.join(PKI);
    let there = sealed::read_folder(&folder)?;
    match passphrase(matches)? {
        _ if there.is_empty() => {
            Ok((None, Word { text: format!("there are no keys in {}", folder.display()), tag: "none" }))
        }
        Some(passphrase) => {
            let text = format!("with the keys and certificates of {}, encrypted", folder.display());
            Ok((Some(sealed::seal(&there, &passphrase)?), Word { text, tag: "encrypted" }))
        }
        None => {
            let text = format!(
                "WITHOUT the keys and certificates of {}, without which kubeconfigs and tokens end: keep a copy of that \
                 folder, or give --passphrase-file to have them in the backup",
                folder.display()
            );
            Ok((None, Word { text, tag: "left out" }))
        }
    }
}

fn passphrase(matches: &ArgMatches) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = matches.get_one::<PathBuf>("passphrase-file") else { return Ok(None) };
    let text = std::fs::read(path).map_err(|error| format!("--passphrase-file: {}: {error}", path.display()))?;
    let passphrase = text.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    if passphrase.is_empty() {
        return Err(format!("--passphrase-file: the first line of {} is empty", path.display()));
    }
    Ok(Some(passphrase.to_vec()))
}

/// Gives a backup its keys and its name, or writes it to standard output.
fn finish(unfinished: &Path, target: &Path, keys: Option<&[u8]>) -> Result<(), String> {
    if let Some(keys) = keys {
        storage_embedded::attach(unfinished, PKI, keys).map_err(|error| error.to_string())?;
    }
    if target == Path::new("-") {
        let failed = |error: std::io::Error| format!("cannot write the backup to standard output: {error}");
        let mut file = std::fs::File::open(unfinished).map_err(failed)?;
        std::io::copy(&mut file, &mut std::io::stdout().lock()).map_err(failed)?;
        return std::io::stdout().flush().map_err(failed);
    }
    // A link fails if the name was taken meanwhile; a rename would overwrite it.
    let linked = std::fs::hard_link(unfinished, target).and_then(|()| files::sync_directory(target));
    linked.map_err(|error| format!("cannot write {}: {error}", target.display()))
}

pub fn restore(matches: &ArgMatches) -> Result<(), Failure> {
    let output = Output::of(matches);
    let meter: Arc<Meter> = Arc::default();
    let shown = Progress::show(output, &meter);
    let source = file_of(matches)?;
    let data_dir = data_dir_of(matches);
    let target = apiserver::store_path(&data_dir);
    if is_same_file(&source, &target) {
        return Err(format!("{} is the store itself, not a backup of it", source.display()).into());
    }
    // The backup must be good before anything is made or moved.
    let backup = check_with(&source, &meter).map_err(|error| Failure::told(&error, error.to_string()))?;
    files::create_directory(&data_dir).map_err(|error| format!("cannot create {}: {error}", data_dir.display()))?;
    let keys = Keys::of(matches, &source)?;
    let pki = data_dir.join(PKI);
    if !matches.get_flag("force") {
        if keys.differ_from(&pki)? {
            return Err(format!("{} has other keys than the backup; --force puts them aside", pki.display()).into());
        }
        if storage_embedded::exists(&target) {
            return Err(format!("{} exists; --force puts it aside", target.display()).into());
        }
    }
    let skips = revisions_to_skip(&target, backup.revision)?;
    let report =
        storage_embedded::replace(&target, BEFORE_RESTORE, |fresh| restore_with(&source, fresh, skips, &meter));
    let report = report.map_err(|error| Failure::told(&error, error.to_string()))?;
    drop(shown);
    let word = keys.write(&pki)?;
    let mut text = format!("{} restored: {}; {}", target.display(), Summary::from(&report), word.text);
    if let Some(history) = past_files::bring_back(&source, &data_dir, backup.revision, report.revision)? {
        text = [text, history].join("; ");
    }
    let mut result = told_of(&target, &report);
    result.set(&["certificates"], word.tag);
    output.say(&text, &result);
    Ok(())
}

/// How many revisions later than its backup a store goes on, so that it is beyond all that clients have seen of the one before: of
/// the store that is there, or of one that is gone, for which the time stands, since it grows faster than revisions do.
fn revisions_to_skip(target: &Path, backup: i64) -> Result<i64, Failure> {
    let seen = storage_embedded::last_revision(target);
    let seen = seen.map_err(|error| Failure::told(&error, error.to_string()))?;
    let milliseconds = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis());
    let seen = seen.unwrap_or_else(|| i64::try_from(milliseconds()).unwrap_or(0));
    Ok(seen.max(backup) - backup + RESTORE_SKIPS)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// The keys and certificates of a backup.
enum Keys {
    /// It has none.
    None,
    /// It has some, and no passphrase was given.
    Closed,
    Open(sealed::Files),
}

impl Keys {
    fn of(matches: &ArgMatches, backup: &Path) -> Result<Keys, String> {
        let found = storage_embedded::attached(backup, PKI).map_err(|error| error.to_string())?;
        match (found, passphrase(matches)?) {
            (None, None) => Ok(Keys::None),
            (None, Some(_)) => Err(format!("{} has no keys; leave out --passphrase-file", backup.display())),
            (Some(_), None) => Ok(Keys::Closed),
            (Some(found), Some(passphrase)) => {
                let opened = sealed::open(&found, &passphrase);
                opened.map(Keys::Open).map_err(|why| format!("{}: {why}", backup.display()))
            }
        }
    }

    /// Whether other keys would have to go.
    fn differ_from(&self, folder: &Path) -> Result<bool, String> {
        let there = sealed::read_folder(folder)?;
        Ok(matches!(self, Keys::Open(files) if !there.is_empty() && there != *files))
    }

    /// Writes them, and says what became of them.
    fn write(&self, folder: &Path) -> Result<Word, String> {
        let shown = folder.display();
        let files = match self {
            Keys::None => {
                let text = format!(
                    "the backup has no keys: those in {shown} are used, or made, which ends kubeconfigs and tokens"
                );
                return Ok(Word { text, tag: "none" });
            }
            Keys::Closed => {
                let text = format!(
                    "its keys and certificates were NOT restored: give --passphrase-file to have them in {shown}"
                );
                return Ok(Word { text, tag: "not restored" });
            }
            Keys::Open(files) => files,
        };
        if sealed::read_folder(folder)? == *files {
            let text = format!("its keys and certificates are those in {shown}");
            return Ok(Word { text, tag: "restored" });
        }
        let fresh = files::with_suffix(folder, ".replacement");
        let failed = |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
        if fresh.exists() {
            std::fs::remove_dir_all(&fresh).map_err(|error| failed(&fresh, error))?;
        }
        files::create_directory(&fresh).map_err(|error| failed(&fresh, error))?;
        for (name, contents) in files {
            let path = fresh.join(name);
            files::replace(&path, contents).map_err(|error| failed(&path, error))?;
        }
        // An empty folder is in the way of nothing.
        if std::fs::remove_dir(folder).is_err() && folder.exists() {
            let aside = files::unused_name(folder, BEFORE_RESTORE, Path::exists);
            let aside = aside.ok_or_else(|| format!("too many folders like {shown} were put aside"))?;
            std::fs::rename(folder, &aside).map_err(|error| failed(&aside, error))?;
        }
        std::fs::rename(&fresh, folder)
            .and_then(|()| files::sync_directory(folder))
            .map_err(|error| failed(folder, error))?;
        let text = format!("{} keys and certificates restored in {shown}", files.len());
        Ok(Word { text, tag: "restored" })
    }
}

pub fn check(matches: &ArgMatches) -> Result<(), Failure> {
    let output = Output::of(matches);
    let path = apiserver::store_path(&data_dir_of(matches));
    if !storage_embedded::exists(&path) {
        return Err(format!("{} does not exist", path.display()).into());
    }
    let report = check_shown(&path, output)?;
    say_whole(output, &path, &report, "");
    past_files::check(output, &apiserver::history_path(&data_dir_of(matches)))
}

fn check_shown(path: &Path, output: Output) -> Result<Report, OpenError> {
    let meter: Arc<Meter> = Arc::default();
    let _shown = Progress::show(output, &meter);
    check_with(path, &meter)
}

fn say_whole(output: Output, path: &Path, report: &Report, more: &str) {
    let mut result = told_of(path, report);
    result.set(&["whole"], true);
    output.say(&format!("{} is whole: {}{more}", path.display(), Summary::from(report)), &result);
}

pub fn repair(matches: &ArgMatches) -> Result<(), Failure> {
    let output = Output::of(matches);
    let data_dir = data_dir_of(matches);
    let path = apiserver::store_path(&data_dir);
    let damage = match check_shown(&path, output) {
        Ok(report) => {
            say_whole(output, &path, &report, "; there is nothing to repair");
            return Ok(());
        }
        Err(error) if error.is_damage() => error.to_string(),
        Err(error) => return Err(Failure::told(&error, error.to_string())),
    };
    let meter: Arc<Meter> = Arc::default();
    let shown = Progress::show(output, &meter);
    let salvage = examine_with(&path, &meter).map_err(|error| {
        let why = format!("{error}; nothing can be read of it, so only `restore` can bring a backup back");
        Failure::told(&error, why)
    })?;
    drop(shown);
    say_losses(output, &path, &damage, &salvage);
    if !salvage.losses().is_empty() && !matches.get_flag("accept-loss") {
        return Err(Failure::damaged("nothing was changed; --accept-loss goes on without what is lost".into()));
    }
    let shown = Progress::show(output, &meter);
    let report = storage_embedded::replace(&path, BEFORE_REPAIR, |fresh| salvage.write(fresh, RESTORE_SKIPS));
    let report = report.map_err(|error| Failure::told(&error, error.to_string()))?;
    drop(shown);
    let mut result = told_of(&path, &report);
    result.set(&["repaired"], true);
    output.say(&format!("{} repaired: {}", path.display(), Summary::from(&report)), &result);
    Ok(())
}

/// Says what is lost, and what is not.
fn say_losses(output: Output, path: &Path, damage: &str, salvage: &Salvage) {
    let losses = salvage.losses();
    let listed: Vec<String> = losses.iter().take(LOSSES_LISTED).map(ToString::to_string).collect();
    let mut lines = vec![damage.to_string()];
    lines.extend(listed.iter().map(|loss| format!("lost: {loss}")));
    if losses.len() > listed.len() {
        lines.push(format!("lost: {} more", losses.len() - listed.len()));
    }
    lines.push(format!("{} keys can be kept, up to revision {}", salvage.keys(), salvage.revision()));
    let result = value!({
        "damage": damage,
        "keysKept": (salvage.keys()),
        "losses": (listed),
        "lossesCount": (losses.len()),
        "revision": (salvage.revision()),
        "store": (path.display().to_string()),
        "whole": false,
    });
    output.say(&lines.join("\n"), &result);
}

fn file_of(matches: &ArgMatches) -> Result<PathBuf, String> {
    matches.get_one::<PathBuf>("file").cloned().ok_or_else(|| "which file?".into())
}
