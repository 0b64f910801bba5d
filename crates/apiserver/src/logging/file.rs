//! [`LogFile`]: a log in a file that does not grow beyond a limit.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

/// The last line of a file that is full.
const FULL: &[u8] = b"this log is full; what came later is not in it\n";

#[derive(Clone)]
pub struct LogFile(Arc<Mutex<OpenLog>>);

struct OpenLog {
    /// None if it cannot be written: lines go to standard error then.
    file: Option<File>,
    left: u64,
    /// Whether its last line was written.
    is_full: bool,
}

impl LogFile {
    /// Begins an empty file.
    pub fn open(path: &Path, bytes_max: u64) -> LogFile {
        let file = files::open(path).and_then(|file| file.set_len(0).map(|()| file));
        let file = file.map_err(|error| {
            let _ = writeln!(io::stderr(), "cannot write {}: {error}", path.display());
        });
        LogFile(Arc::new(Mutex::new(OpenLog { file: file.ok(), left: bytes_max, is_full: false })))
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        let OpenLog { file: Some(file), left, is_full } = &mut *state else { return io::stderr().write(line) };
        if *is_full {
            return Ok(line.len());
        }
        if line.len() as u64 > *left {
            *is_full = true;
            file.write_all(FULL)?;
            return Ok(line.len());
        }
        *left -= line.len() as u64;
        file.write_all(line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_says_so_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        std::fs::write(&path, "of a former server").unwrap();
        let mut log = LogFile::open(&path, 10);
        for line in ["one\n", "three\n", "too long\n", "x\n"] {
            assert_eq!(log.write(line.as_bytes()).unwrap(), line.len());
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("one\nthree\n{}", String::from_utf8_lossy(FULL)));
    }
}
