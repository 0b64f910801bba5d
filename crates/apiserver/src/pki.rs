//! Keys and certificates a server makes for itself when it is given none: an authority, a serving certificate and one for
//! the administrator, kept in the data directory and reused by later starts.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// What is in the `pki` folder.
#[derive(Clone, Debug)]
pub struct Pki {
    pub ca: PathBuf,
    pub ca_key: PathBuf,
    pub serving_cert: PathBuf,
    pub serving_key: PathBuf,
    pub admin_cert: PathBuf,
    pub admin_key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, std::io::Error),
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("cannot make a key for service accounts: {0}")]
    Key(#[from] authn::service_account::KeyError),
}

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
        }
    }

    /// Uses what is there and makes what is missing.
    pub fn open(folder: &Path, names: &[String], addresses: &[IpAddr]) -> Result<Pki, PkiError> {
        let pki = Pki::at(folder);
        let made = [&pki.ca, &pki.serving_cert, &pki.serving_key, &pki.admin_cert, &pki.admin_key];
        if made.iter().all(|path| path.exists()) {
            return Ok(pki);
        }
        fs::create_dir_all(folder).map_err(|error| PkiError::Write(folder.into(), error))?;
        let (issuer, ca_pem) = authority(&pki.ca, &pki.ca_key)?;
        write(&pki.ca, &ca_pem)?;
        let (cert, key) = serving(&issuer, names, addresses)?;
        write(&pki.serving_cert, &cert)?;
        write_secret(&pki.serving_key, &key)?;
        let (cert, key) = client(&issuer, "kubernetes-admin", &["system:masters"])?;
        write(&pki.admin_cert, &cert)?;
        write_secret(&pki.admin_key, &key)?;
        Ok(pki)
    }

    /// A certificate and its key, both in PEM, for a client that is to be known by this name and these groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<(String, String), PkiError> {
        let (issuer, _) = authority(&self.ca, &self.ca_key)?;
        client(&issuer, user, groups)
    }
}

/// The key that signs service accounts' tokens, made at the first start.
pub fn service_account_key(folder: &Path) -> Result<PathBuf, PkiError> {
    let path = folder.join("sa.key");
    if !path.exists() {
        fs::create_dir_all(folder).map_err(|error| PkiError::Write(folder.into(), error))?;
        // Under its name only once it is whole: a start that was interrupted must not leave half a key.
        let unfinished = folder.join("sa.key.new");
        write_secret(&unfinished, &authn::service_account::SigningKey::generate()?)?;
        fs::rename(&unfinished, &path).map_err(|error| PkiError::Write(path.clone(), error))?;
    }
    Ok(path)
}

fn authority(cert_path: &Path, key_path: &Path) -> Result<(Issuer<'static, KeyPair>, String), PkiError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| PkiError::Read(path.into(), error));
    if cert_path.exists() && key_path.exists() {
        let pem = read(cert_path)?;
        let key = KeyPair::from_pem(&read(key_path)?)?;
        return Ok((Issuer::from_ca_cert_pem(&pem, key)?, pem));
    }
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = name("ferrokube-ca", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key)?;
    write_secret(key_path, &key.serialize_pem())?;
    Ok((Issuer::new(params, key), certificate.pem()))
}

fn serving(
    issuer: &Issuer<'static, KeyPair>,
    names: &[String],
    addresses: &[IpAddr],
) -> Result<(String, String), PkiError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = name("kube-apiserver", &[]);
    params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(issuer, params)
}

fn client(issuer: &Issuer<'static, KeyPair>, user: &str, groups: &[&str]) -> Result<(String, String), PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(user, groups);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(issuer, params)
}

fn sign(issuer: &Issuer<'static, KeyPair>, params: CertificateParams) -> Result<(String, String), PkiError> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn name(common: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name.push(DnType::CommonName, common);
    name
}

fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    fs::write(path, text).map_err(|error| PkiError::Write(path.into(), error))
}

/// Readable by the owner only.
fn write_secret(path: &Path, text: &str) -> Result<(), PkiError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let open = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| PkiError::Write(path.into(), error))
}
