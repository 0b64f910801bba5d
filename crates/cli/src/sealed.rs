//! Keys and certificates in a backup, encrypted with a passphrase.
//!
//! ```text
//! magic 8 | log2 of scrypt's N u8 | salt 16 | nonce 12 | AES-256-GCM of the files, with all before it authenticated too
//! file    length of the name u32 | name | length u32 | contents
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

const MAGIC: &[u8; 8] = b"fk-keys\x01";
const SALT_BYTES: usize = 16;
const HEAD_BYTES: usize = MAGIC.len() + 1 + SALT_BYTES + NONCE_LEN;
/// 32 MiB and about a tenth of a second for each guess.
const LOG_N: u8 = 15;
/// More is not accepted from a file: it would take all memory.
const LOG_N_MAX: u8 = 20;
/// Larger than any key or bundle of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
const FILES_MAX: usize = 1000;

/// Files of a folder by their names.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Reads the files of a folder; none if it does not exist.
pub(crate) fn read_folder(folder: &Path) -> Result<Files, String> {
    let failed = |path: &Path, error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Files::new()),
        Err(error) => return Err(failed(folder, error)),
    };
    let mut files = Files::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let metadata = std::fs::metadata(&path).map_err(|error| failed(&path, error))?;
        let name = path.file_name().and_then(|name| name.to_str()).map(ToString::to_string);
        let Some(name) = name.filter(|name| metadata.is_file() && is_name(name)) else { continue };
        if metadata.len() > FILE_BYTES_MAX || files.len() == FILES_MAX {
            return Err(format!("{} is more than a backup takes", path.display()));
        }
        files.insert(name, std::fs::read(&path).map_err(|error| failed(&path, error))?);
    }
    Ok(files)
}

/// Whether it is the name of a file in the folder itself, and not one that an interrupted write left.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && !name.ends_with(".new")
}

pub(crate) fn seal(files: &Files, passphrase: &[u8]) -> Result<Vec<u8>, String> {
    let (salt, nonce): ([u8; SALT_BYTES], [u8; NONCE_LEN]) = (rand::random(), rand::random());
    let mut sealed = Vec::from(MAGIC);
    sealed.push(LOG_N);
    sealed.extend_from_slice(&salt);
    sealed.extend_from_slice(&nonce);
    let mut plain = Vec::new();
    for (name, contents) in files {
        for part in [name.as_bytes(), contents] {
            let length = u32::try_from(part.len()).map_err(|_| format!("{name} is too large"))?;
            plain.extend_from_slice(&length.to_le_bytes());
            plain.extend_from_slice(part);
        }
    }
    let key = key(passphrase, LOG_N, &salt)?;
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&sealed), &mut plain)
        .map_err(|_| "cannot encrypt".to_string())?;
    sealed.extend_from_slice(&plain);
    Ok(sealed)
}

/// Fails if the passphrase is another one, or if a byte changed.
pub(crate) fn open(sealed: &[u8], passphrase: &[u8]) -> Result<Files, String> {
    let damaged = || "the keys in it are damaged".to_string();
    let (head, rest) = sealed.split_at_checked(HEAD_BYTES).ok_or_else(damaged)?;
    let log_n = head[MAGIC.len()];
    if !head.starts_with(MAGIC) || log_n > LOG_N_MAX {
        return Err("the keys in it were written by a newer version, or are damaged".into());
    }
    let (salt, nonce) = head[MAGIC.len() + 1..].split_at(SALT_BYTES);
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;
    let mut rest = rest.to_vec();
    let opened = key(passphrase, log_n, salt)?.open_in_place(nonce, Aad::from(head), &mut rest);
    let mut left: &[u8] = opened.map_err(|_| "the passphrase does not open the keys in it".to_string())?;
    let mut next = || {
        let (length, rest) = left.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        left = rest;
        Some(part.to_vec())
    };
    let mut files = Files::new();
    while let Some(name) = next() {
        let name = String::from_utf8(name).ok().filter(|name| is_name(name)).ok_or_else(damaged)?;
        files.insert(name, next().ok_or_else(damaged)?);
    }
    Ok(files)
}

fn key(passphrase: &[u8], log_n: u8, salt: &[u8]) -> Result<LessSafeKey, String> {
    let params = scrypt::Params::new(log_n, 8, 1, 32).map_err(|error| error.to_string())?;
    let mut key = [0; 32];
    scrypt::scrypt(passphrase, salt, &params, &mut key).map_err(|error| error.to_string())?;
    UnboundKey::new(&AES_256_GCM, &key).map(LessSafeKey::new).map_err(|_| "cannot make a key".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_can_be_opened_with_the_passphrase_only() {
        let folder = tempfile::tempdir().unwrap();
        for (name, contents) in [("ca.key", "secret"), ("ca.crt", ""), (".hidden", "x"), ("sa.key.new", "x")] {
            std::fs::write(folder.path().join(name), contents).unwrap();
        }
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        let files = read_folder(folder.path()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["ca.crt", "ca.key"]);
        assert!(read_folder(&folder.path().join("none")).unwrap().is_empty());
        let sealed = seal(&files, b"correct horse").unwrap();
        assert!(!sealed.windows(6).any(|some| some == b"secret" || some == b"ca.key"));
        assert_ne!(sealed, seal(&files, b"correct horse").unwrap(), "salt and nonce are new each time");
        assert_eq!(open(&sealed, b"correct horse").unwrap(), files);
        assert_eq!(open(&sealed, b"battery").unwrap_err(), "the passphrase does not open the keys in it");
        for at in [0, 9, 20, 30, HEAD_BYTES, sealed.len() - 1] {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(open(&damaged, b"correct horse").is_err(), "byte {at}");
        }
        assert!(open(&sealed[..HEAD_BYTES - 1], b"").is_err());
        let mut costly = sealed;
        costly[MAGIC.len()] = 63;
        assert!(open(&costly, b"correct horse").is_err());
    }
}
