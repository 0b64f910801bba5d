//! Zip archives that are the same whenever they are made: no times, a fixed order. Wheels and jars are such archives.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::archive::sha256_bytes;

/// The time that the format begins with, 1980-01-01.
const DATE: u16 = (1 << 5) | 1;
const VERSION_NEEDED: u16 = 20;
/// The file's attributes are those of Unix.
const MADE_BY_UNIX: u16 = (3 << 8) | VERSION_NEEDED;
const DEFLATED: u16 = 8;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const REGULAR: u32 = 0o100_000;

pub struct Zip {
    level: Compression,
    bytes: Vec<u8>,
    directory: Vec<u8>,
    files: u16,
    /// Name, hash and size of each, for a wheel's RECORD.
    pub record: Vec<(String, Vec<u8>, usize)>,
}

impl Zip {
    pub fn new(level: Compression) -> Zip {
        Zip { level, bytes: Vec::new(), directory: Vec::new(), files: 0, record: Vec::new() }
    }

    pub fn file(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<(), String> {
        let mut encoder = DeflateEncoder::new(Vec::new(), self.level);
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| error.to_string())?;
        let mut sum = Crc::new();
        sum.update(bytes);
        let too_large = |_| format!("{name} is too large for a zip archive");
        let (size, packed_size) = (u32::try_from(bytes.len()), u32::try_from(packed.len()));
        let (size, packed_size) = (size.map_err(too_large)?, packed_size.map_err(too_large)?);
        let offset = u32::try_from(self.bytes.len()).map_err(too_large)?;
        let name_size = u16::try_from(name.len()).map_err(too_large)?;
        let mut common = Vec::new();
        for half in [VERSION_NEEDED, FLAGS, DEFLATED, 0_u16, DATE] {
            common.extend(half.to_le_bytes());
        }
        for word in [sum.sum(), packed_size, size] {
            common.extend(word.to_le_bytes());
        }
        for half in [name_size, 0_u16] {
            common.extend(half.to_le_bytes());
        }
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&common);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(packed);
        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(MADE_BY_UNIX.to_le_bytes());
        self.directory.extend(&common);
        // No comment, the first disk, no internal attributes.
        self.directory.extend([0; 6]);
        self.directory.extend(((REGULAR | mode) << 16).to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.files += 1;
        self.record.push((name.to_string(), sha256_bytes(bytes), bytes.len()));
        Ok(())
    }

    pub fn finish(mut self) -> Result<Vec<u8>, String> {
        let too_large = |_| "the archive is too large for a zip archive".to_string();
        let (offset, size) = (u32::try_from(self.bytes.len()), u32::try_from(self.directory.len()));
        let (offset, size) = (offset.map_err(too_large)?, size.map_err(too_large)?);
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06");
        self.bytes.extend([0; 4]);
        self.bytes.extend(self.files.to_le_bytes());
        self.bytes.extend(self.files.to_le_bytes());
        self.bytes.extend(size.to_le_bytes());
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend([0; 2]);
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's reader, which pip uses, finds what was written.
    #[test]
    fn others_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut zip = Zip::new(Compression::best());
        let long = b"abc".repeat(10_000);
        zip.file("a/b.txt", 0o644, &long).unwrap();
        zip.file("bin/\u{e9}", 0o755, b"").unwrap();
        let path = folder.path().join("x.zip");
        std::fs::write(&path, zip.finish().unwrap()).unwrap();
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
                      print([(i.filename, i.file_size, oct(i.external_attr >> 16)) for i in z.infolist()])";
        let read = std::process::Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
        let want = "[('a/b.txt', 30000, '0o100644'), ('bin/\u{e9}', 0, '0o100755')]\n";
        assert_eq!(String::from_utf8_lossy(&read.stdout), want, "{}", String::from_utf8_lossy(&read.stderr));
    }
}
