//! Kubeconfig files: how clients find the server and prove who they are.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::Pki;

/// The administrator's kubeconfig, everything inlined so that the file can be moved.
pub fn admin(pki: &Pki, address: SocketAddr) -> std::io::Result<String> {
    let read = |path: &Path| fs::read(path).map(|bytes| STANDARD.encode(bytes));
    let (ca, cert, key) = (read(&pki.ca)?, read(&pki.admin_cert)?, read(&pki.admin_key)?);
    Ok(format!(
        "apiVersion: v1
kind: Config
clusters:
- name: ferrokube
  cluster:
    server: https://{address}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {cert}
    client-key-data: {key}
contexts:
- name: ferrokube
  context:
    cluster: ferrokube
    user: kubernetes-admin
current-context: ferrokube
"
    ))
}

/// Writes a file that only its owner can read.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
