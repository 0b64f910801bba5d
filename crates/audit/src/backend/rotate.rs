//! A log file that is renamed when it is large, and whose old parts are compressed and deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use object::timestamp::MicroTime;
use object::{Clock, Timestamp};

const MEGABYTE: u64 = 1 << 20;

/// The `--audit-log-max*` flags. Zero means no bound, and for the size 100 MB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    pub max_megabytes: u64,
    pub max_age_days: u64,
    pub max_backups: usize,
    pub compress: bool,
}

/// The file that is written to.
pub struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    clock: Box<dyn Clock>,
    file: File,
    bytes: u64,
}

impl RotatingFile {
    pub fn open(path: &Path, rotation: Rotation, clock: Box<dyn Clock>) -> io::Result<RotatingFile> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let file = append(path)?;
        let bytes = file.metadata()?.len();
        Ok(RotatingFile { path: path.to_owned(), rotation, clock, file, bytes })
    }

    /// Writes whole lines; a new file is begun before if they would make this one too large.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let limit = if self.rotation.max_megabytes == 0 { 100 } else { self.rotation.max_megabytes } * MEGABYTE;
        if self.bytes > 0 && self.bytes + lines.len() as u64 > limit {
            self.rotate()?;
        }
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let backup = self.backup_name(now);
        fs::rename(&self.path, &backup)?;
        self.file = append(&self.path)?;
        self.bytes = 0;
        // What cannot be cleaned up now is cleaned up after the next rotation.
        if let Err(error) = self.clean_up(now) {
            tracing::warn!(%error, path = %self.path.display(), "old audit logs could not be cleaned up");
        }
        Ok(())
    }

    /// `audit.log` becomes `audit-2006-01-02T15-04-05.000.log`.
    fn backup_name(&self, now: Timestamp) -> PathBuf {
        let time = MicroTime(now).to_string().replace(':', "-");
        let (stem, extension) = self.name_parts();
        self.path.with_file_name(format!("{stem}-{}{extension}", &time[..23]))
    }

    fn name_parts(&self) -> (String, String) {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let extension = self.path.extension().map_or(String::new(), |ext| format!(".{}", ext.to_string_lossy()));
        (stem, extension)
    }

    /// Backups, the newest first: their names sort by time.
    fn backups(&self) -> io::Result<Vec<PathBuf>> {
        let (stem, extension) = self.name_parts();
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let plain = name.strip_suffix(".gz").unwrap_or(&name);
            let time = plain.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
            if time.is_some_and(|time| time.len() == 23 && time.starts_with(|c: char| c.is_ascii_digit())) {
                found.push(path);
            }
        }
        found.sort();
        found.reverse();
        Ok(found)
    }

    fn clean_up(&self, now: Timestamp) -> io::Result<()> {
        let mut backups = self.backups()?;
        if self.rotation.max_backups > 0 && backups.len() > self.rotation.max_backups {
            backups.drain(self.rotation.max_backups..).try_for_each(fs::remove_file)?;
        }
        if self.rotation.max_age_days > 0 {
            let age = Duration::from_secs(self.rotation.max_age_days * 24 * 3600);
            let oldest = self.backup_name(now.plus(object::duration::Duration(-(age.as_nanos() as i64))));
            let (kept, old): (Vec<_>, Vec<_>) = backups.into_iter().partition(|backup| *backup >= oldest);
            old.into_iter().try_for_each(fs::remove_file)?;
            backups = kept;
        }
        if self.rotation.compress {
            let plain = backups.iter().filter(|backup| backup.extension().is_none_or(|extension| extension != "gz"));
            plain.into_iter().try_for_each(|backup| compress(backup))?;
        }
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn compress(path: &Path) -> io::Result<()> {
    let target = files::with_suffix(path, ".gz");
    let out = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&target)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::remove_file(path)
}
