//! Whether the files that were found are the log that must follow a database.

use std::path::Path;

use storage::Revision;

use super::{Mark, Replay, mark_path, paths};
use crate::numbers::Log;

impl Replay {
    /// The mark of this log.
    pub fn mark_of(&self, log: Log) -> Option<Mark> {
        self.mark.filter(|mark| log.id != 0 && mark.id == log.id)
    }

    /// Everything up to this revision was acknowledged, as far as the log and its mark tell. A file that was begun after
    /// the mark's says itself what was before it: the mark may be about a group that was made undone.
    pub fn must_reach(&self, log: Log) -> Revision {
        let latest = self.begun.iter().map(|file| file.generation).max().unwrap_or(0);
        let mark = self.mark_of(log).filter(|mark| latest <= mark.generation);
        self.reaches.max(mark.map_or(0, |mark| mark.revision))
    }

    /// Fails, with the reason, if a file belongs to another store, or if the database was not closed in order and the file
    /// that must be there is not. A database that was closed in order has everything.
    pub fn check_follows(&self, store: &Path, log: Log, is_clean: bool, revision: Revision) -> Result<(), String> {
        if let Some(foreign) = self.begun.iter().find(|file| file.id != 0 && file.id != log.id) {
            return Err(format!(
                "{} belongs to another store; move it away if you do not need it",
                foreign.path.display()
            ));
        }
        if is_clean || log.id == 0 {
            return Ok(());
        }
        let Some(mark) = self.mark_of(log) else {
            let mark = mark_path(store);
            let what = match self.mark {
                Some(_) => "belongs to another store",
                None if mark.metadata().is_ok_and(|file| file.len() > 0) => "is damaged",
                None => "is missing",
            };
            let mark = mark.display();
            return Err(format!(
                "acknowledged writes may be lost: it was not closed in order, and {mark}, which says how far its \
                 write-ahead log reaches, {what}"
            ));
        };
        let generation = mark.generation.max(log.generation);
        if generation == 0 {
            return Ok(());
        }
        let lost = |why: String| {
            let [first, second] = paths(store);
            let files = format!("{} and {}", first.display(), second.display());
            Err(format!("acknowledged writes are lost: it was not closed in order, and {why} ({files})"))
        };
        let Some(latest) = self.begun.iter().max_by_key(|file| file.generation) else {
            return lost("the files of its write-ahead log are missing or empty".into());
        };
        let is_replaced = latest.generation == mark.generation && latest.nonce != mark.nonce;
        if latest.generation < generation || is_replaced {
            return lost(format!("file number {generation} of its write-ahead log is missing, emptied or replaced"));
        }
        if self.reaches < revision {
            let reaches = self.reaches;
            return lost(format!("its write-ahead log ends at revision {reaches}, before its own {revision}"));
        }
        Ok(())
    }

    /// Whether the file with the last acknowledged group is there.
    pub fn has_latest(&self, log: Log) -> bool {
        let Some(mark) = self.mark_of(log) else { return log.id == 0 };
        let generation = mark.generation.max(log.generation);
        generation == 0 || self.begun.iter().any(|file| file.generation >= generation)
    }

    /// Leaves out what belongs to another store.
    pub fn forget_foreign(&mut self, log: Log) {
        if self.begun.iter().any(|file| file.id != 0 && file.id != log.id) {
            *self = Replay { mark: self.mark, ..Replay::default() };
        }
    }
}
