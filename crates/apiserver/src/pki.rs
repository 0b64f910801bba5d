//! Keys and certificates a server makes for itself where it is given none: an authority, a serving certificate and one for the
//! administrator. They are kept in the data directory, reused by later starts, and renewed before they expire.
//!
//! Keys are EC keys in SEC 1 form ("EC PRIVATE KEY"), the one form of them that every client library reads. Those of earlier
//! versions are PKCS #8, and are read as well.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use authn::service_account::SigningKey;
use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Clock, SystemClock};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::kubeconfig;

const DAY_SECONDS: i64 = 24 * 3600;
/// How long the authority is valid. It is not renewed: clients would have to be given the new one.
const AUTHORITY_DAYS: i64 = 10 * 365;
/// How long other certificates are valid.
const CERTIFICATE_DAYS: i64 = 365;
/// Certificates are renewed when they are valid for less than this.
const RENEWAL_DAYS: i64 = 90;
/// How often a running server looks.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(12 * 3600);
/// Certificates are valid from this long before they were made, for clients whose clocks are behind.
const CLOCK_SKEW_SECONDS: i64 = 300;

/// The files in the `pki` folder.
#[derive(Clone, Debug)]
pub struct Pki {
    pub ca: PathBuf,
    pub ca_key: PathBuf,
    pub serving_cert: PathBuf,
    pub serving_key: PathBuf,
    pub admin_cert: PathBuf,
    pub admin_key: PathBuf,
    /// The files that the server makes and uses; the others need not be there.
    pub own: Own,
    /// The serving certificate if it is not the own one, and the authorities of clients, which usually signed it: what
    /// verifies the server besides the own authority.
    pub given: Vec<PathBuf>,
    /// The names that the serving certificate is made out to.
    hosts: Hosts,
}

/// The certificates that a server was not given, so that its own authority signs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The certificate that the server shows.
    pub serving: bool,
    /// The administrator's certificate: the authority vouches for clients.
    pub clients: bool,
}

/// Names and addresses that clients reach the server by.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

/// The files with which a server speaks for its users to other API servers.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    pub ca: PathBuf,
    ca_key: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The name in a front proxy's certificate.
pub const FRONT_PROXY: &str = "front-proxy-client";

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, std::io::Error),
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error(
        "{0} is there and {1} is not, so no certificate can be signed; bring it back, or remove both for a new authority"
    )]
    Incomplete(PathBuf, PathBuf),
    #[error(
        "{0} and {1} are no authority that can sign: {2}; bring them back from a backup, or remove both for a new authority, \
         which existing kubeconfigs do not know"
    )]
    Damaged(PathBuf, PathBuf, rcgen::Error),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("cannot make a key for service accounts: {0}")]
    Key(#[from] authn::service_account::KeyError),
}

/// A certificate and its key, both in PEM.
pub type Pair = (String, String);

impl Pki {
    /// Where everything is, or belongs, in a folder.
    pub fn at(folder: &Path) -> Pki {
        let file = |name: &str| folder.join(name);
        Pki {
            ca: file("ca.crt"),
            ca_key: file("ca.key"),
            serving_cert: file("apiserver.crt"),
            serving_key: file("apiserver.key"),
            admin_cert: file("admin.crt"),
            admin_key: file("admin.key"),
            own: Own { serving: true, clients: true },
            given: Vec::new(),
            hosts: Hosts::default(),
        }
    }

    /// Uses what is there, makes what is missing, and renews what expires soon. Without anything of its own the folder is not
    /// looked at.
    pub fn open(folder: &Path, own: Own, hosts: Hosts) -> Result<Pki, PkiError> {
        let pki = Pki { own, hosts, ..Pki::at(folder) };
        if !pki.is_used() {
            return Ok(pki);
        }
        create_directories(folder)?;
        let FrontProxy { ca_key, key, .. } = pki.front_proxy_files();
        let accounts_key = service_account_key_file(folder);
        for path in [&pki.ca_key, &pki.serving_key, &pki.admin_key, &accounts_key, &ca_key, &key] {
            files::restrict_existing(path).map_err(|error| PkiError::Write(path.clone(), error))?;
        }
        pki.renew()?;
        Ok(pki)
    }

    /// Whether the server's own authority signs anything.
    pub fn is_used(&self) -> bool {
        self.own.serving || self.own.clients
    }

    /// The authority with which clients verify the server's certificate, in PEM.
    pub fn authority(&self) -> Result<String, PkiError> {
        let own = Some(&self.ca).filter(|_| self.is_used());
        let read = |path: &PathBuf| fs::read_to_string(path).map_err(|error| PkiError::Read(path.clone(), error));
        own.into_iter().chain(&self.given).map(read).collect()
    }

    /// The front proxy's files; what is missing or expires soon is made.
    pub fn front_proxy(&self) -> Result<FrontProxy, PkiError> {
        let proxy = self.front_proxy_files();
        if !is_fresh(&proxy.certificate, &proxy.key) || !proxy.ca.exists() {
            let issuer = authority(&proxy.ca, &proxy.ca_key, "ferrokube-front-proxy-ca")?;
            write_pair(&proxy.certificate, &proxy.key, &client_pair(&issuer, FRONT_PROXY, &[])?)?;
        }
        Ok(proxy)
    }

    fn front_proxy_files(&self) -> FrontProxy {
        let file = |name: &str| self.ca.with_file_name(name);
        FrontProxy {
            ca: file("front-proxy-ca.crt"),
            ca_key: file("front-proxy-ca.key"),
            certificate: file("front-proxy-client.crt"),
            key: file("front-proxy-client.key"),
        }
    }

    /// Makes what is missing or expires soon. Whether the administrator's certificate changed.
    fn renew(&self) -> Result<bool, PkiError> {
        if self.front_proxy_files().certificate.exists() {
            self.front_proxy()?;
        }
        let serving = self.own.serving && !is_fresh(&self.serving_cert, &self.serving_key);
        let admin = self.own.clients && !is_fresh(&self.admin_cert, &self.admin_key);
        if !serving && !admin && self.ca.exists() {
            return Ok(false);
        }
        let issuer = authority(&self.ca, &self.ca_key, AUTHORITY)?;
        if serving {
            write_pair(&self.serving_cert, &self.serving_key, &serving_pair(&issuer, &self.hosts)?)?;
        }
        if admin {
            write_pair(
                &self.admin_cert,
                &self.admin_key,
                &client_pair(&issuer, "kubernetes-admin", &["system:masters"])?,
            )?;
        }
        Ok(admin)
    }

    /// Renews certificates of a running server, for ever. Connections get the new serving certificate by themselves; the
    /// administrator's is also in the kubeconfig.
    pub async fn keep_renewed(self, kubeconfig: PathBuf) {
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            match self.renew() {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!("the administrator's certificate was renewed");
                    if let Err(error) = kubeconfig::refresh(&self, &kubeconfig) {
                        tracing::error!(%error, path = %kubeconfig.display(), "the kubeconfig keeps the old certificate");
                    }
                }
                Err(error) => tracing::error!(%error, "certificates cannot be renewed"),
            }
        }
    }

    /// A certificate and its key, both in PEM, for a client that is to be known by this name and these groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Pair, PkiError> {
        client_pair(&authority(&self.ca, &self.ca_key, AUTHORITY)?, user, groups)
    }
}

/// The name of the authority of clients and of this server.
const AUTHORITY: &str = "ferrokube-ca";
const SERVICE_ACCOUNT_KEY: &str = "sa.key";

/// Where the key is that signs service accounts' tokens.
pub fn service_account_key_file(folder: &Path) -> PathBuf {
    folder.join(SERVICE_ACCOUNT_KEY)
}

/// Makes and writes that key; returns it as PEM.
pub fn make_service_account_key(folder: &Path) -> Result<String, PkiError> {
    let pem = SigningKey::generate()?;
    create_directories(folder)?;
    write(&service_account_key_file(folder), &pem)?;
    Ok(pem)
}

/// A key for tokens that is made in no time, as PEM: of an elliptic curve.
pub fn make_small_key() -> Result<String, PkiError> {
    Ok(as_sec1(&KeyPair::generate()?.serialize_pem()))
}

/// Whether certificate and key are there and will be valid for some time, but not for longer than we make them.
fn is_fresh(certificate: &Path, key: &Path) -> bool {
    let Some(ends) = expiry(certificate).filter(|_| key.exists()) else { return false };
    let days_left = (ends - SystemClock.now().secs) / DAY_SECONDS;
    (RENEWAL_DAYS..=CERTIFICATE_DAYS).contains(&days_left)
}

/// When a certificate expires, in seconds since the epoch; None if it cannot be read.
fn expiry(certificate: &Path) -> Option<i64> {
    let certificates = gox509::parse_bundle(&fs::read(certificate).ok()?).ok()?;
    Some(certificates.first()?.not_after.seconds)
}

fn authority(cert_path: &Path, key_path: &Path, common_name: &str) -> Result<Issuer<'static, KeyPair>, PkiError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| PkiError::Read(path.into(), error));
    match (cert_path.exists(), key_path.exists()) {
        (true, true) => {
            let (certificate, key) = (read(cert_path)?, read(key_path)?);
            let issuer = KeyPair::from_pem(&key).and_then(|key| Issuer::from_ca_cert_pem(&certificate, key));
            return issuer.map_err(|error| PkiError::Damaged(cert_path.into(), key_path.into(), error));
        }
        (true, false) => return Err(PkiError::Incomplete(cert_path.into(), key_path.into())),
        // A key alone is what a first start leaves that was interrupted.
        (false, _) => {}
    }
    let (params, (certificate, key), pair) = make_authority(common_name, AUTHORITY_DAYS)?;
    write_pair(cert_path, key_path, &(certificate, key))?;
    Ok(Issuer::new(params, pair))
}

fn make_authority(common_name: &str, days: i64) -> Result<(CertificateParams, Pair, KeyPair), PkiError> {
    let key = KeyPair::generate()?;
    let mut params = valid_for(CertificateParams::default(), days);
    params.distinguished_name = name(common_name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let pair = (params.self_signed(&key)?.pem(), as_sec1(&key.serialize_pem()));
    Ok((params, pair, key))
}

/// A serving certificate, followed by that of an authority made for it alone whose key is not kept: as kube-apiserver makes one
/// for a `--cert-dir` without any.
pub fn self_signed(hosts: &Hosts) -> Result<Pair, PkiError> {
    let (params, (authority, _), key) = make_authority("ferrokube-serving-ca", CERTIFICATE_DAYS)?;
    let (certificate, key) = serving_pair(&Issuer::new(params, key), hosts)?;
    Ok((certificate + &authority, key))
}

fn serving_pair(issuer: &Issuer<'static, KeyPair>, hosts: &Hosts) -> Result<Pair, PkiError> {
    let mut params = CertificateParams::new(hosts.names.clone())?;
    params.distinguished_name = name("kube-apiserver", &[]);
    params.subject_alt_names.extend(hosts.addresses.iter().map(|address| SanType::IpAddress(*address)));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(issuer, params)
}

fn client_pair(issuer: &Issuer<'static, KeyPair>, user: &str, groups: &[&str]) -> Result<Pair, PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(user, groups);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(issuer, params)
}

fn sign(issuer: &Issuer<'static, KeyPair>, params: CertificateParams) -> Result<Pair, PkiError> {
    let key = KeyPair::generate()?;
    let certificate = valid_for(params, CERTIFICATE_DAYS).signed_by(&key, issuer)?;
    Ok((certificate.pem(), as_sec1(&key.serialize_pem())))
}

/// The same key in SEC 1 form. Anything but a PKCS #8 key of the curve P-256 is returned as it is.
pub fn as_sec1(pem: &str) -> String {
    let Some(der) = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok() else { return pem.to_string() };
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der.secret_pkcs8_der());
    let sec1 = pair.ok().and_then(|pair| AsDer::<EcPrivateKeyRfc5915Der<'static>>::as_der(&pair.private_key()).ok());
    let Some(sec1) = sec1 else { return pem.to_string() };
    let text = STANDARD.encode(sec1.as_ref());
    let mut lines: Vec<&str> = vec!["-----BEGIN EC PRIVATE KEY-----"];
    lines.extend((0..text.len()).step_by(64).map(|from| &text[from..text.len().min(from + 64)]));
    lines.push("-----END EC PRIVATE KEY-----\n");
    lines.join("\n")
}

/// Makes the folder, and the data directory that it is in, for their owner alone.
fn create_directories(folder: &Path) -> Result<(), PkiError> {
    for folder in folder.parent().into_iter().chain([folder]) {
        files::create_directory(folder).map_err(|error| PkiError::Write(folder.into(), error))?;
    }
    Ok(())
}

fn valid_for(mut params: CertificateParams, days: i64) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::seconds(CLOCK_SKEW_SECONDS);
    params.not_after = now + time::Duration::days(days);
    params
}

fn name(common: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name.push(DnType::CommonName, common);
    name
}

/// Writes a key before its certificate: a certificate says that both are there.
fn write_pair(cert_path: &Path, key_path: &Path, (certificate, key): &Pair) -> Result<(), PkiError> {
    write(key_path, key)?;
    write(cert_path, certificate)
}

fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    files::replace(path, text.as_bytes()).map_err(|error| PkiError::Write(path.into(), error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn open(folder: &Path) -> Pki {
        let own = Own { serving: true, clients: true };
        Pki::open(folder, own, Hosts { names: vec!["localhost".into()], addresses: Vec::new() }).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn certificates_last_a_year_and_are_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let pki = open(&folder.path().join("pki"));
        let days = |path: &Path| (expiry(path).unwrap() - SystemClock.now().secs + DAY_SECONDS / 2) / DAY_SECONDS;
        assert_eq!((days(&pki.admin_cert), days(&pki.serving_cert)), (CERTIFICATE_DAYS, CERTIFICATE_DAYS));
        assert_eq!(days(&pki.ca), AUTHORITY_DAYS);
        let (first, authority_pem) = (fs::read(&pki.admin_cert).unwrap(), fs::read(&pki.ca).unwrap());
        assert!(!pki.renew().unwrap());
        assert_eq!(fs::read(&pki.admin_cert).unwrap(), first);
        // Too short and too long are replaced: earlier versions made certificates that never expired.
        let issuer = authority(&pki.ca, &pki.ca_key, AUTHORITY).unwrap();
        for days_left in [RENEWAL_DAYS - 1, 30 * 365] {
            let params = valid_for(CertificateParams::default(), days_left);
            let key = KeyPair::generate().unwrap();
            fs::write(&pki.admin_cert, params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
            assert!(pki.renew().unwrap(), "{days_left}");
            assert_eq!(days(&pki.admin_cert), CERTIFICATE_DAYS);
        }
        assert_eq!(fs::read(&pki.ca).unwrap(), authority_pem);
        let proxy = pki.front_proxy().unwrap();
        assert_eq!((days(&proxy.certificate), days(&proxy.ca)), (CERTIFICATE_DAYS, AUTHORITY_DAYS));
        let first = fs::read(&proxy.certificate).unwrap();
        pki.renew().unwrap();
        assert_eq!(fs::read(&proxy.certificate).unwrap(), first);
        fs::remove_file(&proxy.key).unwrap();
        pki.renew().unwrap();
        assert_ne!(fs::read(&proxy.certificate).unwrap(), first);
    }

    #[test]
    fn keys_are_for_their_owner_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("pki"), folder.path().join("victim"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, path.join("admin.key")).unwrap();
        let pki = open(&path);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(mode(&path), 0o700);
        for key in [&pki.ca_key, &pki.serving_key, &pki.admin_key] {
            assert_eq!(mode(key), 0o600, "{}", key.display());
        }
        fs::set_permissions(&pki.admin_key, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(mode(&open(&path).admin_key), 0o600);
    }

    #[test]
    fn keys_are_sec1_and_both_forms_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pki = open(&folder.path().join("pki"));
        for key in [&pki.ca_key, &pki.serving_key, &pki.admin_key] {
            assert!(
                fs::read_to_string(key).unwrap().starts_with("-----BEGIN EC PRIVATE KEY-----\n"),
                "{}",
                key.display()
            );
        }
        let key = KeyPair::generate().unwrap();
        let (old, new) = (key.serialize_pem(), as_sec1(&key.serialize_pem()));
        assert!(old.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_eq!(KeyPair::from_pem(&new).unwrap().public_key_raw(), key.public_key_raw());
        assert_eq!(as_sec1(&new), new);
        // An authority that an earlier version made still signs.
        let params = CertificateParams::default();
        fs::write(&pki.ca, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&pki.ca_key, old).unwrap();
        assert!(pki.client("jane", &[]).unwrap().1.starts_with("-----BEGIN EC PRIVATE KEY-----"));
    }

    #[test]
    fn damage_is_reported_with_the_files_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let pki = open(&folder.path().join("pki"));
        fs::write(&pki.ca, "damaged").unwrap();
        let why = pki.client("jane", &[]).unwrap_err().to_string();
        assert!(why.contains(&pki.ca.display().to_string()) && why.contains("remove both"), "{why}");
    }

    #[test]
    fn a_server_that_was_given_everything_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/pki");
        let pki = Pki::open(&path, Own::default(), Hosts::default()).unwrap();
        assert!(!pki.is_used() && !folder.path().join("data").exists());
        let (chain, _) = self_signed(&Hosts { names: vec!["localhost".into()], addresses: Vec::new() }).unwrap();
        assert_eq!(chain.matches("BEGIN CERTIFICATE").count(), 2);
    }
}
