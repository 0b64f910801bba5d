//! Certificates in files: read at the start, and again whenever they change.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gox509::Certificate;
use rustls::sign::CertifiedKey;

use super::Certificates;

/// How often files are read again. Mounted secrets change by swapping links, which no watch on a file would notice.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Where a certificate and its key are, and which names it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Names a client may ask for; empty for those in the certificate itself.
    pub names: Vec<String>,
}

impl CertificateFiles {
    /// Reads `cert.pem,key.pem` or `cert.pem,key.pem:name,*.name`, the form of `--tls-sni-cert-key`.
    pub fn parse(text: &str) -> Result<CertificateFiles, String> {
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        let (certificate, key) =
            files.split_once(',').ok_or("expected comma separated certificate and key file paths")?;
        if certificate.is_empty() || key.is_empty() || key.contains(',') {
            return Err("expected comma separated certificate and key file paths".into());
        }
        let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_lowercase).collect();
        Ok(CertificateFiles { certificate: certificate.into(), key: key.into(), names })
    }

    fn read(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        Ok((read(&self.certificate)?, read(&self.key)?))
    }
}

/// Reads all files and serves what is in them; reads them again when they change, until the certificates are dropped.
///
/// Files that are missing or do not fit are an error now; later they are logged, and what was there before stays.
pub fn follow(default: CertificateFiles, by_name: Vec<CertificateFiles>) -> Result<Arc<Certificates>, String> {
    let certificates = Arc::new(Certificates::default());
    let mut files = FollowedFiles { default, by_name, seen: Vec::new() };
    files.refresh(&certificates)?;
    let weak = Arc::downgrade(&certificates);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let Some(certificates) = weak.upgrade() else { return };
            match files.refresh(&certificates) {
                Ok(false) => {}
                Ok(true) => tracing::info!("serving certificates were read again"),
                Err(why) => tracing::error!(why, "serving certificates cannot be read; the old ones stay in use"),
            }
        }
    });
    Ok(certificates)
}

struct FollowedFiles {
    default: CertificateFiles,
    by_name: Vec<CertificateFiles>,
    /// The contents that were read last, in the order of the files.
    seen: Vec<(Vec<u8>, Vec<u8>)>,
}

impl FollowedFiles {
    /// Whether anything changed.
    fn refresh(&mut self, certificates: &Certificates) -> Result<bool, String> {
        let all = || std::iter::once(&self.default).chain(&self.by_name);
        let read: Vec<(Vec<u8>, Vec<u8>)> = all().map(CertificateFiles::read).collect::<Result<_, _>>()?;
        if read == self.seen {
            return Ok(false);
        }
        let mut parsed = Vec::with_capacity(read.len());
        for (files, (chain, key)) in all().zip(&read) {
            let shown = files.certificate.display();
            parsed.push(Certificates::parse(chain, key).map_err(|why| format!("{shown}: {why}"))?);
        }
        let mut names = HashMap::new();
        // Where two are for the same name the first one is used.
        for (files, certificate) in self.by_name.iter().zip(&parsed[1..]).rev() {
            let own = if files.names.is_empty() { names_in(certificate) } else { files.names.clone() };
            names.extend(own.into_iter().map(|name| (name, certificate.clone())));
        }
        certificates.set_names(names);
        certificates.set_default(parsed[0].clone());
        self.seen = read;
        Ok(true)
    }
}

/// The DNS names a certificate is made out to.
fn names_in(certificate: &CertifiedKey) -> Vec<String> {
    let Some(Ok(leaf)) = certificate.cert.first().map(|der| Certificate::parse(der)) else { return Vec::new() };
    let common = Some(&leaf.subject.common_name).filter(|name| !name.is_empty());
    common.into_iter().chain(&leaf.extensions.names.dns).map(|name| name.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_files_and_hosts() {
        let parse = |text: &str| CertificateFiles::parse(text).map(|f| (f.certificate, f.key, f.names));
        assert_eq!(parse("a.crt,a.key"), Ok(("a.crt".into(), "a.key".into(), vec![])));
        let names = vec!["*.foo.com".to_string(), "foo.com".to_string()];
        assert_eq!(parse("a.crt,a.key:*.Foo.com,foo.com"), Ok(("a.crt".into(), "a.key".into(), names)));
        assert!(parse("a.crt").is_err());
        assert!(parse("a.crt,a.key,b").is_err());
    }

    #[test]
    fn a_changed_file_is_shown_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, host: &str| {
            let made = rcgen::generate_simple_self_signed(vec![host.to_string()]).unwrap();
            std::fs::write(at(&format!("{name}.crt")), made.cert.pem()).unwrap();
            std::fs::write(at(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
        };
        let files = |name: &str| CertificateFiles {
            certificate: at(&format!("{name}.crt")),
            key: at(&format!("{name}.key")),
            names: Vec::new(),
        };
        write("default", "default.example");
        write("other", "Other.example");
        let mut all = FollowedFiles { default: files("default"), by_name: vec![files("other")], seen: Vec::new() };
        let shown = Certificates::default();
        assert_eq!(all.refresh(&shown), Ok(true));
        assert!(shown.by_name.read().contains_key("other.example"));
        assert_eq!(all.refresh(&shown), Ok(false));
        write("other", "third.example");
        assert_eq!(all.refresh(&shown), Ok(true));
        assert!(!shown.by_name.read().contains_key("other.example"));
        let before = shown.default.read().clone().unwrap();
        std::fs::write(at("default.crt"), "nonsense").unwrap();
        assert!(all.refresh(&shown).is_err());
        assert!(Arc::ptr_eq(&before, &shown.default.read().clone().unwrap()));
    }
}
