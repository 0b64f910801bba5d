//! Clocks that jump: a library in front of the C library's `clock_gettime`, which Rust's standard library uses and Go's does not.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("clock.c");

/// The library, and a file for each server with the seconds that its clock is ahead.
pub struct Clock {
    folder: PathBuf,
}

impl Clock {
    /// None where there is no C compiler; then clocks do not jump.
    pub fn open(folder: &Path) -> Option<Clock> {
        let source = folder.join("clock.c");
        std::fs::write(&source, SOURCE).ok()?;
        let library = folder.join("clock.so");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).arg(library).arg(source).arg("-ldl").status();
        built.is_ok_and(|status| status.success()).then(|| Clock { folder: folder.into() })
    }

    /// Lets a server that is about to be started use the library.
    pub fn set_up(&self, command: &mut Command, server: usize) {
        if !self.file(server).exists() && self.set(server, 0).is_err() {
            return;
        }
        command.env("LD_PRELOAD", self.folder.join("clock.so")).env("CLOCK_OFFSET_FILE", self.file(server));
    }

    /// The file is written in place, because the server has it mapped.
    pub fn set(&self, server: usize, seconds: i64) -> Result<(), String> {
        let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(self.file(server));
        let written = file.and_then(|mut file| file.write_all(&seconds.to_ne_bytes()));
        written.map_err(|error| format!("cannot set the clock of a server: {error}"))
    }

    fn file(&self, server: usize) -> PathBuf {
        self.folder.join(format!("clock-{server}"))
    }
}
