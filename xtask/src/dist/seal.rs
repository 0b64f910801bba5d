//! What is made of all packages: the image, the installer, the formula, where everything comes from, its sums and their signature.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use minisign::{KeyPair, PublicKey, SecretKeyBox};

use super::archive::sha256;
use super::contents::document;
use super::{Release, VERSION, formula, languages, oci, packaging, provenance};

pub const SUMS: &str = "SHA256SUMS";
pub const SIGNATURE: &str = "SHA256SUMS.minisig";
/// Files that say what the others are.
const ABOUT_OTHERS: [&str; 2] = [SUMS, SIGNATURE];

pub fn run(release: &Release, key: Option<&Path>) -> Result<(), String> {
    let key = key.map(Key::read).transpose()?;
    for name in ABOUT_OTHERS.into_iter().chain([provenance::NAME]) {
        let _ = fs::remove_file(release.folder.join(name));
    }
    oci::write(release)?;
    let public = key.as_ref().map(|key| key.public.to_base64()).unwrap_or_default();
    let installer = packaging("install.sh")?.replace("{version}", VERSION);
    let installer = installer.replace("{url}", &release.url).replace("{key}", &public);
    release.write("install.sh", installer.as_bytes())?;
    let sum = |name: &str| fs::read(release.folder.join(name)).map(|bytes| sha256(&bytes)).ok();
    formula::write(release, &sum)?;
    // The index says where archives are, which is not known without a URL.
    if !release.url.is_empty() {
        release.write(languages::INDEX, languages::index(release, &release.url)?.as_bytes())?;
    }
    provenance::write(release, &sums(release)?)?;
    let notes = release.folder.with_file_name("notes.md");
    fs::write(&notes, notes_of(&document("CHANGELOG.md")?)?).map_err(|error| error.to_string())?;
    let sums: String = sums(release)?.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    release.write(SUMS, sums.as_bytes())?;
    if let Some(key) = key {
        release.write(SIGNATURE, key.sign(sums.as_bytes(), release)?.as_bytes())?;
    }
    Ok(())
}

/// What the changelog says about this version.
fn notes_of(changelog: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(changelog);
    let begin = text.split_once(&format!("\n## {VERSION}")).ok_or(format!("CHANGELOG.md has no section {VERSION}"))?.1;
    let body = begin.split_once('\n').map_or("", |(_, body)| body);
    Ok(body.split("\n## ").next().unwrap_or("").trim().to_string() + "\n")
}

/// Names and sums of the published files.
fn sums(release: &Release) -> Result<Vec<(String, String)>, String> {
    let names = release.files()?.into_iter().filter(|name| !ABOUT_OTHERS.contains(&name.as_str()));
    let read = |name: String| {
        let path = release.folder.join(&name);
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((name, sha256(&bytes)))
    };
    names.map(read).collect()
}

/// What signs a release.
struct Key {
    secret: minisign::SecretKey,
    public: PublicKey,
}

impl Key {
    fn read(path: &Path) -> Result<Key, String> {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let boxed = SecretKeyBox::from_string(&text).map_err(|error| wrong(error.to_string()))?;
        let secret = boxed.into_unencrypted_secret_key().map_err(|error| wrong(error.to_string()))?;
        let public = PublicKey::from_secret_key(&secret).map_err(|error| wrong(error.to_string()))?;
        Ok(Key { secret, public })
    }

    /// The text of the signature's file.
    fn sign(&self, bytes: &[u8], release: &Release) -> Result<String, String> {
        let trusted = format!("ferrokube {VERSION} {}", release.commit);
        let signed = minisign::sign(Some(&self.public), &self.secret, Cursor::new(bytes), Some(&trusted), None);
        signed.map(|signature| signature.into_string()).map_err(|error| error.to_string())
    }
}

/// Makes a pair of keys: the secret one in this file, the public one beside it.
pub fn new_key(path: &Path) -> Result<String, String> {
    let KeyPair { pk, sk } = KeyPair::generate_unencrypted_keypair().map_err(|error| error.to_string())?;
    let secret = sk.to_box(Some("signs ferrokube's releases")).map_err(|error| error.to_string())?.to_string();
    let public = pk.to_box().map_err(|error| error.to_string())?.to_string();
    let beside = PathBuf::from(format!("{}.pub", path.display()));
    let mut options = fs::File::options();
    let file = options.create_new(true).write(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, secret.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    fs::write(&beside, public).map_err(|error| format!("cannot write {}: {error}", beside.display()))?;
    Ok(format!("{} is secret; {} is public: {}", path.display(), beside.display(), pk.to_base64()))
}
