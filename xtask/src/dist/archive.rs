//! Archives that are the same whenever and wherever they are made: no names of users, one time, a fixed order.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// A tar archive in the making.
pub struct Archive {
    builder: tar::Builder<Vec<u8>>,
    seconds: u64,
    owner: u64,
}

impl Archive {
    /// Everything in it is from this time.
    pub fn new(seconds: u64) -> Archive {
        Archive { builder: tar::Builder::new(Vec::new()), seconds, owner: 0 }
    }

    /// What follows belongs to this user and group.
    pub fn owned_by(&mut self, owner: u64) {
        self.owner = owner;
    }

    pub fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), String> {
        let mut header = self.header(tar::EntryType::Regular, mode);
        header.set_size(bytes.len() as u64);
        self.builder.append_data(&mut header, path, bytes).map_err(|error| format!("{path}: {error}"))
    }

    pub fn folder(&mut self, path: &str, mode: u32) -> Result<(), String> {
        let mut header = self.header(tar::EntryType::Directory, mode);
        let path = path.trim_end_matches('/').to_string() + "/";
        self.builder.append_data(&mut header, &path, [].as_slice()).map_err(|error| format!("{path}: {error}"))
    }

    pub fn link(&mut self, path: &str, target: &str) -> Result<(), String> {
        let mut header = self.header(tar::EntryType::Symlink, 0o777);
        self.builder.append_link(&mut header, path, target).map_err(|error| format!("{path}: {error}"))
    }

    /// The folders above these paths, each once and outer ones first.
    pub fn folders_above<'a>(&mut self, paths: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let above = paths.flat_map(|path| Path::new(path).ancestors().skip(1));
        let mut folders: Vec<&str> = above.filter_map(Path::to_str).filter(|path| !matches!(*path, "" | ".")).collect();
        folders.sort_unstable();
        folders.dedup();
        folders.into_iter().try_for_each(|folder| self.folder(folder, 0o755))
    }

    pub fn finish(self) -> Result<Vec<u8>, String> {
        self.builder.into_inner().map_err(|error| error.to_string())
    }

    fn header(&self, kind: tar::EntryType, mode: u32) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.seconds);
        header.set_uid(self.owner);
        header.set_gid(self.owner);
        header.set_size(0);
        header
    }
}

/// Compressed, without a name or a time in the header.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    gzip_as(bytes, Compression::best())
}

pub fn gzip_as(bytes: &[u8], level: Compression) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).map_err(|error| error.to_string())?;
    encoder.finish().map_err(|error| error.to_string())
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&sha256_bytes(bytes))
}

pub fn sha256_bytes(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
